/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c: translates a product of matrices into the column-major form of vendors' libraries; see
 * gemm.h. */
#include "gemm.h"
#include <ops/matmul/kernel.h>
#include <ops/matmul/launch_shape.h>
#include <string.h>

/* A matrix by its extents and strides. */
struct lies {
    int64_t rows, columns, row, column;
};

static struct lies gemm_transpose(struct lies m)
{
    return (struct lies){m.columns, m.rows, m.column, m.row};
}

/* Whether the matrix is column-major, with columns at a distance (`between`) of at least their
 * length. The stride of a single column, or of elements in columns of one element, may be
 * anything. */
static bool is_columns(struct lies m, int64_t *between)
{
    *between = m.columns == 1 ? m.rows : m.column;
    return (m.rows == 1 || m.row == 1) && *between >= m.rows;
}

/* Removes axis i of the batch. */
static void drop_axis(struct matmul_args *a, int64_t i)
{
    a->rank--;
    memmove(&a->shape[i], &a->shape[i + 1], (size_t)(a->rank - i) * sizeof *a->shape);
    for (int o = 0; o < MATMUL_OPERANDS; o++)
        memmove(&a->stride[o][i], &a->stride[o][i + 1],
                (size_t)(a->rank - i) * sizeof *a->stride[o]);
}

/* Whether axis i and the next axis can be merged into one. */
static bool gemm_joins(const struct matmul_args *a, int64_t i)
{
    for (int o = 0; o < MATMUL_OPERANDS; o++)
        if (a->stride[o][i] != a->stride[o][i + 1] * a->shape[i + 1]) return false;
    return true;
}

static void gemm_collapse(struct matmul_args *a)
{
    for (int64_t i = a->rank - 1; i >= 0; i--)
        if (a->shape[i] == 1) drop_axis(a, i);
    for (int64_t i = a->rank - 2; i >= 0; i--) {
        if (!gemm_joins(a, i)) continue;
        a->shape[i + 1] *= a->shape[i];
        drop_axis(a, i);
    }
}

/* A last batch axis that continues the rows of a, while b is the same for the whole axis, becomes
 * more rows. */
static void join_rows(struct matmul_args *a)
{
    int64_t last = a->rank - 1;

    if (last < 0 || a->stride[MATMUL_B][last] || !a->stride[MATMUL_A][last]) return;
    for (int o = MATMUL_C; o <= MATMUL_A; o++) {
        if (a->m == 1) a->row[o] = a->stride[o][last];
        if (a->stride[o][last] != a->row[o] * a->m) return;
    }
    a->m *= a->shape[last];
    drop_axis(a, last);
}

/* The longest axis of the batch becomes the batch of one call; the call is repeated over the
 * others. */
static void take_batch(struct gpu_gemm *g, struct matmul_args *a, const int of[3])
{
    int64_t longest = 0;

    g->batch = g->calls = 1;
    for (int64_t i = 1; i < a->rank; i++)
        if (a->shape[i] > a->shape[longest]) longest = i;
    if (a->rank) {
        g->batch = a->shape[longest];
        for (int o = 0; o < 3; o++) g->step[o] = a->stride[of[o]][longest];
        drop_axis(a, longest);
    }
    g->rank = (int)a->rank;
    for (int i = 0; i < g->rank; i++) {
        g->shape[i] = a->shape[i];
        g->calls *= a->shape[i];
        for (int o = 0; o < 3; o++) g->stride[o][i] = a->stride[of[o]][i];
    }
}

/* The inputs of a kernel row, by their role in the product; -1: absent. */
struct parts {
    int a, b, added, residual;
    bool trans_a, trans_b;
    double alpha, beta;
};

static struct parts gemm_parts_of(const struct bp_prep *prep)
{
    const struct bp_matmul_attrs *matmul = prep->attrs;
    const struct bp_addmm_attrs *addmm = prep->attrs;

    const struct bp_fused_matmul_attrs *fused = prep->attrs;
    int third = prep->n_in > 2 && prep->in[2] ? 2 : -1,
        fourth = prep->n_in > 3 && prep->in[3] ? 3 : -1;

    switch (portable_number(prep->kernel)) {
    case GEMM_MATMUL:
        return (struct parts){0, 1, -1, -1, matmul->transpose_a, matmul->transpose_b, 1, 0};
    case GEMM_ADDMM: return (struct parts){1, 2, 0, -1, false, false, addmm->alpha, addmm->beta};
    case GEMM_FUSED:
        return (struct parts){0, 1, third, fourth, fused->transpose_a, fused->transpose_b, 1, 1};
    default: return (struct parts){0, 1, third, -1, false, true, 1, 1};
    }
}

/* Describes the summand: a matrix with the result's layout, or a vector along the result's rows.
 * swapped: the result is stored row-major, as the operator defines it, so the library's m rows are
 * the operator's columns. false: the summand has another form. */
static bool adds_init(struct gpu_gemm *g, const struct bp_prep *prep, const struct parts *p,
                      bool swapped)
{
    const struct bp_view *v = p->added < 0 ? NULL : prep->in[p->added];
    int64_t rows = swapped ? g->n : g->m, columns = swapped ? g->m : g->n;
    struct lies lies = {rows, columns, 0, 0};

    g->alpha = p->alpha;
    g->input[GEMM_ADDED] = p->added;
    g->bias = -1;
    if (!v) return true;
    if (p->beta == 0) return false; /* libraries then do not read it, and would lose a NaN */
    g->beta = p->beta;
    g->adds = GEMM_MATRIX;
    if (v->rank > 2) return false;
    if (v->rank > 0 && v->shape[v->rank - 1] > 1) lies.column = v->stride[v->rank - 1];
    if (v->rank > 1 && v->shape[0] > 1) lies.row = v->stride[0];
    if (p->beta == 1 && swapped && !lies.row && lies.column == 1 && g->m > 1) {
        g->adds = GEMM_VECTOR;
        g->bias = p->added;
        return true;
    }
    if ((rows > 1 && !lies.row) || (columns > 1 && !lies.column)) return false;
    return is_columns(swapped ? gemm_transpose(lies) : lies, &g->between[GEMM_ADDED]);
}

/* Adds the residual of fused_matmul, whose elements must lie as those of the result do. Its bias
 * must be a vector, which the libraries add beside a matrix. */
static bool residual_init(struct gpu_gemm *g, const struct bp_prep *prep, const struct parts *p)
{
    const struct bp_view *y = prep->out[0], *v = p->residual < 0 ? NULL : prep->in[p->residual];

    if (p->added >= 0 && g->adds != GEMM_VECTOR) return false;
    if (!v) return true;
    for (int a = 0; a < y->rank; a++)
        if (y->shape[a] > 1 && v->stride[a] != y->stride[a]) return false;
    g->adds = GEMM_LIKE_RESULT;
    g->beta = 1;
    g->input[GEMM_ADDED] = p->residual;
    g->between[GEMM_ADDED] = g->between[GEMM_RESULT];
    g->step[GEMM_ADDED] = g->step[GEMM_RESULT];
    return true;
}

bool gpu_gemm_init(struct gpu_gemm *out, const struct bp_prep *prep)
{
    const struct bp_view *c = prep->out[0];
    struct parts p = gemm_parts_of(prep);
    struct matmul_args s = matmul_of(prep->in[p.a], p.trans_a, prep->in[p.b], p.trans_b, c);
    struct lies a, b, result;

    *out = (struct gpu_gemm){.dtype = c->dtype};
    if (!c->count || !s.k) return false;
    gemm_collapse(&s);
    join_rows(&s);
    a = (struct lies){s.m, s.k, s.row[MATMUL_A], s.column[MATMUL_A]};
    b = (struct lies){s.k, s.n, s.row[MATMUL_B], s.column[MATMUL_B]};
    result = (struct lies){s.m, s.n, s.row[MATMUL_C], s.column[MATMUL_C]};
    bool swapped = is_columns(gemm_transpose(result), &out->between[GEMM_RESULT]);
    struct lies first = swapped ? gemm_transpose(b) : a, second = swapped ? gemm_transpose(a) : b;
    int of[3] = {swapped ? MATMUL_B : MATMUL_A, swapped ? MATMUL_A : MATMUL_B, MATMUL_C};

    if (!swapped && !is_columns(result, &out->between[GEMM_RESULT])) return false;
    out->m = first.rows;
    out->n = second.columns;
    out->k = s.k;
    out->input[GEMM_FIRST] = swapped ? p.b : p.a;
    out->input[GEMM_SECOND] = swapped ? p.a : p.b;
    out->transposed[0] = !is_columns(first, &out->between[GEMM_FIRST]);
    out->transposed[1] = !is_columns(second, &out->between[GEMM_SECOND]);
    if (out->transposed[0] && !is_columns(gemm_transpose(first), &out->between[GEMM_FIRST]))
        return false;
    if (out->transposed[1] && !is_columns(gemm_transpose(second), &out->between[GEMM_SECOND]))
        return false;
    take_batch(out, &s, of);
    if (!adds_init(out, prep, &p, swapped)) return false;
    return portable_number(prep->kernel) != GEMM_FUSED || residual_init(out, prep, &p);
}

bool gpu_gemm_is_small(const struct gpu_gemm *gemm)
{
    bool small = gemm->m <= INT32_MAX && gemm->n <= INT32_MAX && gemm->k <= INT32_MAX &&
                 gemm->batch <= INT32_MAX;

    for (int i = 0; i < GEMM_OPERANDS; i++) small = small && gemm->between[i] <= INT32_MAX;
    return small;
}

void gpu_gemm_place(const struct gpu_gemm *gemm, const struct bp_launch *launch, int64_t call,
                    void *out[GEMM_OPERANDS])
{
    uint64_t size = gpu_gemm_size(gemm->dtype);
    int64_t at[3] = {0, 0, 0};

    for (int i = gemm->rank - 1; i >= 0; i--) {
        for (int o = 0; o < 3; o++) at[o] += call % gemm->shape[i] * gemm->stride[o][i];
        call /= gemm->shape[i];
    }
    for (int o = GEMM_FIRST; o <= GEMM_SECOND; o++)
        out[o] = (char *)launch->in[gemm->input[o]]->data + (uint64_t)at[o] * size;
    out[GEMM_RESULT] = (char *)launch->out[0]->data + (uint64_t)at[GEMM_RESULT] * size;
    out[GEMM_ADDED] = out[GEMM_RESULT];
    if (gpu_gemm_adds_matrix(gemm)) out[GEMM_ADDED] = launch->in[gemm->input[GEMM_ADDED]]->data;
    if (gemm->adds == GEMM_LIKE_RESULT)
        out[GEMM_ADDED] = (char *)out[GEMM_ADDED] + (uint64_t)at[GEMM_RESULT] * size;
}
