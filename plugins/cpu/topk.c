/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c: picks the k largest or smallest values of each line, for one float dtype of at most 32
 * bits (elem.h). Elements of a line are compared with the k-th value so far, a block at a time;
 * only those that beat it become candidates. If k is small, a candidate is inserted into a sorted
 * list of k. Otherwise, when there are as many candidates as have room, the k best of them stay.
 * The portable kernel computes all other cases. */
#include "cpu.h"
#include "items.h"
#include "kernels.h"
#include "topk.h"
#include "walk.h"
#include <backplane/attrs.h>

enum { ROOM = 2 * TOPK_MOST + 64, BLOCK = 64, FEW = 16, FEW_BLOCK = 32 };

struct topk {
    struct walk lines; /* views: y, index, x */
    elem *y;
    i64 *index;
    const elem *x;
    i64 extent, step, y_step, index_step, k;
    bool down;
};

/* Whether any of n elements may be better than `bound`. NaN counts as better. */
static bool topk_any(const elem *x, i64 n, acc bound, bool down)
{
    int any = 0;

    if (down) {
#pragma omp simd reduction(| : any)
        for (i64 i = 0; i < n; i++) any |= !(elem_get(x[i]) <= bound);
    } else {
#pragma omp simd reduction(| : any)
        for (i64 i = 0; i < n; i++) any |= !(elem_get(x[i]) >= bound);
    }
    return any;
}

/* Writes the candidates of a line to `item`, in any order. Returns their number, at least k. */
static i64 topk_candidates(const struct topk *t, const elem *x, u64 *item)
{
    i64 room = 2 * t->k + 64, n = 0;
    u64 worst = ~(u64)0; /* items must be smaller */
    acc bound = 0;
    bool bounded = false;

    for (i64 first = 0; first < t->extent; first += BLOCK) {
        i64 count = t->extent - first < BLOCK ? t->extent - first : BLOCK;
        if (bounded && t->step == 1 && !topk_any(x + first, count, bound, t->down)) continue;
        for (i64 i = first; i < first + count; i++) {
            u64 mine = item_make(item_key(x[i * t->step], t->down), i);
            item[n] = mine;
            n += mine < worst;
        }
        if (n <= room - BLOCK) continue;
        items_select(item, n, t->k);
        n = t->k;
        worst = item[0];
        for (i64 i = 1; i < n; i++) worst = item[i] > worst ? item[i] : worst;
        bound = elem_get(x[item_at(worst) * t->step]);
        bounded = true;
    }
    return n;
}

/* Inserts an item into a sorted list of k, the last of which it beats. */
static void topk_insert(u64 *item, i64 k, u64 mine)
{
    i64 j = k - 1;

    for (; j > 0 && item[j - 1] > mine; j--) item[j] = item[j - 1];
    item[j] = mine;
}

/* Writes the k best items of a line, sorted. */
static void topk_few(const struct topk *t, const elem *x, u64 *item)
{
    i64 n = t->extent, k = t->k, first = k;
    acc bound;

    for (i64 j = 0; j < k; j++) item[j] = ~(u64)0;
    for (i64 i = 0; i < k; i++)
        topk_insert(item, k, item_make(item_key(x[i * t->step], t->down), i));
    for (; first < n; first += FEW_BLOCK) {
        i64 count = n - first < FEW_BLOCK ? n - first : FEW_BLOCK;
        bound = elem_get(x[item_at(item[k - 1]) * t->step]);
        if (t->step == 1 && !topk_any(x + first, count, bound, t->down)) continue;
        for (i64 i = first; i < first + count; i++) {
            acc value = elem_get(x[i * t->step]);
            if (t->down ? value <= bound : value >= bound) continue;
            u64 mine = item_make(item_key(x[i * t->step], t->down), i);
            if (mine >= item[k - 1]) continue; /* the bound is of the block's beginning, or NaN */
            topk_insert(item, k, mine);
        }
    }
}

static void topk_line(void *arg, int64_t line)
{
    const struct topk *t = arg;
    int64_t at[WALK_VIEWS];
    u64 item[ROOM];

    walk_offset(&t->lines, line, at);
    if (t->k <= FEW) {
        topk_few(t, t->x + at[2], item);
    } else {
        i64 n = topk_candidates(t, t->x + at[2], item);
        items_select(item, n, t->k);
        items_sort(item, t->k, item + t->k);
    }
    for (i64 j = 0; j < t->k; j++) {
        i64 from = item_at(item[j]);
        t->y[at[0] + j * t->y_step] = t->x[at[2] + from * t->step];
        t->index[at[1] + j * t->index_step] = from;
    }
}

enum bp_status NAME(topk)(const struct bp_launch *launch)
{
    const struct bp_topk_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0], *index = launch->out[1];
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    struct topk t = {.y = y->data, .index = index->data, .x = x->data, .extent = x->shape[axis],
                     .step = x->stride[axis], .y_step = y->stride[axis],
                     .index_step = index->stride[axis], .k = a->k, .down = !a->smallest};
    int64_t shape[WALK_RANK];

    if (!y->count) return BP_OK;
    memcpy(shape, x->shape, sizeof *shape * (size_t)x->rank);
    shape[axis] = 1;
    walk_init(&t.lines, x->rank, shape);
    walk_broadcast(&t.lines, 0, x->rank, shape, y->stride);
    walk_broadcast(&t.lines, 1, x->rank, shape, index->stride);
    walk_broadcast(&t.lines, 2, x->rank, shape, x->stride);
    cpu_team_run(topk_line, &t, t.lines.count, cpu_team_width(launch, 2 * (double)x->count));
    return BP_OK;
}
