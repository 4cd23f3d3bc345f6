/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: cuts values into parts and joins values, for operators on sequences, loops and scans. */
#include "list.h"
#include <stdlib.h>

enum { JOIN_MAX = 128 }; /* most tensors that one call joins */

enum bp_status onnx_list_add(struct onnx_list *list, struct onnx_value *value)
{
    if (!(list->n & (list->n - 1))) {
        size_t room = list->n ? 2 * list->n : 1;
        struct onnx_value **grown = realloc(list->at, room * sizeof *grown);
        if (!grown) {
            onnx_value_release(value);
            return onnx_no_memory();
        }
        list->at = grown;
    }
    list->at[list->n++] = value;
    return BP_OK;
}

void onnx_list_finish(struct onnx_list *list)
{
    for (size_t i = 0; i < list->n; i++) onnx_value_release(list->at[i]);
    free(list->at);
    *list = (struct onnx_list){NULL, 0};
}

enum bp_status onnx_expect(const struct onnx_call *c, uint32_t i, struct onnx_value **out)
{
    struct onnx_value *v = onnx_in_value(c, i);

    if (v && v->kind == BP_MODEL_OPTIONAL && v->n_item) v = v->item[0];
    if (!v || !v->tensor) return onnx_error(BP_ERR_INVALID, "input %u: a tensor is expected", i);
    *out = v;
    return BP_OK;
}

enum bp_status onnx_axis(int64_t axis, int64_t rank, int64_t *out)
{
    if (axis < -rank || axis >= rank)
        return onnx_error(BP_ERR_INVALID, "axis is %lld, there are %lld", (long long)axis,
                          (long long)rank);
    *out = axis < 0 ? axis + rank : axis;
    return BP_OK;
}

struct bp_scope *onnx_scope_of(const struct onnx_call *c, bool symbolic)
{
    return symbolic ? bp_graph_scope(c->run->graph) : bp_stream_scope(c->run->stream);
}

enum bp_status onnx_part(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                         int64_t begin, int64_t n, struct onnx_value **out)
{
    struct bp_slice_attrs attrs = bp_slice_defaults();
    int64_t end = begin + n;
    struct bp_tensor *y = NULL;

    attrs.starts = (struct bp_dims){&begin, 1};
    attrs.ends = (struct bp_dims){&end, 1};
    attrs.axes = (struct bp_dims){&axis, 1};
    TRY(bp_op_slice(onnx_scope_of(c, v->symbolic), v->tensor, NULL, NULL, NULL, NULL, &attrs, &y));
    return onnx_value_tensor(c->run, y, v->symbolic, out);
}

enum bp_status onnx_at(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                       int64_t index, struct onnx_value **out)
{
    struct bp_squeeze_attrs attrs = bp_squeeze_defaults();
    struct onnx_value *part;
    struct bp_tensor *y = NULL;
    enum bp_status status;

    TRY(onnx_part(c, v, axis, index, 1, &part));
    attrs.axes = (struct bp_dims){&axis, 1};
    status = bp_op_squeeze(onnx_scope_of(c, v->symbolic), part->tensor, NULL, &attrs, &y);
    onnx_value_release(part);
    return status ? status : onnx_value_tensor(c->run, y, v->symbolic, out);
}

static enum bp_status add_axis(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                               struct onnx_value **out)
{
    struct bp_unsqueeze_attrs attrs = bp_unsqueeze_defaults();
    struct bp_tensor *y = NULL;

    attrs.axes = (struct bp_dims){&axis, 1};
    TRY(bp_op_unsqueeze(onnx_scope_of(c, v->symbolic), v->tensor, NULL, &attrs, &y));
    return onnx_value_tensor(c->run, y, v->symbolic, out);
}

/* Joins at most JOIN_MAX tensors. */
static enum bp_status join_some(struct onnx_call *c, struct onnx_value *const *v, size_t n,
                                int64_t axis, bool is_new, struct onnx_value **out)
{
    struct bp_concat_attrs concat = bp_concat_defaults();
    struct bp_stack_attrs stack = bp_stack_defaults();
    struct bp_tensor *x[JOIN_MAX], *y = NULL;
    bool symbolic = false;

    for (size_t i = 0; i < n; i++) {
        x[i] = v[i]->tensor;
        symbolic |= v[i]->symbolic;
    }
    concat.axis = stack.axis = axis;
    TRY(is_new ? bp_op_stack(onnx_scope_of(c, symbolic), x, n, &stack, &y)
               : bp_op_concat(onnx_scope_of(c, symbolic), x, n, &concat, &y));
    return onnx_value_tensor(c->run, y, symbolic, out);
}

/* Joins tensors in groups, and the groups again, until one tensor is left. */
static enum bp_status join_groups(struct onnx_call *c, struct onnx_value *const *v, size_t n,
                                  int64_t axis, bool is_new, struct onnx_value **out)
{
    struct onnx_list group = {NULL, 0};
    enum bp_status status = BP_OK;

    for (size_t i = 0; i < n && status == BP_OK; i += JOIN_MAX) {
        struct onnx_value *joined;
        status = join_some(c, v + i, n - i < JOIN_MAX ? n - i : JOIN_MAX, axis, is_new, &joined);
        if (status == BP_OK) status = onnx_list_add(&group, joined);
    }
    if (status == BP_OK && group.n > JOIN_MAX)
        status = join_groups(c, group.at, group.n, axis, false, out);
    else if (status == BP_OK) status = join_some(c, group.at, group.n, axis, false, out);
    onnx_list_finish(&group);
    return status;
}

enum bp_status onnx_join(struct onnx_call *c, struct onnx_value *const *v, size_t n, int64_t axis,
                         bool is_new, struct onnx_value **out)
{
    int64_t rank;

    if (!n) return onnx_error(BP_ERR_INVALID, "at least one tensor is expected");
    for (size_t i = 0; i < n; i++)
        if (!v[i] || v[i]->kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_INVALID, "value %zu of %zu is no tensor", i, n);
    rank = (int64_t)onnx_info(v[0]->tensor).rank + is_new;
    TRY(onnx_axis(axis, rank, &axis));
    if (n == 1 && is_new) return add_axis(c, v[0], axis, out);
    if (n == 1) {
        *out = onnx_value_retain(v[0]);
        return BP_OK;
    }
    return n > JOIN_MAX ? join_groups(c, v, n, axis, is_new, out)
                        : join_some(c, v, n, axis, is_new, out);
}

enum bp_status onnx_number(struct onnx_call *c, int64_t number, struct onnx_value **out)
{
    struct bp_tensor *t;

    TRY(onnx_constant_ints(c, 0, NULL, &number, &t));
    TRY(onnx_value_tensor(c->run, t, false, out));
    (*out)->number = malloc(sizeof number);
    if ((*out)->number) *(*out)->number = number;
    return BP_OK;
}

enum bp_status onnx_give_truth(struct onnx_call *c, uint32_t i, bool truth)
{
    uint8_t byte = truth;
    struct bp_tensor *t;

    TRY(onnx_constant(c, BP_BOOL, 0, NULL, &byte, &t));
    c->symbolic = false;
    return onnx_give(c, i, t);
}
