/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: makes the tensors, numbers and lists of the steps of a row, and calls the first phase of
 * each step's function, which returns its executor and the size of its workspace. */
#include "call_chain.h"

#include <string.h>

/* aclDataType, by enum bp_dtype. -1: CANN has no such type. */
static const int8_t dtypes[] = {
    [BP_BOOL] = 12, [BP_I8] = 2,   [BP_I16] = 6,   [BP_I32] = 3,     [BP_I64] = 9,    [BP_U8] = 4,
    [BP_U16] = 7,   [BP_U32] = 8,  [BP_U64] = 10,  [BP_F16] = 1,     [BP_BF16] = 27,  [BP_F32] = 0,
    [BP_F64] = 11,  [BP_C64] = 16, [BP_C128] = 17, [BP_F8E4M3] = -1, [BP_F8E5M2] = -1};
enum {
    ACL_INT64 = 9,
    ACL_DOUBLE = 11
};

int npu_dtype(int64_t dtype)
{
    return dtype >= 0 && (size_t)dtype < sizeof dtypes ? dtypes[dtype] : -1;
}

struct kit_arg npu_image(struct kit_arg arg)
{
    arg.format = NPU_FORMAT_IMAGE;
    return arg;
}

/* aclFormat of a tensor. */
static int call_format(const struct kit_arg *arg, const struct bp_view *view)
{
    uint8_t format = arg->format ? arg->format : NPU_FORMAT_ND;

    if (format == NPU_FORMAT_IMAGE)
        format = view->rank == 3   ? NPU_FORMAT_NCL
                 : view->rank == 4 ? NPU_FORMAT_NCHW
                 : view->rank == 5 ? NPU_FORMAT_NCDHW
                                   : NPU_FORMAT_ND;
    if (format == NPU_FORMAT_TO_NZ) format = NPU_FORMAT_ND;
    return format - 1;
}

/* The elements from the first to the last one; 0: strides that CANN does not take. */
static int64_t call_extent(const struct bp_view *view)
{
    int64_t n = 1;

    for (uint32_t a = 0; a < view->rank; a++) {
        if (view->shape[a] > 1 && view->stride[a] < 1) return 0;
        n += (view->shape[a] - 1) * view->stride[a];
    }
    return view->count ? n : 1;
}

/* Remembers an object that has to be destroyed. NULL: it was not made. */
static void *call_keep(struct npu_chain *chain, void *object, int (*destroy)(const void *))
{
    if (object) chain->object[chain->n_object++] = (struct npu_object){object, destroy};
    else chain->no_memory = true;
    return object;
}

/* The number of an argument's first tensor among those of its port. */
static int64_t call_first(const struct kit_arg *arg)
{
    return (arg->from == KIT_FROM_INS || arg->from == KIT_FROM_OUTS) && arg->size ? arg->i : 0;
}

/* Where the address of a tensor comes from in each launch. item: its number in a list, because two
 * tensors of a list may have one view here and differ in other launches. */
static struct npu_binding call_binding(const struct kit_build *b, const struct kit_arg *arg,
                                       uint32_t item)
{
    struct npu_binding to = {.from = NPU_FROM_IN};
    const struct kit_arg *at = arg;

    for (; at->from == KIT_FROM_TENSOR; at = &b->tensor[at->at].base) {
        const struct kit_tensor *t = &b->tensor[at->at];
        to.offset += (int64_t)(intptr_t)t->view.data;
        if (t->word) to.from = NPU_FROM_WORD;
        else if (t->held) to.from = NPU_FROM_HELD;
        else if (t->base.from == KIT_FROM_NONE) to.from = NPU_FROM_WORKSPACE;
        if (t->base.from == KIT_FROM_NONE) return to;
    }
    if (at->from == KIT_FROM_OUT || at->from == KIT_FROM_OUTS) to.from = NPU_FROM_OUT;
    to.at = (uint16_t)((to.from == NPU_FROM_OUT ? b->out_at : b->in_at)[at->at] + call_first(at) +
                       item);
    return to;
}

/* Makes the description of a tensor, at the address of this launch. item: its number in a list;
 * NULL: it is no part of one. */
static void *call_tensor(struct npu_chain *chain, const struct npu_place *place,
                         const struct kit_build *b, const struct kit_arg *arg,
                         const struct bp_view *view, const uint32_t *item)
{
    const struct npu_nnop *nnop = chain->npu->nnop;
    struct npu_binding *to = &chain->binding[chain->n_binding];
    int64_t extent = call_extent(view);
    void *tensor;

    if (!extent || npu_dtype(view->dtype) < 0) return NULL;
    if (arg->format == NPU_FORMAT_NZ || arg->format == NPU_FORMAT_TO_NZ)
        extent = npu_nz_elements(view);
    if (view->dtype == BP_BF16 && !npu_has_bf16(chain->npu)) return NULL;
    *to = call_binding(b, arg, item ? *item : 0);
    to->address = npu_binding_address(to, place);
    tensor = nnop->aclCreateTensor(view->shape, view->rank, npu_dtype(view->dtype), view->stride, 0,
                                   call_format(arg, view), &extent, 1, to->address);
    to->tensor = tensor;
    to->is_out = arg->role == KIT_WRITES;
    chain->has_lists |= item != NULL;
    chain->n_binding++;
    if (item && tensor) return tensor; /* the list destroys it */
    return call_keep(chain, tensor, nnop->aclDestroyTensor);
}

static void *call_tensors(struct npu_chain *chain, const struct npu_place *place,
                          const struct kit_build *b, const struct kit_arg *arg)
{
    const struct npu_nnop *nnop = chain->npu->nnop;
    const void *tensor[KIT_TENSORS];
    uint32_t n, i;
    const struct bp_view *const *view = kit_arg_views(b, arg, &n);

    for (i = 0; i < n && i < KIT_TENSORS; i++) {
        tensor[i] = call_tensor(chain, place, b, arg, view[i], &i);
        if (!tensor[i]) break;
    }
    if (i < n) {
        while (i-- > 0) nnop->aclDestroyTensor(tensor[i]);
        return NULL;
    }
    return call_keep(chain, nnop->aclCreateTensorList(tensor, n), nnop->aclDestroyTensorList);
}

static void *call_scalar(struct npu_chain *chain, const struct kit_build *b,
                         const struct kit_arg *arg)
{
    const struct npu_nnop *nnop = chain->npu->nnop;
    double number = kit_arg_number(b, arg);
    int64_t integer = kit_arg_int(b, arg);

    return call_keep(chain,
                     kit_arg_is_number(arg) ? nnop->aclCreateScalar(&number, ACL_DOUBLE)
                                            : nnop->aclCreateScalar(&integer, ACL_INT64),
                     nnop->aclDestroyScalar);
}

static void *call_array(struct npu_chain *chain, const struct kit_build *b,
                        const struct kit_arg *arg)
{
    const struct npu_nnop *nnop = chain->npu->nnop;
    int64_t at[KIT_INTS_MAX] = {0};
    float real[KIT_INTS_MAX];
    bool flag[KIT_INTS_MAX];
    uint32_t n = kit_arg_ints(b, arg, at);

    if (arg->as == KIT_AS_ARRAY)
        return call_keep(chain, nnop->aclCreateIntArray(at, n), nnop->aclDestroyIntArray);
    for (uint32_t i = 0; i < n; i++) {
        flag[i] = at[i] != 0;
        real[i] = (float)at[i];
    }
    if (arg->as == KIT_AS_BOOLS)
        return call_keep(chain, nnop->aclCreateBoolArray(flag, n), nnop->aclDestroyBoolArray);
    return call_keep(chain, nnop->aclCreateFloatArray(real, n), nnop->aclDestroyFloatArray);
}

/* The integer of an argument: cubeMathType keeps the dtype (0), or lets f32 use less precise
 * products (1). */
static int64_t call_int(const struct npu *npu, const struct kit_build *b, const struct kit_arg *arg)
{
    return arg->from == KIT_FROM_OWN ? npu->hf32 : kit_arg_int(b, arg);
}

/* Adds one argument to the call. false: it cannot be made. */
static bool call_argument(struct npu_chain *chain, const struct npu_place *place,
                          const struct kit_build *b, const struct kit_arg *arg,
                          struct kit_invocation *call)
{
    const struct bp_view *view;
    void *object = NULL;

    switch (arg->as) {
    case KIT_AS_INT: kit_invoke_word(call, call_int(chain->npu, b, arg)); return true;
    case KIT_AS_DTYPE: kit_invoke_word(call, npu_dtype(kit_arg_int(b, arg))); return true;
    case KIT_AS_TEXT: kit_invoke_pointer(call, arg->text); return true;
    case KIT_AS_F64: kit_invoke_double(call, kit_arg_number(b, arg)); return true;
    case KIT_AS_F32: kit_invoke_float(call, (float)kit_arg_number(b, arg)); return true;
    case KIT_AS_SCALAR: object = call_scalar(chain, b, arg); break;
    case KIT_AS_TENSORS: object = call_tensors(chain, place, b, arg); break;
    case KIT_AS_TENSOR:
        view = kit_arg_view(b, arg);
        if (view) object = call_tensor(chain, place, b, arg, view, NULL);
        if (!view) kit_invoke_pointer(call, NULL);
        if (!view) return true;
        break;
    default: object = call_array(chain, b, arg); break;
    }
    kit_invoke_pointer(call, object);
    return object != NULL;
}

/* Numbers the tensors of a step by their order among its inputs and its outputs. A tensor that the
 * function updates is an input; the first one of functions named InplaceX is such a tensor. */
static void call_number(struct npu_chain *chain, const struct npu_ready *step)
{
    size_t in = 0, out = 0;

    if (!strncmp(step->function->name, "aclnnInplace", 12))
        chain->binding[step->first].is_out = false;
    for (uint32_t i = step->first; i < chain->n_binding; i++) {
        struct npu_binding *to = &chain->binding[i];
        to->index = to->is_out ? out++ : in++;
    }
}

static enum bp_status call_phase_one(struct npu_chain *chain, const struct npu_place *place,
                                     const struct kit_build *b, const struct kit_step *step)
{
    struct npu_ready *ready = &chain->step[chain->n_step++];
    struct kit_invocation call = {.n_word = 0};
    char name[96];
    int code;

    *ready = (struct npu_ready){.first = chain->n_binding};
    ready->function = npu_function_find(chain->npu, step->function);
    if (!ready->function) return BP_ERR_UNSUPPORTED;
    for (uint32_t i = 0; i < step->n; i++)
        if (!call_argument(chain, place, b, &step->arg[i], &call))
            return chain->no_memory ? bp_fail(chain->npu->host, BP_ERR_MEMORY,
                                              "npu:%u: no memory for argument %u of aclnn%s",
                                              b->device, i, step->function)
                                    : BP_ERR_UNSUPPORTED;
    kit_invoke_pointer(&call, &ready->size);
    kit_invoke_pointer(&call, &ready->executor);
    if (call.too_many) return BP_ERR_UNSUPPORTED;
    call_number(chain, ready);
    code = kit_invoke(ready->function->sizes, &call);
    if (!code) return BP_OK;
    ready->executor = NULL;
    snprintf(name, sizeof name, "aclnn%sGetWorkspaceSize", step->function);
    return npu_check_phase_one(chain->npu, b->device, b->kernel->name, name, code);
}

enum bp_status npu_chain_make(struct npu_chain *chain, const struct npu_place *place,
                              const struct kit_build *b)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < b->n_step && !status; i++) {
        if (npu_chain_shares(chain->npu, b, i)) {
            chain->step[chain->n_step] = chain->step[b->step[i].of];
            chain->step[chain->n_step].first = chain->n_binding;
            chain->step[chain->n_step++].shared = chain->shares = true;
            continue;
        }
        status = call_phase_one(chain, place, b, &b->step[i]);
        if (!status && chain->step[i].size > chain->size) chain->size = chain->step[i].size;
    }
    return status;
}
