/* SPDX-License-Identifier: Apache-2.0 */
/* shape_einsum.c: has the rules of einsum: sums of products by labels. Operands are contracted from
 * the left, two at a time: both as [batch, own, summed] axes, by one matrix product. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <backplane/call.h>
#include <inttypes.h>

enum { LABELS = BP_RANK_MAX }; /* maximum labels of a call: no step has more axes */

static enum bp_status einsum_put(int64_t label, int64_t *out, size_t room, size_t *n)
{
    if (*n == room)
        return bp_error(BP_ERR_INVALID, "bp_einsum_labels: there is room for %zu labels, more are "
                                        "needed", room);
    out[(*n)++] = label;
    return BP_OK;
}

/* Without "->" the result has the letters that occur once, in alphabetical order. */
static enum bp_status put_rest(const int *times, const int *number, int64_t *out, size_t room,
                               size_t *n)
{
    for (int letter = 0; letter < 128; letter++)
        if (times[letter] == 1) TRY(einsum_put(number[letter], out, room, n));
    return BP_OK;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

enum bp_status bp_einsum_labels(const char *equation, int64_t *out, size_t room, size_t *out_n)
{
    int times[128] = {0}, number[128], next = 0;
    bool arrow = false;
    size_t n = 0;

    if (!equation || !out_n || (room && !out))
        return bp_error(BP_ERR_INVALID, "bp_einsum_labels: equation, out or out_n is NULL");
    for (const char *at = equation; *at; at++) {
        bool ends = at[0] == '-' && at[1] == '>' && !arrow;
        if (*at == ' ') continue;
        if (ends || (*at == ',' && !arrow)) {
            arrow = ends;
            at += ends;
            TRY(einsum_put(-1, out, room, &n));
            continue;
        }
        if (!is_letter(*at))
            return bp_error(BP_ERR_INVALID,
                            "bp_einsum_labels: \"%s\": unexpected '%c' at character %zu, expected "
                            "letters, ',' and one \"->\"",
                            equation, *at, (size_t)(at - equation));
        if (!times[(unsigned char)*at] && arrow)
            return bp_error(BP_ERR_INVALID, "bp_einsum_labels: \"%s\": the result has %c, which no "
                            "operand has", equation, *at);
        if (!times[(unsigned char)*at]++) number[(unsigned char)*at] = next++;
        TRY(einsum_put(number[(unsigned char)*at], out, room, &n));
    }
    if (!arrow) {
        TRY(einsum_put(-1, out, room, &n));
        TRY(put_rest(times, number, out, room, &n));
    }
    *out_n = n;
    return BP_OK;
}

/* Finds one group of the list: it begins at *at, which moves to the position after the group and
 * its -1. Returns the group's length. */
static int64_t einsum_group(const struct bp_dims *labels, int64_t *at, const int64_t **out_first)
{
    int64_t begin = *at;

    *out_first = labels->at + begin;
    while (*at < labels->n && labels->at[*at] != -1) ++*at;
    return (*at)++ - begin;
}

static enum bp_status check_operand(const struct bp_invocation *inv, uint32_t i,
                                    const int64_t *label, int64_t n, int64_t *extent)
{
    const struct bp_view *x = inv->in[i];

    if (n != x->rank)
        return bp_error(BP_ERR_INVALID, "einsum: xs[%u] has %u axes, its labels are %" PRId64, i,
                        (unsigned)x->rank, n);
    for (int64_t a = 0; a < n; a++) {
        if (label[a] < 0 || label[a] >= LABELS)
            return bp_error(BP_ERR_INVALID, "einsum: label %" PRId64 " of xs[%u], expected 0 to %d",
                            label[a], i, LABELS - 1);
        if (extent[label[a]] >= 0 && extent[label[a]] != x->shape[a])
            return bp_error(BP_ERR_INVALID,
                            "einsum: axis %" PRId64 " of xs[%u] is %" PRId64
                            " long, but label %" PRId64 " is %" PRId64 " elsewhere",
                            a, i, x->shape[a], label[a], extent[label[a]]);
        extent[label[a]] = x->shape[a];
    }
    return BP_OK;
}

enum bp_status bp_infer_einsum(struct bp_invocation *inv)
{
    const struct bp_einsum_attrs *a = inv->attrs;
    int64_t extent[LABELS], at = 0, n, groups = 1;
    struct bp_type *out = &inv->out[0];
    const int64_t *label;
    uint32_t seen = 0;

    for (int i = 0; i < LABELS; i++) extent[i] = -1;
    for (int64_t i = 0; i < a->labels.n; i++) groups += a->labels.at[i] == -1;
    if (!inv->n_in || groups != (int64_t)inv->n_in + 1)
        return bp_error(BP_ERR_INVALID,
                        "einsum: labels are of %" PRId64
                        " operands and the result, the call has %u operands",
                        groups - 1, inv->n_in);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        n = einsum_group(&a->labels, &at, &label);
        TRY(check_operand(inv, i, label, n, extent));
    }
    n = einsum_group(&a->labels, &at, &label);
    out->rank = 0;
    for (int64_t i = 0; i < n; i++) {
        if (label[i] < 0 || label[i] >= LABELS || extent[label[i]] < 0 || seen >> label[i] & 1)
            return bp_error(BP_ERR_INVALID, "einsum: label %" PRId64 " of the result, expected "
                            "one of an operand, once", label[i]);
        seen |= 1u << label[i];
        out->shape[out->rank++] = extent[label[i]];
    }
    return BP_OK;
}

/* A tensor with the labels of its axes. */
struct labelled {
    struct bp_tensor *t;
    int64_t label[LABELS], n;
};

static uint32_t bits_of(const int64_t *label, int64_t n)
{
    uint32_t bits = 0;

    for (int64_t i = 0; i < n; i++) bits |= 1u << label[i];
    return bits;
}

static struct bp_tensor *einsum_permuted(struct bp_compose *c, struct bp_tensor *t,
                                         const int64_t *perm, int64_t n)
{
    struct bp_transpose_attrs a = {.size = sizeof a, .perm = {perm, n}};
    bool moves = false;

    for (int64_t i = 0; i < n; i++) moves |= perm[i] != i;
    return moves ? MAKE(c, transpose, &a, t) : t;
}

/* Replaces axes p and q, of one label, by their diagonal as the last axis: every n + 1st
 * element. */
static void take_diagonal(struct bp_compose *c, struct labelled *x, int64_t p, int64_t q)
{
    int64_t perm[LABELS], shape[LABELS], at = 0, label = x->label[p];
    int64_t extent = c->status ? 0 : x->t->shape[p], start = 0, end = extent * extent;
    int64_t step = extent + 1;
    struct bp_slice_attrs a = {.size = sizeof a, .starts = {&start, 1}, .ends = {&end, 1},
                               .axes = {&at, 1}, .steps = {&step, 1}};

    if (c->status) return;
    for (int64_t i = 0; i < x->n; i++) {
        if (i == p || i == q) continue;
        x->label[at] = x->label[i];
        shape[at] = x->t->shape[i];
        perm[at++] = i;
    }
    perm[at] = p;
    perm[at + 1] = q;
    shape[at] = end;
    x->t = einsum_permuted(c, x->t, perm, x->n);
    x->t = MAKE(c, slice, &a, bp_compose_reshape(c, x->t, (uint32_t)at + 1, shape));
    x->label[at] = label;
    x->n = at + 1;
}

static void take_diagonals(struct bp_compose *c, struct labelled *x)
{
    for (int64_t p = 0; p < x->n; p++)
        for (int64_t q = p + 1; q < x->n; q++) {
            if (x->label[p] != x->label[q]) continue;
            take_diagonal(c, x, p, q);
            p = q = -1; /* axes have moved: restart */
            break;
        }
}

/* Sums over labels that neither another operand nor the result needs. */
static void sum_alone(struct bp_compose *c, struct labelled *x, uint32_t needed)
{
    int64_t axes[LABELS], n = 0, left = 0;

    for (int64_t i = 0; i < x->n; i++) {
        if (needed >> x->label[i] & 1) x->label[left++] = x->label[i];
        else axes[n++] = i;
    }
    x->n = left;
    x->t = bp_compose_sum(c, x->t, axes, n, false);
}

/* Appends the axes of x whose label is in bits to a permutation. Returns the product of their
 * extents. */
static int64_t einsum_append(const struct labelled *x, uint32_t bits, int64_t *perm, int64_t *n)
{
    int64_t extent = 1;

    for (int64_t label = 0; label < LABELS; label++)
        for (int64_t i = 0; i < x->n; i++) {
            if (x->label[i] != label || !(bits >> label & 1)) continue;
            extent *= x->t->shape[i];
            perm[(*n)++] = i;
        }
    return extent;
}

/* Returns x as three axes, one for each entry of bits, with the labels of those bits in ascending
 * order. */
static struct bp_tensor *as_matrices(struct bp_compose *c, const struct labelled *x,
                                     const uint32_t *bits, int64_t *out_shape)
{
    int64_t perm[LABELS], n = 0;

    if (c->status) return NULL;
    for (int i = 0; i < 3; i++) out_shape[i] = einsum_append(x, bits[i], perm, &n);
    return bp_compose_reshape(c, einsum_permuted(c, x->t, perm, n), 3, out_shape);
}

/* Sets x to the contraction of x and y; the labels in rest are needed later. */
static void einsum_contract(struct bp_compose *c, struct labelled *x, struct labelled *y,
                            uint32_t rest)
{
    uint32_t in_x, in_y, batch, summed, of_x[3], of_y[3];
    int64_t sx[3], sy[3], shape[LABELS], n = 0, extent[LABELS];
    struct bp_tensor *a, *b;

    sum_alone(c, x, rest | bits_of(y->label, y->n));
    sum_alone(c, y, rest | bits_of(x->label, x->n));
    in_x = bits_of(x->label, x->n);
    in_y = bits_of(y->label, y->n);
    batch = in_x & in_y & rest;
    summed = in_x & in_y & ~rest;
    of_x[0] = of_y[0] = batch;
    of_x[1] = in_x & ~in_y;
    of_x[2] = of_y[1] = summed;
    of_y[2] = in_y & ~in_x;
    a = as_matrices(c, x, of_x, sx);
    b = as_matrices(c, y, of_y, sy);
    a = summed ? MAKE(c, matmul, NULL, a, b) : MAKE(c, mul, NULL, a, b);
    if (c->status) return;
    for (int64_t i = 0; i < x->n; i++) extent[x->label[i]] = x->t->shape[i];
    for (int64_t i = 0; i < y->n; i++) extent[y->label[i]] = y->t->shape[i];
    for (int part = 0; part < 3; part++)
        for (int64_t label = 0; label < LABELS; label++) {
            uint32_t bits = part == 0 ? batch : part == 1 ? of_x[1] : of_y[2];
            if (!(bits >> label & 1)) continue;
            x->label[n] = label;
            shape[n++] = extent[label];
        }
    x->n = n;
    x->t = bp_compose_reshape(c, a, (uint32_t)n, shape);
}

static void einsum_arrange(struct bp_compose *c, struct labelled *x, const int64_t *label,
                           int64_t n)
{
    int64_t perm[LABELS];

    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++)
            if (x->label[k] == label[i]) perm[i] = k;
    x->t = einsum_permuted(c, x->t, perm, n);
}

/* Whether the call is one sum, or one product of operands that need no sum before: these round
 * once, in half types too. */
static bool is_one_step(const struct bp_dims *labels, int64_t operands)
{
    uint32_t bits[3] = {0};
    int64_t at = 0, n;
    const int64_t *label;

    if (operands > 2) return false;
    for (int64_t i = 0; i <= operands; i++) {
        n = einsum_group(labels, &at, &label);
        bits[i] = bits_of(label, n);
    }
    return operands == 1 || !((bits[0] ^ bits[1]) & ~bits[2]);
}

static struct labelled einsum_operand(struct bp_compose *c, const struct bp_dims *labels,
                                      int64_t *at, struct bp_tensor *t, bool widen)
{
    struct labelled x = {.t = widen ? bp_compose_widen(c, t) : t};
    const int64_t *label;

    x.n = einsum_group(labels, at, &label);
    for (int64_t i = 0; i < x.n; i++) x.label[i] = label[i];
    take_diagonals(c, &x);
    return x;
}

enum bp_status bp_decompose_einsum(struct bp_decomposition *e)
{
    const struct bp_einsum_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct labelled x, y;
    int64_t at = 0, operands = 0, n;
    const int64_t *label;
    bool widen;

    for (int64_t i = 0; i < a->labels.n; i++) operands += a->labels.at[i] == -1;
    widen = !is_one_step(&a->labels, operands);
    x = einsum_operand(&c, &a->labels, &at, e->in[0], widen);
    for (int64_t i = 1; i < operands; i++) {
        uint32_t rest = 0;
        y = einsum_operand(&c, &a->labels, &at, e->in[i], widen);
        for (int64_t l = at; l < a->labels.n; l++)
            if (a->labels.at[l] >= 0) rest |= 1u << a->labels.at[l];
        einsum_contract(&c, &x, &y, rest);
    }
    n = einsum_group(&a->labels, &at, &label);
    sum_alone(&c, &x, bits_of(label, n));
    einsum_arrange(&c, &x, label, n);
    bp_compose_keep(&c, bp_compose_cast(&c, x.t, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}
