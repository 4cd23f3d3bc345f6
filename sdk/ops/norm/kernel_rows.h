/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_rows.h: normalises groups of contiguous terms on devices whose teams have many lanes. The
 * lanes keep the terms of a group in registers if the group fits into a chunk (row.h), and else
 * read the terms again in each of up to three passes. */
#ifndef BP_OPS_NORM_KERNEL_ROWS_H
#define BP_OPS_NORM_KERNEL_ROWS_H

#include "kernel_group.h"

/* Team number t normalises the group at x + t x_next. The parameters of this group are (t % period)
 * * `next` elements after the first ones. */
struct normalize_rows_args {
    i64 terms, x_next, y_next, mean_next, r_next;
    i64 period, scale_next, bias_next;
    i64 each; /* each term has a parameter, contiguous; 0: each line of `run` terms has one */
    i64 run, scale_line, bias_line;
    i64 centre;
    host_real epsilon;
};

#ifdef ELEM
#include "../../dialect/row.h"

enum { PASS_MEAN, PASS_SQUARES, PASS_PUT };

/* The sum of x - mean, or of its squares, over the lane's terms in a chunk. */
KFN acc norm_packs_sum(pack *v, i64 left, acc mean, int squares)
{
    acc s = 0;

    ROW_ROLLED
    for (int k = 0; k < PACKS; k++, left -= PACK_STEP) {
        int n = pack_size(left);
        acc part = 0;
        UNROLL
        for (int i = 0; i < RUN; i++) {
            acc d = elem_get(v[0].at[i]) - mean;
            d *= squares ? d : 1;
            part += i < n ? d : 0;
        }
        s += part;
        packs_transpose(v);
    }
    return s;
}

/* Reads the parameters of n terms from term `at` on into `out`; `none` replaces an absent
 * parameter. A line is at least as long as a pack, so that a pack has terms of at most two
 * lines. */
KFN void norm_pack_params(const struct normalize_rows_args *a, acc *out, GLOBAL const elem *param,
                          i64 step, acc none, i64 at, int n, int even)
{
    acc first = none, second = none;
    i64 rest = RUN;

    if (param && a->each) {
        pack p;
        pack_load(&p, param + at, n, even);
        UNROLL
        for (int i = 0; i < RUN; i++) out[i] = elem_get(p.at[i]);
        return;
    }
    if (param && n) {
        i64 line = norm_divide(at, a->run);
        rest = (line + 1) * a->run - at;
        first = elem_get(param[line * step]);
        second = rest < n ? elem_get(param[(line + 1) * step]) : first;
    }
    UNROLL
    for (int i = 0; i < RUN; i++) out[i] = i < rest ? first : second;
}

/* The operands of one row. All pointers are at the row's first term. */
struct norm_row {
    GLOBAL const elem *x, *scale, *bias;
    GLOBAL elem *y;
    int even, scale_even, bias_even;
};

KFN void norm_packs_put(const struct normalize_rows_args *a, const struct norm_row *row, pack *v,
                        i64 at, struct norm_stats s)
{
    ROW_ROLLED
    for (int k = 0; k < PACKS; k++, at += PACK_STEP) {
        int n = pack_size(a->terms - at);
        acc scale[RUN], bias[RUN];
        norm_pack_params(a, scale, row->scale, a->scale_line, 1, at, n, row->scale_even);
        norm_pack_params(a, bias, row->bias, a->bias_line, 0, at, n, row->bias_even);
        UNROLL
        for (int i = 0; i < RUN; i++) {
            acc h = (elem_get(v[0].at[i]) - s.mean) * s.r;
            v[0].at[i] = elem_put(h * scale[i] + bias[i]);
        }
        pack_store(row->y + at, &v[0], n, row->even);
        packs_transpose(v);
    }
}

/* Finds the operands of group number `team`. */
KFN struct norm_row norm_row_of(const struct normalize_rows_args *a, i64 team, GLOBAL elem *y,
                                GLOBAL const elem *x, GLOBAL const elem *scale,
                                GLOBAL const elem *bias)
{
    i64 place = team - norm_divide(team, a->period) * a->period;
    struct norm_row row;

    row.x = x + team * a->x_next;
    row.y = y + team * a->y_next;
    row.scale = scale ? scale + place * a->scale_next : scale;
    row.bias = bias ? bias + place * a->bias_next : bias;
    row.even = row_is_even(row.x) && row_is_even(row.y);
    row.scale_even = row_is_even(row.scale);
    row.bias_even = row_is_even(row.bias);
    return row;
}

KFN void normalize_rows_team(const struct normalize_rows_args *a, i64 team, LOCAL acc *scratch,
                             GLOBAL elem *y, GLOBAL const elem *x, GLOBAL const elem *scale,
                             GLOBAL const elem *bias, GLOBAL acc *mean, GLOBAL acc *r)
{
    struct norm_row row = norm_row_of(a, team, y, x, scale, bias);
    i64 begin = LANE * RUN, n = a->terms;
    int first = a->centre ? PASS_MEAN : PASS_SQUARES;
    struct norm_stats s = {0, 0, 0};
    pack v[PACKS];

    packs_load(v, row.x, 0, 0); /* zeros: some compilers do not see pass 1 load v */
    ROLLED
    for (int pass = first; pass <= PASS_PUT; pass++) { /* one loop: the code of a pass is long */
        acc total = 0;
        ROLLED
        for (i64 at = begin; at < n + begin; at += ROW_CHUNK) {
            if (pass == first || n > ROW_CHUNK) packs_load(v, row.x + at, n - at, row.even);
            if (pass == PASS_PUT) norm_packs_put(a, &row, v, at, s);
            else total += norm_packs_sum(v, n - at, s.mean, pass == PASS_SQUARES);
        }
        if (pass == PASS_PUT) break;
        total = team_sum(total, scratch) / (acc)n;
        if (pass == PASS_MEAN) s.mean = total;
        else s.r = 1 / MATH(sqrt)(total + number(a->epsilon));
    }
    if (mean && LANE == 0) mean[team * a->mean_next] = s.mean;
    if (r && LANE == 0) r[team * a->r_next] = s.r;
}
ENTRY_TEAMS_6(normalize_rows, elem, const elem, const elem, const elem, acc, acc)
#endif

#endif
