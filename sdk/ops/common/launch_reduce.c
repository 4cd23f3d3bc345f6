/* SPDX-License-Identifier: Apache-2.0 */
/* launch_reduce.c: cuts reductions into teams; see launch_reduce.h. */
#include "launch_reduce.h"

enum {
    TEAMS_MANY = 1024, /* fewer teams are split into parts, up to this number: enough for a large
                          GPU */
    PART_WORK = 32768, /* minimum number of terms of a part */
    PARTS_FEW = 32,    /* up to this number of parts, one lane joins them */
};

/* The axes of one kind (kept or reduced), in order. */
struct list {
    i64 *rank, *shape, *stride;
    int last; /* the axis of x that was joined to the list last */
};

static void reduce_append(struct list *list, int axis, i64 extent, i64 stride, int before)
{
    if (*list->rank && list->last == before) {
        list->shape[*list->rank - 1] *= extent;
    } else {
        list->shape[*list->rank] = extent;
        ++*list->rank;
    }
    list->stride[*list->rank - 1] = stride;
    list->last = axis;
}

/* Collects kept and reduced axes. Axes of extent 1 are left out; neighbours of one kind become one
 * axis. */
static void find_axes(struct reduce_args *a, const struct bp_view *x, uint64_t goes)
{
    struct list kept = {&a->kept_rank, a->kept_shape, a->kept_stride, -1},
                terms = {&a->term_rank, a->term_shape, a->term_stride, -1};
    i64 stride[64], next = 1;

    for (int i = x->rank - 1; i >= 0; i--) {
        stride[i] = next;
        next *= x->shape[i];
    }
    for (int i = 0, before = -1; i < x->rank; i++) {
        if (goes >> i & 1) a->terms *= x->shape[i];
        else a->outputs *= x->shape[i];
        if (x->shape[i] == 1) continue;
        reduce_append(goes >> i & 1 ? &terms : &kept, i, x->shape[i], stride[i], before);
        before = i;
    }
}

struct reduce_args reduce_plan(const struct bp_view *x, uint64_t goes, int64_t op)
{
    struct reduce_args a = {.op = op, .outputs = 1, .terms = 1, .parts = 1};
    i64 length, many;

    find_axes(&a, x, goes);
    if (a.kept_rank && a.kept_stride[a.kept_rank - 1] == 1)
        a.wide = a.kept_shape[a.kept_rank - 1];
    if (a.wide > REDUCE_COLUMNS) a.wide = REDUCE_COLUMNS;
    if (a.wide < 1) a.wide = 1;
    if (!a.kept_rank) a.kept_shape[a.kept_rank++] = 1;
    if (!a.term_rank) a.term_shape[a.term_rank++] = 1;
    length = a.kept_shape[a.kept_rank - 1];
    a.blocks = (length + a.wide - 1) / a.wide;
    a.teams = a.outputs ? a.outputs / length * a.blocks : 0;
    a.part = a.terms;
    many = a.terms * a.wide / PART_WORK;
    if (a.teams && many > TEAMS_MANY / a.teams) many = TEAMS_MANY / a.teams;
    if (a.teams && many > 1) {
        a.part = (a.terms + many - 1) / many;
        a.parts = (a.terms + a.part - 1) / a.part;
    }
    a.ends = a.parts > PARTS_FEW ? 1 : MAX_LANES;
    return a;
}

int64_t reduce_ends(const struct reduce_args *a)
{
    return (a->outputs + a->ends - 1) / a->ends;
}

uint64_t reduce_goes(const void *attrs, int rank)
{
    const struct bp_sum_attrs *a = attrs;
    uint64_t goes = 0;

    if (!a->axes.n) return ~UINT64_C(0);
    for (int64_t i = 0; i < a->axes.n; i++)
        goes |= UINT64_C(1) << portable_axis(a->axes.at[i], rank);
    return goes;
}

struct reduce_args reduce_of(const struct bp_launch *launch, int64_t op)
{
    const struct bp_view *x = launch->in[0];

    return reduce_plan(x, reduce_goes(launch->attrs, x->rank), op);
}

enum bp_status reduce_prepare(const struct bp_prep *prep, struct bp_plan *out)
{
    struct reduce_args a = reduce_plan(prep->in[0], reduce_goes(prep->attrs, prep->in[0]->rank), 0);

    return portable_needs(out, reduce_partial(&a));
}

void reduce_partials(struct portable *p, const struct bp_launch *launch,
                     const struct reduce_args *a, size_t offset)
{
    if (a->parts > 1) portable_workspace(p, launch, offset);
    else portable_view(p, NULL);
}
