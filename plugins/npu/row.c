/* SPDX-License-Identifier: Apache-2.0 */
/* row.c: prepares, launches and destroys plans of all rows. A plan keeps executors, which run again
 * and again with the addresses of each launch. Where that is not possible, because values may
 * change or the release has no repeatable executors, each launch makes its own.
 *
 * The workspace of a launch has the one of the steps, which they use one after the other, and then
 * the temporaries. */
#include "call_chain.h"
#include "parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROW_ALIGN = 512
};

/* Addresses before the first launch: no function reads them. */
static char row_nowhere[ROW_ALIGN] __attribute__((aligned(ROW_ALIGN)));

struct npu_plan {
    struct npu *npu;
    const struct kit_row *row;
    uint32_t device;
    void *held;        /* constants, on the device; NULL: there are none */
    uint64_t size;     /* of the steps' workspace: the temporaries follow */
    bool nothing;      /* there is nothing to do */
    bool each;         /* each launch makes its executors */
    bool guarded;      /* launches use a fault word */
    uint32_t n_result; /* extents that a launch returns: where they are */
    struct {
        uint32_t out;
        uint64_t at;
    } result[KIT_RESULTS];
    pthread_mutex_t lock;     /* guards the list */
    struct npu_chain *unused; /* executors that no launch uses now */
};

/* Whether all outputs have no elements; and whether an input has none. */
static bool row_is_empty(const struct bp_view *const *view, uint32_t n, bool any)
{
    uint32_t empty = 0, there = 0;

    for (uint32_t i = 0; i < n; i++) {
        there += view[i] != NULL;
        empty += view[i] && !view[i]->count;
    }
    return any ? empty > 0 : there > 0 && empty == there;
}

static struct npu_chain *row_chain_new(struct npu *npu, const struct kit_build *b)
{
    void *memory = malloc(npu_chain_bytes(npu, b));

    if (!memory) bp_fail(npu->host, BP_ERR_MEMORY, "npu: no memory for executors");
    return memory ? npu_chain_init(memory, npu, b) : NULL;
}

static void row_chain_free(struct npu_chain *chain, struct npu_device *device)
{
    npu_chain_drop(chain, device);
    free(chain);
}

/* Views of the configuration without addresses get one, because functions refuse null pointers. */
static void row_place(struct npu_place *place, struct bp_view *copy, const struct bp_view **at,
                      const struct kit_build *b)
{
    for (uint32_t i = 0; i < b->n_in + b->n_out; i++) {
        const struct bp_view *view = i < b->n_in ? b->in[i] : b->out[i - b->n_in];
        at[i] = view ? &copy[i] : NULL;
        if (!view) continue;
        copy[i] = *view;
        copy[i].data = row_nowhere;
    }
    *place = (struct npu_place){at, at + b->n_in, row_nowhere, row_nowhere, NULL};
}

/* Makes the first executors of a plan, and so learns the size of its workspace. */
static enum bp_status row_first_chain(struct npu_plan *plan, struct npu_device *device,
                                      const struct kit_build *b)
{
    uint32_t n = b->n_in + b->n_out;
    struct bp_view *copy = malloc(n * (sizeof *copy + sizeof(struct bp_view *)));
    const struct bp_view **at = (void *)(copy + n);
    struct npu_chain *chain = copy ? row_chain_new(plan->npu, b) : NULL;
    struct npu_place place;
    enum bp_status status;

    if (!chain) {
        free(copy);
        return BP_ERR_MEMORY;
    }
    row_place(&place, copy, at, b);
    place.held = plan->held;
    status = npu_chain_make(chain, &place, b);
    plan->size = (chain->size + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    plan->each |= chain->has_lists;
    if (!status && !plan->each) status = npu_chain_repeat(chain, device);
    if (!status && !plan->each) plan->unused = chain;
    else row_chain_free(chain, device);
    free(copy);
    return status;
}

/* Adds the steps of a row: if an input has no elements, those that fill the outputs. */
static enum bp_status row_steps(const struct kit_row *row, struct kit_build *b)
{
    if (row->build || !row_is_empty(b->in, b->n_in, true)) {
        TRY(kit_build_row(b, row));
        /* The places of temporaries must not depend on attributes that may change. */
        return row->each || b->n_result ? BP_OK : part_pack(b);
    }
    if (!row->fills) return BP_ERR_UNSUPPORTED;
    return KIT_STEP(b, "InplaceFillScalar", KIT_OUT(0), KIT_NUMBER_IS(row->empty));
}

/* Whether no step is needed: outputs without elements may still have an extent that depends on
 * data. */
static bool row_is_nothing(const struct kit_row *row, struct kit_build *b)
{
    bool finds;

    if (!row_is_empty(b->out, b->n_out, false)) return false;
    if (!row->build || row_is_empty(b->in, b->n_in, true)) return true;
    finds = !kit_build_row(b, row) && b->n_result;
    kit_build_end(b);
    return !finds;
}

/* Copies the constants of a build to the device. */
static enum bp_status row_hold(struct npu_plan *plan, struct npu_device *device,
                               const struct kit_build *b)
{
    if (!b->held) return BP_OK;
    TRY(NPU_CALL(device, aclrtMalloc, &plan->held, b->held_bytes, NPU_HUGE_FIRST));
    return NPU_CALL(device, aclrtMemcpy, plan->held, b->held_bytes, b->held, b->held_bytes,
                    NPU_HOST_TO_DEVICE);
}

static enum bp_status row_plan(struct npu_plan *plan, struct npu_device *device,
                               const struct bp_prep *prep, struct kit_build *b)
{
    kit_build_prep(b, plan->npu, prep);
    plan->nothing = row_is_nothing(plan->row, b);
    kit_build_prep(b, plan->npu, prep);
    if (plan->nothing) return BP_OK;
    TRY(row_steps(plan->row, b));
    TRY(row_hold(plan, device, b));
    plan->guarded = b->guarded;
    plan->n_result = b->n_result;
    for (uint32_t i = 0; i < b->n_result; i++) {
        plan->result[i].out = b->result[i].out;
        plan->result[i].at = (uintptr_t)b->tensor[b->result[i].tensor].view.data;
    }
    return row_first_chain(plan, device, b);
}

enum bp_status npu_row_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct npu *npu = self;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct kit_build b;
    struct npu_plan *plan;
    enum bp_status status;

    TRY(npu_device_use(npu, prep->device, &caller, &device));
    plan = calloc(1, sizeof *plan);
    if (!plan) return bp_fail(npu->host, BP_ERR_MEMORY, "npu: no memory for a plan");
    plan->npu = npu;
    plan->device = prep->device;
    plan->row = npu_row_of(prep->kernel);
    plan->each = plan->row->each || !npu->repeats;
    pthread_mutex_init(&plan->lock, NULL);
    status = row_plan(plan, device, prep, &b);
    kit_build_end(&b);
    if (status) {
        if (plan->held) NPU_NOTE(device, aclrtFree, plan->held);
        pthread_mutex_destroy(&plan->lock);
        free(plan);
        return status;
    }
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, plan->size + b.bytes);
    BP_SET(out, workspace_alignment, ROW_ALIGN);
    BP_SET(out, bytes, sizeof *plan + (plan->held ? b.held_bytes : 0));
    return BP_OK;
}

void npu_row_destroy(void *self, const struct bp_kernel *kernel, void *p)
{
    struct npu_plan *plan = p;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device = npu_device_reuse(self, plan->device, &caller);

    (void)kernel;
    for (struct npu_chain *chain = plan->unused, *next; chain; chain = next) {
        next = chain->next;
        row_chain_free(chain, device);
    }
    if (plan->held) NPU_NOTE(device, aclrtFree, plan->held);
    pthread_mutex_destroy(&plan->lock);
    free(plan);
}

static struct npu_chain *row_take(struct npu_plan *plan)
{
    struct npu_chain *chain;

    pthread_mutex_lock(&plan->lock);
    chain = plan->unused;
    if (chain) plan->unused = chain->next;
    pthread_mutex_unlock(&plan->lock);
    return chain;
}

static void row_return(struct npu_plan *plan, struct npu_chain *chain)
{
    pthread_mutex_lock(&plan->lock);
    chain->next = plan->unused;
    plan->unused = chain;
    pthread_mutex_unlock(&plan->lock);
}

/* Makes executors for this launch, with its values. */
static enum bp_status row_new_chain(struct npu_plan *plan, struct npu_device *device,
                                    const struct bp_launch *launch, const struct npu_place *place,
                                    struct npu_chain **out)
{
    struct kit_build b;
    struct npu_chain *chain = NULL;
    enum bp_status status;

    kit_build_launch(&b, launch);
    status = row_steps(plan->row, &b);
    if (!status) chain = row_chain_new(plan->npu, &b);
    if (!status && !chain) status = BP_ERR_MEMORY;
    if (!status) status = npu_chain_make(chain, place, &b);
    kit_build_end(&b);
    if (!status && chain->size > plan->size)
        status = bp_fail(plan->npu->host, BP_ERR_DEVICE,
                         "npu:%u: %s: %llu bytes of workspace are needed, %llu were at first",
                         launch->device, launch->kernel->name, (unsigned long long)chain->size,
                         (unsigned long long)plan->size);
    if (!status && (!plan->each || chain->shares)) status = npu_chain_repeat(chain, device);
    if (!status) *out = chain;
    else if (chain) row_chain_free(chain, device);
    return status;
}

/* Waits for the extents that the steps have found: a copy to pageable memory is done when the call
 * returns. */
static enum bp_status row_results(const struct npu_plan *plan, struct npu_device *device,
                                  const struct bp_launch *launch, const char *temporaries)
{
    const struct npu_stream *stream = launch->stream;

    for (uint32_t i = 0; i < plan->n_result; i++) {
        int64_t extent = 0;
        TRY(NPU_CALL(device, aclrtMemcpyAsync, &extent, sizeof extent,
                     temporaries + plan->result[i].at, sizeof extent, NPU_DEVICE_TO_HOST,
                     stream->raw));
        launch->result[plan->result[i].out] = extent;
    }
    return BP_OK;
}

/* No output has elements: extents that depend on data are 0. */
static enum bp_status row_no_elements(const struct bp_launch *launch)
{
    for (uint32_t i = 0; launch->result && i < launch->n_out; i++)
        if (launch->out[i]) launch->result[i] = 0;
    return BP_OK;
}

enum bp_status npu_row_launch(const struct bp_launch *launch)
{
    struct npu_plan *plan = launch->plan;
    struct npu_stream *stream = launch->stream;
    struct npu_place place = {launch->in, launch->out, NULL, NULL, plan->held};
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct npu_chain *chain;
    enum bp_status status;

    if (plan->nothing) return row_no_elements(launch);
    TRY(npu_device_use(plan->npu, launch->device, &caller, &device));
    place.temporaries = (char *)launch->workspace + plan->size;
    if (plan->guarded) place.word = npu_stream_word(stream, launch->kernel);
    chain = row_take(plan);
    if (chain) status = npu_chain_move(chain, device, &place);
    else status = row_new_chain(plan, device, launch, &place, &chain);
    if (!chain) return status;
    if (!status) status = npu_chain_run(chain, device, launch->workspace, stream->raw);
    if (!status && plan->n_result) status = row_results(plan, device, launch, place.temporaries);
    if (chain->repeats && !plan->each) row_return(plan, chain);
    else row_chain_free(chain, device);
    return status;
}
