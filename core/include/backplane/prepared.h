/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.h: calls that are checked and planned once, and run many times. */
#ifndef BP_PREPARED_H
#define BP_PREPARED_H

#include <backplane/call.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A call made ready: checked, its kernel chosen, its plan built. Running it looks nothing up. Its
 * outputs lie as bp_prepared_output says: contiguous, or, for operators that keep it, in the order
 * of axes of an input (channels-last). Tensors with other strides are written by bp_call_run, but
 * not by this. */
struct bp_prepared;

/* Prepares call for tensors of the types of those given; the tensors are not kept. want:
 * n_want entries as in bp_call_run, for outputs in declared order; those that are not wanted no
 * run is given. NULL and 0: all are. An input that the operator updates is changed in any case. */
BP_API enum bp_status bp_prepared_create(struct bp_device *device, const struct bp_call *call,
                                         const uint8_t *want, size_t n_want,
                                         struct bp_prepared **out_prepared);

/* How a call is prepared, for tests and measurements of what it would be made of. */
enum bp_prepare_flags {
    BP_PREPARE_DECOMPOSE = 1 /* as the operators that it is defined in, though the device may have a
                             kernel for it */
};
struct bp_prepare_options { /* parameters: set size, zero the rest */
    size_t size;
    const uint8_t *want; /* as of bp_prepared_create, with n_want */
    size_t n_want;
    const char *step_kernel; /* of the operators that the call is defined in, those that this kernel
                                row takes run on it, whatever its priority; NULL: the best */
    uint32_t flags;          /* enum bp_prepare_flags */
    uint32_t zero;           /* 0 */
};

/* bp_prepared_create with options (NULL: none). BP_ERR_INVALID: BP_PREPARE_DECOMPOSE of an operator
 * that is not defined in others, or with call->kernel. That no step runs on step_kernel is no
 * error: bp_prepared_step says what runs. */
BP_API enum bp_status bp_prepared_create_with(struct bp_device *device, const struct bp_call *call,
                                              const struct bp_prepare_options *options,
                                              struct bp_prepared **out_prepared);
BP_API void bp_prepared_destroy(struct bp_prepared *prepared);

/* The kernel row that it runs; of several steps the last one's. */
BP_API const char *bp_prepared_kernel(struct bp_prepared *prepared);

/* How many steps it has: 1 unless it falls back. */
BP_API uint32_t bp_prepared_steps(struct bp_prepared *prepared);

/* The kernel row that step index runs, in the order in which they run; of a step on another device
 * the last one's. "" past the end. Valid while prepared is. */
BP_API const char *bp_prepared_step(struct bp_prepared *prepared, uint32_t index);

/* What output index is to be: dtype, rank, shape, strides (info of a tensor without data). */
BP_API enum bp_status bp_prepared_output(struct bp_prepared *prepared, uint32_t index,
                                         struct bp_tensor_info *out);

/* Runs it on stream. in, out: tensors of the types it was prepared for, flat, in declared order;
 * absent ones NULL. Inputs have the strides of those given to bp_prepared_create, outputs
 * those that bp_prepared_output says; others are refused (BP_ERR_INVALID). attrs: NULL, or a struct
 * that differs from the prepared one in RUN attributes only. */
BP_API enum bp_status bp_prepared_run(struct bp_prepared *prepared, struct bp_stream *stream,
                                      struct bp_tensor *const *in, size_t n_in,
                                      struct bp_tensor *const *out, size_t n_out,
                                      const void *attrs);

#ifdef __cplusplus
}
#endif

#endif
