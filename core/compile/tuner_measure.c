/* SPDX-License-Identifier: Apache-2.0 */
/* tuner_measure.c: times the kernel rows that take a call (tuner.h). */
#include "tuner.h"

#include "../base/clock.h"
#include "../memory/source.h"
#include "../plugin/entry.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 8,          /* rows that are compared, those of the highest priorities */
    ROUNDS = 9,        /* measurements of each row, by turns */
    QUARTER = 2,       /* of the sorted measurements: those below the first quartile */
    ENOUGH_NS = 50000, /* a measurement repeats the launch for about this long */
    REPEATS = 1000,
    LONGEST_NS = 500000000 /* rows that take longer are not timed again and again */
};

struct candidate {
    struct bp_prepared *prepared;
    struct bp_launch launch;
    struct bp_buffer *workspace;
    uint64_t ns[ROUNDS]; /* of one launch, sorted at the end */
};

struct measurement {
    const struct bp_invocation *inv;
    struct bp_stream *stream;
    struct candidate row[ROWS];
    uint32_t n_row, n_buffer;
    struct bp_view view[2 * BP_FLAT_MAX]; /* of the first row's operands */
    const struct bp_view *list[2 * BP_FLAT_MAX];
    struct bp_buffer *buffer[2 * BP_FLAT_MAX];
};

/* ---- rows ---- */

/* Prepares the call for one row only. */
static void candidate_add(struct measurement *m, const struct bp_kernel *kernel)
{
    struct bp_invocation *inv = malloc(sizeof *inv);
    struct bp_prepared *p = NULL;

    if (!inv) return;
    bp_invocation_copy(inv, m->inv);
    inv->whole = false;
    inv->kernel = kernel->name;
    inv->prefer = NULL;
    inv->attrs = NULL;
    if (m->inv->attrs && bp_attrs_clone(&inv->row->info, m->inv->attrs, &inv->attrs)) p = NULL;
    else if (bp_prepared_make(inv, &p)) p = NULL;
    if (p && (p->n_step != 1 || !p->simple || p->step->kind)) {
        bp_prepared_release(p);
        p = NULL;
    }
    if (p) m->row[m->n_row++].prepared = p;
    free(inv->attrs);
    free(inv);
}

static bool same_operands(const struct bp_prepared *a, const struct bp_prepared *b)
{
    for (uint32_t i = 0; i < a->n_in + a->n_out; i++)
        if (a->type[i].view.rank != b->type[i].view.rank ||
            (a->type[i].view.rank != BP_ABSENT &&
             !bp_same_type(&a->type[i].view, &b->type[i].view)))
            return false;
    return true;
}

/* ---- operands ---- */

/* Zeros for integers, which are valid indices, and small normal numbers for floats. */
static void operand_fill(struct bp_buffer *b, uint32_t dtype, uint64_t bytes)
{
    const uint64_t floats = BP_M(F64) | BP_M(F32) | BP_M(F16) | BP_M(BF16);

    memset(b->memory.data, floats >> dtype & 1 ? 0x3c : 0, (size_t)bytes);
}

static bool measure_operands(struct measurement *m)
{
    const struct bp_prepared *p = m->row[0].prepared;

    for (uint32_t i = 0; i < p->n_in + p->n_out; i++) {
        struct bp_buffer **b = &m->buffer[m->n_buffer];
        uint64_t bytes;
        m->view[i] = p->type[i].view;
        if (m->view[i].rank == BP_ABSENT) continue;
        m->list[i] = &m->view[i];
        if (i < p->n_in && m->inv->constant[i].id) {
            m->view[i] = *m->inv->in[i];
            if (bp_source_fill_number(m->inv->constant[i].id)) return false;
            continue;
        }
        bytes = bp_view_span(&m->view[i]);
        if (bp_buffer_allocate(m->stream->device, m->stream->device->host, BP_SPACE_DEVICE, bytes,
                               b))
            return false;
        m->n_buffer++;
        if (!bytes) return false;
        operand_fill(*b, m->view[i].dtype, bytes);
        m->view[i].data = (*b)->memory.data;
        m->view[i].memory = (*b)->memory.handle;
    }
    return true;
}

static bool candidate_launch_init(struct measurement *m, struct candidate *c)
{
    const struct bp_step *step = c->prepared->step;
    uint64_t alignment = step->plan.workspace_alignment ? step->plan.workspace_alignment : 1;

    c->launch = step->launch;
    if (!step->attrs) c->launch.attrs = c->prepared->attrs;
    c->launch.in = m->list;
    c->launch.out = m->list + c->launch.n_in;
    c->launch.stream = m->stream->timeline->stream;
    c->launch.fault = &m->stream->timeline->fault;
    if (!step->plan.workspace) return true;
    if (bp_buffer_allocate(m->stream->device, m->stream->device->host, BP_SPACE_DEVICE,
                           step->plan.workspace + alignment, &c->workspace))
        return false;
    c->launch.workspace_memory = c->workspace->memory.handle;
    c->launch.workspace = (void *)(((uintptr_t)c->workspace->memory.data + alignment - 1) /
                                   alignment * alignment);
    return true;
}

/* ---- time ---- */

/* Launches n times. Returns the time of one launch, UINT64_MAX after a failure. */
static uint64_t candidate_time(struct measurement *m, struct candidate *c, uint64_t n)
{
    uint64_t begin = bp_clock_ns();

    for (uint64_t i = 0; i < n; i++)
        if (c->launch.kernel->launch(&c->launch) || m->stream->timeline->fault) {
            m->stream->timeline->fault = 0;
            return UINT64_MAX;
        }
    return (bp_clock_ns() - begin) / n;
}

static int time_compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* Times all rows by turns. false: a launch failed or takes too long. */
static bool measure_rounds(struct measurement *m)
{
    uint64_t n[ROWS];

    for (uint32_t i = 0; i < m->n_row; i++) {
        uint64_t once;
        if (candidate_time(m, &m->row[i], 1) == UINT64_MAX) return false; /* the first use */
        once = candidate_time(m, &m->row[i], 1);
        if (once > LONGEST_NS) return false;
        n[i] = ENOUGH_NS / (once + 1) + 1;
        if (n[i] > REPEATS) n[i] = REPEATS;
    }
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < m->n_row; i++)
            m->row[i].ns[round] = candidate_time(m, &m->row[i], n[i]);
    for (uint32_t i = 0; i < m->n_row; i++)
        qsort(m->row[i].ns, ROUNDS, sizeof *m->row[i].ns, time_compare);
    return true;
}

/* Returns the row of the least median whose upper quartile is below the lower quartile of row 0,
 * the row of highest priority; otherwise row 0. */
static uint32_t measure_best(const struct measurement *m)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < m->n_row; i++)
        if (m->row[i].ns[ROUNDS - 1 - QUARTER] < m->row[0].ns[QUARTER] &&
            m->row[i].ns[ROUNDS / 2] < m->row[best].ns[ROUNDS / 2])
            best = i;
    return best;
}

static void measure_finish(struct measurement *m)
{
    for (uint32_t i = 0; i < m->n_row; i++) {
        bp_prepared_release(m->row[i].prepared);
        if (m->row[i].workspace) bp_buffer_release(m->row[i].workspace);
    }
    for (uint32_t i = 0; i < m->n_buffer; i++) bp_buffer_release(m->buffer[i]);
    bp_stream_destroy(m->stream);
}

static bool measure_run(struct measurement *m, struct bp_device *device, char row[BP_TUNER_ROW])
{
    const struct bp_kernel **kernel;
    uint32_t n, first;
    const char *name;

    kernel = bp_select_rows(device, m->inv->row, &n);
    for (uint32_t i = 0; i < n && m->n_row < ROWS; i++) {
        if (device->entry->kernel_reason[kernel[i] - device->entry->kernel]) continue;
        first = m->n_row;
        candidate_add(m, kernel[i]);
        if (first && m->n_row > first && !same_operands(m->row[0].prepared, m->row[first].prepared))
            bp_prepared_release(m->row[--m->n_row].prepared);
    }
    *row = 0;
    if (m->n_row < 2) return true;
    if (bp_stream_create_with(device, BP_STREAM_INLINE, &m->stream) || !measure_operands(m))
        return false;
    for (uint32_t i = 0; i < m->n_row; i++)
        if (!candidate_launch_init(m, &m->row[i])) return false;
    if (!measure_rounds(m)) return false;
    name = m->row[measure_best(m)].prepared->step->kernel->name;
    if (measure_best(m) && strlen(name) < BP_TUNER_ROW) strcpy(row, name);
    return true;
}

bool bp_tuner_measure(struct bp_device *device, const struct bp_invocation *inv,
                      char row[BP_TUNER_ROW])
{
    struct measurement *m = calloc(1, sizeof *m);
    char *before = strdup(bp_error_message());
    bool good = false;

    if (m && before) {
        m->inv = inv;
        good = measure_run(m, device, row);
        measure_finish(m);
        bp_error_write("%s", before);
    }
    free(before);
    free(m);
    return good;
}
