/* SPDX-License-Identifier: Apache-2.0 */
/* prepared.h: a call made ready: steps that run without looking anything up. Most have one step, a
 * launch of a kernel on the call's own tensors. */
#ifndef BP_PREPARED_PRIVATE_H
#define BP_PREPARED_PRIVATE_H

#include "../schema/op.h"

/* Which tensor of the call a step reads or writes. */
enum bp_operand_kind { BP_OPERAND_NONE, BP_OPERAND_IN, BP_OPERAND_OUT, BP_OPERAND_TEMP };
struct bp_operand {
    uint16_t kind, index;
};

/* Memory between steps, taken for each run; or a view of an operand that comes before. */
struct bp_temp {
    struct bp_typed_view type;
    struct bp_operand of; /* NONE: memory of its own */
    uint64_t bytes;       /* of own memory */
    uint64_t offset;      /* of a view, in bytes from the first element of what it views */
};

struct bp_step {
    struct bp_launch launch; /* all that is the same for each run */
    const struct bp_opdef *row;
    const struct bp_kernel *kernel;
    struct bp_plan plan;
    uint32_t kind; /* enum bp_fallback_kind: why the step is there; NONE: it is the call itself */
    void *attrs;                 /* own; NULL: those of the call, or none */
    struct bp_operand *in, *out; /* n_in, n_out of launch; NULL: the call's own, in order */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    struct bp_prepared *elsewhere; /* another device runs the step; kernel is NULL then */
};

enum { BP_FAST_IN = 4, BP_LINE = 64 };

/* Calls that come in random order are read from far caches: what fast.c reads of one stands in four
 * lines, and of each type in one (if it has four axes at most). Begins on a line. */
struct bp_prepared {
    uint32_t magic;
    _Atomic uint32_t refs;     /* the app's, and one for each cache that holds it */
    struct bp_device *device;  /* a reference */
    uint32_t fast;             /* magic, if the call can go fast.c's way; else 0 */
    uint32_t n_in;
    const struct bp_opdef *eager; /* the row, if an eager call can; else NULL */
    void *attrs;               /* own */
    const struct bp_opdef *row;
    uint64_t bytes;            /* if fast: of the result */
    uint64_t sig[BP_FAST_IN + 1]; /* if fast: of inputs, then the output */
    uint64_t span[BP_FAST_IN]; /* if fast: bytes from the first to the end of the last element */
    struct bp_step first;      /* begins with its launch */

    struct bp_deferred pending; /* a plan goes when its launches have ended */
    uint64_t hash;             /* signature of an eager call */
    uint32_t n_out, n_step, n_temp, want;
    bool simple;               /* one step, on the call's own tensors in their order */
    bool bound;                /* to the buffers of constant inputs: constant[i] of input i */
    bool keeps_device;         /* has a reference to it: one that the app made, or another device */
    _Atomic bool used;         /* since the cache last looked */
    bool in_place;
    uint32_t given;            /* bit of each output whose type was given */
    uint32_t unasked; /* bit of each output that no run is given: the input that it updates */
    struct bp_step *step; /* &first, or more than one */
    struct bp_temp **temp;
    struct bp_constant *constant;
    uint64_t plan_bytes, counted; /* counted: of them, with the device's memory */
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
    char before_types[48]; /* so that what a view says of its type, at its end, and its shape
                              share a line */
    struct bp_typed_view type[]; /* n_in inputs, then n_out outputs; rank BP_ABSENT: left out */
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

/* The declared output to which output number i, flat, belongs. */
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

/* dtype, rank, flags, space, layout, device of a view as one word. */
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

/* prepared.c: finds the steps of a site. Takes the site's attributes on success. */
enum bp_status bp_prepared_make(struct bp_invocation *site, struct bp_prepared **out_prepared);
/* prepared_info.c: ends what a step owns. */
void bp_step_finish(struct bp_prepared *prepared, struct bp_step *step);

/* One reference less; the last waits for the launches, without blocking. */
void bp_prepared_release(struct bp_prepared *prepared);
static inline void bp_prepared_retain(struct bp_prepared *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}
/* Ends one that no launch uses. */
void bp_prepared_free(struct bp_prepared *prepared);

/* What is of one run only. */
struct bp_run {
    const void *attrs; /* full length, with the RUN attributes of this call; or NULL */
    int64_t *result;   /* of BP_OP_BOUND: room for one extent an output */
    uint64_t seed, offset;
};

/* prepared_run.c: refuses an output that overlaps what it must not. */
enum bp_status bp_prepared_check_output(const struct bp_prepared *p, struct bp_tensor *const *in,
                                        struct bp_tensor *const *out, uint32_t o);

/* bp_prepared_launch with random numbers drawn, and outputs narrowed to the extents found. */
enum bp_status bp_prepared_execute(struct bp_prepared *prepared, struct bp_stream *stream,
                                   struct bp_tensor *const *in, struct bp_tensor *const *out,
                                   struct bp_run *run);

/* fast.c: a run of a call that can go the short way on a timeline that works at once, with tensors
 * that are known to be what it was prepared for. */
enum bp_status bp_prepared_launch_fast(const struct bp_prepared *prepared,
                                       struct bp_timeline *timeline, struct bp_tensor *const *in,
                                       struct bp_tensor *const *out, const void *attrs);

/* A call of a row that is simple (one output, up to four inputs, nothing else) which the stream's
 * table has. false: it is not so, nothing was done. */
bool bp_call_fast(struct bp_stream *stream, const struct bp_opdef *row, const struct bp_arg *in,
                  const void *attrs, struct bp_tensor **out, enum bp_status *out_status);

/* prepared_run.c: bp_prepared_run, with everything checked and said. */
enum bp_status bp_prepared_run_slow(struct bp_prepared *prepared, struct bp_stream *stream,
                                    struct bp_tensor *const *in, size_t n_in,
                                    struct bp_tensor *const *out, size_t n_out, const void *attrs);

/* launch.c: runs it. in, out: n_in, n_out tensors that were checked against its types, NULL where
 * absent. */
enum bp_status bp_prepared_launch(struct bp_prepared *prepared, struct bp_stream *stream,
                                  struct bp_tensor *const *in, struct bp_tensor *const *out,
                                  const struct bp_run *run);

#endif
