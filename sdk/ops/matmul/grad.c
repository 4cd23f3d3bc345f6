/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: builds the gradients of matmul from other operators. */
#include <call/compose.h>

#include <backplane/attrs.h>

/* Returns t with a new axis of extent 1 before axis `at`. */
static struct bp_tensor *matmul_unsqueeze(struct bp_compose *c, struct bp_tensor *t, uint32_t at)
{
    int64_t shape[BP_RANK_MAX];
    uint32_t rank;

    if (c->status) return NULL;
    rank = t->view.rank;
    if (rank == BP_RANK_MAX) {
        c->status = bp_error(BP_ERR_UNSUPPORTED, "a gradient needs more than %d axes", BP_RANK_MAX);
        return NULL;
    }
    for (uint32_t i = 0; i <= rank; i++)
        shape[i] = i < at ? t->shape[i] : i == at ? 1 : t->shape[i - 1];
    return bp_compose_reshape(c, t, rank + 1, shape);
}

/* Returns the product of a and b, summed to the shape of `side` and reshaped to the shape of
 * `like`: the reshape removes an axis that matmul_unsqueeze added. */
static struct bp_tensor *matmul_product(struct bp_compose *c, struct bp_tensor *a, bool ta,
                                        struct bp_tensor *b, bool tb, const struct bp_tensor *side,
                                        const struct bp_tensor *like)
{
    struct bp_matmul_attrs attrs = {sizeof attrs, .transpose_a = ta, .transpose_b = tb};
    struct bp_tensor *t = MAKE(c, matmul, &attrs, a, b);

    if (c->status) return NULL;
    t = bp_compose_sum_to(c, t, side);
    if (c->status || t->view.rank == like->view.rank) return t;
    return bp_compose_reshape(c, t, like->view.rank, like->shape);
}

/* Returns the conjugate of t if t is complex, else t: a gradient uses the conjugate of the other
 * side. */
static struct bp_tensor *matmul_conjugate(struct bp_compose *c, struct bp_tensor *t)
{
    uint64_t complex = BP_MASK_COMPLEX;

    return c->status || !(complex >> t->view.dtype & 1) ? t : MAKE(c, conj, NULL, t);
}

/* For C = A B: dA = dC B', dB = A' dC; the gradient of a transposed side is the transpose of that.
 * A side with one axis gets the second axis that the product works with, and dc gets the axes that
 * the product of the extended sides has. */
enum bp_status bp_grad_matmul(struct bp_grad *g)
{
    const struct bp_matmul_attrs *t = g->attrs;
    bool ta = t->transpose_a, tb = t->transpose_b;
    struct bp_tensor *a = g->in[0], *b = g->in[1], *dc = g->dy[0], *d;
    struct bp_compose c = bp_compose_begin(g->scope);

    if (b->view.rank == 1) {
        dc = matmul_unsqueeze(&c, dc, dc->view.rank);
        b = matmul_unsqueeze(&c, b, 1);
    }
    if (a->view.rank == 1) {
        dc = c.status ? NULL : matmul_unsqueeze(&c, dc, dc->view.rank - 1u);
        a = matmul_unsqueeze(&c, a, 0);
    }
    if (g->want[0]) {
        d = matmul_conjugate(&c, b);
        d = ta ? matmul_product(&c, d, tb, dc, true, a, g->in[0])
               : matmul_product(&c, dc, false, d, !tb, a, g->in[0]);
        bp_compose_keep(&c, d, &g->dx[0]);
    }
    if (g->want[1]) {
        d = matmul_conjugate(&c, a);
        d = tb ? matmul_product(&c, dc, true, d, ta, b, g->in[1])
               : matmul_product(&c, d, !ta, dc, false, b, g->in[1]);
        bp_compose_keep(&c, d, &g->dx[1]);
    }
    return bp_compose_end(&c);
}
