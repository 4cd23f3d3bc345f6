/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: visits the elements of strided views; see walk.h. */
#include "walk.h"
#include "cpu.h"
#include "stream_store.h"
#include <stdbool.h>
#include <string.h>

void walk_init(struct walk *walk, int rank, const int64_t *shape)
{
    memset(walk->stride, 0, sizeof walk->stride);
    walk->rank = rank;
    walk->count = 1;
    for (int a = 0; a < rank; a++) {
        walk->shape[a] = shape[a];
        walk->count *= shape[a];
    }
}

void walk_flat(struct walk *walk, int64_t n)
{
    walk->rank = 1;
    walk->count = walk->shape[0] = n;
    for (int i = 0; i < WALK_VIEWS; i++) walk->stride[i][0] = 1;
}

void walk_broadcast(struct walk *walk, int index, int rank, const int64_t *shape,
                    const int64_t *stride)
{
    int missing = walk->rank - rank;

    for (int a = 0; a < rank; a++)
        walk->stride[index][missing + a] = shape[a] == 1 ? 0 : stride[a];
}

void walk_number(struct walk *walk, int index)
{
    int64_t step = 1;

    for (int a = walk->rank - 1; a >= 0; a--) {
        walk->stride[index][a] = step;
        step *= walk->shape[a];
    }
}

void walk_append(struct walk *walk, int64_t extent, const int64_t *stride, int n_stride)
{
    walk->shape[walk->rank] = extent;
    for (int i = 0; i < WALK_VIEWS; i++) walk->stride[i][walk->rank] = i < n_stride ? stride[i] : 0;
    walk->rank++;
    walk->count *= extent;
}

static void axis_move(struct walk *walk, int to, int from)
{
    walk->shape[to] = walk->shape[from];
    for (int i = 0; i < WALK_VIEWS; i++) walk->stride[i][to] = walk->stride[i][from];
}

void walk_sort(struct walk *walk, int index)
{
    for (int a = 1; a < walk->rank; a++) {
        int64_t extent = walk->shape[a], stride[WALK_VIEWS];
        int to = a;

        for (int i = 0; i < WALK_VIEWS; i++) stride[i] = walk->stride[i][a];
        for (; to > 0 && walk->stride[index][to - 1] < stride[index]; to--)
            axis_move(walk, to, to - 1);
        walk->shape[to] = extent;
        for (int i = 0; i < WALK_VIEWS; i++) walk->stride[i][to] = stride[i];
    }
}

/* Whether all views continue in even steps from the end of axis `inner` to the next index of axis
 * `outer`. */
static bool axes_join(const struct walk *walk, int outer, int inner)
{
    for (int i = 0; i < WALK_VIEWS; i++)
        if (walk->stride[i][outer] != walk->stride[i][inner] * walk->shape[inner]) return false;
    return true;
}

void walk_collapse(struct walk *walk)
{
    int kept = 0;

    if (!walk->count) { /* no element is visited; keeps products of extents out of axes_join */
        walk->rank = 1;
        walk->shape[0] = 0;
        return;
    }
    for (int a = 0; a < walk->rank; a++) {
        if (walk->shape[a] == 1) continue;
        if (kept && axes_join(walk, kept - 1, a)) {
            int64_t outer = walk->shape[kept - 1];
            axis_move(walk, kept - 1, a);
            walk->shape[kept - 1] *= outer;
        } else {
            axis_move(walk, kept++, a);
        }
    }
    if (!kept) {
        walk->shape[0] = 1;
        for (int i = 0; i < WALK_VIEWS; i++) walk->stride[i][0] = 0;
        kept = 1;
    }
    walk->rank = kept;
}

/* Converts the number of an element into its index and its offset in each view. */
static void walk_locate(const struct walk *walk, int64_t number, int64_t *index, int64_t *at)
{
    for (int i = 0; i < WALK_VIEWS; i++) at[i] = 0;
    for (int a = walk->rank - 1; a >= 0; a--) {
        index[a] = a ? number % walk->shape[a] : number;
        number = a ? number / walk->shape[a] : 0;
        for (int i = 0; i < WALK_VIEWS; i++) at[i] += index[a] * walk->stride[i][a];
    }
}

void walk_offset(const struct walk *walk, int64_t index, int64_t *at)
{
    int64_t unused[WALK_RANK];

    walk_locate(walk, index, unused, at);
}

void walk_spans(const struct walk *walk, int64_t begin, int64_t end,
                void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx)
{
    int64_t index[WALK_RANK], at[WALK_VIEWS];
    int last = walk->rank - 1;

    if (begin >= end) return;
    walk_locate(walk, begin, index, at);
    for (;;) {
        int64_t n = walk->shape[last] - index[last];
        if (n > end - begin) n = end - begin;
        span(ctx, n, at);
        begin += n;
        if (begin == end) return;

        for (int i = 0; i < WALK_VIEWS; i++) at[i] -= index[last] * walk->stride[i][last];
        index[last] = 0;
        for (int a = last - 1; a >= 0; a--) { /* counts like an odometer */
            bool carry = ++index[a] == walk->shape[a];
            if (carry) index[a] = 0;
            for (int i = 0; i < WALK_VIEWS; i++)
                at[i] += carry ? -(walk->shape[a] - 1) * walk->stride[i][a] : walk->stride[i][a];
            if (!carry) break;
        }
    }
}

/* The elements that one task visits: BLOCK, or a multiple of BLOCK if each thread has more than
 * SHARES tasks, because each task ends with a wait for its streaming stores. */
enum { BLOCK = 32768, SHARES = 16 };

struct blocks {
    const struct walk *walk;
    void (*span)(void *ctx, int64_t n, const int64_t *at);
    void *ctx;
    int64_t block;
};

static void block_visit(void *arg, int64_t block)
{
    const struct blocks *blocks = arg;
    int64_t begin = block * blocks->block, end = begin + blocks->block;
    int64_t count = blocks->walk->count;

    walk_spans(blocks->walk, begin, end < count ? end : count, blocks->span, blocks->ctx);
    nt_fence();
}

void walk_run(const struct walk *walk, const struct bp_launch *launch,
              void (*span)(void *ctx, int64_t n, const int64_t *at), void *ctx)
{
    struct blocks blocks = {walk, span, ctx, BLOCK};

    if (walk->count <= BLOCK && walk->rank == 1) { /* one span */
        static const int64_t first[WALK_VIEWS];
        if (walk->count) span(ctx, walk->count, first);
        return;
    }
    if (walk->count <= BLOCK) { /* too few elements for the team */
        walk_spans(walk, 0, walk->count, span, ctx);
        return;
    }
    uint32_t width = cpu_team_width(launch, (double)walk->count);
    int64_t share = walk->count / (SHARES * (int64_t)(width ? width : 1));
    if (share > BLOCK) blocks.block = share / BLOCK * BLOCK;
    cpu_team_run(block_visit, &blocks, (walk->count + blocks.block - 1) / blocks.block, width);
}
