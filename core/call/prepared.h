/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.h: declares prepared calls: steps that run without any lookup. Most have a single step,
 * the launch of a kernel on the call's own tensors. */
#ifndef BP_PREPARED_PRIVATE_H
#define BP_PREPARED_PRIVATE_H

#include "../schema/op.h"

/* The tensor of the call that a step reads or writes. */
enum bp_operand_kind { BP_OPERAND_NONE, BP_OPERAND_IN, BP_OPERAND_OUT, BP_OPERAND_TEMP };
struct bp_operand {
    uint16_t kind, index;
};

/* A temporary buffer between steps, allocated for each run; or a view of another operand. */
struct bp_temp {
    struct bp_typed_view type;
    struct bp_operand of; /* the viewed operand; NONE: it has memory */
    uint64_t bytes;       /* of its memory */
    uint64_t offset;      /* of a view: bytes from the first element of the viewed operand */
};

/* A step that the core runs itself, without a kernel: a copy of one operand to another, or the
 * conversion of indices between i64 and i32. */
struct bp_transform {
    struct bp_move move; /* of a copy */
    bool indices;        /* it converts indices */
    bool waits;          /* it goes through host memory, on a device that is asynchronous itself */
};

struct bp_step {
    struct bp_launch launch; /* everything that is equal in each run */
    const struct bp_opdef *row;
    const struct bp_kernel *kernel;
    struct bp_plan plan;
    uint32_t kind; /* enum bp_fallback_kind: the reason for the step; NONE: it is the call itself */
    void *attrs;                 /* owned; NULL: those of the call, or none */
    struct bp_operand *in, *out; /* n_in, n_out of launch; NULL: the call's tensors, in order */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    /* One of these is set if kernel is NULL: another device runs the step, or the core does. */
    struct bp_prepared *fallback;
    struct bp_transform *transform;
};

enum { BP_FAST_IN = 4, BP_LINE = 64 };

/* A prepared call. Calls in random order are read from distant caches, so the members that fast.c
 * reads are in four cache lines, and those of each type in one (for up to four axes). Aligned to a
 * cache line. */
struct bp_prepared {
    uint32_t magic;
    _Atomic uint32_t refs;     /* the app's, and one for each cache that holds it */
    struct bp_device *device;  /* a reference, if keeps_device */
    uint32_t fast;             /* magic, if fast.c can run the call; else 0 */
    uint32_t n_in;
    const struct bp_opdef *eager; /* the operator, if bp_call_fast can run it; else NULL */
    void *attrs;               /* owned */
    const struct bp_opdef *row;
    uint64_t bytes;            /* if fast: bytes of the result */
    uint64_t sig[BP_FAST_IN + 1]; /* if fast: signatures of the inputs, then of the output */
    uint64_t span[BP_FAST_IN]; /* if fast: bytes from the first element to the end of the last */
    struct bp_step first;      /* its first member is its launch */

    struct bp_deferred pending; /* frees the call when its launches have ended */
    uint64_t hash;             /* hash of an eager call's signature */
    uint32_t n_out, n_step, n_temp, want;
    bool simple;               /* one step, on the call's tensors in their order */
    bool bound;                /* valid only for the constant inputs constant[i] */
    bool keeps_device;         /* it has a reference to device: created by the app, or for another
                                  device */
    _Atomic bool used;         /* since the cache last checked */
    bool in_place;
    uint32_t given;            /* bit of each output with the type of a given tensor */
    uint32_t unasked; /* bit of each output that the caller does not pass: it is the input that it
                         updates */
    struct bp_step *step; /* &first, or a larger array */
    struct bp_temp **temp;
    struct bp_constant *constant;
    uint64_t plan_bytes, counted; /* counted: the part counted as device memory */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    char before_types[32]; /* so that the dtype members at a view's end, and the shape behind them,
                              share a cache line */
    struct bp_typed_view type[]; /* n_in inputs, then n_out outputs; rank BP_ABSENT: absent */
};
enum { BP_ABSENT = 255 };
_Static_assert(offsetof(struct bp_prepared, type) % BP_LINE == 48, "change before_types");
_Static_assert(offsetof(struct bp_prepared, sig) > offsetof(struct bp_tensor, sig),
               "a call that is given as a tensor has no signature there");

_Static_assert(offsetof(struct bp_prepared, magic) + sizeof(uint32_t) <= BP_HANDLE_BYTES, "magic");
static inline bool bp_prepared_is(const struct bp_prepared *p)
{
    return bp_magic_is(p ? p->magic : 0, BP_MAGIC_PREPARED);
}

/* Returns the declared output to which output number i of the flat list belongs. */
static inline const struct bp_port *bp_prepared_port(const struct bp_prepared *p, uint32_t i)
{
    return &p->row->info.out[bp_out_port(p->row, p->out_at, i)];
}

static inline bool bp_same_extents(uint32_t rank, const int64_t *a, const int64_t *b)
{
    for (uint32_t i = 0; i < rank; i++)
        if (a[i] != b[i]) return false;
    return true;
}

/* Returns dtype, rank, flags, space, layout and device of a view as one word. */
static inline uint64_t bp_view_meta(const struct bp_view *view)
{
    uint64_t meta;

    _Static_assert(sizeof *view - offsetof(struct bp_view, dtype) == sizeof meta, "one word");
    memcpy(&meta, &view->dtype, sizeof meta);
    return meta;
}

static inline bool bp_same_type(const struct bp_view *a, const struct bp_view *b)
{
    return bp_view_meta(a) == bp_view_meta(b) && bp_same_extents(a->rank, a->shape, b->shape) &&
           (!(a->flags & BP_VIEW_STRIDED) || bp_same_extents(a->rank, a->stride, b->stride));
}

/* prepared.c: makes the type of a new output, number i of the flat list: dense, with the axis order
 * of an input if the operator keeps the layout of an input. */
void bp_prepared_new_type(struct bp_typed_view *type, const struct bp_invocation *inv, uint32_t i);

/* prepared.c: finds the steps of an invocation. On success it takes over the invocation's
 * attributes. */
enum bp_status bp_prepared_make(struct bp_invocation *inv, struct bp_prepared **out_prepared);
/* prepared.c: makes a call without steps. The caller adds them, sets plan_bytes, and calls
 * bp_prepared_count_plans, which counts them as memory of the device. */
enum bp_status bp_prepared_make_empty(const struct bp_invocation *inv,
                                      struct bp_prepared **out_prepared);
enum bp_status bp_prepared_count_plans(struct bp_prepared *prepared);
/* prepared_info.c: frees the parts that a step owns. */
void bp_step_finish(struct bp_step *step);
/* prepared_info.c: the name of the kernel that runs a step, also on another device, or a word in
 * brackets for what the core does. */
const char *bp_step_name(const struct bp_step *step);

/* Drops a reference. The last one frees the call when its launches have ended; it never blocks. */
void bp_prepared_release(struct bp_prepared *prepared);
static inline void bp_prepared_retain(struct bp_prepared *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}
/* Frees a call that no launch uses. */
void bp_prepared_free(struct bp_prepared *prepared);

/* The values of a single run. */
struct bp_run {
    const void *attrs; /* full length, with the RUN attributes of this run; or NULL */
    int64_t *result;   /* with BP_OP_BOUND: room for one extent per output */
    uint64_t seed, offset;
    const uint64_t *rng; /* as in bp_launch */
};

/* prepared_run.c: returns an error for an output that overlaps a tensor that it must not
 * overlap. */
enum bp_status bp_prepared_check_output(const struct bp_prepared *p, struct bp_tensor *const *in,
                                        struct bp_tensor *const *out, uint32_t o);

/* bp_prepared_launch, which also draws random numbers and narrows outputs to their data-dependent
 * extents. */
enum bp_status bp_prepared_execute(struct bp_prepared *prepared, struct bp_stream *stream,
                                   struct bp_tensor *const *in, struct bp_tensor *const *out,
                                   struct bp_run *run);

/* fast.c: runs a call that has `fast` set, on an inline timeline, with tensors that are known to
 * match the types it was prepared for. */
enum bp_status bp_prepared_launch_fast(const struct bp_prepared *prepared,
                                       struct bp_timeline *timeline, struct bp_tensor *const *in,
                                       struct bp_tensor *const *out, const void *attrs);

/* fast.c: runs a call of a `simple` operator (one output, up to four inputs, nothing else) if the
 * stream's table has it. false: the fast path does not apply, and nothing was done. */
bool bp_call_fast(struct bp_stream *stream, const struct bp_opdef *row, const struct bp_arg *in,
                  const void *attrs, struct bp_tensor **out, enum bp_status *out_status);

/* prepared_run.c: bp_prepared_run with all checks and error messages. */
enum bp_status bp_prepared_run_slow(struct bp_prepared *prepared, struct bp_stream *stream,
                                    struct bp_tensor *const *in, size_t n_in,
                                    struct bp_tensor *const *out, size_t n_out, const void *attrs);

/* launch.c: launches the steps. in, out: n_in and n_out tensors that were checked against the
 * types, NULL where absent. */
enum bp_status bp_prepared_launch(struct bp_prepared *prepared, struct bp_stream *stream,
                                  struct bp_tensor *const *in, struct bp_tensor *const *out,
                                  const struct bp_run *run);

#endif
