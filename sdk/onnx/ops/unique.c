/* SPDX-License-Identifier: Apache-2.0 */
/* unique.c: finds the different values, or slices, of a tensor. The device numbers the elements:
 * equal elements have equal numbers, larger ones larger numbers. The host sorts slices by these
 * numbers. */
#include "../chain.h"
#include "list.h"
#include <stdlib.h>
#include <string.h>

/* One of n slices of x along an axis, as `width` numbers. */
struct slice {
    const int64_t *at;
    int64_t width, leader; /* leader: the slice's index along the axis */
};

/* A group of equal slices: the first index and the number of slices. */
struct group {
    int64_t first, count;
};

struct slices {
    struct slice *slice;
    struct group *group;
    int64_t *number, *list, n, n_group;
};

static int by_content(const void *a, const void *b)
{
    const struct slice *x = a, *y = b;

    for (int64_t i = 0; i < x->width; i++)
        if (x->at[i] != y->at[i]) return x->at[i] < y->at[i] ? -1 : 1;
    return (x->leader > y->leader) - (x->leader < y->leader);
}

static int by_first(const void *a, const void *b)
{
    const struct group *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

static bool is_equal(const struct slice *a, const struct slice *b)
{
    return !memcmp(a->at, b->at, (size_t)a->width * sizeof *a->at);
}

/* Groups equal slices, in ascending order of content, or of their first slices. Sets number[i] to
 * the group of slice i. */
static void find_groups(struct slices *s, bool sorted)
{
    struct slice *slice = s->slice;

    qsort(slice, (size_t)s->n, sizeof *slice, by_content);
    for (int64_t i = 0; i < s->n; i++) {
        if (!i || !is_equal(&slice[i], &slice[i - 1]))
            s->group[s->n_group++] = (struct group){slice[i].leader, 0};
        s->group[s->n_group - 1].count++;
        s->list[slice[i].leader] = s->group[s->n_group - 1].first;
    }
    if (!sorted) qsort(s->group, (size_t)s->n_group, sizeof *s->group, by_first);
    for (int64_t g = 0; g < s->n_group; g++) s->number[s->group[g].first] = g;
    for (int64_t i = 0; i < s->n; i++) s->list[i] = s->number[s->list[i]];
    memcpy(s->number, s->list, (size_t)s->n * sizeof *s->number);
}

static struct bp_tensor *put_list(struct onnx_chain *k, int64_t n, const int64_t *at)
{
    struct bp_tensor *t = NULL;

    if (k->status == BP_OK) k->status = onnx_constant_ints(k->call, 1, &n, at, &t);
    return onnx_chain_take(k, t);
}

/* Sets the outputs: the first slice of each group along axis, its index, the group of each slice,
 * and the size of each group. */
static void give_groups(struct onnx_chain *k, struct bp_tensor *x, int64_t axis, struct slices *s)
{
    struct bp_index_select_attrs attrs = bp_index_select_defaults();
    struct bp_tensor *index;

    attrs.axis = axis;
    for (int64_t g = 0; g < s->n_group; g++) s->list[g] = s->group[g].first;
    index = put_list(k, s->n_group, s->list);
    onnx_chain_give(k, 0, MAKE(k, index_select, &attrs, x, index));
    onnx_chain_give(k, 1, index);
    onnx_chain_give(k, 2, put_list(k, s->n, s->number));
    for (int64_t g = 0; g < s->n_group; g++) s->list[g] = s->group[g].count;
    onnx_chain_give(k, 3, put_list(k, s->n_group, s->list));
}

/* Reads the number of each element to the host, slice after slice. */
static int64_t *read_numbers(struct onnx_chain *k, struct bp_tensor *x, int64_t axis)
{
    struct bp_transpose_attrs turn = bp_transpose_defaults();
    struct bp_tensor_info info = onnx_info(x);
    int64_t perm[ONNX_RANK_MAX] = {axis};
    int64_t *number = malloc((size_t)info.count * sizeof *number + 8);
    struct bp_tensor *y = NULL, *inverse = NULL;

    for (int64_t i = 0, n = 1; i < (int64_t)info.rank; i++)
        if (i != axis) perm[n++] = i;
    if (!number) k->status = onnx_no_memory();
    if (k->status || !info.count) return number;
    turn.perm = (struct bp_dims){perm, info.rank};
    x = MAKE(k, transpose, &turn, x);
    if (info.dtype == BP_BOOL) x = onnx_chain_cast(k, x, BP_U8);
    if (k->status == BP_OK)
        k->status = bp_op_unique(k->call->scope, x, &y, NULL, &inverse, NULL);
    if (k->status == BP_OK)
        k->status = bp_tensor_read(k->call->run->stream, inverse, number,
                                   (size_t)info.count * sizeof *number);
    bp_tensor_destroy(y);
    bp_tensor_destroy(inverse);
    return number;
}

static enum bp_status by_slices(struct onnx_call *c, struct bp_tensor *x, int64_t axis,
                                bool sorted)
{
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info info = onnx_info(x);
    int64_t n = info.shape[axis], width = n ? info.count / n : 0;
    struct slices s = {.slice = calloc((size_t)n + 1, sizeof *s.slice),
                       .group = calloc((size_t)n + 1, sizeof *s.group),
                       .number = calloc((size_t)n + 1, sizeof *s.number),
                       .list = calloc((size_t)n + 1, sizeof *s.list), .n = n};
    int64_t *number = read_numbers(&k, x, axis);

    if (!s.slice || !s.group || !s.number || !s.list) k.status = onnx_no_memory();
    if (k.status == BP_OK) {
        for (int64_t i = 0; i < n; i++)
            s.slice[i] = (struct slice){number + i * width, width, i};
        find_groups(&s, sorted);
        give_groups(&k, x, axis, &s);
    }
    free(number);
    free(s.slice);
    free(s.group);
    free(s.number);
    free(s.list);
    return onnx_chain_end(&k);
}

/* Finds the different elements in ascending order, on the device. */
static enum bp_status by_elements(struct onnx_call *c, struct bp_tensor *x)
{
    struct bp_tensor *out[4] = {NULL};

    TRY(bp_op_unique(c->scope, x, &out[0], onnx_wants(c, 1) ? &out[1] : NULL,
                     onnx_wants(c, 2) ? &out[2] : NULL, onnx_wants(c, 3) ? &out[3] : NULL));
    for (uint32_t i = 0; i < 4; i++)
        if (out[i]) TRY(onnx_give(c, i, out[i]));
    return BP_OK;
}

enum bp_status onnx_unique(struct onnx_call *c)
{
    const Onnx__AttributeProto *along = onnx_attr(c->node, "axis");
    bool sorted = onnx_attr_int(c, "sorted", 1) != 0;
    struct bp_reshape_attrs flat = bp_reshape_defaults();
    struct bp_tensor *x = onnx_in(c, 0), *list = NULL;
    const int64_t all_elements = -1;
    int64_t axis;
    struct bp_tensor_info info;
    enum bp_status status;

    TRY(onnx_need(c, 1));
    if (c->symbolic)
        return onnx_error(BP_ERR_UNSUPPORTED, "how many values differ depends on data");
    info = onnx_info(x);
    if (!along && sorted && info.dtype != BP_BOOL) return by_elements(c, x);
    if (along) {
        TRY(onnx_axis(along->i, info.rank, &axis));
        return by_slices(c, x, axis, sorted);
    }
    flat.shape = (struct bp_dims){&all_elements, 1};
    TRY(bp_op_reshape(c->scope, x, NULL, &flat, &list));
    status = by_slices(c, list, 0, sorted);
    bp_tensor_destroy(list);
    return status;
}
