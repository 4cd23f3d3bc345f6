/* SPDX-License-Identifier: Apache-2.0 */
/* row.h: the table from ONNX operators to Backplane's, and what those rows use that are more than a
 * change of names. */
#ifndef BP_ONNX_ROW_H
#define BP_ONNX_ROW_H

#include "onnx.h"
#include <stdio.h>

/* A node while it is run or recorded. */
struct onnx_call {
    struct onnx_run *run;
    const struct onnx_node *node;
    struct bp_scope *scope;         /* of the graph, or of the stream */
    bool symbolic;                  /* it is recorded */
    struct onnx_value **out;        /* node->n_out, to be set */
};

typedef enum bp_status onnx_emit(struct onnx_call *c);

/* One operator from one opset on. map: words that say where the attributes of op come from, in a
 * node of ONNX:
 *
 *   name           the attribute of this name
 *   name>attr      the attribute name gives attr
 *   name>attr=v    likewise, and v where the node has none
 *   >attr=v        always v
 *   @1>attr        the value of input 1, where it is given; it is no tensor of op then
 *
 * The other inputs are those of op, in order, and so are outputs. emit: NULL, or what does all of
 * it; op is then the operator that it makes first, for the table of docs/onnx.md. */
struct onnx_row {
    const char *name;
    int since;
    const char *op, *map;
    onnx_emit *emit;
};

/* table.c: the row of a node; NULL: none. */
const struct onnx_row *onnx_row_find(const char *domain, const char *name, int64_t opset);
const struct onnx_row *onnx_rows(size_t *out_n);

/* signature.c: whether none of the attributes before number i has its name. */
enum bp_status onnx_check_once(const struct onnx_node *node, size_t i);

/* signature.c: whether a node has what nodes of its operator may have. The type of an attribute,
 * for messages too: "int", "floats". */
enum bp_status onnx_check_node(const struct onnx_node *node);
const char *onnx_attr_type(const Onnx__AttributeProto *a);

/* unsupported.c: the same, of forms of the operator that are not supported. And the dtypes that an
 * operator of the table may have as its input number input, where these are fewer than tensors
 * have; else UINT64_MAX. */
enum bp_status onnx_check_supported(const struct onnx_node *node);
uint64_t onnx_held_types(const char *op, size_t input);

/* walk.c: whether a row draws random numbers: it is run anew each time. */
bool onnx_is_random(const struct onnx_row *row);

/* emit.c: a row that is a change of names. */
onnx_emit onnx_emit_map;

/* The operator DOMAIN.NAME of a plugin: inputs, outputs and attributes as they are. */
onnx_emit onnx_emit_custom;

/* Inputs: the tensor, or NULL where it is absent or no tensor. */
struct bp_tensor *onnx_in(const struct onnx_call *c, uint32_t i);
struct onnx_value *onnx_in_value(const struct onnx_call *c, uint32_t i);
bool onnx_wants(const struct onnx_call *c, uint32_t i);
/* Inputs 0 to n - 1 have to be tensors. */
enum bp_status onnx_need(const struct onnx_call *c, uint32_t n);

/* Sets output i, whose reference it takes (status: of the call that made it; what failed is not
 * touched). */
enum bp_status onnx_give(struct onnx_call *c, uint32_t i, struct bp_tensor *tensor);
enum bp_status onnx_give_value(struct onnx_call *c, uint32_t i, struct onnx_value *value);

/* Attributes of the node, or of its caller where it refers to one. */
const Onnx__AttributeProto *onnx_attr(const struct onnx_node *node, const char *name);
int64_t onnx_attr_int(const struct onnx_call *c, const char *name, int64_t otherwise);
double onnx_attr_float(const struct onnx_call *c, const char *name, double otherwise);
/* Whether an attribute of text is this one; where the node has none: whether otherwise is. */
bool onnx_attr_is(const struct onnx_call *c, const char *name, const char *text,
                  const char *otherwise);

/* The dtype that an attribute says; otherwise where the node has none, or it is UNDEFINED.
 * BP_ERR_UNSUPPORTED: an element type that is no dtype here. */
enum bp_status onnx_attr_dtype(const struct onnx_call *c, const char *name, uint32_t otherwise,
                               uint32_t *out);

/* A list of integers: an attribute's, or an input's that the host reads. n is -1 if there is none.
 * BP_ERR_UNSUPPORTED: the input is symbolic, or not of integers. The numbers live as long as the
 * node or the value. */
struct onnx_ints {
    const int64_t *at;
    int64_t n;
};
struct onnx_ints onnx_attr_ints(const struct onnx_call *c, const char *name);
enum bp_status onnx_in_ints(struct onnx_call *c, uint32_t i, struct onnx_ints *out);
enum bp_status onnx_in_float(struct onnx_call *c, uint32_t i, double otherwise, double *out);
/* The one number of an input of integers or floats, toward zero. */
enum bp_status onnx_in_whole(struct onnx_call *c, uint32_t i, int64_t *out);
/* Up to room numbers of input i; out_n: how many it has, -1 if there is none. */
enum bp_status onnx_in_reals(struct onnx_call *c, uint32_t i, int64_t room, double *out,
                             int64_t *out_n);
/* The same as onnx_in_ints of a value that is no input, but stands for input i. */
enum bp_status onnx_value_ints(struct onnx_call *c, uint32_t i, struct onnx_value *v,
                               struct onnx_ints *out);
/* The attribute name, up to the opset before since; from it on input i. */
enum bp_status onnx_ints_of(struct onnx_call *c, const char *name, int since, uint32_t i,
                            struct onnx_ints *out);
struct bp_dims onnx_dims(struct onnx_ints ints);

/* What a tensor is: rank, shape, dtype. */
struct bp_tensor_info onnx_info(struct bp_tensor *tensor);

/* The extents of x as a matrix: its axes from axis on, which may be one past the last, are the
 * columns. */
enum bp_status onnx_as_matrix(struct bp_tensor *x, int64_t axis, int64_t out_extent[2]);

/* Notes that the host does what the node is for: nobody who watches calls sees it. */
void onnx_by_host(const struct onnx_call *c);

/* A tensor of numbers on the model's device, for calls beside symbolic ones. */
enum bp_status onnx_constant(struct onnx_call *c, uint32_t dtype, uint32_t rank,
                             const int64_t *shape, const void *data, struct bp_tensor **out);
enum bp_status onnx_constant_ints(struct onnx_call *c, uint32_t rank, const int64_t *shape,
                                  const int64_t *at, struct bp_tensor **out);

#endif
