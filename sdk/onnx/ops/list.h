/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: values that are cut from others and put together of others. Each call is recorded only
 * where what it reads is symbolic: what follows from weights is then known when a graph is made. */
#ifndef BP_ONNX_LIST_H
#define BP_ONNX_LIST_H

#include "../ops.h"

/* References to values, as many as come. */
struct onnx_list {
    struct onnx_value **at;
    size_t n;
};
/* Takes the reference, also when it fails. NULL: a gap. */
enum bp_status onnx_list_add(struct onnx_list *list, struct onnx_value *value);
void onnx_list_finish(struct onnx_list *list);

/* Input i where it has to be a tensor. */
enum bp_status onnx_expect(const struct onnx_call *c, uint32_t i, struct onnx_value **out);
/* An axis that counts from the end where it is negative. */
enum bp_status onnx_axis(int64_t axis, int64_t rank, int64_t *out);

/* Where a call of what is symbolic, or is not, goes. */
struct bp_scope *onnx_scope_of(const struct onnx_call *c, bool symbolic);

/* Elements begin to begin + n along an axis: a view. */
enum bp_status onnx_part(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                         int64_t begin, int64_t n, struct onnx_value **out);
/* Element index along an axis, without that axis: a view. */
enum bp_status onnx_at(struct onnx_call *c, const struct onnx_value *v, int64_t axis,
                       int64_t index, struct onnx_value **out);
/* Tensors one after the other along an axis, or along a new one. */
enum bp_status onnx_join(struct onnx_call *c, struct onnx_value *const *v, size_t n, int64_t axis,
                         bool is_new, struct onnx_value **out);

/* One integer, which the host need not read again. */
enum bp_status onnx_number(struct onnx_call *c, int64_t number, struct onnx_value **out);
enum bp_status onnx_give_truth(struct onnx_call *c, uint32_t i, bool truth);

#endif
