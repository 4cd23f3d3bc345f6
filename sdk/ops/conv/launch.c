/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the convolution kernels of kernel.h. */
#include "../../dialect/block_size.h"
#include "kernel.h"
#include "launch_shape.h"
#include "../../dialect/portable.h"

#include <stdbool.h>
#include <string.h>

/* About how many bytes of the image's panels are in the workspace at a time. Blocks get more, so
 * that there are enough teams for a large GPU. */
static const int64_t slice = INT64_C(64) << 20, slice_blocks = INT64_C(128) << 20;

/* How a product is cut. The panels of a are at the beginning of the workspace, some of the image's
 * panels after them. */
struct cut {
    bool blocks;                       /* true: blocks; false: tiles */
    int64_t rows, columns, depth;      /* of a panel; depth is k rounded up to whole steps */
    int64_t panels_a, panels, at_once; /* panels of columns: all, and those packed at a time */
    int64_t bytes_a, at_image, bytes;
};

/* kept: the panels of a are not in the workspace. */
static struct cut cut_of(void *self, uint32_t device, const struct conv_product *p, uint32_t dtype,
                         bool kept)
{
    bool blocks = p->m >= BLOCK / 2 && p->n >= BLOCK / 2 && portable_has_blocks(self, device);
    int64_t step = blocks ? BLOCK_STEP : 1, size = dtype == BP_F64 ? 8 : 4, panel;
    struct cut c = {.blocks = blocks, .rows = blocks ? BLOCK : TILE_ROWS,
                    .columns = blocks ? BLOCK : TILE_COLUMNS,
                    .depth = (p->k + step - 1) / step * step};

    c.panels_a = (p->m + c.rows - 1) / c.rows;
    c.panels = (p->n + c.columns - 1) / c.columns;
    panel = p->groups * c.depth * c.columns * size;
    c.at_once = (blocks ? slice_blocks : slice) / panel;
    if (c.at_once < 1) c.at_once = 1;
    if (c.at_once > c.panels) c.at_once = c.panels;
    c.bytes_a = p->groups * c.panels_a * c.depth * c.rows * size;
    c.at_image = kept ? 0 : (c.bytes_a + 63) / 64 * 64;
    c.bytes = c.at_image + c.at_once * panel;
    return c;
}

/* Whether a product is large enough to be worth packing. */
static bool is_tiled(const struct conv_product *p)
{
    return p->k > 0 && p->m >= TILE_ROWS / 2 && p->n >= TILE_COLUMNS / 2 &&
           (double)p->m * (double)p->n * (double)p->k >= 4096;
}

/* Returns the elements from k to k + 1 in a if that distance is constant; else 0. */
static int64_t linear_step(const struct conv_grid *grid)
{
    int64_t step = 0, next = 0;

    for (int d = 3; d >= 0; d--) {
        if (grid->extent[d] == 1) continue;
        if (!step) step = grid->stride[d];
        else if (grid->stride[d] != next) return 0;
        next = grid->stride[d] * grid->extent[d];
    }
    return step;
}

/* Describes the packing of a, by the parts of the product that it depends on. */
static struct conv_pack_a_args pack_a_args(const struct conv_product *product,
                                           const struct cut *cut)
{
    return (struct conv_pack_a_args){
        .p = {.m = product->m, .k = product->k, .groups = product->groups,
              .a_group = product->a_group, .a_row = product->a_row, .a_k = product->a_k},
        .panels = cut->panels_a, .pieces = cut->rows / TILE_ROWS, .depth = cut->depth,
        .linear = linear_step(&product->a_k)};
}

static struct portable pack_a(const struct conv_pack_a_args *args, uint32_t dtype)
{
    return (struct portable)PORTABLE(conv, conv_pack_a, portable_type(dtype), *args,
                                     args->p.groups * args->panels * args->pieces * args->depth,
                                     TILE_ROWS);
}

/* Keeps a if it is constant. */
static struct portable_kept *keep_a(void *self, const struct bp_prep *prep,
                                    const struct conv_product *product, const struct bp_view *a,
                                    const struct cut *cut, uint64_t *out_bytes)
{
    struct conv_pack_a_args args = pack_a_args(product, cut);
    struct portable pack = pack_a(&args, a->dtype);

    for (uint32_t i = 0; i < prep->n_in; i++)
        if (prep->in[i] == a)
            return portable_keep(self, prep, i, &pack, (size_t)cut->bytes_a, out_bytes);
    return NULL;
}

static enum bp_status conv_prepare(void *self, const struct bp_prep *prep, enum conv_kind kind,
                                   struct bp_plan *out)
{
    uint32_t dtype = prep->in[0]->dtype;
    struct portable_kept *kept;
    struct conv_product p;
    struct conv_views v;
    struct cut cut;
    uint64_t bytes;

    if (!prep->out[0]->count) return portable_needs(out, 0);
    v = conv_product_init(&p, kind, prep->in, prep->n_in, prep->out, prep->attrs);
    if (!is_tiled(&p)) return portable_needs(out, 0);
    cut = cut_of(self, prep->device, &p, dtype, false);
    kept = keep_a(self, prep, &p, v.a, &cut, &bytes);
    return portable_needs_kept(out, cut.bytes - (kept ? cut.at_image : 0), kept, bytes);
}

enum bp_status portable_conv_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return conv_prepare(self, prep, (enum conv_kind)portable_number(prep->kernel), out);
}

/* Packs a, if no plan keeps it. */
static enum bp_status conv_pack(const struct bp_launch *launch, const struct conv_product *product,
                                const struct conv_views *v, const struct cut *cut)
{
    struct conv_pack_a_args args = pack_a_args(product, cut);
    struct portable p = pack_a(&args, v->a->dtype);

    if (launch->plan) return BP_OK;
    portable_workspace(&p, launch, 0);
    portable_view(&p, v->a);
    return portable_run(launch, &p);
}

/* Gathers and multiplies the columns of n panels, from panel number `first` on. end: NULL, or the
 * epilogue. */
static enum bp_status conv_columns(const struct bp_launch *launch,
                                   const struct conv_product *product, const struct conv_views *v,
                                   const struct conv_epilogue *end, const struct cut *cut,
                                   int64_t first, int64_t n)
{
    enum portable_type type = portable_type(v->a->dtype);
    struct conv_pack_image_args pack_args = {*product, n, cut->columns / TILE_COLUMNS, cut->depth,
                                             first};
    struct conv_tiles_args args = {*product, cut->panels_a, n, first, cut->depth};
    struct conv_fused_tiles_args fused = {.tiles = args};
    int64_t count = product->groups * cut->panels_a * n;
    struct portable pack = PORTABLE(conv, conv_pack_image, type, pack_args,
                                    product->groups * n * pack_args.pieces * cut->depth,
                                    2 * TILE_COLUMNS);
    struct portable p = PORTABLE(conv, conv_tiles, type, args, count, 8.0 * (double)product->k);
    enum bp_status status;

    if (cut->blocks)
        p = (struct portable)PORTABLE(conv, conv_blocks, type, args, count,
                                      (double)BLOCK * (double)product->k);
    if (end) {
        struct conv_grid residual = product->c_column;
        memcpy(residual.stride, end->column, sizeof residual.stride);
        fused.end = *end;
        fused.linear = linear_step(&product->c_column);
        fused.residual_linear = linear_step(&residual);
        p = (struct portable)PORTABLE(conv, conv_fused_tiles, type, fused, count,
                                      8.0 * (double)product->k);
    }
    portable_workspace(&pack, launch, (size_t)cut->at_image);
    portable_view(&pack, v->image);
    status = portable_run(launch, &pack);
    if (status) return status;
    portable_view(&p, v->c);
    if (launch->plan) portable_kept_append(&p, launch->plan);
    else portable_workspace(&p, launch, 0);
    portable_workspace(&p, launch, (size_t)cut->at_image);
    portable_view(&p, v->bias);
    if (end) portable_view(&p, v->residual);
    return portable_run(launch, &p);
}

static enum bp_status conv_tiled(const struct bp_launch *launch, const struct conv_product *product,
                                 const struct conv_views *v, const struct conv_epilogue *end)
{
    struct cut cut = cut_of(launch->self, launch->device, product, v->a->dtype, launch->plan);
    enum bp_status status = conv_pack(launch, product, v, &cut);

    for (int64_t first = 0; first < cut.panels && !status; first += cut.at_once) {
        int64_t rest = cut.panels - first;
        status = conv_columns(launch, product, v, end, &cut, first,
                              rest < cut.at_once ? rest : cut.at_once);
    }
    return status;
}

enum bp_status portable_conv(const struct bp_launch *launch)
{
    struct conv_args args;
    struct conv_views v;

    if (!launch->out[0]->count) return BP_OK;
    v = conv_product_init(&args.p, (enum conv_kind)portable_number(launch->kernel), launch->in,
                          launch->n_in, launch->out, launch->attrs);
    if (is_tiled(&args.p)) return conv_tiled(launch, &args.p, &v, NULL);
    struct portable p = PORTABLE(conv, conv, portable_type(v.a->dtype), args, v.c->count,
                                 2 * (double)args.p.k);
    portable_view(&p, v.c);
    portable_view(&p, v.a);
    portable_view(&p, v.image);
    portable_view(&p, v.bias);
    return portable_run(launch, &p);
}

/* ---- fused_conv ---- */

/* Devices whose teams compute blocks decline: their libraries' convolutions, which the parts of the
 * operator use, are faster than tiles with an epilogue. */
enum bp_status portable_conv_fused_prepare(void *self, const struct bp_prep *prep,
                                           struct bp_plan *out)
{
    if (portable_has_blocks(self, prep->device)) return BP_ERR_UNSUPPORTED;
    return conv_prepare(self, prep, CONV_FORWARD, out);
}

_Static_assert((int)CONV_SOFTPLUS == (int)BP_ACTIVATION_SOFTPLUS &&
                   (int)CONV_HARD_SWISH == (int)BP_ACTIVATION_HARD_SWISH &&
                   (int)CONV_GELU_TANH == (int)BP_ACTIVATION_GELU_TANH,
               "numbered alike");

/* Fills in the activation, and the strides of a residual of the shape of y. */
static struct conv_epilogue epilogue_of(const struct bp_fused_conv_attrs *attrs,
                                        const struct conv_product *p,
                                        const struct bp_view *residual)
{
    struct conv_epilogue end = {attrs->activation, attrs->alpha, attrs->beta, 0, 0, {0}};

    if (!residual) return end;
    end.row = residual->stride[1];
    end.group = p->m * residual->stride[1];
    end.column[0] = residual->stride[0];
    for (int a = 2; a < residual->rank; a++)
        end.column[a + 4 - residual->rank] = residual->stride[a];
    return end;
}

enum bp_status portable_conv_fused(const struct bp_launch *launch)
{
    const struct bp_view *residual = launch->n_in > 3 ? launch->in[3] : NULL;
    struct conv_fused_args args;
    struct conv_views v;

    if (!launch->out[0]->count) return BP_OK;
    v = conv_product_init(&args.p, CONV_FORWARD, launch->in, launch->n_in, launch->out,
                          launch->attrs);
    v.residual = residual;
    args.end = epilogue_of(launch->attrs, &args.p, residual);
    if (is_tiled(&args.p)) return conv_tiled(launch, &args.p, &v, &args.end);
    struct portable p = PORTABLE(conv, conv_fused, portable_type(v.a->dtype), args, v.c->count,
                                 2 * (double)args.p.k);
    portable_view(&p, v.c);
    portable_view(&p, v.a);
    portable_view(&p, v.image);
    portable_view(&p, v.bias);
    portable_view(&p, residual);
    return portable_run(launch, &p);
}
