/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.h: prepares an operator call once (checks and plan), so that it can run many times at
 * low cost. */
#ifndef BP_PREPARED_H
#define BP_PREPARED_H

#include <backplane/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A prepared call: its arguments are checked, its kernel is chosen, and its plan is built. Running
 * it needs no further look-up. bp_prepared_output reports the layout of its outputs: contiguous,
 * or, for operators that keep the layout of an input, in that input's order of axes
 * (channels-last). bp_call_run can write to tensors with other strides, bp_prepared_run cannot. */
struct bp_prepared;

/* Prepares call for tensors of the same types as the tensors in call; the prepared call does not
 * keep these tensors. want: n_want entries as in bp_call_run, for outputs in declared order; no run
 * gets a tensor for an output that is not wanted. NULL and 0: all outputs are wanted. An input that
 * the operator updates is written in any case. */
BP_API enum bp_status bp_prepared_create(struct bp_device *device, const struct bp_call *call,
                                         const uint8_t *want, size_t n_want,
                                         struct bp_prepared **out_prepared);

/* How a call is prepared; for tests and measurements of its decomposition. */
enum bp_prepare_flags {
    BP_PREPARE_DECOMPOSE = 1 /* prepare the operators into which the call decomposes, even if the
                                device has a kernel for the call */
};
struct bp_prepare_options { /* parameters: set size, zero the rest */
    size_t size;
    const uint8_t *want; /* as in bp_prepared_create, with n_want */
    size_t n_want;
    const char *step_kernel; /* of the operators into which the call decomposes, those that this
                                kernel row accepts run on it, whatever its priority; NULL: the best
                                row */
    uint32_t flags;          /* enum bp_prepare_flags */
    uint32_t zero;           /* 0 */
};

/* bp_prepared_create with options (NULL: none). BP_ERR_INVALID: BP_PREPARE_DECOMPOSE is set for an
 * operator that is not defined in other operators, or together with call->kernel. It is no error if
 * no step runs on step_kernel: bp_prepared_step returns the row that a step runs. */
BP_API enum bp_status bp_prepared_create_with(struct bp_device *device, const struct bp_call *call,
                                              const struct bp_prepare_options *options,
                                              struct bp_prepared **out_prepared);
BP_API void bp_prepared_destroy(struct bp_prepared *prepared);

/* Returns the kernel row that the prepared call runs; if there are several steps, the row of the
 * last one. */
BP_API const char *bp_prepared_kernel(struct bp_prepared *prepared);

/* Returns the number of steps: 1, unless the call uses a fallback. */
BP_API uint32_t bp_prepared_steps(struct bp_prepared *prepared);

/* Returns the kernel row that step index runs, in the order in which the steps run; for a step on
 * another device, the last kernel row there; for a step that the library runs itself, "(copy)" or
 * "(indices)". "" past the end. Valid as long as prepared lives. */
BP_API const char *bp_prepared_step(struct bp_prepared *prepared, uint32_t index);

/* Reports the type that output index must have: dtype, rank, shape, strides (as for a tensor
 * without data). */
BP_API enum bp_status bp_prepared_output(struct bp_prepared *prepared, uint32_t index,
                                         struct bp_tensor_info *out);

/* Runs the prepared call on stream. in, out: tensors of the types for which the call was prepared,
 * flat, in declared order; absent ones are NULL. Inputs must have the strides of the tensors that
 * bp_prepared_create got, outputs the strides that bp_prepared_output reports; other strides are
 * refused (BP_ERR_INVALID). attrs: NULL, or a struct that differs from the prepared one in RUN
 * attributes only. */
BP_API enum bp_status bp_prepared_run(struct bp_prepared *prepared, struct bp_stream *stream,
                                      struct bp_tensor *const *in, size_t n_in,
                                      struct bp_tensor *const *out, size_t n_out,
                                      const void *attrs);

#ifdef __cplusplus
}
#endif

#endif
