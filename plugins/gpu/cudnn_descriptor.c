/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_descriptor.c: makes descriptors of cuDNN's graph interface. The library's heuristic lists
 * engine configurations for a graph, best first, and the graph uses the first that meets the
 * guarantees of the kernel rows. */
#include "cudnn_descriptor.h"

/* The maximum number of configurations, and of notes of one engine. */
enum {
    CONFIGS = 16,
    NOTES = 32
};

/* The numerical notes that an accepted engine may have. Transforms have other rounding errors than
 * sums of products, and spread values that are not finite. Sums without a fixed order differ from
 * run to run. Factors and sums must keep their precision. An engine with an unknown note is
 * rejected. */
enum {
    GOOD_NOTES = 1 << CUDNN_NOTE_TENSOR_CORE | 1 << CUDNN_NOTE_KEEPS_NAN
};

bool cudnn_has_graphs(void)
{
    return gpu_cudnn_call->cudnnBackendCreateDescriptor &&
           gpu_cudnn_call->cudnnBackendDestroyDescriptor && gpu_cudnn_call->cudnnBackendFinalize &&
           gpu_cudnn_call->cudnnBackendSetAttribute && gpu_cudnn_call->cudnnBackendGetAttribute &&
           gpu_cudnn_call->cudnnBackendExecute;
}

/* Whether a call succeeded. A status "not supported" is not logged. */
static bool descriptor_is_good(const struct cudnn_builder *b, const char *function, int code)
{
    return !cudnn_is_unsupported(code) && gpu_vendor_good(b->device, &gpu_cudnn, function, code);
}

static void *descriptor_create(const struct cudnn_builder *b, int kind)
{
    void *made = NULL;

    return CUDNN_GOOD(b->device, cudnnBackendCreateDescriptor, kind, &made) ? made : NULL;
}

static void descriptor_destroy(const struct gpu_device *device, void *descriptor)
{
    if (descriptor) CUDNN_GOOD(device, cudnnBackendDestroyDescriptor, descriptor);
}

static bool descriptor_get(const struct cudnn_builder *b, void *descriptor, int attribute, int type,
                           int64_t requested, int64_t *out_n, void *out)
{
    return descriptor_is_good(b, "cudnnBackendGetAttribute",
                              gpu_cudnn_call->cudnnBackendGetAttribute(descriptor, attribute, type,
                                                                       requested, out_n, out));
}

void *cudnn_add(struct cudnn_builder *b, int kind)
{
    void *made = descriptor_create(b, kind);

    if (made) b->graph.made[b->graph.n++] = made;
    return made;
}

bool cudnn_set(const struct cudnn_builder *b, void *descriptor, int attribute, int type, int64_t n,
               const void *values)
{
    return descriptor_is_good(
        b, "cudnnBackendSetAttribute",
        gpu_cudnn_call->cudnnBackendSetAttribute(descriptor, attribute, type, n, values));
}

bool cudnn_set_i64(const struct cudnn_builder *b, void *descriptor, int attribute, int n,
                   const int *values)
{
    int64_t wide[CUDNN_AXES];

    for (int i = 0; i < n; i++) wide[i] = values[i];
    return cudnn_set(b, descriptor, attribute, CUDNN_OF_I64, n, wide);
}

bool cudnn_set_descriptor(const struct cudnn_builder *b, void *descriptor, int attribute,
                          void *value)
{
    return cudnn_set(b, descriptor, attribute, CUDNN_OF_DESCRIPTORS, 1, &value);
}

bool cudnn_finalize(const struct cudnn_builder *b, void *descriptor)
{
    return descriptor_is_good(b, "cudnnBackendFinalize",
                              gpu_cudnn_call->cudnnBackendFinalize(descriptor));
}

/* ---- tensors and operations ---- */

void *cudnn_add_tensor(struct cudnn_builder *b, const struct cudnn_tensor *tensor)
{
    void *t = cudnn_add(b, CUDNN_IS_TENSOR);
    const bool is_virtual = tensor->is_virtual, by_value = tensor->by_value;

    return t && cudnn_set(b, t, CUDNN_TENSOR_TYPE, CUDNN_OF_DATA_TYPES, 1, &tensor->type) &&
                   cudnn_set_i64(b, t, CUDNN_TENSOR_SHAPE, tensor->rank, tensor->shape) &&
                   cudnn_set_i64(b, t, CUDNN_TENSOR_STRIDE, tensor->rank, tensor->stride) &&
                   cudnn_set_i64(b, t, CUDNN_TENSOR_ID, 1, &tensor->id) &&
                   cudnn_set(b, t, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_I64, 1, &tensor->alignment) &&
                   (!is_virtual ||
                    cudnn_set(b, t, CUDNN_TENSOR_VIRTUAL, CUDNN_OF_BOOLS, 1, &is_virtual)) &&
                   (!by_value ||
                    cudnn_set(b, t, CUDNN_TENSOR_BY_VALUE, CUDNN_OF_BOOLS, 1, &by_value)) &&
                   cudnn_finalize(b, t)
               ? t
               : NULL;
}

/* Appends the description of a step, without its tensors. */
static void *descriptor_add_step(struct cudnn_builder *b, const struct cudnn_step *step)
{
    static const int nan = CUDNN_KEEP_NAN;
    void *d = cudnn_add(b, CUDNN_IS_STEP);

    return d && cudnn_set(b, d, CUDNN_STEP_MODE, CUDNN_OF_STEP_MODES, 1, &step->mode) &&
                   cudnn_set(b, d, CUDNN_STEP_TYPE, CUDNN_OF_DATA_TYPES, 1, &step->type) &&
                   (step->mode != CUDNN_INDEX ||
                    cudnn_set_i64(b, d, CUDNN_STEP_AXIS, 1, &step->axis)) &&
                   (step->mode != CUDNN_RELU ||
                    cudnn_set(b, d, CUDNN_STEP_NAN, CUDNN_OF_NAN_MODES, 1, &nan)) &&
                   cudnn_finalize(b, d)
               ? d
               : NULL;
}

void *cudnn_add_pointwise(struct cudnn_builder *b, const struct cudnn_step *step)
{
    void *d = descriptor_add_step(b, step), *o = d ? cudnn_add(b, CUDNN_IS_POINTWISE) : NULL;

    return o && cudnn_set_descriptor(b, o, CUDNN_POINTWISE_STEP, d) &&
                   cudnn_set_descriptor(b, o, CUDNN_POINTWISE_X, step->x) &&
                   (!step->with || cudnn_set_descriptor(b, o, CUDNN_POINTWISE_B, step->with)) &&
                   (!step->where || cudnn_set_descriptor(b, o, CUDNN_POINTWISE_T, step->where)) &&
                   cudnn_set_descriptor(b, o, CUDNN_POINTWISE_Y, step->y) && cudnn_finalize(b, o)
               ? o
               : NULL;
}

/* ---- the choice of an engine ---- */

/* Whether all notes of an engine are known and accepted. */
static bool notes_are_good(const struct cudnn_builder *b, void *engine)
{
    int note[NOTES], all = 0;
    int64_t n = 0;

    if (!descriptor_get(b, engine, CUDNN_ENGINE_NOTES, CUDNN_OF_NOTES, NOTES, &n, note) ||
        n > NOTES)
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (note[i] < 0 || note[i] > 30 || !(GOOD_NOTES >> note[i] & 1)) return false;
        all |= 1 << note[i];
    }
    return (n || !b->needs_notes) && (!b->keeps_nan || all >> CUDNN_NOTE_KEEPS_NAN & 1);
}

static bool config_is_good(const struct cudnn_builder *b, void *config)
{
    void *engine = descriptor_create(b, CUDNN_IS_ENGINE);
    int64_t n = 0;
    bool good = engine &&
                descriptor_get(b, config, CUDNN_CONFIG_ENGINE, CUDNN_OF_DESCRIPTORS, 1, &n,
                               &engine) &&
                n == 1 && notes_are_good(b, engine);

    descriptor_destroy(b->device, engine);
    return good;
}

/* Makes an execution plan of a configuration; NULL: unsupported, or it needs too much memory. */
static void *make_plan(const struct cudnn_builder *b, void *config, int64_t *out_workspace)
{
    void *plan = descriptor_create(b, CUDNN_IS_PLAN);
    int64_t n = 0;

    if (plan && cudnn_set(b, plan, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLES, 1, &b->handle) &&
        cudnn_set_descriptor(b, plan, CUDNN_PLAN_CONFIG, config) && cudnn_finalize(b, plan) &&
        descriptor_get(b, plan, CUDNN_PLAN_WORKSPACE, CUDNN_OF_I64, 1, &n, out_workspace) &&
        n == 1 && *out_workspace >= 0 && *out_workspace <= cudnn_workspace_most)
        return plan;
    descriptor_destroy(b->device, plan);
    return NULL;
}

/* The graph uses the first of n configurations that is accepted. */
static bool take_first(struct cudnn_builder *b, void **config, int64_t n)
{
    struct cudnn_graph *g = &b->graph;

    for (int64_t i = 0; i < n; i++) {
        void *plan = config_is_good(b, config[i]) ? make_plan(b, config[i], &g->workspace) : NULL;
        if (!plan) continue;
        g->made[g->n++] = config[i];
        g->made[g->n++] = plan;
        config[i] = NULL;
        return true;
    }
    return false;
}

/* Queries the heuristic and chooses a configuration. The caller creates the descriptors that the
 * library fills. */
static bool builder_choose(struct cudnn_builder *b, void *graph)
{
    static const int mode = CUDNN_HEURISTIC_A;
    void *config[CONFIGS], *heuristic = descriptor_create(b, CUDNN_IS_HEURISTIC);
    int64_t made = 0, n = 0;
    bool good = heuristic && cudnn_set_descriptor(b, heuristic, CUDNN_HEURISTIC_GRAPH, graph) &&
                cudnn_set(b, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_OF_HEURISTIC_MODES, 1, &mode) &&
                cudnn_finalize(b, heuristic);

    while (good && made < CONFIGS) {
        config[made] = descriptor_create(b, CUDNN_IS_CONFIG);
        good = config[made] != NULL;
        made += good;
    }
    good = good && descriptor_get(b, heuristic, CUDNN_HEURISTIC_RESULTS, CUDNN_OF_DESCRIPTORS,
                                  CONFIGS, &n, config);
    good = good && take_first(b, config, n < CONFIGS ? n : CONFIGS);
    for (int64_t i = 0; i < made; i++) descriptor_destroy(b->device, config[i]);
    descriptor_destroy(b->device, heuristic);
    return good;
}

bool cudnn_build(struct cudnn_builder *b, void *const *operations, int n)
{
    void *graph = cudnn_add(b, CUDNN_IS_GRAPH);

    return graph &&
           cudnn_set(b, graph, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTORS, n, operations) &&
           cudnn_set(b, graph, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLES, 1, &b->handle) &&
           cudnn_finalize(b, graph) && builder_choose(b, graph);
}

void cudnn_graph_drop(const struct gpu_device *device, struct cudnn_graph *graph)
{
    while (graph->n) descriptor_destroy(device, graph->made[--graph->n]);
}

/* ---- execution ---- */

/* The library reads the values of the variant pack only during this call. */
static int pack_execute(const struct cudnn_graph *graph, void *handle, void *pack, int n,
                        const int64_t *id, void *const *at, void *workspace,
                        const char **out_function)
{
    const struct cudnn_calls *call = gpu_cudnn_call;
    int code;

    *out_function = "cudnnBackendSetAttribute";
    code = call->cudnnBackendSetAttribute(pack, CUDNN_PACK_IDS, CUDNN_OF_I64, n, id);
    if (!code)
        code = call->cudnnBackendSetAttribute(pack, CUDNN_PACK_ADDRESSES, CUDNN_OF_ADDRESSES, n,
                                              at);
    if (!code)
        code = call->cudnnBackendSetAttribute(pack, CUDNN_PACK_WORKSPACE, CUDNN_OF_ADDRESSES, 1,
                                              &workspace);
    if (code) return code;
    *out_function = "cudnnBackendFinalize";
    code = call->cudnnBackendFinalize(pack);
    if (code) return code;
    *out_function = "cudnnBackendExecute";
    return call->cudnnBackendExecute(handle, graph->made[graph->n - 1], pack);
}

int cudnn_graph_execute(const struct gpu_device *device, const struct cudnn_graph *graph,
                        void *handle, int n, const int64_t *id, void *const *at, void *workspace,
                        const char **out_function)
{
    void *pack = NULL;
    int code = gpu_cudnn_call->cudnnBackendCreateDescriptor(CUDNN_IS_PACK, &pack);

    *out_function = "cudnnBackendCreateDescriptor";
    if (code) return code;
    code = pack_execute(graph, handle, pack, n, id, at, workspace, out_function);
    descriptor_destroy(device, pack);
    return code;
}
