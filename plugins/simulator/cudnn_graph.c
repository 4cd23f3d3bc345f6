/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_graph.c: simulates cuDNN's graph interface, for graphs of one convolution, or of a
 * convolution and steps behind it: the additions of a bias and of a residual, and relu. A step
 * reads the result of the one before it from a virtual tensor. A graph may also be one attention,
 * one norm, or steps (cudnn_steps.c), which other files compute. The simulation accepts attributes
 * only with the types, counts and order that the library's documentation states. Of the engine
 * configurations that its heuristic lists, only the last ones meet the guarantees of plugins/gpu;
 * the others refuse to run, or lose NaN in relu. */
#include "cudnn_graph.h"
#include <stdlib.h>
#include <string.h>

enum {
    WAYS = 11,
    NOTES = 3
};

/* The attributes of each kind of descriptor: their type, and the minimum and maximum number of
 * values. All attributes must be set before a descriptor is finalized, except those with a minimum
 * of 0. */
static const struct rule {
    int kind, attribute, type;
    int64_t least, most;
} rules[] = {
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_TYPE, CUDNN_OF_DATA_TYPES, 1, 1},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_SHAPE, CUDNN_OF_I64, 3, AXES},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_STRIDE, CUDNN_OF_I64, 3, AXES},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_ID, CUDNN_OF_I64, 1, 1},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_ALIGNMENT, CUDNN_OF_I64, 1, 1},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_VIRTUAL, CUDNN_OF_BOOLS, 0, 1},
    {CUDNN_IS_TENSOR, CUDNN_TENSOR_BY_VALUE, CUDNN_OF_BOOLS, 0, 1},
    {CUDNN_IS_ATTENTION, CUDNN_ATTENTION_Q, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_ATTENTION, CUDNN_ATTENTION_K, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_ATTENTION, CUDNN_ATTENTION_V, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_ATTENTION, CUDNN_ATTENTION_Y, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_ATTENTION, CUDNN_ATTENTION_SCALE, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_MODE, CUDNN_OF_NORM_MODES, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_PHASE, CUDNN_OF_NORM_PHASES, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_X, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_Y, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_SCALE, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_BIAS, CUDNN_OF_DESCRIPTORS, 0, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_MEAN, CUDNN_OF_DESCRIPTORS, 0, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_R, CUDNN_OF_DESCRIPTORS, 0, 1},
    {CUDNN_IS_NORM, CUDNN_NORM_EPSILON, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_STEP, CUDNN_STEP_MODE, CUDNN_OF_STEP_MODES, 1, 1},
    {CUDNN_IS_STEP, CUDNN_STEP_TYPE, CUDNN_OF_DATA_TYPES, 1, 1},
    {CUDNN_IS_STEP, CUDNN_STEP_NAN, CUDNN_OF_NAN_MODES, 0, 1},
    {CUDNN_IS_STEP, CUDNN_STEP_AXIS, CUDNN_OF_I64, 0, 1},
    {CUDNN_IS_PRODUCT_TYPE, CUDNN_PRODUCT_SUMS, CUDNN_OF_DATA_TYPES, 1, 1},
    {CUDNN_IS_PRODUCT, CUDNN_PRODUCT_A, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_PRODUCT, CUDNN_PRODUCT_B, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_PRODUCT, CUDNN_PRODUCT_Y, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_PRODUCT, CUDNN_PRODUCT_TYPE, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_REDUCTION_TYPE, CUDNN_REDUCTION_MODE, CUDNN_OF_REDUCTIONS, 1, 1},
    {CUDNN_IS_REDUCTION_TYPE, CUDNN_REDUCTION_SUMS, CUDNN_OF_DATA_TYPES, 1, 1},
    {CUDNN_IS_REDUCTION, CUDNN_REDUCTION_X, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_REDUCTION, CUDNN_REDUCTION_Y, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_REDUCTION, CUDNN_REDUCTION_TYPE, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_POINTWISE, CUDNN_POINTWISE_STEP, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_POINTWISE, CUDNN_POINTWISE_X, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_POINTWISE, CUDNN_POINTWISE_B, CUDNN_OF_DESCRIPTORS, 0, 1},
    {CUDNN_IS_POINTWISE, CUDNN_POINTWISE_T, CUDNN_OF_DESCRIPTORS, 0, 1},
    {CUDNN_IS_POINTWISE, CUDNN_POINTWISE_Y, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_CONV, CUDNN_CONV_SUMS, CUDNN_OF_DATA_TYPES, 1, 1},
    {CUDNN_IS_CONV, CUDNN_CONV_MODE, CUDNN_OF_CONV_MODES, 1, 1},
    {CUDNN_IS_CONV, CUDNN_CONV_AXES, CUDNN_OF_I64, 1, 1},
    {CUDNN_IS_CONV, CUDNN_CONV_DILATION, CUDNN_OF_I64, 2, 3},
    {CUDNN_IS_CONV, CUDNN_CONV_STRIDE, CUDNN_OF_I64, 2, 3},
    {CUDNN_IS_CONV, CUDNN_CONV_PAD_BEFORE, CUDNN_OF_I64, 2, 3},
    {CUDNN_IS_CONV, CUDNN_CONV_PAD_BEHIND, CUDNN_OF_I64, 2, 3},
#define OPERATION(KIND) \
    {CUDNN_IS_##KIND, CUDNN_##KIND##_X, CUDNN_OF_DESCRIPTORS, 1, 1}, \
        {CUDNN_IS_##KIND, CUDNN_##KIND##_W, CUDNN_OF_DESCRIPTORS, 1, 1}, \
        {CUDNN_IS_##KIND, CUDNN_##KIND##_Y, CUDNN_OF_DESCRIPTORS, 1, 1}, \
        {CUDNN_IS_##KIND, CUDNN_##KIND##_CONV, CUDNN_OF_DESCRIPTORS, 1, 1}, \
        {CUDNN_IS_##KIND, CUDNN_##KIND##_ALPHA, CUDNN_OF_F32, 1, 1}, \
        {CUDNN_IS_##KIND, CUDNN_##KIND##_BETA, CUDNN_OF_F32, 1, 1},
    OPERATION(FORWARD) OPERATION(GRAD_INPUT) OPERATION(GRAD_WEIGHT)
#undef OPERATION
        {CUDNN_IS_GRAPH, CUDNN_GRAPH_OPERATIONS, CUDNN_OF_DESCRIPTORS, 1, STEPS},
    {CUDNN_IS_GRAPH, CUDNN_GRAPH_HANDLE, CUDNN_OF_HANDLES, 1, 1},
    {CUDNN_IS_HEURISTIC, CUDNN_HEURISTIC_GRAPH, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_HEURISTIC, CUDNN_HEURISTIC_MODE, CUDNN_OF_HEURISTIC_MODES, 1, 1},
    {CUDNN_IS_PLAN, CUDNN_PLAN_CONFIG, CUDNN_OF_DESCRIPTORS, 1, 1},
    {CUDNN_IS_PLAN, CUDNN_PLAN_HANDLE, CUDNN_OF_HANDLES, 1, 1},
    {CUDNN_IS_PACK, CUDNN_PACK_IDS, CUDNN_OF_I64, 3, PARTS + NUMBERS},
    {CUDNN_IS_PACK, CUDNN_PACK_ADDRESSES, CUDNN_OF_ADDRESSES, 3, PARTS + NUMBERS},
    {CUDNN_IS_PACK, CUDNN_PACK_WORKSPACE, CUDNN_OF_ADDRESSES, 1, 1},
};
enum {
    RULES = sizeof rules / sizeof *rules
};

static size_t cudnn_graph_size_of(int type)
{
    return type == CUDNN_OF_BOOLS ? 1
           : type == CUDNN_OF_HANDLES || type == CUDNN_OF_I64 || type == CUDNN_OF_ADDRESSES ||
                   type == CUDNN_OF_DESCRIPTORS
               ? 8
               : 4;
}

int cudnnBackendCreateDescriptor(int kind, void **out)
{
    int code = sim_enter(SIM_CALL_cudnnBackendCreateDescriptor);
    struct descriptor *made = code ? NULL : calloc(1, sizeof *made);

    if (!code && !made) code = BAD_PARAM;
    if (code) return sim_leave(code);
    *made = (struct descriptor){.magic = DESCRIPTOR, .kind = kind};
    sim.live++;
    *out = made;
    return sim_leave(0);
}

/* Destroys the descriptor even if the call is set to fail. */
int cudnnBackendDestroyDescriptor(void *p)
{
    int code = sim_enter(SIM_CALL_cudnnBackendDestroyDescriptor);
    struct descriptor *d = p;

    if (!d || d->magic != DESCRIPTOR) return sim_leave(BAD_PARAM);
    d->magic = 0;
    free(d);
    sim.live--;
    return sim_leave(code);
}

static int cudnn_graph_take(struct descriptor *d, int attribute, int type, int64_t n,
                            const void *values)
{
    const struct rule *r = rules;
    struct value *to;

    if (!d || d->magic != DESCRIPTOR || d->final || !values) return BAD_PARAM;
    while (r < rules + RULES && (r->kind != d->kind || r->attribute != attribute)) r++;
    if (r == rules + RULES) return NOT_SUPPORTED;
    to = cudnn_graph_value_of(d, attribute);
    if (r->type != type || n < r->least || n > r->most || !to) return BAD_PARAM;
    *to = (struct value){.attribute = attribute, .type = type, .n = n};
    memcpy(to->data, values, (size_t)n * cudnn_graph_size_of(type));
    return 0;
}

int cudnnBackendSetAttribute(void *p, int attribute, int type, int64_t n, const void *values)
{
    int code = sim_enter(SIM_CALL_cudnnBackendSetAttribute);

    return sim_leave(code ? code : cudnn_graph_take(p, attribute, type, n, values));
}

/* ---- finalizing descriptors ---- */

static bool tensor_is_good(const struct descriptor *d)
{
    int64_t n = cudnn_graph_count_of(d, CUDNN_TENSOR_SHAPE),
            all = i64_of(d, CUDNN_TENSOR_ALIGNMENT, 0);
    bool good = n == cudnn_graph_count_of(d, CUDNN_TENSOR_STRIDE) && all > 0 &&
                !(all & (all - 1)) &&
                (cudnn_type_of(cudnn_graph_number_of(d, CUDNN_TENSOR_TYPE)) < SIM_TYPES ||
                 cudnn_is_step_type(d));

    for (int64_t i = 0; i < n && good; i++)
        good = i64_of(d, CUDNN_TENSOR_SHAPE, i) > 0 && i64_of(d, CUDNN_TENSOR_STRIDE, i) > 0;
    return good;
}

static bool conv_is_good(const struct descriptor *d)
{
    int64_t n = i64_of(d, CUDNN_CONV_AXES, 0);
    bool good = cudnn_graph_number_of(d, CUDNN_CONV_SUMS) == CUDNN_F32 &&
                cudnn_graph_number_of(d, CUDNN_CONV_MODE) == CUDNN_CORRELATION &&
                cudnn_graph_count_of(d, CUDNN_CONV_DILATION) == n &&
                cudnn_graph_count_of(d, CUDNN_CONV_STRIDE) == n &&
                cudnn_graph_count_of(d, CUDNN_CONV_PAD_BEFORE) == n &&
                cudnn_graph_count_of(d, CUDNN_CONV_PAD_BEHIND) == n;

    for (int64_t i = 0; i < n && good; i++)
        good = i64_of(d, CUDNN_CONV_PAD_BEFORE, i) >= 0 &&
               i64_of(d, CUDNN_CONV_PAD_BEHIND, i) >= 0 && i64_of(d, CUDNN_CONV_DILATION, i) > 0 &&
               i64_of(d, CUDNN_CONV_STRIDE, i) > 0;
    return good;
}

/* The attributes of each operation. The operation computes operand `result`. */
static const struct operation {
    int kind, result, part[3], conv, alpha, beta;
} operations[] = {
#define OPERATION(KIND, result) \
    {CUDNN_IS_##KIND, \
     result, \
     {CUDNN_##KIND##_X, CUDNN_##KIND##_W, CUDNN_##KIND##_Y}, \
     CUDNN_##KIND##_CONV, \
     CUDNN_##KIND##_ALPHA, \
     CUDNN_##KIND##_BETA},
    OPERATION(FORWARD, 2) OPERATION(GRAD_INPUT, 0) OPERATION(GRAD_WEIGHT, 1)
#undef OPERATION
};

static const struct operation *operation_of(const struct descriptor *d)
{
    for (int i = 0; i < 3; i++)
        if (operations[i].kind == d->kind) return &operations[i];
    return NULL;
}

/* Spatial axes are placed at the end, as in the older interface. */
static struct thing tensor_of(const struct descriptor *d)
{
    struct thing t = {.kind = TENSOR,
                      .type = cudnn_type_of(cudnn_graph_number_of(d, CUDNN_TENSOR_TYPE)),
                      .shape = {1, 1, 1, 1, 1}};
    int64_t rank = cudnn_graph_count_of(d, CUDNN_TENSOR_SHAPE);

    for (int64_t a = 0; a < rank; a++) {
        int64_t to = a < 2 ? a : a + AXES - rank;
        t.shape[to] = i64_of(d, CUDNN_TENSOR_SHAPE, a);
        t.stride[to] = i64_of(d, CUDNN_TENSOR_STRIDE, a);
    }
    return t;
}

static struct thing conv_of(const struct descriptor *d)
{
    struct thing t = {.kind = CONV, .sums = SIM_F32, .step = {1, 1, 1}, .dilation = {1, 1, 1}};
    int64_t n = i64_of(d, CUDNN_CONV_AXES, 0);

    for (int64_t i = 0; i < n; i++) {
        t.pad[i + 3 - n] = i64_of(d, CUDNN_CONV_PAD_BEFORE, i);
        t.behind[i + 3 - n] = i64_of(d, CUDNN_CONV_PAD_BEHIND, i);
        t.step[i + 3 - n] = i64_of(d, CUDNN_CONV_STRIDE, i);
        t.dilation[i + 3 - n] = i64_of(d, CUDNN_CONV_DILATION, i);
    }
    return t;
}

/* The product that an operation describes, without addresses. */
static struct run product_of(const struct descriptor *d)
{
    const struct operation *o = operation_of(d);
    struct run r = {.conv = conv_of(pointer_of(d, o->conv)),
                    .result = o->result,
                    .alpha = (double)*(const float *)data_of(d, o->alpha),
                    .beta = (double)*(const float *)data_of(d, o->beta)};

    for (int i = 0; i < 3; i++) r.part[i] = tensor_of(pointer_of(d, o->part[i]));
    if (is_virtual(pointer_of(d, o->part[2]))) r.part[2].type = r.part[0].type; /* its final type */
    r.part[1].kind = FILTER;
    r.conv.groups = r.part[0].shape[1] / r.part[1].shape[1];
    return r;
}

static int finish_operation(const struct descriptor *d, const struct operation *o)
{
    int64_t axes;
    struct run r;

    if (!is_final(pointer_of(d, o->conv), CUDNN_IS_CONV)) return NOT_FINALIZED;
    axes = i64_of(pointer_of(d, o->conv), CUDNN_CONV_AXES, 0);
    for (int i = 0; i < 3; i++) {
        const void *t = pointer_of(d, o->part[i]);
        if (!is_final(t, CUDNN_IS_TENSOR)) return NOT_FINALIZED;
        if (cudnn_graph_count_of(t, CUDNN_TENSOR_SHAPE) != axes + 2) return BAD_PARAM;
        if (is_virtual(t) &&
            (i != o->result || i != 2 || cudnn_graph_number_of(t, CUDNN_TENSOR_TYPE) != CUDNN_F32))
            return NOT_SUPPORTED;
        for (int k = 0; k < i; k++)
            if (i64_of(t, CUDNN_TENSOR_ID, 0) ==
                i64_of(pointer_of(d, o->part[k]), CUDNN_TENSOR_ID, 0))
                return BAD_PARAM;
    }
    r = product_of(d);
    return r.conv.groups > 0 && cudnn_fits(&r.part[0], &r.part[1], &r.conv, &r.part[2]) ? 0
                                                                                        : BAD_PARAM;
}

/* Checks y = x + b, or y = relu(x), behind a convolution, where x is virtual and b in memory. */
static bool is_tail_step(const struct descriptor *d)
{
    const void *x = pointer_of(d, CUDNN_POINTWISE_X), *y = pointer_of(d, CUDNN_POINTWISE_Y);
    bool adds = has_attribute(d, CUDNN_POINTWISE_B);

    return (mode_of(d) == CUDNN_ADD || mode_of(d) == CUDNN_RELU) && step_type_of(d) == CUDNN_F32 &&
           is_virtual(x) && !(adds && is_virtual(pointer_of(d, CUDNN_POINTWISE_B))) &&
           !memcmp(tensor_of(x).shape, tensor_of(y).shape, sizeof tensor_of(x).shape);
}

/* The operands of attention, in the order of struct attention. */
static const int attention_words[4] = {CUDNN_ATTENTION_Q, CUDNN_ATTENTION_K, CUDNN_ATTENTION_V,
                                       CUDNN_ATTENTION_Y};

static bool is_attention(const struct descriptor *graph)
{
    return cudnn_graph_is(pointer_of(graph, CUDNN_GRAPH_OPERATIONS), CUDNN_IS_ATTENTION);
}

/* The operands of a norm, in the order of struct norm. */
static const int norm_words[NORM_PARTS] = {CUDNN_NORM_X,    CUDNN_NORM_Y,    CUDNN_NORM_SCALE,
                                           CUDNN_NORM_BIAS, CUDNN_NORM_MEAN, CUDNN_NORM_R};

static bool is_norm(const struct descriptor *graph)
{
    return cudnn_graph_is(pointer_of(graph, CUDNN_GRAPH_OPERATIONS), CUDNN_IS_NORM);
}

static struct norm norm_of(const struct descriptor *d)
{
    struct norm n = {.centres = cudnn_graph_number_of(d, CUDNN_NORM_MODE) == CUDNN_MODE_LAYER};

    for (int i = 0; i < NORM_PARTS; i++)
        if (has_attribute(d, norm_words[i])) n.part[i] = tensor_of(pointer_of(d, norm_words[i]));
    return n;
}

/* Whether a tensor is one f32 in the host's memory. */
static bool is_number(const void *t)
{
    const struct thing one = tensor_of(t);

    for (int a = 0; a < AXES; a++)
        if (one.shape[a] != 1) return false;
    return one.type == SIM_F32 && has_attribute(t, CUDNN_TENSOR_BY_VALUE);
}

/* A layer_norm has a bias. Statistics are results in training, and only there. */
static int finish_norm(const struct descriptor *d)
{
    const int mode = cudnn_graph_number_of(d, CUDNN_NORM_MODE);
    const bool trains = cudnn_graph_number_of(d, CUDNN_NORM_PHASE) == CUDNN_NORM_TRAINING;
    const bool centres = mode == CUDNN_MODE_LAYER;
    const void *epsilon = pointer_of(d, CUDNN_NORM_EPSILON);
    struct norm n;

    for (int i = 0; i < NORM_PARTS; i++)
        if (has_attribute(d, norm_words[i]) &&
            !is_final(pointer_of(d, norm_words[i]), CUDNN_IS_TENSOR))
            return NOT_FINALIZED;
    if (!is_final(epsilon, CUDNN_IS_TENSOR)) return NOT_FINALIZED;
    if (!is_number(epsilon) || (!centres && mode != CUDNN_MODE_RMS) ||
        has_attribute(d, CUDNN_NORM_BIAS) != centres || has_attribute(d, CUDNN_NORM_R) != trains ||
        has_attribute(d, CUDNN_NORM_MEAN) != (trains && centres))
        return BAD_PARAM;
    n = norm_of(d);
    return cudnn_norm_fits(&n) ? 0 : NOT_SUPPORTED;
}

static int finish_attention(const struct descriptor *d)
{
    const void *scale = pointer_of(d, CUDNN_ATTENTION_SCALE);
    struct thing part[4];

    for (int i = 0; i < 4; i++) {
        const void *t = pointer_of(d, attention_words[i]);
        if (!is_final(t, CUDNN_IS_TENSOR)) return NOT_FINALIZED;
        if (is_virtual(t) || cudnn_graph_count_of(t, CUDNN_TENSOR_SHAPE) != 4) return BAD_PARAM;
        part[i] = tensor_of(t);
    }
    if (!is_final(scale, CUDNN_IS_TENSOR)) return NOT_FINALIZED;
    if (!is_number(scale)) return BAD_PARAM;
    return cudnn_attention_fits(part) ? 0 : NOT_SUPPORTED;
}

/* Whether a tensor lies as y. */
static bool is_like(const struct thing *t, const struct thing *y)
{
    return t->type == y->type && !memcmp(t->shape, y->shape, sizeof t->shape) &&
           !memcmp(t->stride, y->stride, sizeof t->stride);
}

/* The tensors in memory that a graph reads and writes, in the order of struct run, struct
 * attention or struct norm; NULL: absent.
 * false: a tensor that is added is no bias and no residual. */
static bool tensors_of(const struct descriptor *graph, const void *tensor[PARTS])
{
    void *const *of = data_of(graph, CUDNN_GRAPH_OPERATIONS);
    const int64_t n = cudnn_graph_count_of(graph, CUDNN_GRAPH_OPERATIONS);
    const struct operation *o = operation_of(of[0]);
    struct thing y, b;

    for (int i = 0; i < PARTS; i++) tensor[i] = NULL;
    if (cudnn_is_steps(graph)) {
        cudnn_steps_tensors(graph, tensor);
        return true;
    }
    if (is_norm(graph)) {
        for (int i = 0; i < NORM_PARTS; i++)
            if (has_attribute(of[0], norm_words[i])) tensor[i] = pointer_of(of[0], norm_words[i]);
        return true;
    }
    if (is_attention(graph)) {
        for (int i = 0; i < 4; i++) tensor[i] = pointer_of(of[0], attention_words[i]);
        return true;
    }
    for (int i = 0; i < 3; i++) tensor[i] = pointer_of(of[0], o->part[i]);
    if (n > 1) tensor[2] = pointer_of(of[n - 1], CUDNN_POINTWISE_Y);
    y = tensor_of(tensor[2]);
    for (int64_t i = 1; i < n; i++) {
        if (mode_of(of[i]) == CUDNN_RELU) continue;
        const void *t = pointer_of(of[i], CUDNN_POINTWISE_B);
        b = tensor_of(t);
        if (!tensor[BIAS] && cudnn_is_bias(&b, &y)) tensor[BIAS] = t;
        else if (!tensor[RESIDUAL] && is_like(&b, &y)) tensor[RESIDUAL] = t;
        else return false;
    }
    return true;
}

/* Whether the last operation of a graph is relu. */
static bool has_relu(const struct descriptor *graph)
{
    void *const *of = data_of(graph, CUDNN_GRAPH_OPERATIONS);
    int64_t n = cudnn_graph_count_of(graph, CUDNN_GRAPH_OPERATIONS);

    return n > 1 && cudnn_graph_is(of[n - 1], CUDNN_IS_POINTWISE) &&
           mode_of(of[n - 1]) == CUDNN_RELU;
}

/* Checks a graph: one product, and steps behind it, each of which reads what the operation before
 * it wrote. The last operation writes memory. relu may only be the last one. */
static int finish_graph(const struct descriptor *d)
{
    void *const *of = data_of(d, CUDNN_GRAPH_OPERATIONS);
    int64_t n = cudnn_graph_count_of(d, CUDNN_GRAPH_OPERATIONS);
    const struct operation *o = of[0] ? operation_of(of[0]) : NULL;
    const void *tensor[PARTS], *y;

    for (int64_t i = 0; i < n; i++)
        if (!of[i] || !((const struct descriptor *)of[i])->final) return NOT_FINALIZED;
    if (cudnn_is_steps(d)) return cudnn_steps_fit(d) ? 0 : NOT_SUPPORTED;
    if (is_attention(d) || is_norm(d)) {
        if (n > 1) return NOT_SUPPORTED;
        return ((const struct descriptor *)of[0])->final ? 0 : NOT_FINALIZED;
    }
    if (!o || !is_final(of[0], o->kind)) return NOT_FINALIZED;
    y = pointer_of(of[0], o->part[2]);
    if (n > 1 && o->result != 2) return NOT_SUPPORTED;
    for (int64_t i = 1; i < n; i++) {
        if (!is_final(of[i], CUDNN_IS_POINTWISE)) return NOT_FINALIZED;
        if (!is_virtual(y) || cudnn_graph_number_of(y, CUDNN_TENSOR_TYPE) != CUDNN_F32 ||
            pointer_of(of[i], CUDNN_POINTWISE_X) != y || !is_tail_step(of[i]) ||
            (i + 1 < n && mode_of(of[i]) == CUDNN_RELU))
            return NOT_SUPPORTED;
        y = pointer_of(of[i], CUDNN_POINTWISE_Y);
    }
    return !is_virtual(y) && tensors_of(d, tensor) ? 0 : NOT_SUPPORTED;
}

static bool is_handle(const void *p)
{
    return p && ((const struct thing *)p)->kind == HANDLE;
}

/* ---- engine configurations of a graph ---- */

/* The notes of an engine, and the requirements of its plans. bad: a plan can only be finalized
 * where it adds in f16. loses_nan: the heuristic lists the engine for graphs with relu only, where
 * it makes NaN 0. */
static const struct way {
    int notes, note[NOTES];
    int64_t workspace;
    bool bad, wants_alignment, works, loses_nan;
} ways[WAYS] = {
    {1, {CUDNN_NOTE_TENSOR_CORE}, 0, false, false, true, true},
    {2, {CUDNN_NOTE_TENSOR_CORE, CUDNN_NOTE_WINOGRAD}, 0, false, false, false, false},
    {2, {CUDNN_NOTE_TENSOR_CORE, CUDNN_NOTE_NO_ORDER}, 0, false, false, false, false},
    {1, {CUDNN_NOTE_DOWN_CONVERT}, 0, false, false, false, false},
    {2, {CUDNN_NOTE_NARROW_SUMS, CUDNN_NOTE_TENSOR_CORE}, 0, false, false, false, false},
    {1, {CUDNN_NOTE_FFT}, 0, false, false, false, false},
    {1, {29}, 0, false, false, false, false}, /* of a future version */
    {0, {0}, 0, true, false, false, false},
    {1, {CUDNN_NOTE_TENSOR_CORE}, (INT64_C(1) << 30) + 1, false, false, false, false},
    {2, {CUDNN_NOTE_TENSOR_CORE, CUDNN_NOTE_KEEPS_NAN}, 2048, false, true, true, false},
    {1, {CUDNN_NOTE_KEEPS_NAN}, 4096, false, false, true, false},
};

/* Whether all tensors of a graph guarantee addresses that are multiples of 16. */
static bool is_aligned(const struct descriptor *graph)
{
    const void *tensor[PARTS];

    tensors_of(graph, tensor);
    for (int i = 0; i < PARTS; i++)
        if (tensor[i] && i64_of(tensor[i], CUDNN_TENSOR_ALIGNMENT, 0) % 16) return false;
    return true;
}

/* Whether the graph has an engine without notes that adds in f16: gradients of images in f16 do. */
static bool adds_in_half(const struct descriptor *graph)
{
    void *const *of = data_of(graph, CUDNN_GRAPH_OPERATIONS);
    const void *tensor[PARTS];

    tensors_of(graph, tensor);
    return cudnn_graph_is(of[0], CUDNN_IS_GRAD_INPUT) &&
           cudnn_graph_number_of(tensor[0], CUDNN_TENSOR_TYPE) == CUDNN_F16;
}

static int finish_plan(struct descriptor *d)
{
    const struct descriptor *config = pointer_of(d, CUDNN_PLAN_CONFIG);
    const struct way *way;

    if (!is_final(config, CUDNN_IS_CONFIG)) return NOT_FINALIZED;
    if (!is_handle(pointer_of(d, CUDNN_PLAN_HANDLE))) return BAD_PARAM;
    way = &ways[config->way];
    if (way->bad && !adds_in_half(config->graph)) return NOT_SUPPORTED;
    if (way->wants_alignment && !is_aligned(config->graph)) return NOT_SUPPORTED;
    d->way = config->way;
    d->graph = config->graph;
    return 0;
}

static int cudnn_graph_finish(struct descriptor *d)
{
    for (int i = 0; i < RULES; i++)
        if (rules[i].kind == d->kind && rules[i].least &&
            !cudnn_graph_value_of(d, rules[i].attribute)->n)
            return BAD_PARAM;
    switch (d->kind) {
    case CUDNN_IS_TENSOR: return tensor_is_good(d) ? 0 : BAD_PARAM;
    case CUDNN_IS_CONV: return conv_is_good(d) ? 0 : BAD_PARAM;
    case CUDNN_IS_STEP:
    case CUDNN_IS_POINTWISE:
    case CUDNN_IS_PRODUCT_TYPE:
    case CUDNN_IS_PRODUCT:
    case CUDNN_IS_REDUCTION_TYPE:
    case CUDNN_IS_REDUCTION: return cudnn_steps_finish(d);
    case CUDNN_IS_ATTENTION: return finish_attention(d);
    case CUDNN_IS_NORM: return finish_norm(d);
    case CUDNN_IS_GRAPH:
        return is_handle(pointer_of(d, CUDNN_GRAPH_HANDLE)) ? finish_graph(d) : BAD_PARAM;
    case CUDNN_IS_HEURISTIC:
        if (!is_final(pointer_of(d, CUDNN_HEURISTIC_GRAPH), CUDNN_IS_GRAPH)) return NOT_FINALIZED;
        return cudnn_graph_number_of(d, CUDNN_HEURISTIC_MODE) == CUDNN_HEURISTIC_A ? 0 : BAD_PARAM;
    case CUDNN_IS_PLAN: return finish_plan(d);
    case CUDNN_IS_PACK:
        return cudnn_graph_count_of(d, CUDNN_PACK_IDS) ==
                       cudnn_graph_count_of(d, CUDNN_PACK_ADDRESSES)
                   ? 0
                   : BAD_PARAM;
    default: return operation_of(d) ? finish_operation(d, operation_of(d)) : BAD_PARAM;
    }
}

int cudnnBackendFinalize(void *p)
{
    int code = sim_enter(SIM_CALL_cudnnBackendFinalize);
    struct descriptor *d = p;

    if (!code && (!d || d->magic != DESCRIPTOR || d->final)) code = BAD_PARAM;
    if (!code) code = cudnn_graph_finish(d);
    if (!code) d->final = true;
    return sim_leave(code);
}

/* Fills in a descriptor that the caller has created. */
static int cudnn_graph_fill(void *p, int kind, int way, struct descriptor *graph)
{
    struct descriptor *d = p;

    if (!cudnn_graph_is(d, kind) || d->final) return BAD_PARAM;
    d->final = true;
    d->way = way;
    d->graph = graph;
    return 0;
}

static int cudnn_graph_give(struct descriptor *d, int attribute, int type, int64_t requested,
                            int64_t *out_n, void *out)
{
    const struct way *way = &ways[d->way];
    void **descriptor = out;

    if (d->kind == CUDNN_IS_HEURISTIC && attribute == CUDNN_HEURISTIC_RESULTS &&
        type == CUDNN_OF_DESCRIPTORS) {
        struct descriptor *graph = pointer_of(d, CUDNN_HEURISTIC_GRAPH);
        *out_n = 0;
        for (int i = 0; i < WAYS && *out_n < requested; i++) {
            if (ways[i].loses_nan && !has_relu(graph)) continue;
            if (cudnn_graph_fill(descriptor[(*out_n)++], CUDNN_IS_CONFIG, i, graph))
                return BAD_PARAM;
        }
        return 0;
    }
    if (d->kind == CUDNN_IS_CONFIG && attribute == CUDNN_CONFIG_ENGINE &&
        type == CUDNN_OF_DESCRIPTORS && requested == 1) {
        *out_n = 1;
        return cudnn_graph_fill(*descriptor, CUDNN_IS_ENGINE, d->way, d->graph);
    }
    if (d->kind == CUDNN_IS_ENGINE && attribute == CUDNN_ENGINE_NOTES && type == CUDNN_OF_NOTES) {
        *out_n = way->notes;
        for (int i = 0; i < way->notes && i < requested; i++) ((int *)out)[i] = way->note[i];
        return 0;
    }
    if (d->kind == CUDNN_IS_PLAN && attribute == CUDNN_PLAN_WORKSPACE && type == CUDNN_OF_I64 &&
        requested == 1) {
        *out_n = 1;
        *(int64_t *)out = way->workspace;
        return 0;
    }
    return BAD_PARAM;
}

int cudnnBackendGetAttribute(void *p, int attribute, int type, int64_t requested, int64_t *out_n,
                             void *out)
{
    int code = sim_enter(SIM_CALL_cudnnBackendGetAttribute);
    struct descriptor *d = p;

    if (!code && (!d || d->magic != DESCRIPTOR)) code = BAD_PARAM;
    if (!code && !d->final) code = NOT_FINALIZED;
    return sim_leave(code ? code : cudnn_graph_give(d, attribute, type, requested, out_n, out));
}

/* ---- runs ---- */

void *cudnn_address_of(const struct descriptor *pack, const void *tensor)
{
    const int64_t n = cudnn_graph_count_of(pack, CUDNN_PACK_IDS);
    int k = 0;

    while (k < n && i64_of(pack, CUDNN_PACK_IDS, k) != i64_of(tensor, CUDNN_TENSOR_ID, 0)) k++;
    return k < n ? ((void *const *)data_of(pack, CUDNN_PACK_ADDRESSES))[k] : NULL;
}

/* Finds the addresses of a graph's operands. */
static int place_parts(const struct descriptor *graph, const struct descriptor *pack,
                       void *at[PARTS])
{
    const void *tensor[PARTS];

    tensors_of(graph, tensor);
    for (int i = 0; i < PARTS; i++) {
        if (!tensor[i]) continue;
        at[i] = cudnn_address_of(pack, tensor[i]);
        if (!at[i]) return BAD_PARAM;
        if ((uintptr_t)at[i] % (uintptr_t)i64_of(tensor[i], CUDNN_TENSOR_ALIGNMENT, 0))
            return MISALIGNED;
    }
    return 0;
}

static int start_attention(const struct thing *handle, const struct descriptor *graph,
                           const struct descriptor *pack, void *const at[PARTS])
{
    const void *operation = pointer_of(graph, CUDNN_GRAPH_OPERATIONS);
    const float *scale = cudnn_address_of(pack, pointer_of(operation, CUDNN_ATTENTION_SCALE));
    struct attention a;

    if (!scale) return BAD_PARAM;
    a.scale = *scale;
    for (int i = 0; i < 4; i++) {
        a.part[i] = tensor_of(pointer_of(operation, attention_words[i]));
        a.at[i] = at[i];
    }
    return sim_compute(handle->stream, cudnn_run_attention, &a, sizeof a);
}

static int start_norm(const struct thing *handle, const struct descriptor *graph,
                      const struct descriptor *pack, void *const at[PARTS])
{
    const struct descriptor *operation = pointer_of(graph, CUDNN_GRAPH_OPERATIONS);
    const float *epsilon = cudnn_address_of(pack, pointer_of(operation, CUDNN_NORM_EPSILON));
    struct norm n = norm_of(operation);

    if (!epsilon) return BAD_PARAM;
    n.epsilon = *epsilon;
    memcpy(n.at, at, sizeof n.at);
    return sim_compute(handle->stream, cudnn_run_norm, &n, sizeof n);
}

static int cudnn_graph_start(const struct thing *handle, const struct descriptor *plan,
                             const struct descriptor *pack)
{
    const struct way *way;
    void *at[PARTS] = {NULL};
    struct run r;
    int code;

    if (!is_handle(handle)) return BAD_PARAM;
    if (!is_final(plan, CUDNN_IS_PLAN) || !is_final(pack, CUDNN_IS_PACK)) return NOT_FINALIZED;
    way = &ways[plan->way];
    code = place_parts(plan->graph, pack, at);
    if (code) return code;
    if (!way->works || (way->workspace &&
                        !sim_reach(pointer_of(pack, CUDNN_PACK_WORKSPACE), (size_t)way->workspace)))
        return BAD_PARAM;
    if (cudnn_is_steps(plan->graph)) return cudnn_steps_start(handle, plan->graph, pack, at);
    if (is_attention(plan->graph)) return start_attention(handle, plan->graph, pack, at);
    if (is_norm(plan->graph)) return start_norm(handle, plan->graph, pack, at);
    r = product_of(pointer_of(plan->graph, CUDNN_GRAPH_OPERATIONS));
    r.relu = has_relu(plan->graph);
    r.loses_nan = way->loses_nan;
    memcpy(r.at, at, sizeof r.at);
    return sim_compute(handle->stream, cudnn_run_conv, &r, sizeof r);
}

int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_cudnnBackendExecute, &device);

    return sim_leave(code ? code : cudnn_graph_start(handle, plan, pack));
}
