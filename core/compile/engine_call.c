/* SPDX-License-Identifier: Apache-2.0 */
/* engine_call.c: runs calls by engines, each as a graph of one node, on devices with
 * BP_DEVICE_GRAPH_ONLY. */
#include "engine_call.h"

#include "engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    VARIANTS = 16 /* of a plan: others are destroyed, the oldest first */
};

/* Finds the open device for which a call is prepared: it stays open until the call is. */
static struct bp_device *call_device(const struct bp_plugin_entry *entry, uint32_t index)
{
    struct bp_device *device;

    pthread_mutex_lock(&entry->core->lock);
    device = entry->core->devices;
    while (device && (device->entry != entry || device->index != index)) device = device->next;
    pthread_mutex_unlock(&entry->core->lock);
    return device;
}

/* Lists the tensors of the call that its graph has: those that are present, and whose elements the
 * operator reads. */
static enum bp_status code_set_call(struct bp_engine_code *code, const struct bp_opdef *op,
                                    const struct bp_prep *prep)
{
    uint32_t n = 0;

    if (code->n_in == prep->n_in && code->n_out == prep->n_out) return BP_OK;
    code->call_at = malloc((code->n_in + code->n_out + 1u) * sizeof *code->call_at);
    if (!code->call_at)
        return bp_error(BP_ERR_MEMORY, "%s: no memory to prepare it", op->info.name);
    for (uint32_t i = 0; i < prep->n_in; i++)
        if (prep->in[i] && !bp_reads_shape(op, prep->in_at, i)) code->call_at[n++] = (uint16_t)i;
    for (uint32_t o = 0; o < prep->n_out; o++)
        if (prep->out[o]) code->call_at[n++] = (uint16_t)o;
    return BP_OK;
}

/* ---- plans that exist ---- */

/* Finds the plan for a graph, and adds a reference to it. */
static struct bp_engine_code *code_find(struct bp_engine_call_row *row,
                                        const struct bp_device *device, uint32_t allow,
                                        const struct bp_graph_copy *graph)
{
    struct bp_engine_code *code;

    pthread_mutex_lock(&row->lock);
    code = row->code;
    while (code && (code->device != device || code->allow != allow ||
                    !bp_graph_copy_same_call(code->graph, graph)))
        code = code->next_call;
    if (code) code->refs++;
    pthread_mutex_unlock(&row->lock);
    return code;
}

static void code_add(struct bp_engine_call_row *row, struct bp_engine_code *code)
{
    pthread_mutex_lock(&row->lock);
    code->refs = 1;
    code->next_call = row->code;
    row->code = code;
    pthread_mutex_unlock(&row->lock);
}

static void code_free(const struct bp_engine_call_row *row, struct bp_engine_code *code)
{
    struct bp_engine_code *next;

    for (; code; code = next) {
        next = code->variant;
        bp_engine_code_destroy(row->entry->self, &row->kernel, code);
    }
}

/* Drops a reference to a plan. */
static void call_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct bp_engine_call_row *row = (struct bp_engine_call_row *)(uintptr_t)kernel;
    struct bp_engine_code *code = plan, **at = &row->code;
    bool is_last;

    pthread_mutex_lock(&row->lock);
    is_last = !--code->refs;
    while (is_last && *at != code) at = &(*at)->next_call;
    if (is_last) *at = code->next_call;
    pthread_mutex_unlock(&row->lock);
    (void)self;
    if (is_last) code_free(row, code);
}

/* ---- prepare ---- */

/* Whether a failure means that the engine does not run this call, so that another path may. The
 * others are of the process or the whole device. */
static bool is_refusal(enum bp_status status)
{
    return status != BP_ERR_MEMORY && status != BP_ERR_SHUTDOWN && status != BP_ERR_DEVICE_LOST;
}

/* Lets the engine claim and compile the graph. Takes over the graph. */
static enum bp_status call_compile(const struct bp_engine_call_row *row, struct bp_device *device,
                                   const struct bp_prep *prep, struct bp_graph_copy *graph,
                                   struct bp_engine_code **out_code, struct bp_plan *out)
{
    struct bp_engine_code *code;
    enum bp_status status = bp_engine_claims_call(device, prep->allow, graph);

    if (status) {
        bp_graph_copy_destroy(graph);
        return status;
    }
    TRY(bp_engine_compile_call(device, prep->allow, graph, &code, out));
    status = code_set_call(code, row->op, prep);
    if (status == BP_OK) status = bp_graph_copy_of_call(row->op, prep, &code->graph);
    if (status) {
        bp_engine_code_destroy(row->entry->self, &row->kernel, code);
        return status;
    }
    code->allow = prep->allow;
    *out_code = code;
    return BP_OK;
}

/* Whether no result has an element: engines need not know empty tensors. */
static bool call_is_empty(const struct bp_prep *prep)
{
    for (uint32_t o = 0; o < prep->n_out; o++)
        if (prep->out[o] && prep->out[o]->count) return false;
    return true;
}

static enum bp_status call_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct bp_engine_call_row *row = (struct bp_engine_call_row *)(uintptr_t)prep->kernel;
    struct bp_device *device = call_device(row->entry, prep->device);
    struct bp_engine_code *code;
    struct bp_graph_copy *graph;
    enum bp_status status;

    (void)self;
    if (call_is_empty(prep)) return BP_OK; /* without a plan */
    if (!device) return bp_error(BP_ERR_INTERNAL, "%s: the device is not open", row->name);
    TRY(bp_graph_copy_of_call(row->op, prep, &graph));
    code = code_find(row, device, prep->allow, graph);
    if (code) {
        bp_graph_copy_destroy(graph);
        bp_engine_code_plan(code, out);
        return BP_OK;
    }
    status = call_compile(row, device, prep, graph, &code, out);
    if (status == BP_OK) code_add(row, code);
    if (status == BP_OK || !is_refusal(status)) return status;
    bp_engine_call_refuse(bp_error_message());
    return BP_ERR_UNSUPPORTED;
}

/* ---- launch ---- */

static enum bp_status call_run(const struct bp_launch *l, struct bp_engine_code *code,
                               const struct bp_view *const *in, const struct bp_view *const *out)
{
    struct bp_engine_run run = bp_engine_run_of(code, l, bp_content_unknown);
    struct bp_engine_context *context;
    enum bp_status status;

    run.in = in;
    run.out = out;
    run.n_in = code->n_in;
    run.n_out = code->n_out;
    if (!code->engines->context_create) return code->engines->run(&run);
    TRY(bp_engine_context_take(code, l->stream, &context));
    run.context = context->context;
    status = code->engines->run(&run);
    bp_engine_context_return(context);
    return status;
}

/* Lists the views that the graph of the node has: those that are present, and whose elements the
 * node reads. */
static __attribute__((noinline)) enum bp_status call_gather(const struct bp_launch *l,
                                                            struct bp_engine_code *code)
{
    const struct bp_view *in[BP_FLAT_MAX], *out[BP_FLAT_MAX];

    for (uint32_t i = 0; i < code->n_in; i++) in[i] = l->in[code->call_at[i]];
    for (uint32_t o = 0; o < code->n_out; o++) out[o] = l->out[code->call_at[code->n_in + o]];
    return call_run(l, code, in, out);
}

static enum bp_status code_launch(const struct bp_launch *l, struct bp_engine_code *code)
{
    if (__builtin_expect(!code, 0)) return BP_OK; /* nothing to compute */
    return code->call_at ? call_gather(l, code) : call_run(l, code, l->in, l->out);
}

/* ---- attributes of a run ---- */

static bool has_attrs(const struct bp_engine_code *code, const struct bp_engine_call_row *row,
                      const void *attrs)
{
    const struct bp_data_node *node = BP_ROW(struct bp_data_node, code->graph->data.node, 0, 0);

    return bp_attrs_same(&row->op->info, node->attrs, attrs ? attrs : row->op->info.defaults);
}

/* Compiles the call of a launch, whose attributes are not those of its plan. */
static enum bp_status variant_compile(const struct bp_engine_call_row *row,
                                      const struct bp_launch *l, const struct bp_engine_code *plan,
                                      struct bp_engine_code **out_code)
{
    struct bp_prep prep = {.size = sizeof prep,
                           .kernel = &row->kernel,
                           .in = l->in,
                           .out = l->out,
                           .in_at = l->in_at,
                           .out_at = l->out_at,
                           .n_in = l->n_in,
                           .n_out = l->n_out,
                           .attrs = l->attrs,
                           .device = l->device,
                           .width = l->width,
                           .allow = plan->allow};
    struct bp_plan made;
    struct bp_graph_copy *graph;

    TRY(bp_graph_copy_of_call(row->op, &prep, &graph));
    TRY(call_compile(row, plan->device, &prep, graph, out_code, &made));
    if (made.workspace <= l->workspace_size &&
        made.workspace_alignment <= plan->workspace_alignment)
        return BP_OK;
    code_free(row, *out_code);
    return bp_error(BP_ERR_UNSUPPORTED,
                    "%s: the engine needs more workspace for these attributes "
                    "than for those with which the call was prepared",
                    row->op->info.name);
}

/* Adds a variant. Returns one that is to be destroyed, or NULL. The lock is held. */
static struct bp_engine_code *variant_add(struct bp_engine_code *plan, struct bp_engine_code *made)
{
    struct bp_engine_code **at = &plan->variant, **oldest = NULL, *old;
    uint32_t n = 0;

    made->variant = plan->variant;
    plan->variant = made;
    for (; *at; at = &(*at)->variant, n++)
        if (!(*at)->running) oldest = at;
    if (n <= VARIANTS || !oldest) return NULL;
    old = *oldest;
    *oldest = old->variant;
    old->variant = NULL;
    return old;
}

/* Destroys a variant when its runs have ended. */
static void variant_drop(const struct bp_engine_call_row *row, struct bp_engine_code *old)
{
    struct bp_plugin_entry *entry = row->entry;

    if (!old) return;
    if (!old->device->is_inline) entry->runtime.synchronize(entry->self, old->device->index, NULL);
    code_free(row, old);
}

/* Finds or makes the variant of a plan for the attributes of a launch. */
static enum bp_status variant_take(struct bp_engine_call_row *row, const struct bp_launch *l,
                                   struct bp_engine_code *plan, struct bp_engine_code **out_code)
{
    struct bp_engine_code *code, *old = NULL;
    enum bp_status status;

    pthread_mutex_lock(&row->lock);
    code = plan->variant;
    while (code && !has_attrs(code, row, l->attrs)) code = code->variant;
    if (code) code->running++;
    pthread_mutex_unlock(&row->lock);
    *out_code = code;
    if (code) return BP_OK;
    status = variant_compile(row, l, plan, &code);
    if (status) return status;
    pthread_mutex_lock(&row->lock);
    code->running = 1;
    old = variant_add(plan, code);
    pthread_mutex_unlock(&row->lock);
    variant_drop(row, old);
    *out_code = code;
    return BP_OK;
}

/* An engine has compiled the attributes with the call. Those that a run may change need another
 * compilation for each value. */
static __attribute__((noinline)) enum bp_status variant_launch(const struct bp_launch *l)
{
    struct bp_engine_call_row *row = (struct bp_engine_call_row *)(uintptr_t)l->kernel;
    struct bp_engine_code *code = l->plan;
    enum bp_status status;

    if (!code || has_attrs(code, row, l->attrs)) return code_launch(l, code);
    TRY(variant_take(row, l, code, &code));
    status = code_launch(l, code);
    pthread_mutex_lock(&row->lock);
    code->running--;
    pthread_mutex_unlock(&row->lock);
    return status;
}

static enum bp_status call_launch(const struct bp_launch *l)
{
    return code_launch(l, l->plan);
}

void bp_engine_calls_init(void)
{
    static const struct bp_engine_calls calls = {call_prepare, call_plan_destroy, call_launch,
                                                 variant_launch};

    bp_engine_calls_set(&calls);
}
