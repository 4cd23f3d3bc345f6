/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_matmul.c: computes matmul by oneDNN. */
#include "onednn.h"
#include "kernels.h"
#include "library.h"
#include "matmul.h"

/* Describes the matrices of one operand for all indices of the batch. A view that repeats along a
 * batch axis has extent 1 there. */
static bool matrix_desc(const struct onednn *dnnl, struct onednn_desc *desc, uint8_t dtype,
                        const struct walk *batch, int view, int64_t rows, int64_t columns,
                        int64_t row, int64_t column)
{
    int64_t shape[WALK_RANK + 2], stride[WALK_RANK + 2];
    int rank = 0;

    for (int a = 0; a < batch->rank && batch->count > 1; a++, rank++) {
        stride[rank] = batch->stride[view][a];
        shape[rank] = stride[rank] ? batch->shape[a] : 1;
        if (!stride[rank]) stride[rank] = 1;
    }
    shape[rank] = rows;
    stride[rank++] = rows == 1 ? columns
                               : row; /* for a single row or column the stride may be anything */
    shape[rank] = columns;
    stride[rank++] = columns == 1 ? 1 : column;
    return onednn_desc_strided(dnnl, desc, dtype, rank, shape, stride);
}

/* Large f32 products are faster in OpenBLAS on Intel's processors, by 3 percent at 1024 and 8
 * percent at 2048; on AMD's processors they take 1.7 times as long in OpenBLAS
 * (docs/results/cpu.md). */
static bool leave_to_openblas(const struct cpu *self, const struct matmul *s, uint8_t dtype)
{
    const int64_t large = 768;

#if defined(__x86_64__)
    if (!self->intel) return false;
#else
    (void)self;
#endif
    return dtype == BP_F32 && s->m >= large && s->n >= large && s->k >= large &&
           cpu_openblas_present();
}

/* Describes a bias: one row, for all rows of all matrices. */
static bool bias_desc(const struct onednn *dnnl, struct onednn_desc *desc, uint8_t dtype,
                      const struct walk *batch, int64_t columns)
{
    int64_t shape[WALK_RANK + 2], stride[WALK_RANK + 2];
    int rank = batch->count > 1 ? batch->rank + 2 : 2;

    for (int a = 0; a < rank; a++) {
        shape[a] = a == rank - 1 ? columns : 1;
        stride[a] = a == rank - 1 ? 1 : columns;
    }
    return onednn_desc_strided(dnnl, desc, dtype, rank, shape, stride);
}

static double matmul_terms(const struct matmul *s)
{
    return (double)s->batch.count * (double)s->m * (double)s->n * (double)s->k;
}

static enum bp_status matmul_plan(struct cpu *self, const struct bp_prep *prep,
                                  const struct matmul *s, const struct onednn_epilogue *epilogue,
                                  struct bp_plan *out)
{
    const struct onednn *dnnl = onednn_opened();
    uint8_t dtype = prep->in[0]->dtype;
    bool constant = (prep->in[1]->flags & BP_VIEW_CONSTANT) != 0;
    bool bias = prep->n_in > 2 && prep->in[2];
    struct onednn_desc a = {0}, b = {0}, c = {0}, row = {0}, any_b = {0};
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (matrix_desc(dnnl, &a, dtype, &s->batch, 1, s->m, s->k, s->a_row, s->a_column) &&
        matrix_desc(dnnl, &b, dtype, &s->batch, 2, s->k, s->n, s->b_row, s->b_column) &&
        matrix_desc(dnnl, &c, dtype, &s->batch, 0, s->m, s->n, s->c_row, s->c_column) &&
        (!bias || bias_desc(dnnl, &row, dtype, &s->batch, s->n)) &&
        onednn_desc_any(dnnl, &any_b, &b)) {
        struct onednn_recipe recipe = {
            .slots = 2,
            .epilogue = epilogue,
            .terms = matmul_terms(s),
            .slot = {{.arg = DNNL_ARG_SRC, .desc = &a, .wanted = &a},
                     {.arg = DNNL_ARG_WEIGHTS,
                      .desc = &b,
                      .wanted = constant ? &any_b : &b,
                      .query = constant ? dnnl_query_weights_md : 0,
                      .constant = constant}}};
        if (bias)
            recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_BIAS, &row, &row, 0, false};
        recipe.slot[recipe.slots++] = (struct onednn_slot){DNNL_ARG_DST, &c, &c, 0, false};
        status = onednn_plan_create(self, prep, &recipe, out);
    }
    onednn_desc_finish(dnnl, &a);
    onednn_desc_finish(dnnl, &b);
    onednn_desc_finish(dnnl, &c);
    onednn_desc_finish(dnnl, &row);
    onednn_desc_finish(dnnl, &any_b);
    return status;
}

bool onednn_matmul_takes(const struct cpu *self, const struct bp_prep *prep, struct matmul *s)
{
    uint8_t dtype = prep->in[0]->dtype;
    const struct bp_view *bias = prep->n_in > 2 ? prep->in[2] : NULL;
    struct matmul_line line; /* the plugin's kernels compute these at the speed of memory */

    if (prep->in[0]->rank > WALK_RANK || prep->in[1]->rank > WALK_RANK) return false;
    matmul_init(s, prep->in[0], prep->in[1], prep->out[0], prep->attrs);
    if (!s->batch.count || (double)s->m * (double)s->n * (double)s->k < 32768) return false;
    if (bias && bias->stride[0] != 1 && bias->count > 1)
        return false; /* oneDNN would read the bias as contiguous */
    if (bias && bias->count != s->n)
        return false; /* the columns of a batch are joined: each has the whole bias */
    return !leave_to_openblas(self, s, dtype) && !(dtype == BP_F32 && matmul_is_line(s, &line));
}

enum bp_status onednn_matmul_plan(struct cpu *self, const struct bp_prep *prep,
                                  const struct matmul *s, const struct onednn_epilogue *epilogue,
                                  struct bp_plan *out)
{
    return onednn_open(self) ? matmul_plan(self, prep, s, epilogue, out) : BP_ERR_UNSUPPORTED;
}

enum bp_status cpu_matmul_dnnl_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    struct matmul s;

    if (!onednn_matmul_takes(p, prep, &s)) return BP_ERR_UNSUPPORTED;
    return onednn_matmul_plan(p, prep, &s, NULL, out);
}

enum bp_status cpu_matmul_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}

enum bp_status cpu_matmul_bf16_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
