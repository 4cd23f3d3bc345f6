/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_team.h: scans lines in parts, or by teams, on devices with many lanes. The first kernel
 * reduces each part, except the last of a line, to a state; the second scans each part, beginning
 * with the states of the parts before it. */
#ifndef BP_OPS_SCAN_KERNEL_TEAM_H
#define BP_OPS_SCAN_KERNEL_TEAM_H

#include "kernel_state.h"

struct scan_sums_args {
    struct scan_args s;
};
struct scan_parts_args {
    struct scan_args s;
};
struct scan_row_sums_args {
    struct scan_args s;
};
struct scan_rows_args {
    struct scan_args s;
};

#ifdef ELEM

/* Elements begin to end - 1 of a line; element 0 of the line is at offset `from`. */
struct scan_part {
    i64 part, line, begin, end, from, step;
};

KFN struct scan_part scan_part(const struct scan_args *a, i64 number)
{
    struct scan_part p;
    struct scan_lines l;

    p.part = number / a->lines;
    p.line = number % a->lines;
    p.begin = p.part * a->part;
    p.end = a->n - p.begin < a->part ? a->n : p.begin + a->part;
    l = scan_lines(a->n, a->inner, a->reverse, p.line, p.line + 1);
    p.from = l.from;
    p.step = l.step;
    return p;
}

/* Reduces the terms of a part to a state. */
SCAN_FN void scan_sums_of(int op, const struct scan_args *a, i64 number,
                          GLOBAL struct scan_state *sums, GLOBAL const elem *x)
{
    struct scan_part p = scan_part(a, number);
    struct scan_state s = scan_none(op);

    for (i64 i = p.begin; i < p.end; i++)
        s = scan_join(op, s, scan_term(op, elem_get(x[p.from + i * p.step])));
    sums[number] = s;
}

KFN void scan_sums_span(const struct scan_sums_args *a, i64 begin, i64 n,
                        GLOBAL struct scan_state *sums, GLOBAL const elem *x)
{
    for (i64 i = begin; i < begin + n; i++) {
        if (a->s.op == SCAN_sum) scan_sums_of(SCAN_sum, &a->s, i, sums, x);
        if (a->s.op == SCAN_prod) scan_sums_of(SCAN_prod, &a->s, i, sums, x);
#ifdef ELEM_FLOAT
        if (a->s.op == SCAN_exp) scan_sums_of(SCAN_exp, &a->s, i, sums, x);
#endif
    }
}
ENTRY_SPANS_2(scan_sums, struct scan_state, const elem)

/* Scans a part element by element, beginning with state s. */
SCAN_FN void scan_places(int op, const struct scan_args *a, const struct scan_part *p,
                         struct scan_state s, GLOBAL elem *y, GLOBAL const elem *x)
{
    for (i64 i = p->begin; i < p->end; i++) {
        i64 at = p->from + i * p->step;
        struct scan_state next = scan_join(op, s, scan_term(op, elem_get(x[at])));
        y[at] = elem_put(scan_value(op, a->exclusive ? s : next));
        s = next;
    }
}

/* Scans one part. y may be x. */
SCAN_FN void scan_parts_of(int op, const struct scan_args *a, i64 number, GLOBAL elem *y,
                           GLOBAL const elem *x, GLOBAL const struct scan_state *sums)
{
    struct scan_part p = scan_part(a, number);
    struct scan_state s = scan_none(op);

    for (i64 i = p.line; i < number; i += a->lines) s = scan_join(op, s, sums[i]);
    scan_places(op, a, &p, s, y, x);
}

KFN void scan_parts_span(const struct scan_parts_args *a, i64 begin, i64 n, GLOBAL elem *y,
                         GLOBAL const elem *x, GLOBAL const struct scan_state *sums)
{
    for (i64 i = begin; i < begin + n; i++) {
        if (a->s.op == SCAN_sum) scan_parts_of(SCAN_sum, &a->s, i, y, x, sums);
        if (a->s.op == SCAN_prod) scan_parts_of(SCAN_prod, &a->s, i, y, x, sums);
#ifdef ELEM_FLOAT
        if (a->s.op == SCAN_exp) scan_parts_of(SCAN_exp, &a->s, i, y, x, sums);
#endif
    }
}
ENTRY_SPANS_3(scan_parts, elem, const elem, const struct scan_state)

/* For teams: contiguous elements of a lane (a run), and LOCAL memory for a tile and for the states
 * of the lanes. In each 128 bytes one element more is left unused, so that lanes use different
 * banks. */
enum {
    SCAN_RUN = 32 / sizeof(acc),
    SCAN_BANKS = 128 / sizeof(acc),
    SCAN_TILE = MAX_LANES * SCAN_RUN,
    SCAN_PLACES = SCAN_TILE + SCAN_TILE / SCAN_BANKS,
};
#undef TEAM_SCRATCH
#define TEAM_SCRATCH (SCAN_PLACES + MAX_LANES * (int)(sizeof(struct scan_state) / sizeof(acc)))

TEAM_SCAN(scan_team, struct scan_state, scan_join(op, a, b))

SCAN_FN void scan_row_sums_of(int op, const struct scan_args *a, i64 team, LOCAL acc *scratch,
                              GLOBAL struct scan_state *sums, GLOBAL const elem *x)
{
    struct scan_part p = scan_part(a, team);
    struct scan_state s = scan_none(op), all;

    FOR_LANES(i, p.end - p.begin)
    s = scan_join(op, s, scan_term(op, elem_get(x[p.from + (p.begin + i) * p.step])));
    scan_team(op, s, scan_none(op), scratch, &all);
    if (LANE == 0) sums[team] = all;
}

KFN void scan_row_sums_team(const struct scan_row_sums_args *a, i64 team, LOCAL acc *scratch,
                            GLOBAL struct scan_state *sums, GLOBAL const elem *x)
{
    switch (a->s.op) {
    case SCAN_sum: scan_row_sums_of(SCAN_sum, &a->s, team, scratch, sums, x); break;
#ifdef ELEM_FLOAT
    case SCAN_exp: scan_row_sums_of(SCAN_exp, &a->s, team, scratch, sums, x); break;
#endif
    default: scan_row_sums_of(SCAN_prod, &a->s, team, scratch, sums, x);
    }
}
ENTRY_TEAMS_2(scan_row_sums, struct scan_state, const elem)

/* Returns the state of all parts before this one: each lane joins a run of them. */
SCAN_FN struct scan_state scan_before(int op, const struct scan_args *a, const struct scan_part *p,
                                      LOCAL acc *scratch, GLOBAL const struct scan_state *sums)
{
    struct scan_state s = scan_none(op), all = s;
    i64 run = (p->part + LANES - 1) / LANES, end = (LANE + 1) * run;

    if (!p->part) return all;
    for (i64 i = LANE * run; i < p->part && i < end; i++)
        s = scan_join(op, s, sums[i * a->lines + p->line]);
    scan_team(op, s, scan_none(op), scratch, &all);
    return all;
}

#if defined(ON_HOST) || defined(ON_PROCESSOR)
SCAN_FN void scan_row(int op, const struct scan_args *a, const struct scan_part *p,
                      struct scan_state s, LOCAL acc *tile, GLOBAL elem *y, GLOBAL const elem *x)
{
    (void)tile;
    scan_places(op, a, p, s, y, x);
}
#else
KFN int scan_place(int i)
{
    return i + i / SCAN_BANKS;
}

/* Scans a part tile after tile, beginning with state s: the lanes load and store neighbouring
 * elements, but each lane sums a run of neighbours. A lane loads and stores the same elements, so y
 * may be x, and a lane may load its next elements into the tile positions from which it read its
 * last results. */
SCAN_FN void scan_row(int op, const struct scan_args *a, const struct scan_part *p,
                      struct scan_state s, LOCAL acc *tile, GLOBAL elem *y, GLOBAL const elem *x)
{
    int lane = (int)LANE, exclusive = a->exclusive != 0;
    i64 hop = MAX_LANES * p->step, at = p->from + (p->begin + LANE) * p->step;
    elem e[SCAN_RUN];

    for (i64 begin = p->begin; begin < p->end; begin += SCAN_TILE, at += SCAN_RUN * hop) {
        int n = p->end - begin < SCAN_TILE ? (int)(p->end - begin) : SCAN_TILE;
        struct scan_state mine = scan_none(op), all, next;
        UNROLL for (int j = 0; j < SCAN_RUN; j++)
            if (j * MAX_LANES + lane < n) e[j] = x[at + j * hop];
        UNROLL for (int j = 0; j < SCAN_RUN; j++) {
            int i = j * MAX_LANES + lane;
            tile[scan_place(i)] = i < n ? elem_get(e[j]) : acc_zero();
        }
        BARRIER();
        for (int j = 0; j < SCAN_RUN; j++)
            mine = scan_join(op, mine, scan_term(op, tile[scan_place(lane * SCAN_RUN + j)]));
        mine = scan_team(op, mine, scan_none(op), tile + SCAN_PLACES, &all);
        mine = scan_join(op, s, mine);
        s = scan_join(op, s, all);
        for (int j = 0; j < SCAN_RUN; j++) {
            int i = scan_place(lane * SCAN_RUN + j);
            next = scan_join(op, mine, scan_term(op, tile[i]));
            tile[i] = scan_value(op, exclusive ? mine : next);
            mine = next;
        }
        BARRIER();
        UNROLL for (int j = 0; j < SCAN_RUN; j++) {
            int i = j * MAX_LANES + lane;
            if (i < n) y[at + j * hop] = elem_put(tile[scan_place(i)]);
        }
    }
    BARRIER(); /* the caller may use the memory again immediately */
}
#endif

SCAN_FN void scan_rows_of(int op, const struct scan_args *a, i64 team, LOCAL acc *scratch,
                          GLOBAL elem *y, GLOBAL const elem *x,
                          GLOBAL const struct scan_state *sums)
{
    struct scan_part p = scan_part(a, team);

    scan_row(op, a, &p, scan_before(op, a, &p, scratch, sums), scratch, y, x);
}

KFN void scan_rows_team(const struct scan_rows_args *a, i64 team, LOCAL acc *scratch,
                        GLOBAL elem *y, GLOBAL const elem *x, GLOBAL const struct scan_state *sums)
{
    switch (a->s.op) {
    case SCAN_sum: scan_rows_of(SCAN_sum, &a->s, team, scratch, y, x, sums); break;
#ifdef ELEM_FLOAT
    case SCAN_exp: scan_rows_of(SCAN_exp, &a->s, team, scratch, y, x, sums); break;
#endif
    default: scan_rows_of(SCAN_prod, &a->s, team, scratch, y, x, sums);
    }
}
ENTRY_TEAMS_3(scan_rows, elem, const elem, const struct scan_state)
#undef TEAM_SCRATCH
#define TEAM_SCRATCH MAX_LANES
#endif

#endif
