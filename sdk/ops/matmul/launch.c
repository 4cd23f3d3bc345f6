/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: selects and launches the matmul kernels of kernel.h. */
#include "../../dialect/block_size.h"
#include "kernel.h"
#include "launch_shape.h"
#include "../../dialect/portable.h"

enum { LONG = 256, FEW = 32768 }; /* a team each: sums from LONG terms, up to FEW results */

static struct matmul_args matmul_of_row(const struct bp_view *const *in, const struct bp_view *c,
                                        const struct bp_matmul_attrs *attrs)
{
    return matmul_of(in[0], attrs->transpose_a, in[1], attrs->transpose_b, c);
}

static int64_t matmul_batches(const struct matmul_args *a)
{
    int64_t n = 1;

    for (int i = 0; i < a->rank; i++) n *= a->shape[i];
    return n;
}

/* One side of the product, packed: arguments of the packing kernel and size of the result. */
struct side {
    struct matmul_pack_args args;
    int64_t many, count; /* many: each index of the batch has panels; count: elements / wide */
    size_t bytes;
};

static struct side matmul_side_of(const struct matmul_args *of, int operand, uint32_t dtype,
                                  bool blocks)
{
    int64_t wide = operand == MATMUL_A ? TILE_ROWS : TILE_COLUMNS;
    int64_t panel = blocks ? BLOCK : wide, step = blocks ? BLOCK_STEP : 1;
    int64_t lines = operand == MATMUL_A ? of->m : of->n;
    struct side s = {.args = {.of = *of, .operand = operand, .wide = wide, .pieces = panel / wide,
                              .lines = lines, .panels = (lines + panel - 1) / panel,
                              .depth = (of->k + step - 1) / step * step}};

    for (int i = 0; i < of->rank; i++) s.many |= of->stride[operand][i] != 0 && of->shape[i] > 1;
    if (!s.many) { /* only this operand counts: calls with other batches share the result */
        s.args.of = (struct matmul_args){.k = of->k};
        s.args.of.row[operand] = of->row[operand];
        s.args.of.column[operand] = of->column[operand];
    }
    s.count = (s.many ? matmul_batches(of) : 1) * s.args.panels * s.args.depth * s.args.pieces;
    s.bytes = (size_t)(s.count * wide) * (dtype == BP_F64 ? 8 : 4);
    return s;
}

/* Whether packing pays for a product: its type is a float type, which tile vectors need, and it is
 * large enough. */
static bool is_tiled(const struct matmul_args *a, uint32_t dtype)
{
    return BP_MASK_FLOAT >> dtype & 1 && a->m >= TILE_ROWS / 2 && a->n >= TILE_COLUMNS / 2 &&
           a->k >= 8 && (double)a->m * (double)a->n * (double)a->k >= 4096;
}

/* Whether teams compute the product block by block: c has at least half a block of rows and
 * columns, and the device's teams have shared memory. */
static bool is_blocked(void *self, uint32_t device, const struct matmul_args *a)
{
    return a->m >= BLOCK / 2 && a->n >= BLOCK / 2 && portable_has_blocks(self, device);
}

static struct portable matmul_pack(const struct side *side, uint32_t dtype)
{
    return (struct portable)PORTABLE(matmul, matmul_pack, portable_type(dtype), side->args,
                                     side->count, (double)side->args.wide);
}

/* Keeps b or, if b is not constant, a. */
static struct portable_kept *matmul_keep(void *self, const struct bp_prep *prep,
                                         const struct side *a, const struct side *b,
                                         uint64_t *out_bytes)
{
    struct portable pack_a = matmul_pack(a, prep->in[0]->dtype),
                    pack_b = matmul_pack(b, prep->in[1]->dtype);
    struct portable_kept *kept = portable_keep(self, prep, 1, &pack_b, b->bytes, out_bytes);

    return kept ? kept : portable_keep(self, prep, 0, &pack_a, a->bytes, out_bytes);
}

/* The bytes of a that lie in the workspace before those of b. */
static size_t matmul_at_b(const struct side *a, const struct portable_kept *kept)
{
    return kept && portable_kept_input(kept) == 0 ? 0 : (a->bytes + 63) / 64 * 64;
}

enum bp_status portable_matmul_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    uint32_t dtype = prep->in[0]->dtype;
    struct matmul_args of = matmul_of_row(prep->in, prep->out[0], prep->attrs);
    bool blocks = is_blocked(self, prep->device, &of), keeps_b;
    struct portable_kept *kept;
    struct side a, b;
    uint64_t bytes;

    if (!is_tiled(&of, dtype)) return portable_needs(out, 0);
    a = matmul_side_of(&of, MATMUL_A, dtype, blocks);
    b = matmul_side_of(&of, MATMUL_B, dtype, blocks);
    kept = matmul_keep(self, prep, &a, &b, &bytes);
    keeps_b = kept && portable_kept_input(kept) == 1;
    return portable_needs_kept(
        out, (int64_t)(matmul_at_b(&a, kept) + (keeps_b ? 0 : b.bytes)), kept, bytes);
}

/* Packs an operand into the workspace, if no plan keeps it. */
static enum bp_status matmul_pack_operand(const struct bp_launch *launch, const struct side *side,
                                          size_t offset)
{
    uint32_t input = (uint32_t)(side->args.operand - MATMUL_A);
    struct portable p = matmul_pack(side, launch->in[input]->dtype);

    if (launch->plan && portable_kept_input(launch->plan) == input) return BP_OK;
    portable_workspace(&p, launch, offset);
    portable_view(&p, launch->in[input]);
    return portable_run(launch, &p);
}

static void matmul_append(struct portable *p, const struct bp_launch *launch, uint32_t input,
                          size_t offset)
{
    const struct portable_kept *kept = launch->plan;

    if (kept && portable_kept_input(kept) == input) portable_kept_append(p, kept);
    else portable_workspace(p, launch, offset);
}

static enum bp_status matmul_tiled(const struct bp_launch *launch, const struct matmul_args *of)
{
    uint32_t dtype = launch->in[0]->dtype;
    bool blocks = is_blocked(launch->self, launch->device, of);
    struct side a = matmul_side_of(of, MATMUL_A, dtype, blocks),
                b = matmul_side_of(of, MATMUL_B, dtype, blocks);
    struct matmul_tiles_args args = {
        *of, {0, a.args.panels, b.args.panels}, {0, a.many, b.many}, a.args.depth};
    size_t at_b = matmul_at_b(&a, launch->plan);
    int64_t count = matmul_batches(of) * a.args.panels * b.args.panels;
    struct portable p = PORTABLE(matmul, matmul_tiles, portable_type(dtype), args, count,
                                 8.0 * (double)of->k);
    enum bp_status status = matmul_pack_operand(launch, &a, 0);

    if (blocks)
        p = (struct portable)PORTABLE(matmul, matmul_blocks, portable_type(dtype), args, count,
                                      (double)BLOCK * (double)of->k);
    if (status || (status = matmul_pack_operand(launch, &b, at_b))) return status;
    portable_view(&p, launch->out[0]);
    matmul_append(&p, launch, 0, 0);
    matmul_append(&p, launch, 1, at_b);
    return portable_run(launch, &p);
}

enum bp_status portable_matmul(const struct bp_launch *launch)
{
    const struct bp_view *c = launch->out[0];
    enum portable_type type = portable_type(c->dtype);
    struct matmul_args args = matmul_of_row(launch->in, c, launch->attrs);
    struct matmul_lines_args lines = {args};
    struct portable p = PORTABLE(matmul, matmul, type, args, c->count, (double)args.k);

    if (!c->count) return BP_OK;
    if (is_tiled(&args, c->dtype)) return matmul_tiled(launch, &args);
    if (args.k >= LONG && c->count <= FEW && args.column[MATMUL_A] == 1 &&
        args.row[MATMUL_B] == 1)
        p = (struct portable)PORTABLE(matmul, matmul_lines, type, lines, c->count,
                                      (double)args.k);
    portable_view(&p, c);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
