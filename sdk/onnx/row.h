/* SPDX-License-Identifier: Apache-2.0 */
/* row.h: declares the table that maps ONNX operators to Backplane's, and the functions that the
 * code of a row uses. */
#ifndef BP_ONNX_ROW_H
#define BP_ONNX_ROW_H

#include "onnx.h"
#include <stdio.h>

/* A node while it is run or recorded. */
struct onnx_call {
    struct onnx_run *run;
    const struct onnx_node *node;
    struct bp_scope *scope;         /* of the graph that records the call, or of the stream */
    bool symbolic;                  /* the call is recorded */
    struct onnx_value **out;        /* node->n_out values, which the row sets */
};

/* The 8-bit floats to which QuantizeLinear converts; powers of two are scales only. */
#define ONNX_QUANTISED_F8 (BP_MASK_F8 & ~BP_M(F8E8M0))

typedef enum bp_status onnx_emit(struct onnx_call *c);

/* One ONNX operator from one opset on. name: that of the operator, behind its domain if that is
 * com.microsoft. map: words that name the source of each attribute of op in a
 * node of ONNX:
 *
 *   name           the attribute of this name
 *   name>attr      attr has the value of the attribute name
 *   name>attr=v    likewise, and v if the node has no attribute name
 *   >attr=v        always v
 *   @1>attr        the value of input 1, if the node has it; it is then no tensor input of op
 *
 * The other inputs are those of op, in order, and so are outputs. emit: NULL, or a function that
 * does the whole node; op is then the operator that it calls first, for the table of
 * docs/onnx.md. */
struct onnx_row {
    const char *name;
    int since;
    const char *op, *map;
    onnx_emit *emit;
};

/* table.c: finds the row of a node; NULL: no row. Rows of the domain com.microsoft have names
 * com.microsoft.NAME; its operators have one version. */
const struct onnx_row *onnx_row_find(const char *domain, const char *name, int64_t opset);
const struct onnx_row *onnx_rows(size_t *out_n);

/* signature.c: checks that no attribute before number i has the name of attribute i. */
enum bp_status onnx_check_once(const struct onnx_node *node, size_t i);

/* signature.c: onnx_check_node checks a node's inputs and attributes against the signature of its
 * operator. onnx_attr_type returns the type of an attribute, also for messages: "int", "floats". */
enum bp_status onnx_check_node(const struct onnx_node *node);
const char *onnx_attr_type(const Onnx__AttributeProto *a);

/* unsupported.c: onnx_check_supported checks that the node has no form of its operator that this
 * library does not support. onnx_held_types returns the dtypes that input number input of an
 * operator of the table may have, if these are fewer than tensors may have; otherwise
 * UINT64_MAX. */
enum bp_status onnx_check_supported(const struct onnx_node *node);
uint64_t onnx_held_types(const char *op, size_t input);

/* walk.c: tests whether a row draws random numbers; its node is then run in each run. */
bool onnx_is_random(const struct onnx_row *row);

/* emit.c: executes a row that only maps names. */
onnx_emit onnx_emit_map;

/* Executes the operator DOMAIN.NAME of a plugin: passes inputs, outputs and attributes
 * unchanged. */
onnx_emit onnx_emit_custom;

/* onnx_in returns the tensor of input i, or NULL if the input is absent or no tensor. onnx_wants
 * tests whether the node names output i. */
struct bp_tensor *onnx_in(const struct onnx_call *c, uint32_t i);
struct onnx_value *onnx_in_value(const struct onnx_call *c, uint32_t i);
bool onnx_wants(const struct onnx_call *c, uint32_t i);
/* Fails unless inputs 0 to n - 1 are tensors. */
enum bp_status onnx_need(const struct onnx_call *c, uint32_t n);

/* Sets output i, and takes over the caller's reference. To be called only after the call that
 * created the tensor has succeeded. */
enum bp_status onnx_give(struct onnx_call *c, uint32_t i, struct bp_tensor *tensor);
enum bp_status onnx_give_value(struct onnx_call *c, uint32_t i, struct onnx_value *value);

/* Finds an attribute of the node. If it refers to an attribute of the enclosing function, returns
 * that of the function's call. */
const Onnx__AttributeProto *onnx_attr(const struct onnx_node *node, const char *name);
int64_t onnx_attr_int(const struct onnx_call *c, const char *name, int64_t otherwise);
double onnx_attr_float(const struct onnx_call *c, const char *name, double otherwise);
/* Compares an attribute of text with `text`. If the node has no such attribute, compares the text
 * `otherwise`. */
bool onnx_attr_is(const struct onnx_call *c, const char *name, const char *text,
                  const char *otherwise);

/* Reads the dtype that an attribute names; it is `otherwise` if the node lacks the attribute, or
 * its value is UNDEFINED. BP_ERR_UNSUPPORTED: the element type is no dtype of Backplane. */
enum bp_status onnx_attr_dtype(const struct onnx_call *c, const char *name, uint32_t otherwise,
                               uint32_t *out);

/* A list of integers: of an attribute, or of an input that the host reads. n is -1 if it is absent.
 * BP_ERR_UNSUPPORTED: the input is symbolic, or not of integers. The numbers are valid as long as
 * the node or the value. */
struct onnx_ints {
    const int64_t *at;
    int64_t n;
};
struct onnx_ints onnx_attr_ints(const struct onnx_call *c, const char *name);
enum bp_status onnx_in_ints(struct onnx_call *c, uint32_t i, struct onnx_ints *out);
enum bp_status onnx_in_float(struct onnx_call *c, uint32_t i, double otherwise, double *out);
/* Reads an input that is one integer or float, rounded toward zero. */
enum bp_status onnx_in_whole(struct onnx_call *c, uint32_t i, int64_t *out);
/* Reads up to room numbers of input i. out_n: the number of elements of the input, -1 if it is
 * absent. */
enum bp_status onnx_in_reals(struct onnx_call *c, uint32_t i, int64_t room, double *out,
                             int64_t *out_n);
/* As onnx_in_ints, for a value that is no input; messages name it as input i. */
enum bp_status onnx_value_ints(struct onnx_call *c, uint32_t i, struct onnx_value *v,
                               struct onnx_ints *out);
/* Reads a list that is the attribute `name` in opsets before since, and input i from since on. */
enum bp_status onnx_ints_of(struct onnx_call *c, const char *name, int since, uint32_t i,
                            struct onnx_ints *out);
struct bp_dims onnx_dims(struct onnx_ints ints);

/* The rank, shape, dtype and other properties of a tensor. */
struct bp_tensor_info onnx_info(struct bp_tensor *tensor);

/* Computes the extents of x as a matrix: the axes from `axis` on (it may be one past the last) are
 * its columns. */
enum bp_status onnx_as_matrix(struct bp_tensor *x, int64_t axis, int64_t out_extent[2]);

/* Notes that the host computes this node, because an app that watches calls does not see such
 * work. */
void onnx_by_host(const struct onnx_call *c);

/* Creates a tensor of constant numbers on the model's device, as an operand beside symbolic
 * ones. */
enum bp_status onnx_constant(struct onnx_call *c, uint32_t dtype, uint32_t rank,
                             const int64_t *shape, const void *data, struct bp_tensor **out);
enum bp_status onnx_constant_ints(struct onnx_call *c, uint32_t rank, const int64_t *shape,
                                  const int64_t *at, struct bp_tensor **out);

#endif
