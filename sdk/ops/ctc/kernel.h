/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes the CTC loss and its gradient, in logarithms, one line (sequence) per lane.
 *
 * With blanks before, between and after its S labels, a line has 2 S + 1 states. alpha of a state
 * at a step is the logarithm of the probability of all paths from the first step that are in the
 * state at that step. beta is the same for all paths from there to the last step. A path stays in
 * its state, moves to the next state, or skips a blank to the state after it, if that state has
 * another class. */
#ifndef BP_OPS_CTC_KERNEL_H
#define BP_OPS_CTC_KERNEL_H

#include "../../dialect/dialect.h"

/* x is [steps, lines, classes], labels are [lines, labels]. wide: labels and lengths are i64,
 * otherwise i32. room: numbers of workspace for each line. */
struct ctc_lines_args {
    i64 steps, lines, classes, labels, wide, blank, room;
};
#define ctc_lines_grad_args ctc_lines_args

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* The number of steps and labels of a line; steps -1: its lengths or labels are invalid. */
struct ctc_line {
    i64 steps, labels, first; /* first: index of its first label */
};

KFN struct ctc_line ctc_line(const struct ctc_lines_args *a, i64 line, GLOBAL const void *label,
                             GLOBAL const void *input_lengths, GLOBAL const void *label_lengths,
                             GLOBAL u32 *fault)
{
    struct ctc_line l;
    int bad;

    l.steps = index_at(input_lengths, a->wide, line);
    l.labels = index_at(label_lengths, a->wide, line);
    l.first = line * a->labels;
    bad = l.steps < 0 || l.steps > a->steps || l.labels < 0 || l.labels > a->labels;
    for (i64 i = 0; !bad && i < l.labels; i++) {
        i64 k = index_at(label, a->wide, l.first + i);
        bad = k < 0 || k >= a->classes;
    }
    if (bad) {
        fault_set(fault, 1);
        l.steps = -1;
    }
    return l;
}

/* ctc_class returns the class of a state; ctc_skips whether a path may enter the state from the one
 * two before. */
KFN i64 ctc_class(const struct ctc_lines_args *a, const struct ctc_line *l,
                  GLOBAL const void *label, i64 state)
{
    return state % 2 ? index_at(label, a->wide, l->first + state / 2) : a->blank;
}
KFN int ctc_skips(const struct ctc_lines_args *a, const struct ctc_line *l,
                  GLOBAL const void *label, i64 state)
{
    i64 k;

    if (state < 2) return 0;
    k = ctc_class(a, l, label, state);
    return k != a->blank && k != ctc_class(a, l, label, state - 2);
}

/* log(e^x + e^y + e^z). */
KFN acc ctc_join(acc x, acc y, acc z)
{
    acc most = x > y ? x : y;

    most = z > most ? z : most;
    if (most == -acc_infinity()) return x + y + z; /* NaN remains NaN */
    return most + FUNC(log)(acc_exp(x - most) + acc_exp(y - most) + acc_exp(z - most));
}

/* Computes alpha of a step from alpha of the step before; before NULL: this is the first step. x:
 * the scores of the step. */
KFN void ctc_forward(const struct ctc_lines_args *a, const struct ctc_line *l,
                     GLOBAL const void *label, GLOBAL const elem *x, GLOBAL const acc *before,
                     GLOBAL acc *alpha)
{
    acc none = -acc_infinity();

    for (i64 s = 0; s < 2 * l->labels + 1; s++) {
        acc v = s < 2 ? 0 : none;
        if (before)
            v = ctc_join(before[s], s > 0 ? before[s - 1] : none,
                         ctc_skips(a, l, label, s) ? before[s - 2] : none);
        alpha[s] = v + elem_get(x[ctc_class(a, l, label, s)]);
    }
}

/* Returns the logarithm of the probability of all paths: they end in one of the last two states. */
KFN acc ctc_end(const struct ctc_line *l, GLOBAL const acc *alpha)
{
    i64 last = 2 * l->labels;
    acc none = -acc_infinity();

    return ctc_join(alpha[last], last > 0 ? alpha[last - 1] : none, none);
}

KFN void ctc_lines_span(const struct ctc_lines_args *a, i64 begin, i64 count, GLOBAL acc *loss,
                        GLOBAL const elem *x, GLOBAL const void *label,
                        GLOBAL const void *input_lengths, GLOBAL const void *label_lengths,
                        GLOBAL acc *room, GLOBAL u32 *fault)
{
    for (i64 line = begin; line < begin + count; line++) {
        struct ctc_line l = ctc_line(a, line, label, input_lengths, label_lengths, fault);
        i64 states = 2 * a->labels + 1;
        GLOBAL acc *alpha = room + line * a->room, *before = alpha + states;
        for (i64 t = 0; t < l.steps; t++) {
            GLOBAL acc *free = before;
            before = alpha;
            alpha = free;
            ctc_forward(a, &l, label, x + (t * a->lines + line) * a->classes,
                        t ? before : (GLOBAL acc *)0, alpha);
        }
        if (l.steps > 0) loss[line] = -ctc_end(&l, alpha);
        else loss[line] = l.steps < 0 || !l.labels ? 0 : acc_infinity();
    }
}
ENTRY_SPANS_7(ctc_lines, acc, const elem, const void, const void, const void, acc, u32)

/* Computes beta of a step, without x of this step, from beta of the next step with its x; behind
 * NULL: this is the last step. */
KFN void ctc_backward(const struct ctc_lines_args *a, const struct ctc_line *l,
                      GLOBAL const void *label, GLOBAL const acc *behind, GLOBAL acc *beta)
{
    i64 states = 2 * l->labels + 1;
    acc none = -acc_infinity();

    for (i64 s = 0; s < states; s++) {
        acc v = s + 2 >= states ? 0 : none;
        if (behind) {
            int skips = s + 2 < states && ctc_skips(a, l, label, s + 2);
            v = ctc_join(behind[s], s + 1 < states ? behind[s + 1] : none,
                         skips ? behind[s + 2] : none);
        }
        beta[s] = v;
    }
}

/* Computes dx of one step: each state adds its share of all paths to its class. */
KFN void ctc_step_grad(const struct ctc_lines_args *a, const struct ctc_line *l,
                       GLOBAL const void *label, GLOBAL const acc *alpha, GLOBAL acc *beta,
                       acc all, acc dloss, GLOBAL acc *sums, GLOBAL const elem *x, GLOBAL elem *dx)
{
    for (i64 k = 0; k < a->classes; k++) sums[k] = 0;
    for (i64 s = 0; s < 2 * l->labels + 1; s++) {
        i64 k = ctc_class(a, l, label, s);
        sums[k] += acc_exp(alpha[s] + beta[s] - all);
        beta[s] += elem_get(x[k]); /* for the step before */
    }
    for (i64 k = 0; k < a->classes; k++) dx[k] = elem_put(-dloss * sums[k]);
}

KFN void ctc_lines_grad_span(const struct ctc_lines_grad_args *a, i64 begin, i64 count,
                             GLOBAL elem *dx, GLOBAL const elem *x, GLOBAL const void *label,
                             GLOBAL const void *input_lengths, GLOBAL const void *label_lengths,
                             GLOBAL const acc *dloss, GLOBAL acc *room, GLOBAL u32 *fault)
{
    i64 states = 2 * a->labels + 1, step = a->lines * a->classes;

    for (i64 line = begin; line < begin + count; line++) {
        struct ctc_line l = ctc_line(a, line, label, input_lengths, label_lengths, fault);
        GLOBAL acc *alpha = room + line * a->room, *beta = alpha + a->steps * states;
        GLOBAL acc *behind = beta + states, *sums = behind + states;
        GLOBAL const elem *from = x + line * a->classes;
        GLOBAL elem *to = dx + line * a->classes;
        i64 last = l.steps < 0 ? 0 : l.steps;
        acc all = -acc_infinity();
        for (i64 t = 0; t < last; t++)
            ctc_forward(a, &l, label, from + t * step,
                        t ? alpha + (t - 1) * states : (GLOBAL acc *)0, alpha + t * states);
        if (last > 0) all = ctc_end(&l, alpha + (last - 1) * states);
        if (all == -acc_infinity()) last = 0;
        for (i64 t = last; t < a->steps; t++)
            for (i64 k = 0; k < a->classes; k++) to[t * step + k] = elem_put(0);
        for (i64 t = last - 1; t >= 0; t--) {
            GLOBAL acc *free = behind;
            behind = beta;
            beta = free;
            ctc_backward(a, &l, label, t + 1 < last ? behind : (GLOBAL acc *)0, beta);
            ctc_step_grad(a, &l, label, alpha + t * states, beta, all, dloss[line], sums,
                          from + t * step, to + t * step);
        }
    }
}
ENTRY_SPANS_8(ctc_lines_grad, elem, const elem, const void, const void, const void, const acc, acc,
              u32)
#endif

#endif
