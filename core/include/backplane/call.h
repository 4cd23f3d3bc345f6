/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: operators by name. The typed calls of ops.h (bp_op_add, bp_op_conv, ...) are made of
 * these.
 *
 * The first argument of each call, by name or typed, is its scope: the target of the call.
 *   bp_stream_scope(stream)  the stream runs the call; results are tensors with data, in stream
 *                            order
 *   bp_graph_scope(graph)    the graph records the call as a node (graph.h); results are symbolic
 *                            tensors without data, and nothing runs until the graph does
 * A scope belongs to its stream or graph: it is not destroyed, and no reference is counted. Code
 * that takes a scope runs eagerly or records, as its caller wants. */
#ifndef BP_CALL_H
#define BP_CALL_H

#include <backplane/api.h>
#include <backplane/op.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operator of a name or an alias; NULL if there is none. Constant data. One that a plugin
 * brings, DOMAIN.NAME (bp_operator in kernel.h), is there when the plugin has been loaded. */
BP_API const struct bp_opinfo *bp_opinfo_find(const char *name);

/* All operators but those of plugins, 0 to bp_opinfo_count() - 1, in the order of ops.def. NULL
 * past the end. */
BP_API uint32_t bp_opinfo_count(void);
BP_API const struct bp_opinfo *bp_opinfo_at(uint32_t index);

/* One declared input: n tensors; n is 1 unless the port is variadic or optional (0, or one NULL:
 * absent). */
struct bp_arg {
    struct bp_tensor *const *at;
    size_t n;
};

/* A call of an operator. */
struct bp_call { /* parameters */
    size_t size;
    const char *op;
    const struct bp_arg
        *in; /* one for each declared input; optional ones at the end may be left out */
    size_t n_in;
    const void *attrs;       /* the operator's attribute struct; NULL: all defaults */
    const char *kernel; /* only this kernel row will do; NULL: the best. A recorded call keeps a
                           copy: whether the device has it (BP_ERR_NOT_FOUND) is known when the
                           graph runs. Rows for gradients of the call are not named by it */
};

/* The attribute labels of einsum for an equation as "ij,jk->ik": letters for the axes of each
 * operand, spaces are skipped. Without "->" the result has the letters that occur once, in the
 * order of the alphabet. Letters are numbered in the order in which they occur. Writes to out,
 * which has room for that many, and sets *out_n. Any thread. BP_ERR_INVALID: what is not an
 * equation, too little room; *out_n is untouched then, out may be written. */
BP_API enum bp_status bp_einsum_labels(const char *equation, int64_t *out, size_t room,
                                       size_t *out_n);

/* Runs the operator. out: n_out entries, one for each declared output (optional ones at the end may
 * be left out); an output of any number (BP_PORT_VAROUT, BP_PORT_VIEWS) has as many as the operator
 * makes, exactly. On entry an entry is NULL, and a new tensor is made, or a tensor of the right
 * device, dtype and shape, which is written (with a copy where the operator makes views; those
 * beside it then are copies too); want: 0 for an optional output that is not wanted (NULL: all
 * are).
 *
 * BP_ERR_INVALID: something about the arguments, the message says what was expected.
 * BP_ERR_NO_KERNEL: the device has no kernel for it, the message says why each row was passed over.
 */
BP_API enum bp_status bp_call_run(struct bp_scope *scope, const struct bp_call *call,
                                  struct bp_tensor **out, size_t n_out, const uint8_t *want);

/* The gradients of one call. in and attrs as they were; out: its results, flat; dy: their gradients
 * (NULL: zero). dx: one entry for each tensor of in, in order, absent ones too unless they stand at
 * the end; an entry for which want is 1 is set to a tensor to be destroyed, or to NULL if the
 * gradient is zero. It may share memory with dy and with other gradients: read it, do not write it.
 *
 * BP_ERR_UNSUPPORTED: the operator has no gradient. */
BP_API enum bp_status bp_call_gradient(struct bp_scope *scope, const struct bp_call *call,
                                       struct bp_tensor *const *out, struct bp_tensor *const *dy,
                                       size_t n_out, const uint8_t *want, struct bp_tensor **out_dx,
                                       size_t n_dx);

#ifdef __cplusplus
}
#endif

#endif
