/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_graph.c: computes convolutions of half types by cuDNN's graph interface, which has kernels
 * that the older interface lacks. The plan describes a graph of one operation, or of two if there
 * is a bias. The library's heuristic lists engine configurations, best first, and the plan uses the
 * first that meets the guarantees of the kernel rows. The bias is added to the sums in f32, in a
 * virtual tensor: if the bias were in the result, and beta 1, some kernels would round the sums
 * before they add the bias. */
#include "cudnn_plan.h"

/* The maximum number of configurations, and of notes of one engine. */
enum { CONFIGS = 16, NOTES = 32 };

/* The number of the virtual tensor of sums, after those of the library's operands. */
enum { SUMS = OPERANDS };

/* The numerical notes that an accepted engine may have. Transforms have other rounding errors than
 * sums of products, and spread values that are not finite. Sums without a fixed order differ from
 * run to run. Factors and sums must keep their precision. An engine with an unknown note is
 * rejected. */
enum { GOOD_NOTES = 1 << CUDNN_NOTE_TENSOR_CORE | 1 << CUDNN_NOTE_KEEPS_NAN };

/* Whether a call succeeded. A status "not supported" is not logged. */
static bool cudnn_graph_is_good(const struct cudnn_plan *p, const char *function, int code)
{
    return !cudnn_is_unsupported(code) && gpu_vendor_good(p->device, &gpu_cudnn, function, code);
}

static void *cudnn_graph_create(const struct cudnn_plan *p, int kind)
{
    void *made = NULL;

    return CUDNN_GOOD(p->device, cudnnBackendCreateDescriptor, kind, &made) ? made : NULL;
}

static void cudnn_graph_destroy(const struct gpu_device *device, void *descriptor)
{
    if (descriptor) CUDNN_GOOD(device, cudnnBackendDestroyDescriptor, descriptor);
}

static bool cudnn_graph_set(const struct cudnn_plan *p, void *descriptor, int attribute, int type,
                            int64_t n, const void *values)
{
    return cudnn_graph_is_good(
        p, "cudnnBackendSetAttribute",
        gpu_cudnn_call->cudnnBackendSetAttribute(descriptor, attribute, type, n, values));
}

static bool cudnn_graph_get(const struct cudnn_plan *p, void *descriptor, int attribute, int type,
                            int64_t requested, int64_t *out_n, void *out)
{
    return cudnn_graph_is_good(p, "cudnnBackendGetAttribute",
                               gpu_cudnn_call->cudnnBackendGetAttribute(descriptor, attribute, type,
                                                                        requested, out_n, out));
}

static bool cudnn_graph_finalize(const struct cudnn_plan *p, void *descriptor)
{
    return cudnn_graph_is_good(p, "cudnnBackendFinalize",
                               gpu_cudnn_call->cudnnBackendFinalize(descriptor));
}

static bool set_i64(const struct cudnn_plan *p, void *descriptor, int attribute, int n,
                    const int *values)
{
    int64_t wide[AXES];

    for (int i = 0; i < n; i++) wide[i] = values[i];
    return cudnn_graph_set(p, descriptor, attribute, CUDNN_OF_I64, n, wide);
}

static bool set_descriptor(const struct cudnn_plan *p, void *descriptor, int attribute, void *value)
{
    return cudnn_graph_set(p, descriptor, attribute, CUDNN_OF_DESCRIPTORS, 1, &value);
}

/* Appends a new descriptor to the graph; NULL: it could not be created. */
static void *cudnn_graph_add(const struct cudnn_plan *p, struct cudnn_graph *g, int kind)
{
    void *made = cudnn_graph_create(p, kind);

    if (made) g->made[g->n++] = made;
    return made;
}

/* The unique id of a tensor is its index among the graph's descriptors. */
static bool add_tensor(const struct cudnn_plan *p, struct cudnn_graph *g, int type,
                       const int *shape, const int *stride, int64_t alignment)
{
    int number = g->n;
    bool is_virtual = number == SUMS;
    void *t = cudnn_graph_add(p, g, CUDNN_IS_TENSOR);

    return t && cudnn_graph_set(p, t, CUDNN_TENSOR_TYPE, CUDNN_OF_DATA_TYPES, 1, &type) &&
           set_i64(p, t, CUDNN_TENSOR_SHAPE, p->rank, shape) &&
           set_i64(p, t, CUDNN_TENSOR_STRIDE, p->rank, stride) &&
           set_i64(p, t, CUDNN_TENSOR_ID, 1, &number) &&
           cudnn_graph_set(p, t, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_I64, 1, &alignment) &&
           (!is_virtual ||
            cudnn_graph_set(p, t, CUDNN_TENSOR_VIRTUAL, CUDNN_OF_BOOLS, 1, &is_virtual)) &&
           cudnn_graph_finalize(p, t);
}

static bool add_tensors(const struct cudnn_plan *p, struct cudnn_graph *g, int64_t alignment)
{
    const int type = cudnn_type_of(p->dtype);
    int shape[AXES], stride[AXES];

    for (int i = 0; i < TENSORS; i++)
        if (!add_tensor(p, g, type, p->shape[i], p->stride[i], alignment)) return false;
    if (!p->adds_bias) return true;
    cudnn_bias_shape(p, shape, stride);
    return add_tensor(p, g, type, shape, stride, alignment) &&
           add_tensor(p, g, CUDNN_F32, p->shape[Y], p->stride[Y], alignment);
}

/* Returns NULL if the library cannot describe the operation, as do the next functions. */
static void *add_steps(const struct cudnn_plan *p, struct cudnn_graph *g)
{
    static const int sums = CUDNN_F32, mode = CUDNN_CORRELATION;
    void *c = cudnn_graph_add(p, g, CUDNN_IS_CONV);
    int axes = p->rank - 2;

    return c && cudnn_graph_set(p, c, CUDNN_CONV_SUMS, CUDNN_OF_DATA_TYPES, 1, &sums) &&
                   cudnn_graph_set(p, c, CUDNN_CONV_MODE, CUDNN_OF_CONV_MODES, 1, &mode) &&
                   set_i64(p, c, CUDNN_CONV_AXES, 1, &axes) &&
                   set_i64(p, c, CUDNN_CONV_DILATION, axes, p->steps.dilation) &&
                   set_i64(p, c, CUDNN_CONV_STRIDE, axes, p->steps.stride) &&
                   set_i64(p, c, CUDNN_CONV_PAD_BEFORE, axes, p->steps.pad) &&
                   set_i64(p, c, CUDNN_CONV_PAD_BEHIND, axes, p->steps.behind) &&
                   cudnn_graph_finalize(p, c)
               ? c
               : NULL;
}

/* The library derives the number of groups from the shapes. */
static void *add_product(const struct cudnn_plan *p, struct cudnn_graph *g)
{
    static const struct {
        int kind, tensor[TENSORS], conv, alpha, beta;
    } words[] = {
        [CONV_FORWARD] = {CUDNN_IS_FORWARD, {CUDNN_FORWARD_X, CUDNN_FORWARD_W, CUDNN_FORWARD_Y},
                          CUDNN_FORWARD_CONV, CUDNN_FORWARD_ALPHA, CUDNN_FORWARD_BETA},
        [CONV_GRAD_INPUT] = {CUDNN_IS_GRAD_INPUT,
                             {CUDNN_GRAD_INPUT_X, CUDNN_GRAD_INPUT_W, CUDNN_GRAD_INPUT_Y},
                             CUDNN_GRAD_INPUT_CONV, CUDNN_GRAD_INPUT_ALPHA, CUDNN_GRAD_INPUT_BETA},
        [CONV_GRAD_WEIGHT] = {CUDNN_IS_GRAD_WEIGHT,
                              {CUDNN_GRAD_WEIGHT_X, CUDNN_GRAD_WEIGHT_W, CUDNN_GRAD_WEIGHT_Y},
                              CUDNN_GRAD_WEIGHT_CONV, CUDNN_GRAD_WEIGHT_ALPHA,
                              CUDNN_GRAD_WEIGHT_BETA},
    };
    const float alpha = 1, beta = 0;
    void *steps = add_steps(p, g), *o = steps ? cudnn_graph_add(p, g, words[p->kind].kind) : NULL;

    for (int i = 0; o && i < TENSORS; i++) {
        void *tensor = g->made[i == Y && p->adds_bias ? SUMS : i];
        if (!set_descriptor(p, o, words[p->kind].tensor[i], tensor)) return NULL;
    }
    return o && set_descriptor(p, o, words[p->kind].conv, steps) &&
                   cudnn_graph_set(p, o, words[p->kind].alpha, CUDNN_OF_F32, 1, &alpha) &&
                   cudnn_graph_set(p, o, words[p->kind].beta, CUDNN_OF_F32, 1, &beta) &&
                   cudnn_graph_finalize(p, o)
               ? o
               : NULL;
}

/* The operation that adds the bias to the sums and writes the result. */
static void *add_sum(const struct cudnn_plan *p, struct cudnn_graph *g)
{
    static const int mode = CUDNN_ADD, type = CUDNN_F32;
    void *step = cudnn_graph_add(p, g, CUDNN_IS_STEP), *o = NULL;

    if (step && cudnn_graph_set(p, step, CUDNN_STEP_MODE, CUDNN_OF_STEP_MODES, 1, &mode) &&
        cudnn_graph_set(p, step, CUDNN_STEP_TYPE, CUDNN_OF_DATA_TYPES, 1, &type) &&
        cudnn_graph_finalize(p, step))
        o = cudnn_graph_add(p, g, CUDNN_IS_POINTWISE);
    return o && set_descriptor(p, o, CUDNN_POINTWISE_STEP, step) &&
                   set_descriptor(p, o, CUDNN_POINTWISE_X, g->made[SUMS]) &&
                   set_descriptor(p, o, CUDNN_POINTWISE_B, g->made[BIAS]) &&
                   set_descriptor(p, o, CUDNN_POINTWISE_Y, g->made[Y]) && cudnn_graph_finalize(p, o)
               ? o
               : NULL;
}

static void *add_graph(const struct cudnn_plan *p, struct cudnn_graph *g)
{
    void *operation[2] = {add_product(p, g)}, *graph = NULL;
    int n = 1;

    if (operation[0] && p->adds_bias) operation[n++] = add_sum(p, g);
    if (operation[n - 1]) graph = cudnn_graph_add(p, g, CUDNN_IS_GRAPH);
    return graph &&
                   cudnn_graph_set(p, graph, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTORS, n,
                                   operation) &&
                   cudnn_graph_set(p, graph, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLES, 1, &p->handle) &&
                   cudnn_graph_finalize(p, graph)
               ? graph
               : NULL;
}

/* Whether all notes of an engine are known and accepted. An engine without notes may add gradients
 * of images in f16. */
static bool notes_are_good(const struct cudnn_plan *p, void *engine)
{
    int note[NOTES];
    int64_t n = 0;

    if (!cudnn_graph_get(p, engine, CUDNN_ENGINE_NOTES, CUDNN_OF_NOTES, NOTES, &n, note) ||
        n > NOTES)
        return false;
    for (int64_t i = 0; i < n; i++)
        if (note[i] < 0 || note[i] > 30 || !(GOOD_NOTES >> note[i] & 1)) return false;
    return n || !cudnn_may_add_in_half(p);
}

static bool config_is_good(const struct cudnn_plan *p, void *config)
{
    void *engine = cudnn_graph_create(p, CUDNN_IS_ENGINE);
    int64_t n = 0;
    bool good = engine &&
                cudnn_graph_get(p, config, CUDNN_CONFIG_ENGINE, CUDNN_OF_DESCRIPTORS, 1, &n,
                                &engine) &&
                n == 1 && notes_are_good(p, engine);

    cudnn_graph_destroy(p->device, engine);
    return good;
}

/* Makes an execution plan of a configuration; NULL: unsupported, or it needs too much memory. */
static void *make_plan(const struct cudnn_plan *p, void *config, int64_t *out_workspace)
{
    void *plan = cudnn_graph_create(p, CUDNN_IS_PLAN);
    int64_t n = 0;

    if (plan && cudnn_graph_set(p, plan, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLES, 1, &p->handle) &&
        set_descriptor(p, plan, CUDNN_PLAN_CONFIG, config) && cudnn_graph_finalize(p, plan) &&
        cudnn_graph_get(p, plan, CUDNN_PLAN_WORKSPACE, CUDNN_OF_I64, 1, &n, out_workspace) &&
        n == 1 && *out_workspace >= 0 && *out_workspace <= cudnn_workspace_most)
        return plan;
    cudnn_graph_destroy(p->device, plan);
    return NULL;
}

/* The graph uses the first of n configurations that is accepted. */
static bool take_first(const struct cudnn_plan *p, struct cudnn_graph *g, void **config, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        void *plan = config_is_good(p, config[i]) ? make_plan(p, config[i], &g->workspace) : NULL;
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
static bool cudnn_graph_choose(const struct cudnn_plan *p, struct cudnn_graph *g, void *graph)
{
    static const int mode = CUDNN_HEURISTIC_A;
    void *config[CONFIGS], *heuristic = cudnn_graph_create(p, CUDNN_IS_HEURISTIC);
    int64_t made = 0, n = 0;
    bool good = heuristic && set_descriptor(p, heuristic, CUDNN_HEURISTIC_GRAPH, graph) &&
                cudnn_graph_set(p, heuristic, CUDNN_HEURISTIC_MODE, CUDNN_OF_HEURISTIC_MODES, 1,
                                &mode) &&
                cudnn_graph_finalize(p, heuristic);

    while (good && made < CONFIGS) {
        config[made] = cudnn_graph_create(p, CUDNN_IS_CONFIG);
        good = config[made] != NULL;
        made += good;
    }
    good = good && cudnn_graph_get(p, heuristic, CUDNN_HEURISTIC_RESULTS, CUDNN_OF_DESCRIPTORS,
                                   CONFIGS, &n, config);
    good = good && take_first(p, g, config, n < CONFIGS ? n : CONFIGS);
    for (int64_t i = 0; i < made; i++) cudnn_graph_destroy(p->device, config[i]);
    cudnn_graph_destroy(p->device, heuristic);
    return good;
}

static bool has_functions(void)
{
    return gpu_cudnn_call->cudnnBackendCreateDescriptor &&
           gpu_cudnn_call->cudnnBackendDestroyDescriptor && gpu_cudnn_call->cudnnBackendFinalize &&
           gpu_cudnn_call->cudnnBackendSetAttribute && gpu_cudnn_call->cudnnBackendGetAttribute &&
           gpu_cudnn_call->cudnnBackendExecute;
}

bool cudnn_graph_make(const struct cudnn_plan *p, int64_t alignment, struct cudnn_graph *out)
{
    struct cudnn_graph g = {.n = 0};
    void *graph = NULL;

    if (has_functions() && add_tensors(p, &g, alignment)) graph = add_graph(p, &g);
    if (graph && cudnn_graph_choose(p, &g, graph)) {
        *out = g;
        return true;
    }
    cudnn_graph_drop(p->device, &g);
    return false;
}

void cudnn_graph_drop(const struct gpu_device *device, struct cudnn_graph *graph)
{
    while (graph->n) cudnn_graph_destroy(device, graph->made[--graph->n]);
}

/* The library reads the values of the variant pack only during this call. */
static int cudnn_graph_execute(const struct cudnn_graph *graph, void *handle, void *pack, int n,
                               void *const at[OPERANDS], void *workspace, const char **out_function)
{
    static const int64_t id[OPERANDS] = {X, W, Y, BIAS};
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

int cudnn_graph_run(const struct cudnn_plan *p, const struct cudnn_graph *graph, void *handle,
                    void *const at[OPERANDS], void *workspace, const char **out_function)
{
    int n = p->adds_bias ? OPERANDS : TENSORS;
    void *pack = NULL;
    int code = gpu_cudnn_call->cudnnBackendCreateDescriptor(CUDNN_IS_PACK, &pack);

    *out_function = "cudnnBackendCreateDescriptor";
    if (code) return code;
    code = cudnn_graph_execute(graph, handle, pack, n, at, workspace, out_function);
    cudnn_graph_destroy(p->device, pack);
    return code;
}
