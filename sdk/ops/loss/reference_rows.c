/* SPDX-License-Identifier: Apache-2.0 */
/* reference_rows.c: computes the reference results of losses of vectors along the last axis, and of
 * lists of classes. */
#include "../common/reference_running.h"
#include <stdlib.h>
#include <string.h>

/* A row of n numbers of each input, number `row` of all rows; room: temporary array of n
 * numbers. */
struct row {
    const struct ref_array *in;
    const void *attrs;
    int64_t n, row;
    struct running *room;
};

static struct running ref_rows_value(const struct row *r, int input, int64_t i)
{
    return run_of(r->in[input].v[r->row * r->n + i]);
}

static struct running ref_rows_weight(const struct row *r, int64_t i)
{
    return run_of(r->in[2].type ? r->in[2].v[i] : 1);
}

static struct running per_class(const struct row *r, struct running sum)
{
    return run_mul(sum, run_rounded(1 / (long double)r->n));
}

static struct running multi_label_soft(const struct row *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        struct running x = ref_rows_value(r, 0, i), y = ref_rows_value(r, 1, i), t;
        t = run_add(run_mul(y, run_log_sigmoid(x)),
                    run_mul(run_sub(run_of(1), y), run_log_sigmoid(run_neg(x))));
        r->room[i] = run_mul(run_neg(t), ref_rows_weight(r, i));
    }
    return per_class(r, run_sum(r->room, r->n));
}

static struct running ref_rows_root(struct running a)
{
    long double v = sqrtl(a.v);

    return run_function(a, v, v > 0 ? 1 / (2 * v) : 0, 2);
}

/* Returns the norm of a row, at least 1e-8. */
static struct running ref_rows_norm(const struct row *r, int input)
{
    struct running v;

    for (int64_t i = 0; i < r->n; i++)
        r->room[i] = run_mul(ref_rows_value(r, input, i), ref_rows_value(r, input, i));
    v = ref_rows_root(run_sum(r->room, r->n));
    return v.v < 1e-8L ? run_rounded(1e-8L) : v;
}

static struct running cosine_embedding(const struct row *r)
{
    double margin = ((const struct bp_cosine_embedding_loss_attrs *)r->attrs)->margin;
    struct running norms = run_mul(ref_rows_norm(r, 0), ref_rows_norm(r, 1)), cosine;

    for (int64_t i = 0; i < r->n; i++)
        r->room[i] = run_mul(ref_rows_value(r, 0, i), ref_rows_value(r, 1, i));
    cosine = run_div(run_sum(r->room, r->n), norms);
    if (r->in[2].v[r->row] > 0) return run_sub(run_of(1), cosine);
    return run_relu(run_sub(cosine, run_rounded(margin)));
}

static struct running ref_rows_power(struct running a, double p)
{
    if (p == 1) return a;
    if (p == 2) return run_mul(a, a);
    return run_function(a, powl(a.v, p), a.v > 0 ? (long double)p * powl(a.v, p - 1) : 0, 2);
}

/* (The sum of abs(a - b + epsilon)^p)^(1/p); the exponent 1/p of the root is rounded. */
static struct running ref_rows_distance(const struct row *r, int a, int b)
{
    const struct bp_triplet_margin_loss_attrs *f = r->attrs;
    struct running s;
    long double v;

    for (int64_t i = 0; i < r->n; i++) {
        struct running d = run_sub(ref_rows_value(r, a, i), ref_rows_value(r, b, i));
        r->room[i] = ref_rows_power(run_abs(run_add(d, run_rounded(f->epsilon))), f->p);
    }
    s = run_sum(r->room, r->n);
    if (f->p == 1) return s;
    if (f->p == 2) return ref_rows_root(s);
    v = powl(s.v, 1 / (long double)f->p);
    return run_function(s, v, s.v > 0 ? v / ((long double)f->p * s.v) : 0,
                        2 + (s.v > 0 ? fabsl(logl(s.v)) : 0) / (long double)f->p);
}

static struct running ref_rows_triplet(const struct row *r)
{
    const struct bp_triplet_margin_loss_attrs *f = r->attrs;
    struct running near = ref_rows_distance(r, 0, 1), far = ref_rows_distance(r, 0, 2), other;

    if (f->swap) {
        other = ref_rows_distance(r, 1, 2);
        if (other.e > far.e) far.e = other.e; /* where both are close, either is allowed */
        if (other.v < far.v) far.v = other.v;
    }
    return run_relu(run_add(run_sub(near, far), run_rounded(f->margin)));
}

static int64_t class_of(const struct row *r, int64_t at)
{
    int64_t k = (int64_t)r->in[1].u[at];

    return k < 0 ? k + r->n : k;
}

static struct running multi_margin(const struct row *r)
{
    const struct bp_multi_margin_loss_attrs *a = r->attrs;
    int64_t own = class_of(r, r->row);
    struct running sum;

    for (int64_t i = 0; i < r->n; i++) {
        struct running t = run_sub(ref_rows_value(r, 0, i), ref_rows_value(r, 0, own));
        t = run_relu(run_add(t, run_rounded(a->margin)));
        r->room[i] = i == own ? run_of(0) : ref_rows_power(t, (double)a->p);
    }
    sum = run_sum(r->room, r->n);
    return per_class(r, run_mul(sum, ref_rows_weight(r, own)));
}

static struct running multi_label_margin(const struct row *r)
{
    int64_t n_labels = 0, n = 0;
    const uint64_t *label = r->in[1].u + r->row * r->n;
    struct running *term = calloc((size_t)(r->n * r->n) + 1, sizeof *term), sum;

    if (!term) abort();
    while (n_labels < r->n && (int64_t)label[n_labels] >= 0) n_labels++;
    for (int64_t j = 0; j < n_labels; j++)
        for (int64_t i = 0; i < r->n; i++) {
            bool is_label = false;
            struct running t = run_sub(ref_rows_value(r, 0, i),
                                       ref_rows_value(r, 0, (int64_t)label[j]));
            for (int64_t k = 0; k < n_labels; k++) is_label |= (int64_t)label[k] == i;
            if (!is_label) term[n++] = run_relu(run_add(t, run_of(1)));
        }
    sum = run_sum(term, n);
    free(term);
    return per_class(r, sum);
}

/* Computes the loss of one entry of the first axis from the sums over its rows. */
static struct running ref_rows_dice(const struct ref_array *in, int64_t first, int64_t rows,
                                    int64_t n, double epsilon)
{
    struct running *own = calloc((size_t)(rows * n) + 1, sizeof *own), *all, t;

    all = calloc((size_t)(rows * n) + 1, sizeof *all);
    if (!own || !all) abort();
    for (int64_t i = 0; i < rows; i++) {
        int64_t k = (int64_t)in[1].u[first * rows + i];
        for (int64_t c = 0; c < n; c++) {
            all[i * n + c] = run_of(in[0].v[(first * rows + i) * n + c]);
            if (c == (k < 0 ? k + n : k)) own[i * n + c] = all[i * n + c];
        }
    }
    t = run_mul(run_of(2), run_sum(own, rows * n));
    t = run_div(t, run_add(run_sum(all, rows * n), run_rounded((long double)rows + epsilon)));
    free(own);
    free(all);
    return run_sub(run_of(1), t);
}

/* Computes row i of x positive^T. */
static void ref_rows_similar(const struct row *r, const struct ref_array *positive, int64_t rows,
                             struct running *out)
{
    for (int64_t j = 0; j < rows; j++) {
        for (int64_t i = 0; i < r->n; i++)
            r->room[i] = run_mul(ref_rows_value(r, 0, i), run_of(positive->v[j * r->n + i]));
        out[j] = run_sum(r->room, r->n);
    }
}

static bool is_alike(const struct row *r, int64_t j)
{
    return r->in[2].u[j] == r->in[2].u[r->row];
}

/* Returns the cross entropy of a row of similarities s, taken as exact; p: temporary array of
 * `rows` numbers. */
static struct running ref_rows_entropy(const struct row *r, const struct running *s, int64_t rows,
                                       struct running *p)
{
    struct running size, target = run_of(0);
    int64_t at = 0;

    for (int64_t j = 0; j < rows; j++) {
        if (s[j].v > s[at].v) at = j;
        target.v += is_alike(r, j);
    }
    for (int64_t j = 0; j < rows; j++) p[j] = run_power(run_of(s[j].v), run_of(s[at].v), j == at);
    size = run_add(run_of(s[at].v), run_log(run_sum(p, rows)));
    target = run_div(run_of(1), target);
    for (int64_t j = 0; j < rows; j++)
        p[j] = is_alike(r, j) ? run_mul(target, run_sub(size, run_of(s[j].v))) : run_of(0);
    return run_sum(p, rows);
}

/* The similarities have errors too: the result changes by each error times the difference between
 * its probability and its target. */
static struct running npair_row(const struct row *r, int64_t rows)
{
    struct running *s = calloc((size_t)rows + 1, sizeof *s),
                   *p = calloc((size_t)rows + 1, sizeof *p), all;
    long double most = -INFINITY, sum = 0, alike = 0;

    if (!s || !p) abort();
    ref_rows_similar(r, &r->in[1], rows, s);
    all = ref_rows_entropy(r, s, rows, p);
    for (int64_t j = 0; j < rows; j++) most = fmaxl(most, s[j].v);
    for (int64_t j = 0; j < rows; j++) {
        sum += expl(s[j].v - most);
        alike += is_alike(r, j);
    }
    for (int64_t j = 0; j < rows; j++)
        all.e += s[j].e * fabsl(expl(s[j].v - most) / sum - (is_alike(r, j) ? 1 / alike : 0));
    free(s);
    free(p);
    return all;
}

static void ref_rows_npair(struct row *r, struct ref_array *out)
{
    double reg = ((const struct bp_npair_loss_attrs *)r->attrs)->l2_reg;
    int64_t rows = r->in->shape[0], n = r->in->count;
    struct running *t = calloc((size_t)(2 * n + rows) + 1, sizeof *t), sum, costs;

    if (!t) abort();
    for (r->row = 0; r->row < rows; r->row++) t[r->row] = npair_row(r, rows);
    costs = run_mul(run_sum(t, rows), run_rounded(1 / (long double)rows));
    for (int64_t i = 0; i < 2 * n; i++) {
        struct running v = run_of(r->in[i / (n ? n : 1)].v[i % (n ? n : 1)]);
        t[i] = run_mul(v, v);
    }
    sum = run_mul(run_sum(t, 2 * n), run_rounded((long double)reg / 4 / (long double)rows));
    ref_array_init(out, r->in->type->dtype, 0, NULL);
    run_put(out, 0, run_add(costs, sum));
    free(t);
}

static const struct {
    const char *op;
    struct running (*each)(const struct row *r);
} formulas[] = {
    {"multi_label_soft_margin_loss", multi_label_soft},
    {"cosine_embedding_loss", cosine_embedding},
    {"triplet_margin_loss", ref_rows_triplet},
    {"multi_margin_loss", multi_margin},
    {"multi_label_margin_loss", multi_label_margin},
    {"dice_loss", NULL},
};

void ref_family_loss_rows(const char *op, const struct ref_array *in, const void *attrs,
                          struct ref_array *out)
{
    int64_t reduction = ((const struct bp_l1_loss_attrs *)attrs)->reduction, each = 1, rows = 1;
    struct row r = {.in = in, .attrs = attrs, .n = in->shape[in->rank - 1]};
    struct running *loss, total;
    bool is_dice = !strcmp(op, "dice_loss");
    size_t f = 0;

    for (int i = 0; i + 1 < in->rank; i++) rows *= in->shape[i];
    r.room = calloc((size_t)r.n + 1, sizeof *r.room);
    loss = calloc((size_t)rows + 1, sizeof *loss);
    if (!r.room || !loss) abort();
    if (!strcmp(op, "npair_loss")) {
        ref_rows_npair(&r, out);
        free(r.room);
        free(loss);
        return;
    }
    while (strcmp(formulas[f].op, op)) f++;
    for (int i = 1; i + 1 < in->rank && is_dice; i++) each *= in->shape[i];
    if (is_dice) rows = in->shape[0];
    ref_array_init(out, in->type->dtype, reduction ? 0 : is_dice ? 1 : in->rank - 1, in->shape);
    for (r.row = 0; r.row < rows; r.row++) {
        if (is_dice)
            loss[r.row] = ref_rows_dice(in, r.row, each, r.n,
                                        ((const struct bp_dice_loss_attrs *)attrs)->epsilon);
        else loss[r.row] = formulas[f].each(&r);
        if (!reduction) run_put(out, r.row, loss[r.row]);
    }
    total = run_sum(loss, rows);
    if (reduction == 1) total = run_mul(total, run_rounded(1 / (long double)rows));
    if (reduction) run_put(out, 0, total);
    free(r.room);
    free(loss);
}
