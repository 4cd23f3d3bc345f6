/* SPDX-License-Identifier: Apache-2.0 */
/* launch_rows.c: converts a plan of normalisation to arguments of normalize_rows
 * (launch_rows.h). */
#include "launch_rows.h"
#include "../../dialect/run_size.h"

/* Whether the strides of an operand let axes first to last be joined into one axis. */
static bool is_even(const struct norm_plan *p, int slot, i64 first, i64 last)
{
    for (i64 i = first; i < last; i++)
        if (p->stride[slot][i] != p->stride[slot][i + 1] * p->shape[i + 1]) return false;
    return true;
}

/* Whether the terms of each group are contiguous. */
static bool is_row(const struct norm_plan *p, int slot)
{
    i64 last = p->outer + p->inner - 1;

    return p->stride[slot][last] == 1 && is_even(p, slot, p->outer, last);
}

/* Whether the parameter is absent, or has this stride from term to term. */
static bool has_step(const struct norm_plan *p, const struct bp_view *param, int slot, i64 step)
{
    return !param || p->stride[slot][p->outer + p->inner - 1] == step;
}

bool norm_rows(const struct norm_plan *p, const struct bp_view *scale, const struct bp_view *bias,
               int bytes, struct normalize_rows_args *out)
{
    i64 last = p->outer - 1, line = p->outer, run = p->shape[p->outer + p->inner - 1];
    bool each = p->inner == 1 && has_step(p, scale, NORM_SCALE, 1) &&
                has_step(p, bias, NORM_BIAS, 1);
    bool lines = (p->inner == 1 || (p->inner == 2 && run >= RUN_OF(bytes))) &&
                 has_step(p, scale, NORM_SCALE, 0) && has_step(p, bias, NORM_BIAS, 0);

    if (p->wide != 1 || !p->terms || p->outer > 2 || (!each && !lines)) return false;
    if (!is_row(p, NORM_X) || !is_row(p, NORM_Y)) return false;
    for (int slot = 0; slot < NORM_SLOTS; slot++)
        if (slot != NORM_SCALE && slot != NORM_BIAS && !is_even(p, slot, 0, last)) return false;
    if (last && (p->stride[NORM_SCALE][0] || p->stride[NORM_BIAS][0])) return false;
    *out = (struct normalize_rows_args){
        .terms = p->terms, .x_next = p->stride[NORM_X][last], .y_next = p->stride[NORM_Y][last],
        .mean_next = p->stride[NORM_MEAN][last], .r_next = p->stride[NORM_R][last],
        .period = p->shape[last], .scale_next = p->stride[NORM_SCALE][last],
        .bias_next = p->stride[NORM_BIAS][last], .each = each, .run = run,
        .scale_line = p->stride[NORM_SCALE][line], .bias_line = p->stride[NORM_BIAS][line],
        .centre = p->centre, .epsilon = p->epsilon};
    return true;
}
