/* SPDX-License-Identifier: Apache-2.0 */
/* pass_product.c: computes transposed convolutions whose windows neither overlap nor leave gaps as
 * products of matrices: each pixel's channels times the filters are the elements of its window. One
 * copy puts the windows in their places, with the channels innermost. */
#include "layouts.h"
#include "passes.h"
#include "rewrite.h"

#include "../call/compose.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

enum {
    PRODUCT_AXES = 4,           /* of images */
    PRODUCT_LEAST = 2000000     /* operations; a smaller one is not worth three launches */
};

struct product {
    uint32_t node, x, w, b; /* values, b: BP_NO_VALUE without a bias */
    int64_t n, in, out, height, width, high, wide; /* images, channels, extents of x and windows */
};

static uint32_t product_input(const struct bp_ir *ir, const struct bp_node *node, uint32_t port)
{
    if (node->in_at[port] == node->in_at[port + 1] || node->in[node->in_at[port]] == BP_NO_VALUE)
        return BP_NO_VALUE;
    return bp_ir_same(ir, node->in[node->in_at[port]]);
}

/* Whether windows lie side by side, and all of them is the result. */
static bool windows_fit(const struct bp_conv_transpose_attrs *attrs, const struct product *f)
{
    for (int i = 0; i < 6; i++)
        if (attrs->pad[i]) return false;
    return attrs->stride[0] == f->high && attrs->stride[1] == f->wide &&
           (attrs->dilation[0] == 1 || f->high == 1) && (attrs->dilation[1] == 1 || f->wide == 1) &&
           !attrs->output_padding[0] && !attrs->output_padding[1] && attrs->groups == 1;
}

static bool find_product(const struct bp_ir *ir, uint32_t n, struct product *f)
{
    const struct bp_node *node = &ir->node[n].call;
    const struct bp_typed_view *x, *w;
    uint32_t y = node->out[0];

    if (node->row != &bp_opdef[BP_ROW_conv_transpose] || node->kernel) return false;
    *f = (struct product){n, product_input(ir, node, 0), product_input(ir, node, 1),
                          product_input(ir, node, 2), 0, 0, 0, 0, 0, 0, 0};
    x = ir->value[f->x].type;
    w = ir->value[f->w].type;
    if (x->view.rank != PRODUCT_AXES || (x->view.dtype != BP_F32 && x->view.dtype != BP_F64) ||
        !bp_ir_is_frozen(ir, f->w) || (f->b != BP_NO_VALUE && !bp_ir_is_frozen(ir, f->b)) ||
        !bp_ir_is_stable(ir, f->x) || ir->value[ir->value[y].root].returned)
        return false;
    f->n = x->shape[0];
    f->in = x->shape[1];
    f->height = x->shape[2];
    f->width = x->shape[3];
    f->out = w->shape[1];
    f->high = w->shape[2];
    f->wide = w->shape[3];
    return windows_fit(node->attrs, f) &&
           2.0 * (double)ir->value[y].type->view.count * (double)f->in >= PRODUCT_LEAST;
}

static struct bp_tensor *product_turn(struct bp_compose *c, struct bp_tensor *x, int64_t n,
                                      const int64_t *perm)
{
    struct bp_transpose_attrs turn =
        *(const struct bp_transpose_attrs *)bp_opdef[BP_ROW_transpose].info.defaults;

    turn.perm = (struct bp_dims){perm, n};
    return MAKE(c, transpose, &turn, x);
}

/* Returns the bias once for each place of a window. */
static struct bp_tensor *product_bias(struct bp_compose *c, const struct product *f,
                                      struct bp_tensor *b)
{
    struct bp_expand_attrs expand =
        *(const struct bp_expand_attrs *)bp_opdef[BP_ROW_expand].info.defaults;
    const int64_t each[] = {f->high * f->wide, f->out}, all = each[0] * each[1];

    expand.shape = (struct bp_dims){each, 2};
    return bp_compose_reshape(c, MAKE(c, expand, &expand, b), 1, &all);
}

static enum bp_status product_record(struct bp_rewrite *rw, const struct product *f,
                                     struct bp_tensor **out_result)
{
    static const int64_t last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2}, rows[] = {0, 1, 3, 2, 4, 5};
    const int64_t columns = f->high * f->wide * f->out;
    struct bp_compose c = bp_compose_begin(bp_rewrite_scope(rw));
    struct bp_tensor *x, *w, *b, *y;

    TRY(bp_rewrite_in(rw, f->x, &x));
    TRY(bp_rewrite_in(rw, f->w, &w));
    TRY(bp_rewrite_in(rw, f->b, &b));
    x = bp_compose_reshape(&c, product_turn(&c, x, PRODUCT_AXES, last), 2,
                           (const int64_t[]){f->n * f->height * f->width, f->in});
    w = bp_compose_reshape(&c, product_turn(&c, w, PRODUCT_AXES, last), 2,
                           (const int64_t[]){f->in, columns});
    y = MAKE(&c, matmul, NULL, x, w);
    if (b) y = MAKE(&c, add, NULL, y, product_bias(&c, f, b));
    y = bp_compose_reshape(
        &c, y, 6, (const int64_t[]){f->n, f->height, f->width, f->high, f->wide, f->out});
    y = bp_compose_reshape(
        &c, product_turn(&c, y, 6, rows), PRODUCT_AXES,
        (const int64_t[]){f->n, f->height * f->high, f->width * f->wide, f->out});
    bp_compose_keep(&c, product_turn(&c, y, PRODUCT_AXES, back), out_result);
    return bp_compose_end(&c);
}

static enum bp_status product_replace(struct bp_ir *ir, const struct product *f)
{
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    enum bp_status status;

    TRY(bp_rewrite_begin(&rw, ir, &f->node, 1));
    status = product_record(&rw, f, &result);
    if (status == BP_OK) return bp_rewrite_end(&rw, result, ir->node[f->node].call.out[0]);
    bp_rewrite_cancel(&rw);
    return status;
}

static bool find_any(const struct bp_ir *ir)
{
    struct product f;

    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        if (find_product(ir, n, &f)) return true;
    return false;
}

static enum bp_status product_all(struct bp_compilation *c)
{
    struct product f;

    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE; n = next) {
        next = c->ir->node[n].next;
        if (!find_product(c->ir, n, &f)) continue;
        TRY(product_replace(c->ir, &f));
        c->changes++;
    }
    bp_ir_resolve(c->ir);
    return bp_pass_fold(c); /* the filters in their new order */
}

enum bp_status bp_pass_product(struct bp_compilation *c)
{
    if (!find_any(c->ir) || bp_layouts_update_results(c->ir)) return BP_OK;
    TRY(bp_layouts_keep_outputs(c->ir));
    return product_all(c);
}
