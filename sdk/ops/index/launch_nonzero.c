/* SPDX-License-Identifier: Apache-2.0 */
/* launch_nonzero.c: launches the kernels of nonzero (kernel_nonzero.h). */
#include "kernel_nonzero.h"
#include "../../dialect/portable.h"

enum { PARTS_MOST = 1024, PART_LEAST = 4096 };

static struct nonzero_parts nonzero_parts_of(const struct bp_view *x)
{
    struct nonzero_parts a = {.n = x->count, .words = 1, .mask = ~UINT64_C(0)};

    switch (x->dtype) { /* for floats all bits except the sign: -0 is 0, NaN is not */
    case BP_F8E4M3: case BP_F8E5M2: a.mask = 0x7f; break;
    case BP_F16: case BP_BF16: a.mask = 0x7fff; break;
    case BP_F32: a.mask = 0x7fffffff; break;
    case BP_C64: a.mask = UINT64_C(0x7fffffff7fffffff); break;
    case BP_C128: a.words = 2; /* fall through */
    case BP_F64: a.mask = UINT64_MAX >> 1; break;
    default: break;
    }
    a.part = (a.n + PARTS_MOST - 1) / PARTS_MOST;
    if (a.part < PART_LEAST) a.part = PART_LEAST;
    return a;
}

/* Returns the number of parts, at least one: its team reports that no element was found. */
static int64_t parts_count(const struct nonzero_parts *a)
{
    return a->n ? (a->n + a->part - 1) / a->part : 1;
}

enum bp_status portable_nonzero_prepare(void *self, const struct bp_prep *prep,
                                        struct bp_plan *out)
{
    struct nonzero_parts a = nonzero_parts_of(prep->in[0]);

    (void)self;
    return portable_needs(out, parts_count(&a) * 8);
}

enum bp_status portable_nonzero(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    enum portable_type type = portable_move_type(x->dtype);
    struct nonzero_count_args count = {nonzero_parts_of(x)};
    struct nonzero_write_args args = {
        .x = count.x, .parts = parts_count(&count.x), .rank = x->rank};
    struct portable p, end;
    enum bp_status status;

    if (type == TYPE_c128) type = TYPE_i64;
    for (int i = 0; i < x->rank; i++) args.shape[i] = x->shape[i];
    p = (struct portable)PORTABLE(nonzero, nonzero_count, type, count, args.parts,
                                  (double)args.x.part);
    end = (struct portable)PORTABLE(nonzero, nonzero_write, type, args, args.parts,
                                    2 * (double)args.x.part);
    portable_workspace(&p, launch, 0);
    portable_view(&p, x);
    status = portable_run(launch, &p);
    if (status) return status;
    portable_view(&end, launch->out[0]);
    portable_result(&end, launch->result);
    portable_workspace(&end, launch, 0);
    portable_view(&end, x);
    return portable_run(launch, &end);
}
