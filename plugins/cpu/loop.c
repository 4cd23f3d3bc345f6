/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: runs elementwise loops over strided and broadcast views, through contiguous buffers; see
 * loop.h. */
#include "loop.h"
#include "cpu.h"
#include "dtype.h"
#include "move.h"
#include "stream_store.h"
#include <string.h>

/* Size of a buffer in bytes: all buffers together stay in the L1 cache. */
enum { PART = 2 * NT_PART };

/* Short rows are joined, ROWS_LEAST or more of them, to rows of at most ROWS bytes. */
enum { ROWS = 4096, ROWS_LEAST = 4 };

/* An input of a span: its address and stride, and a buffer for its elements, or for one repeated
 * element. */
struct source {
    const char *from;
    int64_t step, size;
    char *buffer;
};

static struct source source_begin(const struct loop *l, int view, int64_t at, char *buffer,
                                  int64_t n)
{
    struct source s = {.step = l->walk.stride[view][l->walk.rank - 1], .size = l->size[view],
                       .buffer = buffer};

    s.from = l->first[view] + at * s.size;
    if (s.step == 0) cpu_copy_elements(buffer, 1, s.from, 0, n, s.size);
    return s;
}

static const void *source_part(const struct source *s, int64_t begin, int64_t n)
{
    if (s->step == 1) return s->from + begin * s->size;
    if (s->step != 0)
        cpu_copy_elements(s->buffer, 1, s->from + begin * s->step * s->size, s->step, n, s->size);
    return s->buffer;
}

/* The reads for each stored line of the result, for inputs that are read in place. */
static struct nt_reads reads_begin(const struct source *source, int n_in, int64_t size)
{
    struct nt_reads reads = {.n = 0};

    for (int k = 0; k < n_in; k++) {
        if (source[k].step != 1) continue;
        reads.at[reads.n] = (uintptr_t)source[k].from;
        reads.bytes[reads.n++] = (size_t)(NT_LINE * source[k].size / size);
    }
    return reads;
}

/* Runs a span of n elements block by block. If `run` itself uses streaming stores, each block but
 * the first begins a cache line. Other results are written through a buffer from the first cache
 * line on. */
static void parts_run(const struct loop *l, int64_t n, const int64_t *at, int64_t part)
{
    int64_t step = l->walk.stride[0][l->walk.rank - 1], size = l->size[0];
    char *y = l->first[0] + at[0] * size;
    int64_t head = l->nt ? nt_head(y, n, (size_t)size) : n;
    int64_t direct = step != 1 ? 0 : l->lines ? n : head;
    _Alignas(NT_LINE) char buffer[WALK_VIEWS][PART];
    struct source source[WALK_VIEWS - 1];

    for (int k = 0; k < l->n_in; k++)
        source[k] = source_begin(l, k + 1, at[k + 1], buffer[k + 1], n < part ? n : part);
    struct nt_reads reads = reads_begin(source, l->n_in, size);
    for (int64_t i = 0, some; i < n; i += some) {
        const void *x[WALK_VIEWS - 1];
        char *place = y + i * step * size, *to = i < direct ? place : buffer[0];

        some = n - i < part ? n - i : part;
        if (i < head && head - i < some) some = head - i;
        for (int k = 0; k < l->n_in; k++) x[k] = source_part(&source[k], i, some);
        l->run(l, some, to, x);
        if (to == place) continue;
        if (step == 1) nt_store(place, to, (size_t)(some * size), &reads);
        else cpu_copy_elements(place, step, to, 1, some, size);
    }
}

static void loop_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct loop *l = ctx;
    int last = l->walk.rank - 1;
    char *y = l->first[0] + at[0] * l->size[0];
    bool dense = l->walk.stride[0][last] == 1 && (!l->nt || (l->lines && loop_nt(l, y)));
    int64_t widest = l->size[0];
    const void *x[WALK_VIEWS - 1];

    for (int k = 0; k < l->n_in; k++) {
        dense &= l->walk.stride[k + 1][last] == 1;
        if (l->size[k + 1] > widest) widest = l->size[k + 1];
        x[k] = l->first[k + 1] + at[k + 1] * l->size[k + 1];
    }
    if (dense) l->run(l, n, y, x);
    else parts_run(l, n, at, PART / widest);
}

/* How many rows of the result become one, if each input continues from row to row or is the same
 * for all rows: the number divides that of the rows. 1: rows stay as they are. */
static int64_t rows_joined(const struct loop *l)
{
    const struct walk *w = &l->walk;
    int64_t n = w->shape[w->rank - 1], widest = 1, times;

    if (w->rank != 2 || w->stride[0][0] != n || w->stride[0][1] != 1) return 1;
    for (int k = 0; k <= l->n_in; k++) {
        bool even = w->stride[k][0] == n * w->stride[k][1];
        if (!even && (w->stride[k][0] || w->stride[k][1] != 1)) return 1;
        if (l->size[k] > widest) widest = l->size[k];
    }
    times = ROWS / (n * widest);
    if (times > w->shape[0]) times = w->shape[0];
    while (times >= ROWS_LEAST && w->shape[0] % times) times--;
    return times < ROWS_LEAST ? 1 : times;
}

/* Makes long rows of short ones. Inputs that are the same for all rows are repeated in buffers. */
static void rows_join(struct loop *l, char (*buffer)[ROWS])
{
    struct walk *w = &l->walk;
    int64_t times = rows_joined(l), n = w->shape[w->rank - 1];

    if (times == 1) return;
    for (int k = 0; k <= l->n_in; k++) {
        size_t bytes = (size_t)(n * l->size[k]);
        if (w->stride[k][0] || !w->stride[k][1]) {
            w->stride[k][0] *= times;
            continue;
        }
        for (int64_t i = 0; i < times; i++)
            memcpy(buffer[k] + (size_t)i * bytes, l->first[k], bytes);
        l->first[k] = buffer[k];
    }
    w->shape[0] /= times;
    w->shape[1] *= times;
}

void cpu_loop_run(struct loop *loop, const struct bp_launch *launch, const struct bp_view *y,
                  const struct bp_view *const *x, int n_in)
{
    bool flat = !(y->flags & BP_VIEW_STRIDED), shared = false;
    _Alignas(NT_LINE) char buffer[WALK_VIEWS][ROWS];

    loop->n_in = n_in;
    loop->first[0] = y->data;
    loop->size[0] = dtype_size(y->dtype);
    for (int k = 0; k < n_in; k++) {
        flat &= !(x[k]->flags & BP_VIEW_STRIDED) && x[k]->count == y->count;
        shared |= x[k]->data == y->data;
        loop->first[k + 1] = x[k]->data;
        loop->size[k + 1] = dtype_size(x[k]->dtype);
    }
    if (flat) {
        walk_flat(&loop->walk, y->count);
    } else {
        walk_init(&loop->walk, y->rank, y->shape);
        walk_broadcast(&loop->walk, 0, y->rank, y->shape, y->stride);
        for (int k = 0; k < n_in; k++)
            walk_broadcast(&loop->walk, k + 1, x[k]->rank, x[k]->shape, x[k]->stride);
        walk_sort(&loop->walk, 0);
        walk_collapse(&loop->walk);
        rows_join(loop, buffer);
    }
    loop->nt = !shared && nt_pays(y->count * loop->size[0]) &&
                 loop->walk.stride[0][loop->walk.rank - 1] == 1;
    walk_run(&loop->walk, launch, loop_span, loop);
}
