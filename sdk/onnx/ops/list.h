/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: declares helpers that cut values into parts and join values. A call is recorded only
 * where an operand is symbolic, so values that depend on weights alone are known when a graph is
 * recorded. */
#ifndef BP_ONNX_LIST_H
#define BP_ONNX_LIST_H

#include "../ops.h"

/* A growing list of references to values. */
struct onnx_list {
    struct onnx_value **at;
    size_t n;
};
/* Appends value, and takes over the caller's reference, also when it fails. NULL: a gap. */
enum bp_status onnx_list_add(struct onnx_list *list, struct onnx_value *value);
void onnx_list_finish(struct onnx_list *list);

/* Reads input i, which must be a tensor. */
enum bp_status onnx_expect(const struct onnx_call *c, uint32_t i, struct onnx_value **out);
/* Checks an axis and makes it non-negative: a negative axis counts from the end. */
enum bp_status onnx_axis(int64_t axis, int64_t rank, int64_t *out);

/* The scope for a call: the graph if an operand is symbolic, otherwise the stream. */
struct bp_scope *onnx_scope_of(const struct onnx_call *c, bool symbolic);

/* Elements begin to begin + n along an axis, as a view. */
enum bp_status onnx_part(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                         int64_t begin, int64_t n, struct onnx_value **out);
/* Element `index` along an axis, without that axis, as a view. */
enum bp_status onnx_at(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                       int64_t index, struct onnx_value **out);
/* Concatenates tensors along an axis, or stacks them along a new one. */
enum bp_status onnx_join(struct onnx_call *c, struct onnx_value *const *v, size_t n, int64_t axis,
                         bool is_new, struct onnx_value **out);

/* Creates one integer, with a host copy that need not be read back. */
enum bp_status onnx_number(struct onnx_call *c, int64_t number, struct onnx_value **out);
enum bp_status onnx_give_truth(struct onnx_call *c, uint32_t i, bool truth);

#endif
