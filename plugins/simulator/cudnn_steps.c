/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_steps.c: computes graphs of steps for the stand-in for cuDNN, operation by operation, in
 * double precision. The library supports two patterns: elementwise steps, and attention with the
 * steps in one order. */
#include "cudnn_graph.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RANK = 4,
    TENSORS = 32,
    INPUTS = 3
};

/* A tensor: in the device's memory (at), a number, or virtual, with its elements in `element`. */
struct steps_tensor {
    int type, rank;
    int64_t shape[RANK], stride[RANK];
    void *at;
    double number, *element;
    bool by_value;
};

/* An operation on tensors by their numbers; -1: absent. in: x or a, b, and the condition. */
struct steps_operation {
    int kind, mode, axis, in[INPUTS], y;
};

struct steps {
    struct steps_tensor tensor[TENSORS];
    struct steps_operation operation[STEPS];
    int n_tensor, n_operation;
    bool is_attention;
};

/* The attributes of the tensors of an operation: three inputs and the result; 0: none. */
static const struct steps_words {
    int kind, in[INPUTS], y, type;
} steps_words[] = {
    {CUDNN_IS_POINTWISE,
     {CUDNN_POINTWISE_X, CUDNN_POINTWISE_B, CUDNN_POINTWISE_T},
     CUDNN_POINTWISE_Y,
     CUDNN_POINTWISE_STEP},
    {CUDNN_IS_PRODUCT, {CUDNN_PRODUCT_A, CUDNN_PRODUCT_B}, CUDNN_PRODUCT_Y, CUDNN_PRODUCT_TYPE},
    {CUDNN_IS_REDUCTION, {CUDNN_REDUCTION_X}, CUDNN_REDUCTION_Y, CUDNN_REDUCTION_TYPE},
};

static const struct steps_words *words_of(const struct descriptor *d)
{
    for (int i = 0; i < 3; i++)
        if (steps_words[i].kind == d->kind) return &steps_words[i];
    return NULL;
}

bool cudnn_is_step_type(const struct descriptor *tensor)
{
    int type = cudnn_graph_number_of(tensor, CUDNN_TENSOR_TYPE);

    return (type == CUDNN_I32 || type == CUDNN_BOOL) && (is_virtual(tensor) || is_by_value(tensor));
}

/* ---- finishing descriptors ---- */

/* The number of inputs of a mode; 0: unknown, or not in this type. */
static int steps_inputs(int mode, int type)
{
    switch (mode) {
    case CUDNN_EXP:
    case CUDNN_RSQRT:
    case CUDNN_RELU:
    case CUDNN_INDEX: return type == CUDNN_F32 ? 1 : 0;
    case CUDNN_ADD:
    case CUDNN_SUBTRACT: return type == CUDNN_F32 || type == CUDNN_I32 ? 2 : 0;
    case CUDNN_MULTIPLY:
    case CUDNN_DIVIDE: return type == CUDNN_F32 ? 2 : 0;
    case CUDNN_NOT_LESS: return type == CUDNN_BOOL ? 2 : 0;
    case CUDNN_SELECT: return type == CUDNN_F32 ? 3 : 0;
    default: return 0;
    }
}

/* Whether the extents of an input are those of the result, or 1. */
static bool steps_spreads(const void *in, const void *y)
{
    const int64_t rank = cudnn_graph_count_of(y, CUDNN_TENSOR_SHAPE);

    if (cudnn_graph_count_of(in, CUDNN_TENSOR_SHAPE) != rank) return false;
    for (int64_t a = 0; a < rank; a++) {
        int64_t extent = i64_of(in, CUDNN_TENSOR_SHAPE, a);
        if (extent != 1 && extent != i64_of(y, CUDNN_TENSOR_SHAPE, a)) return false;
    }
    return true;
}

static int finish_pointwise(const struct descriptor *d, const struct steps_words *words)
{
    const void *y = pointer_of(d, CUDNN_POINTWISE_Y);
    int n = 0;

    while (n < INPUTS && has_attribute(d, words->in[n])) n++;
    if (n != steps_inputs(mode_of(d), step_type_of(d)) || (n < 3 && has_attribute(d, words->in[2])))
        return BAD_PARAM;
    for (int i = 0; i < n; i++) {
        const void *in = pointer_of(d, words->in[i]);
        if (in == y || !steps_spreads(in, y)) return BAD_PARAM;
    }
    return 0;
}

static int steps_finish_operation(const struct descriptor *d, const struct steps_words *words)
{
    const struct descriptor *type = pointer_of(d, words->type);

    if (!type || !type->final) return NOT_FINALIZED;
    for (int i = 0; i < INPUTS; i++)
        if (words->in[i] && has_attribute(d, words->in[i]) &&
            !is_final(pointer_of(d, words->in[i]), CUDNN_IS_TENSOR))
            return NOT_FINALIZED;
    if (!is_final(pointer_of(d, words->y), CUDNN_IS_TENSOR)) return NOT_FINALIZED;
    return d->kind == CUDNN_IS_POINTWISE ? finish_pointwise(d, words) : 0;
}

static int finish_step(const struct descriptor *d)
{
    const int mode = cudnn_graph_number_of(d, CUDNN_STEP_MODE);
    const bool keeps = has_attribute(d, CUDNN_STEP_NAN) &&
                       cudnn_graph_number_of(d, CUDNN_STEP_NAN) == CUDNN_KEEP_NAN;

    if (!steps_inputs(mode, cudnn_graph_number_of(d, CUDNN_STEP_TYPE)) ||
        (mode == CUDNN_RELU && !keeps))
        return NOT_SUPPORTED;
    return (mode == CUDNN_INDEX) == has_attribute(d, CUDNN_STEP_AXIS) ? 0 : BAD_PARAM;
}

int cudnn_steps_finish(const struct descriptor *d)
{
    switch (d->kind) {
    case CUDNN_IS_STEP: return finish_step(d);
    case CUDNN_IS_PRODUCT_TYPE:
        return cudnn_graph_number_of(d, CUDNN_PRODUCT_SUMS) == CUDNN_F32 ? 0 : NOT_SUPPORTED;
    case CUDNN_IS_REDUCTION_TYPE:
        return cudnn_graph_number_of(d, CUDNN_REDUCTION_SUMS) == CUDNN_F32 ? 0 : NOT_SUPPORTED;
    default: return steps_finish_operation(d, words_of(d));
    }
}

/* ---- graphs ---- */

/* A number that differs for the operations in the pattern of attention. */
static int steps_code(const struct descriptor *d)
{
    if (d->kind == CUDNN_IS_PRODUCT) return -1;
    if (d->kind == CUDNN_IS_REDUCTION)
        return -2 -
               cudnn_graph_number_of(pointer_of(d, CUDNN_REDUCTION_TYPE), CUDNN_REDUCTION_MODE);
    return step_type_of(d) * 1000 + mode_of(d);
}

bool cudnn_is_steps(const struct descriptor *graph)
{
    const struct descriptor *first = pointer_of(graph, CUDNN_GRAPH_OPERATIONS);

    return words_of(first) != NULL;
}

static bool is_half(const void *tensor)
{
    int type = cudnn_graph_number_of(tensor, CUDNN_TENSOR_TYPE);

    return type == CUDNN_F16 || type == CUDNN_BF16;
}

/* Whether the operations are those of attention in the library's order, with depths that it
 * supports and a bias of all queries and keys. */
static bool is_attention_of_steps(void *const *of, int64_t n)
{
    static const int codes[] = {-1,
                                CUDNN_MULTIPLY,
                                CUDNN_INDEX,
                                CUDNN_INDEX,
                                CUDNN_I32 * 1000 + CUDNN_ADD,
                                CUDNN_I32 * 1000 + CUDNN_SUBTRACT,
                                CUDNN_BOOL * 1000 + CUDNN_NOT_LESS,
                                CUDNN_SELECT,
                                -2 - CUDNN_REDUCE_MAX,
                                CUDNN_SUBTRACT,
                                CUDNN_EXP,
                                -2 - CUDNN_REDUCE_ADD,
                                CUDNN_DIVIDE,
                                -1};
    const int64_t length = sizeof codes / sizeof *codes, bias = n - length;
    const void *q, *k, *v, *b, *weights;

    if (bias < 0 || bias > 1 || (bias && steps_code(of[2]) != CUDNN_ADD)) return false;
    for (int64_t i = 0; i < length; i++)
        if (steps_code(of[i < 2 ? i : i + bias]) != codes[i]) return false;
    q = pointer_of(of[0], CUDNN_PRODUCT_A);
    k = pointer_of(of[0], CUDNN_PRODUCT_B);
    v = pointer_of(of[n - 1], CUDNN_PRODUCT_B);
    weights = pointer_of(of[n - 1], CUDNN_PRODUCT_A);
    b = bias ? pointer_of(of[2], CUDNN_POINTWISE_B) : NULL;
    return is_half(q) && is_half(k) && is_half(v) && is_half(weights) && is_virtual(weights) &&
           i64_of(q, CUDNN_TENSOR_SHAPE, 3) % 8 == 0 && i64_of(v, CUDNN_TENSOR_SHAPE, 3) % 8 == 0 &&
           i64_of(q, CUDNN_TENSOR_SHAPE, 3) <= 256 && i64_of(v, CUDNN_TENSOR_SHAPE, 3) <= 256 &&
           i64_of(k, CUDNN_TENSOR_STRIDE, 2) == 1 &&
           (!b || (is_half(b) && i64_of(b, CUDNN_TENSOR_STRIDE, 3) == 1 &&
                   i64_of(b, CUDNN_TENSOR_SHAPE, 2) == i64_of(q, CUDNN_TENSOR_SHAPE, 2) &&
                   i64_of(b, CUDNN_TENSOR_SHAPE, 3) == i64_of(k, CUDNN_TENSOR_SHAPE, 3)));
}

/* Whether all operations are elementwise, in f32, on tensors of three axes. */
static bool is_elementwise(void *const *of, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!is_final(of[i], CUDNN_IS_POINTWISE) || step_type_of(of[i]) != CUDNN_F32 ||
            mode_of(of[i]) == CUDNN_INDEX || mode_of(of[i]) == CUDNN_RELU ||
            cudnn_graph_count_of(pointer_of(of[i], CUDNN_POINTWISE_Y), CUDNN_TENSOR_SHAPE) != 3)
            return false;
    }
    return true;
}

/* Whether a virtual tensor is a result of the first n operations. */
static bool is_written(void *const *of, int64_t n, const void *tensor)
{
    for (int64_t i = 0; i < n; i++)
        if (pointer_of(of[i], words_of(of[i])->y) == tensor) return true;
    return false;
}

bool cudnn_steps_fit(const struct descriptor *graph)
{
    void *const *of = data_of(graph, CUDNN_GRAPH_OPERATIONS);
    const int64_t n = cudnn_graph_count_of(graph, CUDNN_GRAPH_OPERATIONS);

    for (int64_t i = 0; i < n; i++) {
        const struct steps_words *words = words_of(of[i]);
        if (!words || is_virtual(pointer_of(of[i], words->y)) != (i < n - 1)) return false;
        for (int k = 0; k < INPUTS; k++) {
            const void *in = words->in[k] && has_attribute(of[i], words->in[k])
                                 ? pointer_of(of[i], words->in[k])
                                 : NULL;
            if (in && is_virtual(in) && !is_written(of, i, in)) return false;
        }
    }
    return is_elementwise(of, n) || is_attention_of_steps(of, n);
}

/* ---- collecting tensors ---- */

/* The number of a tensor in a list, which it may extend; n: the list is full. */
static int steps_find(const void **list, int *n, int most, const void *tensor)
{
    int i = 0;

    while (i < *n && list[i] != tensor) i++;
    if (i == *n && i < most) list[(*n)++] = tensor;
    return i;
}

/* Lists all tensors of a graph. operation: filled in too; NULL: not. */
static int steps_list(const struct descriptor *graph, const void *list[TENSORS],
                      struct steps_operation *operation)
{
    void *const *of = data_of(graph, CUDNN_GRAPH_OPERATIONS);
    const int64_t n = cudnn_graph_count_of(graph, CUDNN_GRAPH_OPERATIONS);
    int found = 0;

    for (int64_t i = 0; i < n; i++) {
        const struct steps_words *words = words_of(of[i]);
        struct steps_operation made = {.kind = words->kind, .in = {-1, -1, -1}};
        for (int k = 0; k < INPUTS; k++)
            if (words->in[k] && has_attribute(of[i], words->in[k]))
                made.in[k] = steps_find(list, &found, TENSORS, pointer_of(of[i], words->in[k]));
        made.y = steps_find(list, &found, TENSORS, pointer_of(of[i], words->y));
        if (words->kind == CUDNN_IS_POINTWISE) made.mode = mode_of(of[i]);
        if (words->kind == CUDNN_IS_REDUCTION)
            made.mode = cudnn_graph_number_of(pointer_of(of[i], words->type), CUDNN_REDUCTION_MODE);
        if (made.mode == CUDNN_INDEX && words->kind == CUDNN_IS_POINTWISE)
            made.axis = (int)i64_of(pointer_of(of[i], words->type), CUDNN_STEP_AXIS, 0);
        if (operation) operation[i] = made;
    }
    return found;
}

void cudnn_steps_tensors(const struct descriptor *graph, const void *tensor[PARTS])
{
    const void *list[TENSORS];
    int n = steps_list(graph, list, NULL), found = 0;

    for (int i = 0; i < n && found < PARTS; i++)
        if (!is_virtual(list[i]) && !is_by_value(list[i])) tensor[found++] = list[i];
}

static struct steps_tensor steps_tensor_of(const void *tensor)
{
    struct steps_tensor t = {.type = cudnn_graph_number_of(tensor, CUDNN_TENSOR_TYPE),
                             .rank = (int)cudnn_graph_count_of(tensor, CUDNN_TENSOR_SHAPE),
                             .by_value = is_by_value(tensor)};

    for (int a = 0; a < RANK; a++) {
        t.shape[a] = a < t.rank ? i64_of(tensor, CUDNN_TENSOR_SHAPE, a) : 1;
        t.stride[a] = a < t.rank ? i64_of(tensor, CUDNN_TENSOR_STRIDE, a) : 0;
    }
    return t;
}

static int steps_run(void *steps, int code);

int cudnn_steps_start(const struct thing *handle, const struct descriptor *graph,
                      const struct descriptor *pack, void *const at[PARTS])
{
    const void *list[TENSORS];
    struct steps s = {.n_operation = (int)cudnn_graph_count_of(graph, CUDNN_GRAPH_OPERATIONS)};

    s.n_tensor = steps_list(graph, list, s.operation);
    s.is_attention = s.operation[0].kind == CUDNN_IS_PRODUCT;
    for (int i = 0, part = 0; i < s.n_tensor; i++) {
        struct steps_tensor *t = &s.tensor[i];
        *t = steps_tensor_of(list[i]);
        if (t->by_value) {
            const void *number = cudnn_address_of(pack, list[i]);
            if (!number) return BAD_PARAM;
            t->number = t->type == CUDNN_I32 ? *(const int32_t *)number
                                             : (double)*(const float *)number;
        } else if (!is_virtual(list[i])) {
            t->at = at[part++];
        }
    }
    return sim_compute(handle->stream, steps_run, &s, sizeof s);
}

/* ---- computing ---- */

/* The place of an element; index: of the result. */
static int64_t steps_place(const struct steps_tensor *t, const int64_t index[RANK])
{
    int64_t place = 0;

    for (int a = 0; a < RANK; a++) place += (t->shape[a] == 1 ? 0 : index[a]) * t->stride[a];
    return place;
}

static double steps_get(const struct steps_tensor *t, const int64_t index[RANK])
{
    if (t->by_value) return t->number;
    if (t->element) return t->element[steps_place(t, index)];
    return sim_get(cudnn_type_of(t->type), t->at, steps_place(t, index));
}

/* The weights of attention, a virtual tensor, are not rounded to the half type, as the library's
 * are. */
static void steps_put(struct steps_tensor *t, const int64_t index[RANK], double value)
{
    if (t->element) t->element[steps_place(t, index)] = value;
    else sim_put(cudnn_type_of(t->type), t->at, steps_place(t, index), value);
}

/* Of a query whose keys are all hidden the library makes weights of 0. */
static double steps_pointwise(const struct steps *s, const struct steps_operation *o,
                              const int64_t index[RANK])
{
    double v[INPUTS] = {0};

    if (o->mode == CUDNN_INDEX) return (double)index[o->axis];
    for (int i = 0; i < INPUTS && o->in[i] >= 0; i++) v[i] = steps_get(&s->tensor[o->in[i]], index);
    switch (o->mode) {
    case CUDNN_ADD: return v[0] + v[1];
    case CUDNN_MULTIPLY: return v[0] * v[1];
    case CUDNN_SUBTRACT:
        return s->is_attention && v[1] == -INFINITY && v[0] == v[1] ? v[0] : v[0] - v[1];
    case CUDNN_DIVIDE: return s->is_attention && v[1] == 0 ? 0 : v[0] / v[1];
    case CUDNN_EXP: return exp(v[0]);
    case CUDNN_RSQRT: return 1 / sqrt(v[0]);
    case CUDNN_NOT_LESS: return v[0] >= v[1];
    default: return v[2] != 0 ? v[0] : v[1]; /* CUDNN_SELECT */
    }
}

/* The sum or the largest element of a row, or NaN. */
static double steps_reduce(const struct steps_tensor *x, int mode, const int64_t index[RANK])
{
    int64_t at[RANK] = {index[0], index[1], index[2], 0};
    double most = -INFINITY, sum = 0;

    for (; at[3] < x->shape[3]; at[3]++) {
        double v = steps_get(x, at);
        sum += v;
        most = v > most || isnan(v) ? v : most;
    }
    return mode == CUDNN_REDUCE_ADD ? sum : most;
}

/* Heads of b may be fewer than those of a: neighbours share one. */
static double steps_product(const struct steps_tensor *a, const struct steps_tensor *b,
                            const int64_t index[RANK])
{
    int64_t left[RANK] = {index[0], index[1], index[2], 0};
    int64_t right[RANK] = {index[0], index[1] / (a->shape[1] / b->shape[1]), 0, index[3]};
    double sum = 0;

    for (; left[3] < a->shape[3]; left[3]++, right[2]++)
        sum += steps_get(a, left) * steps_get(b, right);
    return sum;
}

static void steps_compute(struct steps *s, const struct steps_operation *o)
{
    struct steps_tensor *y = &s->tensor[o->y];
    const struct steps_tensor *x = &s->tensor[o->in[0]];
    const int64_t *shape = y->shape;

    for (int64_t i = 0; i < shape[0] * shape[1] * shape[2] * shape[3]; i++) {
        const int64_t index[RANK] = {i / shape[3] / shape[2] / shape[1],
                                     i / shape[3] / shape[2] % shape[1], i / shape[3] % shape[2],
                                     i % shape[3]};
        double value = o->kind == CUDNN_IS_PRODUCT ? steps_product(x, &s->tensor[o->in[1]], index)
                       : o->kind == CUDNN_IS_REDUCTION ? steps_reduce(x, o->mode, index)
                                                       : steps_pointwise(s, o, index);
        steps_put(y, index, value);
    }
}

/* The number of elements from a tensor's first one to its last one. */
static int64_t steps_extent(const struct steps_tensor *t)
{
    int64_t n = 1;

    for (int a = 0; a < RANK; a++) n += (t->shape[a] - 1) * t->stride[a];
    return n;
}

static int steps_reach(struct steps *s)
{
    for (int i = 0; i < s->n_tensor; i++) {
        struct steps_tensor *t = &s->tensor[i];
        const size_t n = (size_t)steps_extent(t);
        if (t->by_value) continue;
        if (t->at) t->at = sim_reach(t->at, n * sim_size(cudnn_type_of(t->type)));
        else t->element = calloc(n, sizeof *t->element);
        if (!t->at && !t->element) return SIM_ILLEGAL_ADDRESS;
    }
    return 0;
}

static int steps_run(void *p, int code)
{
    struct steps *s = p;

    if (!code) code = sim_doomed(SIM_CALL_work);
    if (!code) code = steps_reach(s);
    if (!code) {
        pthread_mutex_unlock(&sim.lock);
        for (int i = 0; i < s->n_operation; i++) steps_compute(s, &s->operation[i]);
        pthread_mutex_lock(&sim.lock);
    }
    for (int i = 0; i < s->n_tensor; i++) {
        free(s->tensor[i].element);
        s->tensor[i].element = NULL;
    }
    return code;
}
