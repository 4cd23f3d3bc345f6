/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of the CTC loss and its gradient: over states,
 * forward and backward, in logarithms. */
#include "../common/reference_running.h"
#include <stdlib.h>

/* A line, its states (the even ones are blanks), and the log probabilities of all paths to and from
 * each state at each step. */
struct line {
    const struct ref_array *x;
    int64_t number, lines, classes, steps, states;
    int64_t *class;
    struct running *to, *from;
};

/* Returns the logarithm of a sum of powers of e. Rounded are the differences to the largest, each
 * power, the sum, its logarithm, and the last sum. */
static struct running ref_ctc_join(const struct running *a, int n)
{
    struct running power[3], most;
    int at = 0;

    for (int i = 1; i < n; i++)
        if (!(a[i].v <= a[at].v)) at = i;
    most = run_of(a[at].v);
    if (!isfinite(most.v)) return run_of(most.v > 0 ? NAN : most.v);
    for (int i = 0; i < n; i++) power[i] = run_power(a[i], most, i == at);
    return run_add(most, run_log(run_sum(power, n)));
}

static struct running ref_ctc_score(const struct line *l, int64_t step, int64_t state)
{
    int64_t at = (step * l->lines + l->number) * l->classes + l->class[state];

    return (struct running){.v = l->x->v[at], .e = l->x->bound[at]};
}

static bool ref_ctc_skips(const struct line *l, int64_t state)
{
    return state % 2 && state > 1 && l->class[state] != l->class[state - 2] &&
           l->class[state] != l->class[0];
}

static void ref_ctc_forward(struct line *l)
{
    int64_t n = l->states;

    for (int64_t t = 0; t < l->steps; t++)
        for (int64_t s = 0; s < n; s++) {
            struct running ways[3], *before = l->to + (t - 1) * n;
            struct running v = run_of(s < 2 ? 0 : -INFINITY);
            int m = 0;
            if (t) {
                ways[m++] = before[s];
                if (s > 0) ways[m++] = before[s - 1];
                if (ref_ctc_skips(l, s)) ways[m++] = before[s - 2];
                v = ref_ctc_join(ways, m);
            }
            l->to[t * n + s] = run_add(v, ref_ctc_score(l, t, s));
        }
}

static void ref_ctc_backward(struct line *l)
{
    int64_t n = l->states;

    for (int64_t t = l->steps - 1; t >= 0; t--)
        for (int64_t s = 0; s < n; s++) {
            struct running ways[3], v = run_of(s + 2 >= n ? 0 : -INFINITY);
            int m = 0;
            if (t + 1 < l->steps) {
                for (int64_t k = s; k < n && k < s + 3; k++)
                    if (k < s + 2 || ref_ctc_skips(l, k))
                        ways[m++] = run_add(l->from[(t + 1) * n + k], ref_ctc_score(l, t + 1, k));
                v = ref_ctc_join(ways, m);
            }
            l->from[t * n + s] = v;
        }
}

static struct running all_ways(const struct line *l)
{
    struct running ends[2] = {run_of(0), run_of(-INFINITY)};
    int64_t last = l->steps * l->states - 1;

    if (!l->steps) return run_of(l->states > 1 ? -INFINITY : 0);
    ends[0] = l->to[last];
    if (l->states > 1) ends[1] = l->to[last - 1];
    return ref_ctc_join(ends, 2);
}

static void ref_ctc_begin(struct line *l, const struct ref_array *in, int64_t number, int64_t blank)
{
    size_t room;

    *l = (struct line){.x = in,
                       .number = number,
                       .lines = in->shape[1],
                       .classes = in->shape[2],
                       .steps = (int64_t)in[2].u[number],
                       .states = 2 * (int64_t)in[3].u[number] + 1};
    room = (size_t)((l->steps + 1) * l->states);
    l->class = calloc((size_t)l->states, sizeof *l->class);
    l->to = calloc(room, sizeof *l->to);
    l->from = calloc(room, sizeof *l->from);
    if (!l->class || !l->to || !l->from) abort();
    for (int64_t s = 0; s < l->states; s++)
        l->class[s] = s % 2 ? (int64_t)in[1].u[number * in[1].shape[1] + s / 2] : blank;
    ref_ctc_forward(l);
}

static void ref_ctc_finish(struct line *l)
{
    free(l->class);
    free(l->to);
    free(l->from);
}

static struct running loss_of(const struct ref_array *in, int64_t number, int64_t blank)
{
    struct running loss;
    struct line l;

    ref_ctc_begin(&l, in, number, blank);
    loss = run_neg(all_ways(&l));
    ref_ctc_finish(&l);
    return loss;
}

void ref_ctc_lines(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t blank = ((const struct bp_ctc_lines_attrs *)attrs)->blank;

    ref_array_init(out, num_accumulate(in->type)->dtype, 1, &in->shape[1]);
    for (int64_t i = 0; i < out->count; i++) run_put(out, i, loss_of(in, i, blank));
}

void ref_ctc_lines_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t blank = ((const struct bp_ctc_lines_grad_attrs *)attrs)->blank;

    ref_array_init(out, in->type->dtype, 3, in->shape);
    out->flush = true;
    for (int64_t number = 0; number < in->shape[1]; number++) {
        struct running all, *sum = calloc((size_t)in->shape[2] + 1, sizeof *sum);
        struct line l;
        if (!sum) abort();
        ref_ctc_begin(&l, in, number, blank);
        ref_ctc_backward(&l);
        all = all_ways(&l);
        for (int64_t t = 0; t < l.steps && all.v != -INFINITY; t++) {
            for (int64_t k = 0; k < l.classes; k++) sum[k] = run_of(0);
            for (int64_t s = 0; s < l.states; s++) {
                struct running v = run_add(l.to[t * l.states + s], l.from[t * l.states + s]);
                sum[l.class[s]] = run_add(sum[l.class[s]], run_exp(run_sub(v, all)));
            }
            for (int64_t k = 0; k < l.classes; k++)
                run_put(out, (t * l.lines + number) * l.classes + k,
                        run_mul(run_of(-in[4].v[number]), sum[k]));
        }
        ref_ctc_finish(&l);
        free(sum);
    }
}

/* Replaces x by the logarithms of the softmax of each line, and bound by their errors. */
static void ref_ctc_normalize(struct ref_array *x)
{
    int64_t n = x->shape[2];
    struct running *power = calloc((size_t)n + 1, sizeof *power), size;

    if (!power) abort();
    for (int64_t row = 0; n && row < x->count / n; row++) {
        long double *v = x->v + row * n;
        int64_t at = 0;
        for (int64_t k = 1; k < n; k++)
            if (!(v[k] <= v[at])) at = k;
        for (int64_t k = 0; k < n; k++)
            power[k] = run_power(run_of(v[k]), run_of(v[at]), k == at);
        size = run_add(run_of(v[at]), run_log(run_sum(power, n)));
        for (int64_t k = 0; k < n; k++) {
            struct running p = run_sub(run_of(v[k]), size);
            v[k] = p.v;
            x->bound[row * n + k] = p.e;
        }
    }
    free(power);
}

void ref_ctc_loss(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_ctc_loss_attrs *a = attrs;
    int64_t n = in->shape[1];
    struct running *loss = calloc((size_t)n + 1, sizeof *loss), total;
    struct ref_array all[4] = {{0}};

    if (!loss) abort();
    ref_array_init(out, in->type->dtype, a->reduction ? 0 : 1, &n);
    ref_array_init(&all[0], in->type->dtype, 3, in->shape);
    for (int64_t i = 0; i < in->count; i++) all[0].v[i] = in->v[i];
    for (int i = 1; i < 4; i++) all[i] = in[i];
    if (a->logits) ref_ctc_normalize(&all[0]);
    for (int64_t i = 0; i < n; i++) {
        int64_t length = (int64_t)in[3].u[i];
        loss[i] = loss_of(all, i, a->blank);
        if (a->zero_infinity && isinf(loss[i].v)) loss[i] = run_of(0);
        if (!a->reduction) run_put(out, i, loss[i]);
        if (a->reduction == 1)
            loss[i] = run_div(loss[i], run_of((long double)(length > 1 ? length : 1)));
    }
    total = run_sum(loss, n);
    if (a->reduction == 1) total = run_mul(total, run_rounded(1 / (long double)n));
    if (a->reduction) run_put(out, 0, total);
    ref_array_finish(&all[0]);
    free(loss);
}
