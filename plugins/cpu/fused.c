/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: runs `fused` tile by tile: the spans of all instructions run on one tile before the
 * next. */
#include "fused.h"
#include "kernels.h"
#include "move.h"
#include "stream_store.h"
#include <string.h>

/* One launch. */
struct fused_run {
    const struct fused_plan *p;
    char *in[BP_FUSED_IN], *out[BP_FUSED_OUT];
    bool nt; /* results are written with streaming stores */
    uint32_t held; /* a bit for each result that lies over an input which later instructions read:
                      it is written at the end of a tile */
    int64_t block; /* elements of a task; a multiple of the tile */
};

/* A copy between an operand and the buffer of a tile, which begins at element `begin`. */
struct fused_move {
    const struct fused_operand *operand;
    char *memory, *buffer;
    int64_t begin, size;
    bool out;
};

static void move_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct fused_move *m = ctx;
    char *memory = m->memory + at[1] * m->size, *buffer = m->buffer + (at[0] - m->begin) * m->size;
    int64_t step = m->operand->walk.stride[1][m->operand->walk.rank - 1];

    char *to = m->out ? memory : buffer, *from = m->out ? buffer : memory;

    if (step == 1) memcpy(to, from, (size_t)(n * m->size));
    else if (m->out) cpu_copy_elements(memory, step, buffer, 1, n, m->size);
    else cpu_copy_elements(buffer, 1, memory, step, n, m->size);
}

/* A thread's tile: the address of each place. */
struct fused_tile {
    char *at[BP_FUSED_PLACES], *buffer[BP_FUSED_PLACES];
    struct fused_link link[BP_FUSED_STEPS];
    _Alignas(64) char room[FUSED_ROOM];
};

static void tile_copy(const struct fused_run *r, const struct fused_tile *t, int place,
                      int64_t begin, int64_t n)
{
    bool out = place >= BP_FUSED_Y;
    int i = out ? place - BP_FUSED_Y : place;
    struct fused_move move = {.operand = out ? &r->p->out[i] : &r->p->in[i],
                              .memory = out ? r->out[i] : r->in[i],
                              .buffer = t->buffer[place],
                              .begin = begin,
                              .size = r->p->size,
                              .out = out};

    walk_spans(&move.operand->walk, begin, begin + n, move_span, &move);
}

/* Gives the buffers their addresses, and fills those that are equal in all tiles of a task. */
static void tile_init(const struct fused_run *r, struct fused_tile *t, int64_t begin, int64_t end)
{
    const struct fused_plan *p = r->p;
    int64_t n = end - begin < p->tile ? end - begin : p->tile;

    for (int i = 0; i < BP_FUSED_PLACES; i++) {
        t->buffer[i] = p->slot[i] < 0 ? NULL : t->room + p->slot[i] * p->tile * p->size;
        t->at[i] = t->buffer[i];
    }
    for (int i = 0; i < p->n_in; i++)
        if (t->buffer[i] && (p->in[i].kind == FUSED_SCALAR || p->in[i].kind == FUSED_REPEAT))
            tile_copy(r, t, BP_FUSED_X + i, begin, n);
    for (int i = 0; i < p->n_link; i++) {
        uint8_t from = p->other[i];
        t->link[i] = p->link[i];
        if (from >= BP_FUSED_IN || p->in[from].kind != FUSED_SCALAR) continue;
        cpu_fused_number_link(&t->link[i], p->size == 4 ? (double)*(const float *)r->in[from]
                                                        : *(const double *)r->in[from]);
    }
}

/* Sets the addresses of the operands of a tile. */
static void tile_begin(const struct fused_run *r, struct fused_tile *t, int64_t begin, int64_t n)
{
    const struct fused_plan *p = r->p;

    for (int i = 0; i < p->n_in; i++) {
        if (p->in[i].kind == FUSED_DIRECT) t->at[BP_FUSED_X + i] = r->in[i] + begin * p->size;
        else if (p->in[i].kind == FUSED_MOVED) tile_copy(r, t, BP_FUSED_X + i, begin, n);
    }
    for (int i = 0; i < p->n_out; i++)
        if (p->out[i].kind == FUSED_DIRECT && !r->nt && !(r->held >> i & 1))
            t->at[BP_FUSED_Y + i] = r->out[i] + begin * p->size;
}

/* Whether a link still has the operand that the plan gave it. */
static bool link_has_operand(const struct fused_link *link)
{
    return link->op <= FUSED_MIN_OF;
}

static void tile_chain(const struct fused_run *r, struct fused_tile *t, const struct fused_call *c,
                       int64_t begin, int64_t n)
{
    const struct fused_plan *p = r->p;
    bool streams = r->nt && c->streams;
    char *y = streams ? r->out[c->to - BP_FUSED_Y] + begin * p->size : t->at[c->to];

    for (int i = c->link; i < c->link + c->n_link; i++)
        if (link_has_operand(&t->link[i])) t->link[i].w = t->at[p->other[i]];
    p->chain(t->link + c->link, c->n_link, n, y, t->at[c->from[0]], streams);
}

static void tile_compute(const struct fused_run *r, struct fused_tile *t, int64_t begin, int64_t n)
{
    const struct fused_plan *p = r->p;

    for (int i = 0; i < p->n_call; i++) {
        const struct fused_call *c = &p->call[i];
        const void *x[BP_FUSED_FROM];
        if (c->n_link) {
            tile_chain(r, t, c, begin, n);
            continue;
        }
        for (int k = 0; k < BP_FUSED_FROM; k++)
            x[k] = c->from[k] == BP_FUSED_NONE ? NULL : t->at[c->from[k]];
        c->span(c->op, n, t->at[c->to], x, c->number);
    }
}

/* Writes the results that are in buffers. Streaming stores fetch the lines of later tiles: while
 * instructions run, memory would be idle otherwise. */
static void tile_end(const struct fused_run *r, struct fused_tile *t, int64_t begin, int64_t n)
{
    const struct fused_plan *p = r->p;
    struct nt_reads reads = {.n = 0};

    for (int i = 0; i < p->n_in && r->nt && reads.n < NT_READS; i++) {
        if (p->in[i].kind != FUSED_DIRECT) continue;
        reads.at[reads.n] = (uintptr_t)t->at[BP_FUSED_X + i];
        reads.bytes[reads.n++] = NT_LINE;
    }
    for (int i = 0; i < p->n_out; i++) {
        if (p->out[i].kind != FUSED_DIRECT || r->held >> i & 1)
            tile_copy(r, t, BP_FUSED_Y + i, begin, n);
        else if (r->nt && !(p->streamed >> i & 1))
            nt_store(r->out[i] + begin * p->size, t->at[BP_FUSED_Y + i], (size_t)(n * p->size),
                     &reads);
        reads.n = 0; /* once for all results */
    }
}

static void fused_task(void *arg, int64_t number)
{
    const struct fused_run *r = arg;
    int64_t begin = number * r->block, end = begin + r->block;
    struct fused_tile t;

    if (end > r->p->count) end = r->p->count;
    tile_init(r, &t, begin, end);
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < r->p->tile ? end - begin : r->p->tile;
        tile_begin(r, &t, begin, n);
        tile_compute(r, &t, begin, n);
        tile_end(r, &t, begin, n);
    }
    nt_fence();
}

/* The elements of a task. Larger tasks wait less often for their streaming stores. */
enum { BLOCK = 32768, SHARES = 16 };

/* Whether a call that follows the one that writes result i reads input k. */
static bool plan_reads_later(const struct fused_plan *p, int i, int k)
{
    bool is_written = false;

    for (int n = 0; n < p->n_call; n++) {
        const struct fused_call *c = &p->call[n];
        for (int from = 0; from < BP_FUSED_FROM && is_written; from++)
            if (c->from[from] == BP_FUSED_X + k) return true;
        for (int link = 0; link < c->n_link && is_written; link++)
            if (p->other[c->link + link] == BP_FUSED_X + k) return true;
        is_written |= c->to == BP_FUSED_Y + i;
    }
    return false;
}

/* Finds the results that lie over inputs. Their lines are in the caches, so streaming stores would
 * gain nothing. */
static void run_hold(struct fused_run *r)
{
    for (int i = 0; i < r->p->n_out; i++)
        for (int k = 0; k < r->p->n_in; k++) {
            if (r->out[i] != r->in[k]) continue;
            r->nt = false;
            if (plan_reads_later(r->p, i, k)) r->held |= 1u << i;
        }
}

enum bp_status cpu_fused(const struct bp_launch *launch)
{
    const struct fused_plan *p = launch->plan;
    struct fused_run r = {.p = p, .nt = nt_pays(p->count * p->size)};
    uint32_t width = cpu_team_width(launch, (double)p->count * p->n_call);

    if (!p->count) return BP_OK;
    for (int i = 0; i < p->n_in; i++) r.in[i] = launch->in[i]->data;
    for (int i = 0; i < p->n_out; i++) {
        r.out[i] = launch->out[i]->data;
        r.nt &= (uintptr_t)r.out[i] % NT_LINE == 0;
    }
    run_hold(&r);
    r.block = p->count / (SHARES * (int64_t)(width ? width : 1));
    r.block = (r.block > BLOCK ? r.block : BLOCK) / p->tile * p->tile;
    if (r.block < p->tile) r.block = p->tile;
    cpu_team_run(fused_task, &r, (p->count + r.block - 1) / r.block, width);
    return BP_OK;
}
