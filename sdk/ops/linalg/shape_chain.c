/* SPDX-License-Identifier: Apache-2.0 */
/* shape_chain.c: has the rules of multi_dot, a product of many matrices, and of matrix_power. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

enum { CHAIN_MAX = 16 };

static struct bp_tensor *chain_multiply(struct bp_compose *c, struct bp_tensor *a,
                                        struct bp_tensor *b)
{
    return MAKE(c, matmul, NULL, a, b);
}

static enum bp_status check_link(const struct bp_invocation *inv, uint32_t i, uint32_t n)
{
    const struct bp_view *x = inv->in[i], *left = i ? inv->in[i - 1] : NULL;
    bool end = !i || i + 1 == n;

    if (x->rank != 2 && !(end && x->rank == 1))
        return bp_error(BP_ERR_INVALID, "multi_dot: xs[%u] has %u axes, expected 2%s", i,
                        (unsigned)x->rank, end ? " or 1" : "");
    if (left && left->shape[left->rank - 1u] != x->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "multi_dot: xs[%u] has %" PRId64 " columns and xs[%u] %" PRId64
                        " rows, expected as many",
                        i - 1, left->shape[left->rank - 1u], i, x->shape[0]);
    return BP_OK;
}

enum bp_status bp_infer_multi_dot(struct bp_invocation *inv)
{
    struct bp_type *out = &inv->out[0];
    uint32_t n = inv->n_in;

    if (n < 2 || n > CHAIN_MAX)
        return bp_error(BP_ERR_INVALID, "multi_dot: got %u matrices, expected 2 to %d", n,
                        CHAIN_MAX);
    for (uint32_t i = 0; i < n; i++) TRY(check_link(inv, i, n));
    out->rank = 0;
    if (inv->in[0]->rank == 2) out->shape[out->rank++] = inv->in[0]->shape[0];
    if (inv->in[n - 1]->rank == 2) out->shape[out->rank++] = inv->in[n - 1]->shape[1];
    return BP_OK;
}

/* The chain from i to j is split after cut[i][j], so that it needs the fewest multiplications;
 * found by dynamic programming over lengths. extent: the rows of each matrix, and the columns of
 * the last. */
struct chain {
    struct bp_tensor *matrix[CHAIN_MAX];
    int64_t extent[CHAIN_MAX + 1];
    uint8_t cut[CHAIN_MAX][CHAIN_MAX];
};

static void find_cuts(struct chain *chain, uint32_t n)
{
    double cost[CHAIN_MAX][CHAIN_MAX] = {{0}};
    const int64_t *extent = chain->extent;

    for (uint32_t length = 2; length <= n; length++)
        for (uint32_t i = 0; i + length <= n; i++) {
            uint32_t j = i + length - 1;
            for (uint32_t k = i; k < j; k++) {
                double here = cost[i][k] + cost[k + 1][j] +
                              (double)extent[i] * (double)extent[k + 1] * (double)extent[j + 1];
                if (k > i && here >= cost[i][j]) continue;
                cost[i][j] = here;
                chain->cut[i][j] = (uint8_t)k;
            }
        }
}

static struct bp_tensor *chain_product(struct bp_compose *c, const struct chain *chain, uint32_t i,
                                       uint32_t j)
{
    uint32_t k = chain->cut[i][j];

    if (i == j) return chain->matrix[i];
    return chain_multiply(c, chain_product(c, chain, i, k), chain_product(c, chain, k + 1, j));
}

static uint32_t inputs_of(const struct bp_decomposition *e)
{
    uint32_t n = 0;

    while (n < CHAIN_MAX && e->in[n]) n++;
    return n;
}

enum bp_status bp_decompose_multi_dot(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    uint32_t n = inputs_of(e), rank = 0;
    struct bp_tensor *first = e->in[0], *last = e->in[n - 1], *y;
    int64_t shape[2];
    struct chain chain = {.cut = {{0}}};

    for (uint32_t i = 0; i < n; i++) {
        chain.matrix[i] = bp_compose_widen(&c, e->in[i]);
        chain.extent[i] = e->in[i]->shape[0];
    }
    chain.extent[n] = last->view.rank == 2 ? last->shape[1] : 1;
    if (first->view.rank == 1) {
        chain.extent[0] = 1;
        chain.matrix[0] = bp_compose_reshape(&c, chain.matrix[0], 2,
                                             (int64_t[]){1, first->shape[0]});
    }
    if (last->view.rank == 1)
        chain.matrix[n - 1] = bp_compose_reshape(&c, chain.matrix[n - 1], 2,
                                                 (int64_t[]){last->shape[0], 1});
    find_cuts(&chain, n);
    y = chain_product(&c, &chain, 0, n - 1);
    if (first->view.rank == 2) shape[rank++] = chain.extent[0];
    if (last->view.rank == 2) shape[rank++] = chain.extent[n];
    return bp_compose_give(e, &c, rank == 2 ? y : bp_compose_reshape(&c, y, rank, shape));
}

enum bp_status bp_infer_matrix_power(struct bp_invocation *inv)
{
    const struct bp_matrix_power_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (x->rank < 2 || x->shape[x->rank - 1u] != x->shape[x->rank - 2u]) {
        char text[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID,
                        "matrix_power: x is %s, expected two last axes of one extent",
                        bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text));
    }
    if (a->n < 0)
        return bp_error(BP_ERR_INVALID, "matrix_power: attribute n is %" PRId64
                        ", expected 0 or more", a->n);
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

/* Makes identity matrices: ones at every n + 1st element of a matrix viewed as one axis, zeros
 * between them. Each one is 0 + 1, where 0 is the difference of equal integers: exact even where x
 * is not finite. */
static struct bp_tensor *chain_identity(struct bp_compose *c, struct bp_tensor *x)
{
    int64_t shape[BP_RANK_MAX], rank = x->view.rank, axis = rank - 2;
    int64_t n = x->shape[rank - 1], start = 0, end = n * n, step = n + 1;
    struct bp_slice_attrs diagonal = {.size = sizeof diagonal, .starts = {&start, 1},
                                      .ends = {&end, 1}, .axes = {&axis, 1}, .steps = {&step, 1}};
    struct bp_slice_grad_attrs put = {sizeof put, {&start, 1}, {&end, 1}, {&axis, 1}, {&step, 1}};
    struct bp_tensor *flat, *ones;

    for (int64_t i = 0; i < rank; i++) shape[i] = x->shape[i];
    shape[axis] = end;
    flat = bp_compose_reshape(c, x, (uint32_t)rank - 1, shape);
    ones = bp_compose_cast(c, MAKE(c, slice, &diagonal, flat), BP_I32);
    ones = bp_compose_cast(c, MAKE(c, sub, NULL, ones, ones), x->view.dtype);
    ones = MAKE(c, slice_grad, &put, bp_compose_scale(c, ones, 1, 1), flat);
    return bp_compose_reshape(c, ones, (uint32_t)rank, x->shape);
}

/* Computes the power by repeated squaring. */
enum bp_status bp_decompose_matrix_power(struct bp_decomposition *e)
{
    const struct bp_matrix_power_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *square = bp_compose_widen(&c, e->in[0]), *y = NULL;

    if (!a->n) return bp_compose_give(e, &c, chain_identity(&c, e->in[0]));
    for (int64_t n = a->n; n; n >>= 1) {
        if (n & 1) y = y ? chain_multiply(&c, y, square) : square;
        if (n > 1) square = chain_multiply(&c, square, square);
    }
    return bp_compose_give(e, &c, y);
}
