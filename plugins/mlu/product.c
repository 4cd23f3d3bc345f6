/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: builds the plans of products of matrices, whose numbers no public source confirms
 * (numbers.h). */
#include "rows.h"
#include <string.h>

static int product_call(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    const float one = 1, zero = 0;

    if (s->fn == FN_cnnlMatMul_v2)
        return cnnl->cnnlMatMul_v2(r->handle, s->desc, s->second, &one, mlu_desc(s, 0),
                                   mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
                                   &zero, mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s),
                                   s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
    return cnnl->cnnlBatchMatMulBCast_v2(
        r->handle, s->desc, s->second, &one, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), &zero, mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work);
}

/* The functions and numbers of a product of two matrices, and of batches of them. */
struct product {
    enum mlu_fn desc_create, desc_destroy, algo_create, algo_destroy, set, heuristic, read;
    enum mlu_number transpose[2], dtype, tf32;
};

static const struct product products[2] = {
    {FN_cnnlMatMulDescCreate,
     FN_cnnlMatMulDescDestroy,
     FN_cnnlMatMulAlgoCreate,
     FN_cnnlMatMulAlgoDestroy,
     FN_cnnlSetMatMulDescAttr,
     FN_cnnlGetMatMulAlgoHeuristic,
     FN_cnnlGetMatMulHeuristicResult,
     {NUM_CNNL_MATMUL_DESC_TRANSA, NUM_CNNL_MATMUL_DESC_TRANSB},
     NUM_CNNL_MATMUL_DESC_COMPUTE_TYPE,
     NUM_CNNL_MATMUL_ALLOW_TF32},
    {FN_cnnlBatchMatMulBCastDescCreate,
     FN_cnnlBatchMatMulBCastDescDestroy,
     FN_cnnlBatchMatMulBCastAlgoCreate,
     FN_cnnlBatchMatMulBCastAlgoDestroy,
     FN_cnnlSetBatchMatMulBCastDescAttr,
     FN_cnnlGetBatchMatMulAlgoHeuristic,
     FN_cnnlGetBatchMatMulHeuristicResult,
     {NUM_CNNL_BMM_BCAST_DESC_TRANSA, NUM_CNNL_BMM_BCAST_DESC_TRANSB},
     NUM_CNNL_BMM_BCAST_DESC_COMPUTE_TYPE,
     NUM_NONE}};

static bool product_create(struct mlu_build *b, enum mlu_fn fn, void **out)
{
    int (*create)(void **out);

    memcpy(&create, &mlu_cnnl.function[fn], sizeof create);
    return mlu_build_check(b, fn, create(out));
}

static bool product_set(struct mlu_build *b, const struct product *p, void *desc,
                        enum mlu_number number, int value)
{
    int (*set)(void *desc, int attribute, const void *value, size_t size);

    memcpy(&set, &mlu_cnnl.function[p->set], sizeof set);
    return mlu_build_check(b, p->set, set(desc, mlu_number(number), &value, sizeof value));
}

/* Lets the library choose an algorithm, and reserves its workspace. */
static void product_choose(struct mlu_build *b, const struct product *p, struct mlu_step *s,
                           void *found)
{
    const struct cnnl_calls *cnnl = &mlu_cnnl.call;
    int (*read)(const void *found, void *algo, size_t *size);
    size_t size = 0;
    int got = 0, code;

    if (s->fn == FN_cnnlMatMul_v2)
        code = cnnl->cnnlGetMatMulAlgoHeuristic(b->handle, s->desc, mlu_desc(s, 0), mlu_desc(s, 1),
                                                mlu_desc(s, 2), mlu_desc(s, 2), NULL, 1, &found,
                                                &got);
    else
        code = cnnl->cnnlGetBatchMatMulAlgoHeuristic(b->handle, s->desc, mlu_desc(s, 0),
                                                     mlu_desc(s, 1), mlu_desc(s, 2), NULL, 1,
                                                     &found, &got);
    if (!mlu_build_check(b, p->heuristic, code)) return;
    if (got < 1) {
        mlu_refuse(b);
        return;
    }
    memcpy(&read, &mlu_cnnl.function[p->read], sizeof read);
    code = read(found, s->second, &size);
    mlu_step_reserve(b, s, p->read, code, size);
}

/* c = a b, of two axes each or of more; the last two may be exchanged. Computes in f32, without
 * TF32. */
static void product_step(struct mlu_build *b, struct mlu_tensor left, struct mlu_tensor right,
                         struct mlu_tensor c, const bool transpose[2])
{
    const struct product *p = &products[c.rank > 2];
    void *found = NULL;
    struct mlu_step *s = mlu_step(b, c.rank > 2 ? FN_cnnlBatchMatMulBCast_v2 : FN_cnnlMatMul_v2,
                                  product_call, MLU_TENSORS(left, right, c));

    if (!s || !product_create(b, p->desc_create, &s->desc)) return;
    s->desc_destroy = p->desc_destroy;
    if (!product_create(b, p->algo_create, &s->second)) return;
    s->second_destroy = p->algo_destroy;
    for (int i = 0; i < 2; i++)
        if (!product_set(b, p, s->desc, p->transpose[i], transpose[i])) return;
    if (!product_set(b, p, s->desc, p->dtype, MLU_CNNL_DTYPE_FLOAT)) return;
    if (p->tf32 != NUM_NONE && !product_set(b, p, s->desc, p->tf32, 0)) return;
    if (!product_create(b, FN_cnnlCreateMatMulHeuristicResult, &found)) return;
    product_choose(b, p, s, found);
    mlu_cnnl.call.cnnlDestroyMatMulHeuristicResult(found);
}

void mlu_build_matmul(struct mlu_build *b)
{
    const struct bp_matmul_attrs *attrs = b->prep->attrs;
    struct mlu_tensor left = mlu_in(b, 0), right = mlu_in(b, 1), c = mlu_out(b, 0);
    uint32_t left_rank = b->prep->in[0]->rank, right_rank = b->prep->in[1]->rank, batches;
    bool transpose[2] = {attrs->transpose_a && left_rank > 1, attrs->transpose_b && right_rank > 1};
    int64_t shape[8], m, n, k;

    if (left_rank == 1) left = mlu_shaped(left, 2, (int64_t[]){1, left.shape[0]});
    if (right_rank == 1) right = mlu_shaped(right, 2, (int64_t[]){right.shape[0], 1});
    m = left.shape[left.rank - (transpose[0] ? 1 : 2)];
    k = left.shape[left.rank - (transpose[0] ? 2 : 1)];
    n = right.shape[right.rank - (transpose[1] ? 2 : 1)];
    batches = (left.rank > right.rank ? left.rank : right.rank) - 2;
    if (k == 0) {
        mlu_step_fill(b, 0, mlu_flat(c));
        return;
    }
    memcpy(shape, c.shape, batches * sizeof *shape);
    shape[batches] = m;
    shape[batches + 1] = n;
    c = mlu_shaped(c, batches + 2, shape);
    if (batches && right.rank == 2 && !transpose[0]) { /* one matrix of all rows */
        int64_t rows = mlu_count(&left) / k;
        left = mlu_shaped(left, 2, (int64_t[]){rows, k});
        c = mlu_shaped(c, 2, (int64_t[]){rows, n});
    }
    product_step(b, mlu_ranked(left, c.rank), mlu_ranked(right, c.rank), c, transpose);
}
