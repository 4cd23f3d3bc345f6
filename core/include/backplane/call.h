/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: calls operators by name. The typed calls of ops.h (bp_op_add, bp_op_conv, ...) are built
 * from the functions of this header.
 *
 * The first argument of each call, by name or typed, is its scope: the target of the call.
 *   bp_stream_scope(stream)  the stream runs the call; results are tensors with data, in stream
 *                            order
 *   bp_graph_scope(graph)    the graph records the call as a node (graph.h); results are symbolic
 *                            tensors without data, and nothing runs until the graph does
 * A scope belongs to its stream or graph: an app does not destroy a scope, and a scope has no
 * reference count. Code that takes a scope runs eagerly or records, as its caller wants. */
#ifndef BP_CALL_H
#define BP_CALL_H

#include <backplane/api.h>
#include <backplane/op.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the operator that has this name or alias; NULL if none has it. The result is constant
 * data. A plugin's own operator, DOMAIN.NAME (bp_operator in kernel.h), is found once the plugin
 * has been loaded. */
BP_API const struct bp_opinfo *bp_opinfo_find(const char *name);

/* All operators except those of plugins, with index 0 to bp_opinfo_count() - 1, in the order of
 * ops.def. bp_opinfo_at returns NULL for an index past the end. */
BP_API uint32_t bp_opinfo_count(void);
BP_API const struct bp_opinfo *bp_opinfo_at(uint32_t index);

/* The tensors of one declared input: n tensors at `at`. n is 1, unless the port is variadic (any
 * number) or optional; an optional input is absent if n is 0 or the one tensor is NULL. */
struct bp_arg {
    struct bp_tensor *const *at;
    size_t n;
};

/* A call of one operator. */
struct bp_call { /* parameters */
    size_t size;
    const char *op;
    const struct bp_arg
        *in; /* one for each declared input; optional inputs at the end may be left out */
    size_t n_in;
    const void *attrs;       /* the operator's attribute struct; NULL: all attributes have their
                                defaults */
    const char *kernel; /* the only kernel row that may run the call; NULL: the best row that fits.
                           A recorded call keeps a copy of the name: whether the device has the row
                           (BP_ERR_NOT_FOUND) is known when the graph runs. The name does not apply
                           to the gradients of the call */
};

/* Translates an einsum equation such as "ij,jk->ik" into the value of einsum's attribute `labels`:
 * the letters name the axes of each operand, and spaces are skipped. If the equation has no "->",
 * the result has the letters that occur exactly once, in alphabetical order. Letters become numbers
 * in the order of their first occurrence. Writes the labels to out, which has room for `room` of
 * them, and sets *out_n to their number. Any thread may call it. BP_ERR_INVALID: the text is not an
 * equation, or out is too small; *out_n is untouched then, but out may have been written. */
BP_API enum bp_status bp_einsum_labels(const char *equation, int64_t *out, size_t room,
                                       size_t *out_n);

/* Runs the operator, or records it if the scope is a graph. out has n_out entries, one for each
 * declared output (optional outputs at the end may be left out); an output that is any number of
 * tensors (BP_PORT_VAROUT, BP_PORT_VIEWS) has exactly as many entries as the operator makes
 * tensors. On entry each entry is either NULL, and the call makes a new tensor, or a tensor of the
 * right device, dtype and shape, which the call writes. (If an operator that makes views gets a
 * tensor to write, it copies into the tensor; the other outputs of that call are then copies too.)
 * want has one byte for each entry of out: 0 for an optional output that the caller does not need;
 * want NULL: the caller needs all outputs.
 *
 * BP_ERR_INVALID: an argument is wrong; the message states the expected one. BP_ERR_NO_KERNEL: the
 * device has no kernel for the call; the message gives the reason why each row was rejected. */
BP_API enum bp_status bp_call_run(struct bp_scope *scope, const struct bp_call *call,
                                  struct bp_tensor **out, size_t n_out, const uint8_t *want);

/* Computes the gradients of one call. in and attrs of call: as they were in that call. out: the
 * results of that call, flat. dy: the gradients of the results (NULL: zero). out_dx: one entry for
 * each tensor of in, in order; absent inputs have an entry too, unless they are at the end. want
 * has one byte for each entry of out_dx. On entry, an entry for which want is 1 is either NULL: it
 * is set to a tensor, which the caller destroys, or stays NULL if the gradient is zero. Or it is a
 * tensor of the device, dtype and shape of the input: the gradient, also one of zeros, is copied
 * into it after everything else has been computed, so it may be one of the tensors of in, out or
 * dy. (In a graph, all entries must be NULL.) A gradient in a new tensor may share memory with dy
 * and with other gradients: the caller may read it, but must not write it.
 *
 * BP_ERR_UNSUPPORTED: the operator has no gradient. */
BP_API enum bp_status bp_call_gradient(struct bp_scope *scope, const struct bp_call *call,
                                       struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                       size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                                       size_t n_dx);

/* Finds of which tensors bp_call_gradient reads the elements, so that a framework need not keep the
 * others. call: as for bp_call_gradient; its tensors, real or symbolic, provide types only, and
 * attributes must be in attrs. want: n_in bytes, as for bp_call_gradient. Sets out_in[i], for each
 * of the n_in tensors of in, and out_out[i], for each of the n_out results, to 1 if elements may be
 * read, and to 0 if dtype and shape suffice. Every result is assumed to have a gradient. Nothing
 * runs; the gradient rule is recorded in a graph of its own, so keep the result.
 *
 * For a tensor with 0, pass one of its dtype and shape without its memory: a tensor over a buffer
 * of one element, with strides of 0 (bp_tensor_create_over).
 *
 * BP_ERR_INVALID: an argument is wrong, or no input is a tensor. BP_ERR_UNSUPPORTED: the operator
 * has no gradient. */
BP_API enum bp_status bp_call_gradient_reads(const struct bp_call *call, const uint8_t *want,
                                             uint8_t *out_in, size_t n_in, uint8_t *out_out,
                                             size_t n_out);

#ifdef __cplusplus
}
#endif

#endif
