/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: implements matrix products of the stand-in for CANN. cubeMathType is 0: the dtype is
 * kept; 1: f32 may lose bits; 2: f16 is used; 3: HF32 is used, which keeps 10 bits of the mantissa,
 * rounded. */
#include "family.h"
#include <string.h>

enum {
    KEEP,
    MAY_LOSE,
    USE_F16,
    USE_HF32
};

/* Atlas 910 has no exact products of f32. */
int cann_want_math(struct cann_call *call, int arg)
{
    CANN_TRY(cann_want_between(call, arg, 0, cann_version >= CANN_9 ? 4 : 3));
    if (cann_is_910a() && cann_type(call, 0)->dtype == CANN_F32 && call->arg[arg].i == KEEP)
        return cann_refuse(call, arg, "is 0 for FLOAT, which this product does not have");
    return 0;
}

/* Copies a matrix, or several, from FRACTAL_NZ to a contiguous one, or back. */
static void factor_copy(const struct base_tensor *t, char *nz, char *dense, bool to_nz)
{
    size_t width = base_dtype_size(t->dtype);
    int64_t c = 32 / (int64_t)width, m = t->shape[t->rank - 2], n = t->shape[t->rank - 1];
    int64_t blocks = (n + c - 1) / c, rows = (m + 15) / 16;

    for (int64_t i = 0; i < base_tensor_count(t); i++) {
        int64_t col = i % n, row = i / n % m, matrix = i / n / m;
        int64_t at = ((matrix * blocks + col / c) * rows + row / 16) * 16 * c + row % 16 * c +
                     col % c;
        char *a = nz + (size_t)at * width, *b = dense + (size_t)i * width;
        memcpy(to_nz ? a : b, to_nz ? b : a, width);
    }
}

struct base_tensor cann_factor(struct cann_temps *temps, const struct cann_call *call, int arg,
                               int64_t math)
{
    const struct cann_tensor *type = cann_type(call, arg);
    const struct base_tensor *t = cann_host(call, arg);
    struct base_tensor made = cann_temp(temps, t->dtype, t->rank, t->shape);

    if (temps->code || !base_tensor_count(t)) return made;
    if (type->format == CANN_NZ) factor_copy(t, t->data, made.data, false);
    else base_tensor_copy(t, &made);
    if (t->dtype != BP_F32 || math == KEEP || math == 4) return made;
    if (math == USE_F16) {
        struct base_tensor half = cann_in_dtype(temps, &made, BP_F16);
        cann_write(temps, &half, &made);
        return made;
    }
    for (int64_t i = 0; i < base_tensor_count(&made); i++) {
        uint32_t *bits = (uint32_t *)made.data + i;
        if ((*bits >> 23 & 255) != 255)
            *bits = (*bits + 0xfff + (*bits >> 13 & 1)) & ~UINT32_C(0x1fff);
    }
    return made;
}

/* The shape of a b over the last two axes; axes before them broadcast. */
static int product_shape(struct cann_call *call, int a_arg, int b_arg, struct cann_shape *out)
{
    const struct cann_tensor *a = cann_type(call, a_arg), *b = cann_type(call, b_arg);
    int rank = a->rank > b->rank ? a->rank : b->rank;

    if (a->dims[a->rank - 1] != b->dims[b->rank - 2])
        return cann_refuse(call, b_arg, "has %lld rows, %s has %lld columns",
                           (long long)b->dims[b->rank - 2], call->op->port[a_arg],
                           (long long)a->dims[a->rank - 1]);
    out->rank = rank;
    for (int i = 0; i < rank - 2; i++) {
        int64_t x = i < rank - a->rank ? 1 : a->dims[i - (rank - a->rank)];
        int64_t y = i < rank - b->rank ? 1 : b->dims[i - (rank - b->rank)];
        if (x != y && x != 1 && y != 1) return cann_refuse(call, b_arg, "does not broadcast");
        out->at[i] = x == 1 ? y : x;
    }
    out->at[rank - 2] = a->dims[a->rank - 2];
    out->at[rank - 1] = b->dims[b->rank - 1];
    return 0;
}

static void product_apply(struct cann_temps *temps, const struct base_tensor *a,
                          const struct base_tensor *b, const struct base_tensor *y)
{
    struct bp_matmul_attrs attrs = {.size = sizeof attrs};

    cann_apply(temps, "matmul", &attrs, a, b, NULL, y);
}

/* self, mat2, out, cubeMathType; Matmul takes 1 to 6 axes, BatchMatMul 3 */
int cann_check_matmul(struct cann_call *call)
{
    bool is_batch = !strcmp(call->op->name, "aclnnBatchMatMul");
    const struct cann_tensor *a = cann_type(call, 0), *b = cann_type(call, 1);
    struct cann_shape shape = {0};

    CANN_TRY(cann_want_math(call, 3));
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    for (int i = 0; i < 2; i++)
        CANN_TRY(cann_want_rank(call, i, is_batch ? 3 : 1, is_batch ? 3 : 6));
    if (is_batch && a->dims[0] != b->dims[0] && a->dims[0] != 1 && b->dims[0] != 1)
        return cann_refuse(call, 1, "has another number of matrices");
    if (a->rank == 1 || b->rank == 1) {
        if (a->dims[a->rank - 1] != b->dims[b->rank == 1 ? 0 : b->rank - 2])
            return cann_refuse(call, 1, "does not fit self");
        for (int i = 0; i < a->rank - 1; i++) shape.at[shape.rank++] = a->dims[i];
        for (int i = 0; i < b->rank - 2; i++) shape.at[shape.rank++] = b->dims[i];
        if (b->rank > 1) shape.at[shape.rank++] = b->dims[b->rank - 1];
    } else {
        CANN_TRY(product_shape(call, 0, 1, &shape));
    }
    return cann_want_shape(call, 2, &shape);
}

int cann_run_matmul(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};
    struct base_tensor a = cann_factor(&temps, call, 0, call->arg[3].i);
    struct base_tensor b = cann_factor(&temps, call, 1, call->arg[3].i);

    product_apply(&temps, &a, &b, cann_host(call, 2));
    cann_temps_free(&temps);
    return temps.code;
}

/* self, mat1, mat2, beta, alpha, out, cubeMathType */
int cann_check_addmm(struct cann_call *call)
{
    struct cann_shape shape, all;

    CANN_TRY(cann_want_math(call, 6));
    CANN_TRY(cann_want_own(call, 0));
    for (int i = 1; i < 3; i++) {
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_want_rank(call, i, 2, 2));
    }
    CANN_TRY(cann_want_same(call, 5, 0));
    CANN_TRY(product_shape(call, 1, 2, &shape));
    all = shape;
    CANN_TRY(cann_broadcast(call, 0, &all));
    if (all.rank != 2 || all.at[0] != shape.at[0] || all.at[1] != shape.at[1])
        return cann_refuse(call, 0, "does not broadcast to the product");
    return cann_want_shape(call, 5, &shape);
}

int cann_run_addmm(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 5);
    struct cann_temps temps = {.n = 0};
    uint32_t wide = cann_wide(y->dtype);
    struct base_tensor a = cann_factor(&temps, call, 1, call->arg[6].i);
    struct base_tensor b = cann_factor(&temps, call, 2, call->arg[6].i), c, by, sum;

    a = cann_in_dtype(&temps, &a, wide);
    b = cann_in_dtype(&temps, &b, wide);
    c = cann_in_dtype(&temps, cann_host(call, 0), wide);
    sum = cann_temp(&temps, wide, 2, y->shape);
    product_apply(&temps, &a, &b, &sum);
    by = cann_number(&temps, wide, call->arg[4].d);
    cann_apply(&temps, "mul", NULL, &sum, &by, NULL, &sum);
    if (call->arg[3].d != 0) {
        struct base_tensor more = cann_temp(&temps, wide, c.rank, c.shape);
        by = cann_number(&temps, wide, call->arg[3].d);
        cann_apply(&temps, "mul", NULL, &c, &by, NULL, &more);
        cann_apply(&temps, "add", NULL, &sum, &more, NULL, &sum);
    }
    cann_write(&temps, &sum, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, vec, out, cubeMathType */
int cann_check_mv(struct cann_call *call)
{
    struct cann_shape shape = {.rank = 1};

    CANN_TRY(cann_want_math(call, 3));
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    CANN_TRY(cann_want_rank(call, 0, 2, 2));
    CANN_TRY(cann_want_rank(call, 1, 1, 1));
    if (cann_type(call, 0)->dims[1] != cann_type(call, 1)->dims[0])
        return cann_refuse(call, 1, "does not fit self");
    shape.at[0] = cann_type(call, 0)->dims[0];
    return cann_want_shape(call, 2, &shape);
}

int cann_run_mv(struct cann_call *call)
{
    return cann_run_matmul(call);
}

/* self, tensor, out */
int cann_check_dot(struct cann_call *call)
{
    struct cann_shape shape = {0};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 1, 1));
    CANN_TRY(cann_want_like(call, 1, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    return cann_want_shape(call, 2, &shape);
}

int cann_run_dot(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};

    product_apply(&temps, cann_host(call, 0), cann_host(call, 1), cann_host(call, 2));
    return temps.code;
}

/* mmWeightRef: becomes FRACTAL_NZ in place; its storage must have room for that. */
int cann_check_trans_weight(struct cann_call *call)
{
    const struct cann_tensor *t = cann_type(call, 0);
    struct cann_tensor nz;
    int64_t room = 1, need = 1;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 2, 6));
    if (t->strides[t->rank - 1] != 1 || t->strides[t->rank - 2] != t->dims[t->rank - 1])
        return cann_refuse(call, 0, "is not contiguous");
    cann_nz_shape(t, &nz);
    for (int i = 0; i < t->storage_rank; i++) room *= t->storage[i];
    for (int i = 0; i < nz.storage_rank; i++) need *= nz.storage[i];
    if (room < need)
        return cann_refuse(call, 0, "has a storage of %lld, FRACTAL_NZ needs %lld", (long long)room,
                           (long long)need);
    return 0;
}

int cann_run_trans_weight(struct cann_call *call)
{
    const struct base_tensor *t = cann_host(call, 0);
    struct cann_tensor *app = call->slot[0].tensor;
    struct cann_temps temps = {.n = 0};
    struct base_tensor copy = cann_temp(&temps, t->dtype, t->rank, t->shape);
    struct cann_tensor nz;
    int64_t need = 1;

    if (temps.code) return temps.code;
    base_tensor_copy(t, &copy);
    cann_nz_shape(&call->slot[0].type, &nz);
    for (int i = 0; i < nz.storage_rank; i++) need *= nz.storage[i];
    memset(t->data, 0, (size_t)need * base_dtype_size(t->dtype));
    factor_copy(t, t->data, copy.data, true);
    cann_temps_free(&temps);
    base_lock(); /* the descriptor says so from now on */
    if (base_handle_is(app, cann_tensor_kind)) {
        app->format = CANN_NZ;
        app->storage_rank = nz.storage_rank;
        memcpy(app->storage, nz.storage, sizeof app->storage);
    }
    base_unlock();
    return 0;
}

int aclnnCalculateMatmulWeightSizeV2(const void *shape, int dtype, uint64_t *out);

/* The elements that a matrix of this shape takes in FRACTAL_NZ. */
CANN_API int aclnnCalculateMatmulWeightSizeV2(const void *shape, int dtype, uint64_t *out)
{
    int code = base_enter("aclnnCalculateMatmulWeightSizeV2");
    struct cann_tensor t = {.dtype = dtype}, nz;
    const struct cann_array *dims = shape;

    if (!code && (!shape || !out)) code = NN_NULL;
    if (!code && (!base_handle_is(shape, cann_ints_kind) || dims->n > 6)) code = NN_INVALID;
    if (!code && !cann_dtype_in(dtype, CANN_FLOATS | BP_M(I8))) code = NN_INVALID;
    if (code) return base_leave(code);
    t.rank = (int)dims->n;
    memcpy(t.dims, dims->at, (size_t)dims->n * sizeof *t.dims);
    if (!cann_nz_shape(&t, &nz)) return base_leave(NN_INVALID);
    *out = 1;
    for (int i = 0; i < nz.storage_rank; i++) *out *= (uint64_t)nz.storage[i];
    return base_leave(0);
}
