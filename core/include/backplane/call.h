/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: operators by name. The typed calls of ops.h (bp_op_add, bp_op_conv, ...) are made of
 * these. */
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

/* How a call runs for which the device has no kernel, in the order in which ways are tried. Each is
 * a step that is counted, with its bytes and its time. X(NAME, number, word, text). */
#define BP_FALLBACKS(X) \
    X(LAYOUT, 1, layout, "strided tensors are copied, for a kernel that takes dense ones") \
    X(DECOMPOSE, 2, decompose, "the operator runs as those that it is defined in") \
    X(DTYPE, 3, dtype, "half types are converted to f32 and back") \
    X(DEVICE, 4, device, "another device runs it, by way of copies")

enum bp_fallback_kind {
    BP_FALLBACK_NONE = 0,
#define X(NAME, number, word, text) BP_FALLBACK_##NAME = number,
    BP_FALLBACKS(X)
#undef X
    BP_FALLBACK_COUNT,
};

/* What ran so on a device since it was opened, by operator and kind. BP_FALLBACK=allow|warn|deny:
 * warn, as without it, logs the first time that an operator changes its dtype or device; deny makes
 * these two errors (BP_ERR_NO_KERNEL, with the reason of each kernel row). */
struct bp_fallback_info { /* answer: set size before the call */
    size_t size;
    const char *op;
    uint64_t calls, bytes, nanoseconds; /* bytes: written by these steps. Time: of the host */
    uint32_t kind;                      /* enum bp_fallback_kind */
    uint32_t zero;                      /* 0 */
};
BP_API uint32_t bp_device_fallbacks(struct bp_device *device);
BP_API enum bp_status bp_device_fallback(struct bp_device *device, uint32_t index,
                                         struct bp_fallback_info *out);

/* An operator call that runs on a stream, as its watcher sees it: twice, before it runs (out is
 * NULL) and, unless it fails, when it has been given to the stream. What it points to is valid
 * until the watcher returns. */
struct bp_watched { /* answer; size is set */
    size_t size;
    const struct bp_opinfo *op;
    const void *attrs;            /* the operator's attribute struct in full length, with values of
                                     inputs that the host reads (BP_PORT_HOST); NULL: it has none */
    struct bp_tensor *const *in;  /* flat in declared order; NULL where absent, or read by the
                                     host */
    struct bp_tensor *const *out; /* the results, flat; NULL where not wanted */
    uint32_t n_in, n_out;
};
typedef void bp_watcher(void *ctx, const struct bp_watched *call);

/* Has watcher(ctx, call) called for each operator call on stream, by name or typed, on the thread
 * that calls; NULL: for none any more. Calls that an operator is made of are not seen, nor are
 * prepared ones and programs, nor what the watcher itself calls. Calls are slower while somebody
 * watches. Not while another thread uses the stream. */
BP_API enum bp_status bp_stream_watch(struct bp_stream *stream, bp_watcher *watcher, void *ctx);

/* The eager calls that a stream remembers, so that one with the same operator, dtypes, shapes and
 * KEY attributes is not prepared again. */
struct bp_call_stats { /* answer: set size before the call */
    size_t size;
    uint64_t hits, misses; /* calls that were found, or had to be looked for further */
    uint64_t entries;      /* remembered now, at most 4,096 */
    uint64_t evicted;      /* forgotten for others: those not used for longest, about */
    uint64_t prepared;     /* by all streams of the device: calls that were checked and prepared */
};
BP_API enum bp_status bp_stream_calls(struct bp_stream *stream, struct bp_call_stats *out);

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
