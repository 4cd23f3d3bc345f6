/* SPDX-License-Identifier: Apache-2.0 */
/* chain.c: runs executors, again and again where the release has repeatable ones; see
 * call_chain.h. */
#include "call_chain.h"

#include <string.h>

void *npu_binding_address(const struct npu_binding *binding, const struct npu_place *place)
{
    char *base = NULL;

    switch (binding->from) {
    case NPU_FROM_IN: base = place->in[binding->at]->data; break;
    case NPU_FROM_OUT: base = place->out[binding->at]->data; break;
    case NPU_FROM_WORKSPACE: base = place->temporaries; break;
    case NPU_FROM_WORD: base = place->word; break;
    case NPU_FROM_HELD: base = place->held; break;
    }
    return base ? base + binding->offset : NULL;
}

bool npu_chain_shares(const struct npu *npu, const struct kit_build *b, uint32_t s)
{
    return npu->repeats && b->step[s].of != s;
}

/* How many tensors the steps have at most: each tensor of a list counts. */
static size_t chain_tensors(const struct npu *npu, const struct kit_build *b)
{
    size_t n = 0;

    for (uint32_t s = 0; s < b->n_step; s++) {
        const struct kit_step *step = &b->step[s];
        uint32_t more;
        if (npu_chain_shares(npu, b, s)) continue;
        n += step->n;
        for (uint32_t i = 0; i < step->n; i++)
            if (step->arg[i].as == KIT_AS_TENSORS) {
                kit_arg_views(b, &step->arg[i], &more);
                n += more;
            }
    }
    return n;
}

size_t npu_chain_bytes(const struct npu *npu, const struct kit_build *b)
{
    size_t n = chain_tensors(npu, b);

    return sizeof(struct npu_chain) + b->n_step * sizeof(struct npu_ready) +
           n * (sizeof(struct npu_object) + sizeof(struct npu_binding));
}

struct npu_chain *npu_chain_init(void *memory, struct npu *npu, const struct kit_build *b)
{
    struct npu_chain *chain = memory;
    size_t n = chain_tensors(npu, b);

    *chain = (struct npu_chain){.npu = npu};
    chain->binding = (void *)(chain + 1);
    chain->object = (void *)(chain->binding + n);
    chain->step = (void *)(chain->object + n);
    return chain;
}

enum bp_status npu_chain_repeat(struct npu_chain *chain, struct npu_device *device)
{
    const struct npu_nnop *nnop = chain->npu->nnop;

    for (uint32_t i = 0; i < chain->n_step; i++)
        if (!chain->step[i].shared)
            TRY(npu_check(chain->npu, device, "aclSetAclOpExecutorRepeatable",
                          nnop->aclSetAclOpExecutorRepeatable(chain->step[i].executor)));
    chain->repeats = true;
    return BP_OK;
}

static enum bp_status chain_move_step(struct npu_chain *chain, struct npu_device *device,
                                      const struct npu_place *place, uint32_t s)
{
    const struct npu_nnop *nnop = chain->npu->nnop;
    uint32_t end = s + 1 < chain->n_step ? chain->step[s + 1].first : chain->n_binding;

    for (uint32_t i = chain->step[s].first; i < end; i++) {
        struct npu_binding *to = &chain->binding[i];
        void *address = npu_binding_address(to, place);
        if (address == to->address) continue;
        TRY(npu_check(chain->npu, device,
                      to->is_out ? "aclSetOutputTensorAddr" : "aclSetInputTensorAddr",
                      (to->is_out ? nnop->aclSetOutputTensorAddr : nnop->aclSetInputTensorAddr)(
                          chain->step[s].executor, to->index, to->tensor, address)));
        to->address = address;
    }
    return BP_OK;
}

enum bp_status npu_chain_move(struct npu_chain *chain, struct npu_device *device,
                              const struct npu_place *place)
{
    for (uint32_t s = 0; s < chain->n_step; s++) TRY(chain_move_step(chain, device, place, s));
    return BP_OK;
}

enum bp_status npu_chain_run(struct npu_chain *chain, struct npu_device *device, void *workspace,
                             void *stream)
{
    for (uint32_t i = 0; i < chain->n_step; i++) {
        struct npu_ready *step = &chain->step[i];
        int code = step->function->run(step->size ? workspace : NULL, step->size, step->executor,
                                       stream);
        if (!chain->repeats) step->executor = NULL;
        if (__builtin_expect(code || kit_is_traced(), 0))
            TRY(npu_check(chain->npu, device, step->function->name, code));
    }
    return BP_OK;
}

void npu_chain_drop(struct npu_chain *chain, struct npu_device *device)
{
    for (uint32_t i = 0; i < chain->n_step; i++)
        if (chain->step[i].executor && !chain->step[i].shared &&
            chain->npu->nnop->aclDestroyAclOpExecutor)
            npu_note(device, "aclDestroyAclOpExecutor",
                     chain->npu->nnop->aclDestroyAclOpExecutor(chain->step[i].executor));
    for (uint32_t i = chain->n_object; i-- > 0;) chain->object[i].destroy(chain->object[i].object);
}
