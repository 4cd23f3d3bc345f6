/* SPDX-License-Identifier: Apache-2.0 */
/* motifs_views.c: adds motifs of views, of views of views, and of operators that move elements. */
#include "graphs.h"

static uint32_t view_slice(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value *v = fuzz_value_of(m, x);
    int64_t axis, extent, start, end, step = 1 + fuzz_chance(m, 30);

    if (!v->rank) return x;
    axis = fuzz_below(m, v->rank);
    extent = v->shape[axis];
    start = fuzz_below(m, (uint32_t)(extent + 1) / 2 + 1);
    end = start + 1 + fuzz_below(m, (uint32_t)extent);
    if (start >= extent) start = 0;
    if (fuzz_chance(m, 20)) axis -= v->rank;
    fuzz_begin(m, "slice");
    fuzz_in(m, x);
    fuzz_list(m, "starts", 1, &start);
    fuzz_list(m, "ends", 1, &end);
    fuzz_list(m, "axes", 1, &axis);
    fuzz_list(m, "steps", 1, &step);
    return fuzz_end(m, 0);
}

static uint32_t view_transpose(struct fuzz_generator *m, uint32_t x)
{
    uint32_t rank = fuzz_value_of(m, x)->rank;
    int64_t perm[REF_RANK];

    for (uint32_t i = 0; i < rank; i++) perm[i] = i;
    for (uint32_t i = rank; i > 1; i--) {
        uint32_t k = fuzz_below(m, i);
        int64_t other = perm[k];
        perm[k] = perm[i - 1];
        perm[i - 1] = other;
    }
    fuzz_begin(m, "transpose");
    fuzz_in(m, x);
    if (rank && fuzz_chance(m, 80)) fuzz_list(m, "perm", rank, perm);
    return fuzz_end(m, 0);
}

/* Joins axes, splits one, or makes one axis of all. */
static uint32_t view_reshape(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value v = *fuzz_value_of(m, x);
    int64_t shape[REF_RANK];
    uint32_t n = 0, axis = v.rank ? fuzz_below(m, v.rank) : 0;
    bool join = fuzz_chance(m, 50);

    if (fuzz_chance(m, 30)) shape[n++] = -1;
    for (uint32_t i = 0; i < v.rank && !(n == 1 && shape[0] == -1); i++) {
        bool split = i == axis && !join && v.shape[i] % 2 == 0 && v.rank < 5;
        if (split) shape[n++] = 2;
        if (i == axis && join && i) shape[n - 1] *= v.shape[i];
        else shape[n++] = v.shape[i] / (split ? 2 : 1);
    }
    fuzz_begin(m, "reshape");
    fuzz_in(m, x);
    fuzz_list(m, "shape", n, shape);
    return fuzz_end(m, 0);
}

static uint32_t view_expand(struct fuzz_generator *m, uint32_t x)
{
    const struct fuzz_value *v = fuzz_value_of(m, x);
    int64_t shape[REF_RANK] = {1 + fuzz_below(m, 3)};

    if (v->rank > 3 || fuzz_elements(m, x) > FUZZ_ELEMENTS / 4) return x;
    for (uint32_t i = 0; i < v->rank; i++)
        shape[i + 1] = v->shape[i] == 1 && fuzz_chance(m, 60) ? 3 : v->shape[i];
    fuzz_begin(m, "expand");
    fuzz_in(m, x);
    fuzz_list(m, "shape", v->rank + 1, shape);
    return fuzz_end(m, 0);
}

static uint32_t view_axes(struct fuzz_generator *m, uint32_t x)
{
    uint32_t rank = fuzz_value_of(m, x)->rank;
    int64_t axis = fuzz_below(m, rank + 1);

    if (fuzz_chance(m, 50) || rank > 4) return fuzz_unary(m, "squeeze", x);
    fuzz_begin(m, "unsqueeze");
    fuzz_in(m, x);
    fuzz_list(m, "axes", 1, &axis);
    return fuzz_end(m, 0);
}

static uint32_t view_any(struct fuzz_generator *m, uint32_t x)
{
    switch (fuzz_below(m, 9)) {
    case 0:
    case 1:
    case 2: return view_slice(m, x);
    case 3:
    case 4: return view_transpose(m, x);
    case 5:
    case 6: return view_reshape(m, x);
    case 7: return view_axes(m, x);
    default: return view_expand(m, x);
    }
}

void fuzz_motif_view(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), y;

    if (fuzz_chance(m, 50)) x = fuzz_activation(m, x);
    y = view_any(m, x);
    if (fuzz_chance(m, 60)) fuzz_activation(m, y);
    if (fuzz_chance(m, 25)) fuzz_output(m, y);
    if (fuzz_chance(m, 25)) fuzz_activation(m, x);
}

/* A view of a view, whose root lives as long as the last of them is read. */
void fuzz_motif_views(struct fuzz_generator *m)
{
    uint32_t x = fuzz_activation(m, fuzz_pick(m, FUZZ_ABSENT)), a = view_any(m, x), b = a, y;

    for (uint32_t n = 1 + fuzz_below(m, 2); n; n--) b = view_any(m, b);
    y = fuzz_activation(m, a);
    for (uint32_t n = fuzz_below(m, 3); n; n--) y = fuzz_activation(m, y);
    fuzz_activation(m, b);
    if (fuzz_chance(m, 20)) fuzz_output(m, fuzz_chance(m, 50) ? x : b);
    if (fuzz_chance(m, 20)) { /* there and back */
        fuzz_begin(m, "transpose");
        fuzz_in(m, fuzz_unary(m, "transpose", x));
        fuzz_activation(m, fuzz_end(m, 0));
    }
}

/* Concatenations, also of one tensor twice. */
void fuzz_motif_join(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), n = 2 + fuzz_below(m, 2), part[3];
    const struct fuzz_value *v = fuzz_value_of(m, x);

    if (!v->rank || fuzz_elements(m, x) > FUZZ_ELEMENTS / 3) return;
    for (uint32_t i = 0; i < n; i++) {
        part[i] = fuzz_chance(m, 25) ? x : fuzz_pick_like(m, x);
        if (fuzz_chance(m, 60)) part[i] = fuzz_activation(m, part[i]);
    }
    if (fuzz_chance(m, 20)) {
        fuzz_begin(m, "stack");
    } else {
        fuzz_begin(m, "concat");
    }
    fuzz_in_many(m, part, n);
    fuzz_i64(m, "axis", fuzz_below(m, v->rank));
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 60)) fuzz_activation(m, x);
    if (fuzz_chance(m, 20)) fuzz_output(m, part[0]);
}

/* Concats that each append to the one before, as those of dense blocks; most intermediate results
 * have elementwise readers. */
void fuzz_motif_append(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), n = 2 + fuzz_below(m, 3), joined, axis, part[2];
    const struct fuzz_value *v = fuzz_value_of(m, x);

    if (!v->rank || fuzz_elements(m, x) > FUZZ_ELEMENTS / 5 || !fuzz_is_float(v->dtype)) return;
    axis = fuzz_below(m, v->rank);
    joined = fuzz_chance(m, 50) ? fuzz_activation(m, x) : x;
    for (uint32_t i = 0; i < n && joined != FUZZ_BAD; i++) {
        part[0] = joined;
        part[1] = fuzz_chance(m, 70) ? fuzz_activation(m, x) : fuzz_pick_like(m, x);
        if (part[1] == FUZZ_BAD) return;
        fuzz_begin(m, "concat");
        fuzz_in_many(m, part, 2);
        fuzz_i64(m, "axis", axis);
        joined = fuzz_end(m, 0);
        if (joined != FUZZ_BAD && fuzz_chance(m, 70)) fuzz_activation(m, joined);
        if (joined != FUZZ_BAD && fuzz_chance(m, 5)) fuzz_output(m, joined);
    }
    if (joined != FUZZ_BAD) fuzz_activation(m, joined);
}

/* Parts, of which some are outputs and some are joined in another order. */
void fuzz_motif_split(struct fuzz_generator *m)
{
    uint32_t x = fuzz_activation(m, fuzz_pick(m, FUZZ_ABSENT)), axis, part[2];
    const struct fuzz_value *v = fuzz_value_of(m, x);

    if (x == FUZZ_BAD || !v->rank) return;
    axis = fuzz_below(m, v->rank);
    if (v->shape[axis] < 2) return;
    fuzz_begin(m, "split");
    fuzz_in(m, x);
    fuzz_i64(m, "axis", axis);
    if (v->shape[axis] % 2) fuzz_list(m, "sizes", 2, (int64_t[]){1, v->shape[axis] - 1});
    else fuzz_i64(m, "sections", 2);
    x = fuzz_end(m, 2);
    if (x == FUZZ_BAD) return;
    part[0] = fuzz_chance(m, 70) ? fuzz_activation(m, x + 1) : x + 1;
    part[1] = x;
    if (fuzz_chance(m, 20)) fuzz_output(m, x);
    fuzz_begin(m, "concat");
    fuzz_in_many(m, part, 2);
    fuzz_i64(m, "axis", axis);
    fuzz_end(m, 0);
}

static void copies_pad(struct fuzz_generator *m, uint32_t x)
{
    int64_t before[REF_RANK], after[REF_RANK];
    uint32_t rank = fuzz_value_of(m, x)->rank;

    for (uint32_t i = 0; i < rank; i++) {
        before[i] = fuzz_below(m, 2);
        after[i] = fuzz_below(m, 3);
    }
    fuzz_begin(m, "pad");
    fuzz_in(m, x);
    fuzz_list(m, "before", rank, before);
    fuzz_list(m, "after", rank, after);
    fuzz_activation(m, fuzz_end(m, 0));
}

/* Operators that move elements but make no views. */
void fuzz_motif_copies(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), rank = fuzz_value_of(m, x)->rank;
    int64_t axis;

    if (!rank || fuzz_elements(m, x) > FUZZ_ELEMENTS / 4) return;
    axis = fuzz_below(m, rank);
    switch (fuzz_below(m, 4)) {
    case 0: copies_pad(m, x); return;
    case 1:
        fuzz_begin(m, "flip");
        fuzz_in(m, x);
        fuzz_list(m, "axes", 1, &axis);
        break;
    case 2:
        fuzz_begin(m, "tile");
        fuzz_in(m, x);
        fuzz_list(m, "repeats", 1, (int64_t[]){2});
        break;
    default:
        fuzz_begin(m, "set_value");
        fuzz_in(m, x);
        fuzz_in(m, fuzz_weight(m, FUZZ_PLAIN, fuzz_value_of(m, x)->dtype, 0, &axis));
        fuzz_list(m, "starts", 1, (int64_t[]){0});
        fuzz_list(m, "ends", 1, (int64_t[]){1 + (int64_t)fuzz_below(m, 3)});
        fuzz_list(m, "axes", 1, &axis);
    }
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 50)) fuzz_activation(m, x);
}

/* Rows chosen by indices, and places found in values. */
void fuzz_motif_index(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), index;
    const struct fuzz_value *v = fuzz_value_of(m, x);
    int64_t axis, n = 1 + fuzz_below(m, 6);

    if (!v->rank || fuzz_elements(m, x) > FUZZ_ELEMENTS / 4) return;
    axis = fuzz_below(m, v->rank);
    if (!v->shape[axis]) return; /* no index is within */
    if (fuzz_chance(m, 30)) {
        fuzz_begin(m, fuzz_chance(m, 50) ? "argmax" : "cumsum");
        fuzz_in(m, x);
        fuzz_i64(m, "axis", axis);
        fuzz_end(m, 0);
        return;
    }
    index = fuzz_new(m, FUZZ_INPUT, FUZZ_INDEX, fuzz_chance(m, 50) ? BP_I64 : BP_I32, 1, &n);
    if (index != FUZZ_BAD) m->recipe->value[index].limit = v->shape[axis];
    fuzz_begin(m, fuzz_chance(m, 50) ? "gather" : "index_select");
    fuzz_in(m, x);
    fuzz_in(m, index);
    fuzz_i64(m, "axis", axis);
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 50)) fuzz_activation(m, x);
}

/* Rows chosen by an index that may be twice as large as is allowed: in about half of the runs the
 * kernel finds a bad index. */
void fuzz_motif_fault(struct fuzz_generator *m)
{
    uint32_t x = fuzz_pick(m, FUZZ_ABSENT), index;
    const struct fuzz_value v = *fuzz_value_of(m, x);

    if (!v.rank || !v.shape[0]) return;
    index = fuzz_new(m, FUZZ_INPUT, FUZZ_INDEX, BP_I64, 1, (int64_t[]){1});
    if (index != FUZZ_BAD) m->recipe->value[index].limit = 2 * v.shape[0];
    fuzz_begin(m, fuzz_chance(m, 50) ? "gather" : "index_select");
    fuzz_in(m, x);
    fuzz_in(m, index);
    fuzz_i64(m, "axis", 0);
    x = fuzz_end(m, 0);
    if (fuzz_chance(m, 70)) fuzz_activation(m, x);
}
