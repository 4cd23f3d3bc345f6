/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c: the layout of matrices in fractals (FRACTAL_NZ), in which the matrix units read their
 * right factor: blocks of 16 rows and 32 bytes, a column of blocks after the other. Programs keep
 * weights in it. CANN converts a matrix into the layout in place; the way back, which programs do
 * not need, is copies of blocks. */
#include "call.h"

enum {
    NZ_ROWS = 16,
    NZ_COLUMNS = 16 /* of 2 bytes */
};

static int64_t nz_blocks(int64_t extent, int64_t block)
{
    return (extent + block - 1) / block;
}

static bool nz_suits(const struct bp_view *view)
{
    return view->rank == 2 && view->count && (view->dtype == BP_F16 || view->dtype == BP_BF16);
}

int64_t npu_nz_elements(const struct bp_view *view)
{
    return nz_blocks(view->shape[0], NZ_ROWS) * NZ_ROWS * nz_blocks(view->shape[1], NZ_COLUMNS) *
           NZ_COLUMNS;
}

static enum bp_status nz_bytes(void *self, uint32_t device, const struct bp_view *type,
                               uint64_t *out_bytes)
{
    (void)self;
    (void)device;
    if (!nz_suits(type)) return BP_ERR_UNSUPPORTED;
    *out_bytes = 2 * (uint64_t)npu_nz_elements(type);
    return BP_OK;
}

const struct bp_layout npu_layouts[NPU_LAYOUTS] = {{"nz", nz_bytes}};

/* The function converts its tensor in place: the copy comes first. */
enum bp_status npu_build_to_nz(struct kit_build *b)
{
    struct kit_arg matrix = KIT_UPDATED(0);

    if (!nz_suits(b->in[0])) return kit_refuse(b);
    KIT_STEP(b, "InplaceCopy", KIT_OUT(0), KIT_IN(0));
    matrix.format = NPU_FORMAT_TO_NZ;
    return KIT_STEP(b, "TransMatmulWeight", matrix);
}

/* The part of a matrix from row `r` and column `c` on, of whole blocks or of one partial block in
 * each direction: rows * columns elements. */
struct nz_part {
    int64_t r, c, rows, columns;
};

/* Copies a part: in both matrices it has the axes block of columns, block of rows, row, column. */
static void nz_copy(struct kit_build *b, const struct bp_view *y, const struct nz_part *p)
{
    int64_t high = p->rows < NZ_ROWS ? p->rows : NZ_ROWS, column_blocks, row_blocks;
    int64_t wide = p->columns < NZ_COLUMNS ? p->columns : NZ_COLUMNS;
    int64_t tall = nz_blocks(y->shape[0], NZ_ROWS) * NZ_ROWS * NZ_COLUMNS;

    if (!p->rows || !p->columns) return;
    row_blocks = p->rows / high;
    column_blocks = p->columns / wide;
    KIT_STEP(b, "InplaceCopy",
             kit_alias(b, KIT_VALUE(KIT_OUT(0)), y->dtype, 4,
                       (const int64_t[]){column_blocks, row_blocks, high, wide},
                       (const int64_t[]){NZ_COLUMNS, NZ_ROWS * y->shape[1], y->shape[1], 1},
                       2 * (p->r * y->shape[1] + p->c)),
             kit_alias(b, KIT_VALUE(KIT_IN(0)), y->dtype, 4,
                       (const int64_t[]){column_blocks, row_blocks, high, wide},
                       (const int64_t[]){tall, NZ_ROWS * NZ_COLUMNS, NZ_COLUMNS, 1},
                       2 * (p->c / NZ_COLUMNS * tall + p->r * NZ_COLUMNS)));
}

enum bp_status npu_build_from_nz(struct kit_build *b)
{
    const struct bp_view *y = b->out[0];
    int64_t r, c;

    if (!nz_suits(y) || y->flags & BP_VIEW_STRIDED) return kit_refuse(b);
    r = y->shape[0] / NZ_ROWS * NZ_ROWS;
    c = y->shape[1] / NZ_COLUMNS * NZ_COLUMNS;
    nz_copy(b, y, &(struct nz_part){0, 0, r, c});
    nz_copy(b, y, &(struct nz_part){0, c, r, y->shape[1] - c});
    nz_copy(b, y, &(struct nz_part){r, 0, y->shape[0] - r, c});
    nz_copy(b, y, &(struct nz_part){r, c, y->shape[0] - r, y->shape[1] - c});
    return b->status;
}

/* The left factor and the result are matrices in strides. */
enum bp_status npu_build_matmul_nz(struct kit_build *b)
{
    const struct bp_matmul_attrs *a = b->attrs;
    struct kit_arg right = KIT_IN(1);

    if (a->transpose_a || a->transpose_b || b->in[0]->rank != 2 || !nz_suits(b->in[1]) ||
        !b->in[0]->count)
        return kit_refuse(b);
    right.format = NPU_FORMAT_NZ;
    return KIT_STEP(b, "Matmul", KIT_IN(0), right, KIT_OUT(0), NPU_CUBE);
}
