/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators on vectors and matrices. Most are sums
 * of products by labels: one loop runs over all indices together. */
#include "../common/reference_running.h"
#include <math.h>
#include <stdlib.h>

enum { LABELS = 12, OPERANDS = 8 };

/* labels[i] are the labels of operand i, labels[n] those of the result; -1 ends a list. */
struct labels {
    int n;
    int64_t of[OPERANDS + 1][REF_RANK + 1];
};

static int64_t index_of(const struct ref_array *x, const int64_t *label, const int64_t *at)
{
    int64_t index = 0;

    for (int i = 0; i < x->rank; i++) index = index * x->shape[i] + at[label[i]];
    return index;
}

/* Adds the product of one element of each operand to element `to`. */
static void add_product(const struct ref_array *in, const struct labels *l, const int64_t *at,
                        struct ref_array *out, int64_t to)
{
    long double re = 1, im = 0, size = 1;
    uint64_t product = 1;
    int parts = out->type->parts;

    for (int i = 0; i < l->n; i++) {
        int64_t from = index_of(&in[i], l->of[i], at);
        const long double *x = out->v ? in[i].v + from * parts : NULL;
        long double before = re;
        if (!x) {
            product *= in[i].u[from];
            continue;
        }
        re = parts == 1 ? re * x[0] : re * x[0] - im * x[1];
        if (parts == 2) im = before * x[1] + im * x[0];
        size *= parts == 1 ? fabsl(x[0]) : fabsl(x[0]) + fabsl(x[1]);
    }
    if (out->u) out->u[to] += product;
    for (int p = 0; out->v && p < parts; p++) {
        /* The first term is assigned: a sum of one term keeps the sign of a zero. */
        long double *sum = &out->v[to * parts + p], term = p ? im : re;
        *sum = *sum == 0 ? term : *sum + term;
        out->bound[to * parts + p] += size;
    }
}

/* Returns the number of terms of each sum. Bounds are sums of magnitudes. */
static int64_t sum_products(const struct ref_array *in, const struct labels *l,
                            struct ref_array *out)
{
    int64_t extent[LABELS], shape[REF_RANK] = {0}, at[LABELS] = {0}, count = 1;
    int rank = 0, n = 0;

    for (int i = 0; i < LABELS; i++) extent[i] = 1;
    for (int i = 0; i < l->n; i++)
        for (int a = 0; a < in[i].rank; a++) {
            extent[l->of[i][a]] = in[i].shape[a];
            if (l->of[i][a] >= n) n = (int)l->of[i][a] + 1;
        }
    for (; l->of[l->n][rank] >= 0; rank++) shape[rank] = extent[l->of[l->n][rank]];
    ref_array_init(out, in[0].type->dtype, rank, shape);
    for (int i = 0; i < n; i++) count *= extent[i];
    for (int64_t i = 0; i < count; i++, ref_next(n, extent, at))
        add_product(in, l, at, out, index_of(out, l->of[l->n], at));
    return out->count ? count / out->count : 0;
}

/* Each term passes through its products, and one addition less than there are terms; the operator's
 * ulp covers the last rounding. Parts of complex numbers need twice as many. */
static void ref_linalg_grow(struct ref_array *out, int64_t terms, int operands)
{
    int parts = out->v ? out->type->parts : 0;

    for (int64_t i = 0; i < out->count * parts; i++)
        out->bound[i] = isfinite(out->v[i]) && isfinite(out->bound[i])
                            ? out->bound[i] * ref_growth(parts * (terms + operands - 1) - 1)
                            : 0;
}

static void by_labels(const struct ref_array *in, const struct labels *l, struct ref_array *out)
{
    ref_linalg_grow(out, sum_products(in, l, out), l->n);
}

void ref_einsum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_einsum_attrs *a = attrs;
    struct labels l = {0};
    int at = 0;

    for (int64_t i = 0; i < a->labels.n; i++) {
        l.of[l.n][at++] = a->labels.at[i];
        if (a->labels.at[i] >= 0) continue;
        l.n++;
        at = 0;
    }
    l.of[l.n][at] = -1;
    by_labels(in, &l, out);
}

void ref_dot(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct labels l = {.n = 2};

    (void)attrs;
    for (int i = 0; i < in->rank; i++) l.of[0][i] = l.of[1][i] = l.of[2][i] = i;
    l.of[2][in->rank - 1] = -1;
    by_labels(in, &l, out);
}

/* The result is the nearest number, except for complex numbers and for the error of long double for
 * f64, as in mul. */
static void no_sum(struct ref_array *out)
{
    for (int64_t i = 0; out->v && i < out->count * out->type->parts; i++)
        if (out->type->parts == 1)
            out->bound[i] = out->type->digits > 24 && isfinite(out->v[i])
                                ? fabsl(out->v[i]) * 0x1p-11L
                                : 0;
}

void ref_outer(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct labels l = {.n = 2, .of = {{0, -1}, {1, -1}, {0, 1, -1}}};
    struct ref_array flat[2] = {in[0], in[1]};

    (void)attrs;
    for (int i = 0; i < 2; i++) {
        flat[i].rank = 1;
        flat[i].shape[0] = in[i].count;
    }
    sum_products(flat, &l, out);
    no_sum(out);
}

void ref_inner(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct labels l = {.n = 2};
    int n = 0, last = LABELS - 1;

    (void)attrs;
    if (!in[0].rank || !in[1].rank) last = -1; /* no axis is summed */
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < in[s].rank; i++) {
            bool summed = last >= 0 && i == in[s].rank - 1;
            l.of[s][i] = summed ? 10 : n;
            if (!summed) l.of[2][n] = n, n++;
        }
    l.of[2][n] = -1;
    by_labels(in, &l, out);
}

void ref_mv(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct labels l = {.n = 2, .of = {{0, 1, -1}, {1, -1}, {0, -1}}};

    (void)attrs;
    by_labels(in, &l, out);
}

/* The sum is computed, then its product with alpha, the product of input with beta, and the
 * addition. */
void ref_addmm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_addmm_attrs *a = attrs;
    struct labels l = {.n = 2, .of = {{0, 1, -1}, {1, 2, -1}, {0, 2, -1}}};
    long double beta = ref_number(in->type, attrs, 1), alpha = ref_number(in->type, attrs, 2);
    int64_t at[2] = {0}, terms = sum_products(&in[1], &l, out);

    (void)a;
    for (int64_t i = 0; i < out->count; i++, ref_next(2, out->shape, at)) {
        long double input = beta * in[0].v[ref_index(&in[0], 2, at)],
                    size = fabsl(alpha) * out->bound[i] * ref_growth(terms + 1) + fabsl(input);
        out->v[i] = alpha * out->v[i] + input;
        out->bound[i] = isfinite(out->v[i]) ? size : 0;
    }
}

void ref_kron(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int rank = in[0].rank > in[1].rank ? in[0].rank : in[1].rank;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    struct ref_array x = {.rank = rank}, y = {.rank = rank}, pair[2], one;
    struct labels none = {.n = 2, .of = {{-1}, {-1}, {-1}}};

    (void)attrs;
    for (int i = 0; i < rank; i++) {
        int in_x = i - (rank - in[0].rank), in_y = i - (rank - in[1].rank);
        x.shape[i] = in_x < 0 ? 1 : in[0].shape[in_x];
        y.shape[i] = in_y < 0 ? 1 : in[1].shape[in_y];
        shape[i] = x.shape[i] * y.shape[i];
    }
    ref_array_init(out, in[0].type->dtype, rank, shape);
    for (int s = 0; s < 2; s++) ref_array_init(&pair[s], in[0].type->dtype, 0, NULL);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t of_x[REF_RANK], of_y[REF_RANK];
        for (int k = 0; k < rank; k++) {
            of_x[k] = at[k] / y.shape[k];
            of_y[k] = at[k] % y.shape[k];
        }
        ref_array_copy(&pair[0], 0, &in[0], ref_index(&x, rank, of_x));
        ref_array_copy(&pair[1], 0, &in[1], ref_index(&y, rank, of_y));
        sum_products(pair, &none, &one);
        ref_array_copy(out, i, &one, 0);
        for (int p = 0; out->v && p < out->type->parts; p++)
            out->bound[i * out->type->parts + p] = one.bound[p];
        ref_array_finish(&one);
    }
    no_sum(out);
    for (int s = 0; s < 2; s++) ref_array_finish(&pair[s]);
}

/* Computes one part of a difference of two products, or of four for complex numbers. */
static void cross_part(const struct ref_array *in, int64_t at, int64_t step, int i,
                       struct ref_array *out)
{
    int64_t to = at + i * step, j = at + (i + 1) % 3 * step, k = at + (i + 2) % 3 * step;
    const long double *x = in[0].v, *y = in[1].v;

    if (out->u) {
        out->u[to] = in[0].u[j] * in[1].u[k] - in[0].u[k] * in[1].u[j];
    } else if (out->type->parts == 1) {
        out->v[to] = x[j] * y[k] - x[k] * y[j];
        out->bound[to] = fabsl(x[j] * y[k]) + fabsl(x[k] * y[j]);
    } else {
        const long double *a = x + 2 * j, *b = y + 2 * k, *c = x + 2 * k, *d = y + 2 * j;
        long double size = (fabsl(a[0]) + fabsl(a[1])) * (fabsl(b[0]) + fabsl(b[1])) +
                           (fabsl(c[0]) + fabsl(c[1])) * (fabsl(d[0]) + fabsl(d[1]));
        out->v[2 * to] = a[0] * b[0] - a[1] * b[1] - (c[0] * d[0] - c[1] * d[1]);
        out->v[2 * to + 1] = a[0] * b[1] + a[1] * b[0] - (c[0] * d[1] + c[1] * d[0]);
        out->bound[2 * to] = out->bound[2 * to + 1] = 2 * size;
    }
}

void ref_cross(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_cross_attrs *)attrs)->axis, in->rank);
    int64_t step = 1;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int i = axis + 1; i < in->rank; i++) step *= in->shape[i];
    for (int64_t line = 0; line < in->count / 3; line++)
        for (int i = 0; i < 3; i++)
            cross_part(in, line / step * step * 3 + line % step, step, i, out);
}

void ref_trace(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_trace_attrs *a = attrs;
    int row = ref_axis(a->axis1, in->rank), column = ref_axis(a->axis2, in->rank), rank = 0;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, terms = 0;

    for (int i = 0; i < in->rank; i++)
        if (i != row && i != column) shape[rank++] = in->shape[i];
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        int64_t to = 0;
        if (at[column] - at[row] != a->offset) continue;
        for (int k = 0; k < in->rank; k++)
            if (k != row && k != column) to = to * in->shape[k] + at[k];
        terms += to == 0;
        if (out->u) out->u[to] += in->u[i];
        for (int p = 0; out->v && p < in->type->parts; p++) {
            out->v[to * in->type->parts + p] += in->v[i * in->type->parts + p];
            out->bound[to * in->type->parts + p] += fabsl(in->v[i * in->type->parts + p]);
        }
    }
    for (int64_t i = 0; out->v && i < out->count * in->type->parts; i++)
        out->bound[i] = isfinite(out->v[i]) ? out->bound[i] * ref_growth(terms - 2) : 0;
}

/* Multiplies a chain of matrices from the left by b, and its magnitudes likewise; each product adds
 * its roundings to those of its operands. *y and *size are rows x inner; results replace them and
 * are rows x columns. */
static void ref_linalg_multiply(long double **y, long double **size, int64_t rows, int64_t inner,
                                const struct ref_array *b, int64_t columns)
{
    long double *next = calloc((size_t)(rows * columns) + 1, sizeof *next),
                *next_size = calloc((size_t)(rows * columns) + 1, sizeof *next_size);

    if (!next || !next_size) abort();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t k = 0; k < inner; k++) {
                next[r * columns + c] += (*y)[r * inner + k] * b->v[k * columns + c];
                next_size[r * columns + c] += (*size)[r * inner + k] * fabsl(b->v[k * columns + c]);
            }
    free(*y);
    free(*size);
    *y = next;
    *size = next_size;
}

void ref_multi_dot(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t rows = in->rank == 2 ? in->shape[0] : 1, columns = in->shape[in->rank - 1], shape[2];
    int64_t roundings = 0;
    long double *y = calloc((size_t)in->count + 1, sizeof *y),
                *size = calloc((size_t)in->count + 1, sizeof *size);
    int rank = 0;

    (void)attrs;
    if (!y || !size) abort();
    for (int64_t i = 0; i < in->count; i++) size[i] = fabsl(y[i] = in->v[i]);
    if (in->rank == 2) shape[rank++] = rows;
    for (int i = 1; in[i].type; i++) {
        int64_t next = in[i].rank == 2 ? in[i].shape[1] : 1;
        ref_linalg_multiply(&y, &size, rows, columns, &in[i], next);
        roundings += columns;
        columns = next;
        if (!in[i + 1].type && in[i].rank == 2) shape[rank++] = next;
    }
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++) {
        out->v[i] = y[i];
        out->bound[i] = size[i] * ref_growth(roundings - 1);
    }
    free(y);
    free(size);
}

/* Computes powers of each matrix from the left: n (m - 1) roundings of each term, in any
 * grouping. */
void ref_matrix_power(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t power = ((const struct bp_matrix_power_attrs *)attrs)->n;
    int64_t n = in->shape[in->rank - 1], matrix = n * n;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t m = 0; matrix && m < in->count / matrix; m++) {
        struct ref_array x = {.v = in->v + m * matrix};
        long double *y = calloc((size_t)matrix, sizeof *y),
                    *size = calloc((size_t)matrix, sizeof *size);
        if (!y || !size) abort();
        for (int64_t i = 0; i < n; i++) y[i * n + i] = size[i * n + i] = 1;
        for (int64_t i = 0; i < power; i++) ref_linalg_multiply(&y, &size, n, n, &x, n);
        for (int64_t i = 0; i < matrix; i++) {
            out->v[m * matrix + i] = y[i];
            out->bound[m * matrix + i] =
                power > 1 ? size[i] * ref_growth(n * (power - 1) - 1) : 0;
        }
        free(y);
        free(size);
    }
}

void ref_bilinear(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct labels l = {.n = 3, .of = {{0, 1, -1}, {0, 2, -1}, {3, 1, 2, -1}, {0, 3, -1}}};
    int64_t terms = sum_products(in, &l, out);

    (void)attrs;
    for (int64_t i = 0; i < out->count; i++) {
        long double bias = in[3].type ? in[3].v[i % out->shape[1]] : 0;
        out->v[i] += bias;
        out->bound[i] = isfinite(out->v[i])
                            ? out->bound[i] * ref_growth(terms + (in[3].type ? 2 : 1))
                            : 0;
    }
}

static void ref_linalg_exchange(long double *a, long double *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        long double v = a[i];
        a[i] = b[i];
        b[i] = v;
    }
}

/* Eliminates with the largest number of each column as pivot: m becomes L, below the diagonal, and
 * U of its rows in another order. like (if not NULL) gets the same order of rows. Returns the
 * determinant of m. */
static long double ref_linalg_eliminate(long double *m, int64_t n, long double *like)
{
    long double det = 1;

    for (int64_t k = 0; k < n; k++) {
        int64_t row = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabsl(m[i * n + k]) > fabsl(m[row * n + k])) row = i;
        if (row != k) {
            ref_linalg_exchange(m + row * n, m + k * n, n);
            if (like) ref_linalg_exchange(like + row * n, like + k * n, n);
            det = -det;
        }
        det *= m[k * n + k];
        for (int64_t i = k + 1; i < n && m[k * n + k] != 0; i++) {
            long double factor = m[i * n + k] /= m[k * n + k];
            for (int64_t j = k + 1; j < n; j++) m[i * n + j] -= factor * m[k * n + j];
        }
    }
    return det;
}

/* Returns the determinant of m without row r and column c; room: for n n numbers. */
static long double minor_of(const long double *m, int64_t n, int64_t r, int64_t c,
                            long double *room)
{
    int64_t at = 0;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (i != r && j != c) room[at++] = m[i * n + j];
    return ref_linalg_eliminate(room, n - 1, NULL);
}

/* Returns by how much errors of L U change the determinant: each error times the minor of its
 * element in like, the matrix with its rows in the order of L U. */
static long double det_error(const long double *lu, const long double *like, int64_t n,
                             long double *room)
{
    long double error = 0;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t least = i < j ? i : j;
            long double size = i <= j ? fabsl(lu[i * n + j]) : 0;
            for (int64_t k = 0; k < least + (i > j); k++)
                size += fabsl(lu[i * n + k] * lu[k * n + j]);
            error += ref_growth(i <= j ? i : j + RUNNING_DIV) * size *
                     fabsl(minor_of(like, n, i, j, room));
        }
    return error;
}

void ref_det(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t n = in->shape[in->rank - 1], size = n * n;
    long double *lu = malloc(((size_t)size + 1) * sizeof *lu);
    long double *like = malloc(((size_t)size + 1) * sizeof *like);
    long double *room = malloc(((size_t)size + 1) * sizeof *room);

    (void)attrs;
    if (!lu || !like || !room) abort();
    ref_array_init(out, in->type->dtype, in->rank - 2, in->shape);
    for (int64_t b = 0; b < out->count; b++) {
        for (int64_t i = 0; i < size; i++) lu[i] = like[i] = in->v[b * size + i];
        out->v[b] = ref_linalg_eliminate(lu, n, like);
        out->bound[b] = det_error(lu, like, n, room) + ref_growth(n - 2) * fabsl(out->v[b]);
        out->bound[b] *= 1 + 0x1p-10L; /* the roundings of the bound */
    }
    free(lu);
    free(like);
    free(room);
}
