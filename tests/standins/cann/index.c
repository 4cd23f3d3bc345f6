/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: implements the families of the stand-in for CANN that take or give indices. */
#include "family.h"
#include <stdlib.h>
#include <string.h>

/* A call with T and I. */
static int index_apply(struct cann_temps *temps, const char *op, const void *attrs,
                       const struct base_tensor *x, const struct base_tensor *index,
                       const struct base_tensor *updates, const struct base_tensor *y)
{
    struct base_call base = {.op = op,
                             .attrs = attrs,
                             .n_in = updates ? 3 : 2,
                             .n_out = 1,
                             .in = {x, index, updates},
                             .out = {y},
                             .type = {x->dtype, BASE_ABSENT, index->dtype, BASE_ABSENT}};

    return base_tensor_count(y) ? cann_call_base(temps, &base) : temps->code;
}

/* self, dim, index, out: IndexSelect takes a contiguous index of one axis */
int cann_check_select(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *index = cann_type(call, 2);
    struct cann_shape shape = {.rank = x->rank - 1 + index->rank};
    bool is_select = !strcmp(call->op->name, "aclnnIndexSelect");
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 2, CANN_INDEX));
    CANN_TRY(cann_want_same(call, 3, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, x->rank, &axis));
    if (is_select) CANN_TRY(cann_want_rank(call, 2, 0, 1));
    if (is_select && index->rank && index->dims[0] > 1 && index->strides[0] != 1)
        return cann_refuse(call, 2, "is not contiguous");
    if (!x->rank || shape.rank > CANN_RANK)
        return cann_refuse(call, 2, "has %d axes, self %d", index->rank, x->rank);
    for (int i = 0; i < axis; i++) shape.at[i] = x->dims[i];
    for (int i = 0; i < index->rank; i++) shape.at[axis + i] = index->dims[i];
    for (int i = axis + 1; i < x->rank; i++) shape.at[index->rank - 1 + i] = x->dims[i];
    if (is_select && !index->rank) { /* as one index */
        shape = cann_shape(x);
        shape.at[axis] = 1;
    }
    return cann_want_shape(call, 3, &shape);
}

int cann_run_select(struct cann_call *call)
{
    struct bp_gather_attrs attrs = {.size = sizeof attrs, .axis = call->arg[1].i};
    struct base_tensor index = *cann_host(call, 2);
    struct cann_temps temps = {.n = 0};

    if (!index.rank && cann_host(call, 0)->rank == cann_host(call, 3)->rank) {
        index.rank = 1;
        index.shape[0] = index.stride[0] = 1;
    }
    return index_apply(&temps, "gather", &attrs, cann_host(call, 0), &index, NULL,
                       cann_host(call, 3));
}

/* Checks an index of as many axes as self, whose extents beside axis are at most those of self. */
static int along_check(struct cann_call *call, int self, int index, int axis)
{
    const struct cann_tensor *x = cann_type(call, self), *at = cann_type(call, index);

    CANN_TRY(cann_want(call, index, CANN_INDEX));
    CANN_TRY(cann_want_rank(call, index, x->rank, x->rank));
    for (int i = 0; i < x->rank; i++)
        if (i != axis && at->dims[i] > x->dims[i])
            return cann_refuse(call, index, "is longer than self along axis %d", i);
    return 0;
}

/* self, dim, index, out */
int cann_check_gather(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 2));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, cann_type(call, 0)->rank, &axis));
    CANN_TRY(along_check(call, 0, 2, axis));
    CANN_TRY(cann_want_same(call, 3, 0));
    return cann_want_shape(call, 3, &shape);
}

int cann_run_gather(struct cann_call *call)
{
    struct bp_take_along_axis_attrs attrs = {.size = sizeof attrs, .axis = call->arg[1].i};
    struct cann_temps temps = {.n = 0};

    return index_apply(&temps, "take_along_axis", &attrs, cann_host(call, 0), cann_host(call, 2),
                       NULL, cann_host(call, 3));
}

/* self, indices, negativeIndexSupport, out */
int cann_check_gather_nd(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *index = cann_type(call, 1);
    struct cann_shape shape = {0};
    int64_t k;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, CANN_INDEX));
    CANN_TRY(cann_want_same(call, 3, 0));
    CANN_TRY(cann_want_rank(call, 1, 1, CANN_RANK));
    k = index->dims[index->rank - 1];
    if (k < 1 || k > x->rank) return cann_refuse(call, 1, "has rows of %lld", (long long)k);
    shape.rank = index->rank - 1 + x->rank - (int)k;
    if (shape.rank > CANN_RANK) return cann_refuse(call, 1, "has %d axes", index->rank);
    for (int i = 0; i < index->rank - 1; i++) shape.at[i] = index->dims[i];
    for (int i = (int)k; i < x->rank; i++) shape.at[index->rank - 1 + i - k] = x->dims[i];
    return cann_want_shape(call, 3, &shape);
}

int cann_run_gather_nd(struct cann_call *call)
{
    struct bp_gather_nd_attrs attrs = {.size = sizeof attrs};
    struct cann_temps temps = {.n = 0};

    return index_apply(&temps, "gather_nd", &attrs, cann_host(call, 0), cann_host(call, 1), NULL,
                       cann_host(call, 3));
}

/* selfRef, indices of its first axes, values, accumulate, unsafe */
int cann_check_index_put(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape shape = {0}, all;
    int n = call->arg[1].n;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, CANN_INDEX));
    CANN_TRY(cann_want_same(call, 2, 0));
    if (n < 1 || n > x->rank) return cann_refuse(call, 1, "has %d tensors", n);
    for (int i = 0; i < n; i++) {
        const struct cann_tensor *t = cann_type_at(call, 1, i);
        if (t->dtype != cann_type(call, 1)->dtype || t->rank != 1 ||
            t->dims[0] != cann_type(call, 1)->dims[0])
            return cann_refuse(call, 1, "has tensors of several types, or not of one axis");
    }
    shape.at[shape.rank++] = cann_type(call, 1)->dims[0];
    for (int i = n; i < x->rank; i++) shape.at[shape.rank++] = x->dims[i];
    all = shape;
    CANN_TRY(cann_broadcast(call, 2, &all));
    if (all.rank != shape.rank || memcmp(all.at, shape.at, sizeof all.at) != 0)
        return cann_refuse(call, 2, "does not broadcast to the places");
    return 0;
}

int cann_run_index_put(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *first = cann_host(call, 1);
    int64_t shape[CANN_RANK], at[2] = {first->shape[0], call->arg[1].n};
    struct cann_temps temps = {.n = 0};
    struct base_tensor index = cann_temp(&temps, BP_I64, 2, at), made, updates;
    int rank = 0;

    for (int k = 0; k < call->arg[1].n && !temps.code; k++)
        for (int64_t i = 0; i < at[0]; i++)
            ((int64_t *)index.data)[i * at[1] + k] = (int64_t)cann_get(
                &call->host[call->arg[1].first + k], i);
    shape[rank++] = at[0];
    for (int i = call->arg[1].n; i < x->rank; i++) shape[rank++] = x->shape[i];
    updates = cann_expanded(cann_host(call, 2), rank, shape);
    made = cann_temp(&temps, x->dtype, x->rank, x->shape);
    index_apply(&temps, call->arg[3].i ? "scatter_nd_add" : "scatter_nd_update", NULL, x, &index,
                &updates, &made);
    cann_write(&temps, &made, x);
    cann_temps_free(&temps);
    return temps.code;
}

/* Scatter: self, dim, index, src, reduce, out; ScatterAdd: self, dim, index, src, out */
int cann_check_scatter(struct cann_call *call)
{
    bool adds = !strcmp(call->op->name, "aclnnScatterAdd");
    const struct cann_tensor *index = cann_type(call, 2), *src = cann_type(call, 3);
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, cann_type(call, 0)->rank, &axis));
    CANN_TRY(along_check(call, 0, 2, axis));
    CANN_TRY(cann_want_same(call, 3, 0));
    CANN_TRY(cann_want_rank(call, 3, index->rank, index->rank));
    for (int i = 0; i < index->rank; i++)
        if (index->dims[i] > src->dims[i]) return cann_refuse(call, 3, "is shorter than index");
    if (!adds) CANN_TRY(cann_want_between(call, 4, 0, 2));
    return cann_want_like(call, adds ? 4 : 5, 0);
}

int cann_run_scatter(struct cann_call *call)
{
    bool adds = !strcmp(call->op->name, "aclnnScatterAdd");
    struct bp_put_along_axis_attrs attrs = {
        .size = sizeof attrs, .axis = call->arg[1].i, .reduce = adds ? 1 : call->arg[4].i};
    const struct base_tensor *index = cann_host(call, 2), *y = cann_host(call, adds ? 4 : 5);
    struct base_tensor updates = *cann_host(call, 3);
    struct cann_temps temps = {.n = 0};

    memcpy(updates.shape, index->shape, sizeof updates.shape); /* the part that is used */
    if (!base_tensor_count(index)) cann_write(&temps, cann_host(call, 0), y);
    else index_apply(&temps, "put_along_axis", &attrs, cann_host(call, 0), index, &updates, y);
    return temps.code;
}

/* self, dim, index, source, alpha, out */
int cann_check_index_add(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 2, CANN_INDEX));
    CANN_TRY(cann_want_rank(call, 2, 1, 1));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, shape.rank, &axis));
    if (!shape.rank) return cann_refuse(call, 0, "has no axis");
    shape.at[axis] = cann_type(call, 2)->dims[0];
    CANN_TRY(cann_want_same(call, 3, 0));
    CANN_TRY(cann_want_shape(call, 3, &shape));
    return cann_want_like(call, 5, 0);
}

int cann_run_index_add(struct cann_call *call)
{
    struct bp_index_add_attrs attrs = {.size = sizeof attrs, .axis = call->arg[1].i};
    struct cann_temps temps = {.n = 0};
    struct base_tensor updates = *cann_host(call, 3), by;

    if (call->arg[4].d != 1) {
        struct base_tensor made = cann_temp(&temps, updates.dtype, updates.rank, updates.shape);
        by = cann_number(&temps, updates.dtype, call->arg[4].d);
        cann_apply(&temps, "mul", NULL, &updates, &by, NULL, &made);
        updates = made;
    }
    index_apply(&temps, "index_add", &attrs, cann_host(call, 0), cann_host(call, 2), &updates,
                cann_host(call, 5));
    cann_temps_free(&temps);
    return temps.code;
}

/* weight, indices, out */
int cann_check_embedding(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 1));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, CANN_INDEX));
    CANN_TRY(cann_want_rank(call, 0, 2, 2));
    CANN_TRY(cann_want_rank(call, 1, 0, CANN_RANK - 1));
    CANN_TRY(cann_want_same(call, 2, 0));
    shape.at[shape.rank++] = cann_type(call, 0)->dims[1];
    return cann_want_shape(call, 2, &shape);
}

int cann_run_embedding(struct cann_call *call)
{
    struct bp_gather_attrs attrs = {.size = sizeof attrs};
    struct cann_temps temps = {.n = 0};

    return index_apply(&temps, "gather", &attrs, cann_host(call, 0), cann_host(call, 1), NULL,
                       cann_host(call, 2));
}

/* grad, indices, numWeights, paddingIdx, scaleGradByFreq, out */
int cann_check_embedding_grad(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 1));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, CANN_INDEX));
    CANN_TRY(cann_want_same(call, 5, 0));
    CANN_TRY(cann_want_rank(call, 0, 1, CANN_RANK));
    CANN_TRY(cann_want_rank(call, 1, 0, CANN_RANK - 1));
    shape.at[shape.rank++] = cann_type(call, 0)->dims[cann_type(call, 0)->rank - 1];
    CANN_TRY(cann_want_shape(call, 0, &shape));
    shape = (struct cann_shape){2, {call->arg[2].i, shape.at[shape.rank - 1]}};
    return cann_want_shape(call, 5, &shape);
}

/* How often an index occurs. */
static double index_count(const struct base_tensor *index, double what)
{
    double n = 0;

    for (int64_t i = 0; i < base_tensor_count(index); i++) n += cann_get(index, i) == what;
    return n;
}

int cann_run_embedding_grad(struct cann_call *call)
{
    const struct base_tensor *index = cann_host(call, 1), *y = cann_host(call, 5);
    int64_t n = base_tensor_count(index), d = y->shape[1];
    struct bp_index_add_attrs attrs = {.size = sizeof attrs};
    struct cann_temps temps = {.n = 0};
    struct base_tensor rows = cann_temp(&temps, BP_F32, 2, (int64_t[]){n, d});
    struct base_tensor flat = cann_temp(&temps, index->dtype, 1, &n);
    struct base_tensor zeros = cann_temp(&temps, BP_F32, 2, y->shape);
    struct base_tensor sum = cann_temp(&temps, BP_F32, 2, y->shape);

    for (int64_t i = 0; i < n && !temps.code; i++) {
        double at = cann_get(index, i), by = call->arg[4].i ? index_count(index, at) : 1;
        cann_put(&flat, i, at);
        for (int64_t k = 0; k < d; k++)
            ((float *)rows.data)[i * d + k] =
                at == (double)call->arg[3].i
                    ? 0
                    : (float)(cann_get(cann_host(call, 0), i * d + k) / by);
    }
    index_apply(&temps, "index_add", &attrs, &zeros, &flat, &rows, &sum);
    cann_write(&temps, &sum, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, numClasses, onValue, offValue, axis, out */
int cann_check_one_hot(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape shape = {.rank = x->rank + 1};
    int axis;

    CANN_TRY(cann_want(call, 0, CANN_INDEX | BP_M(U8)));
    CANN_TRY(cann_want_own(call, 2));
    CANN_TRY(cann_want_same(call, 3, 2));
    CANN_TRY(cann_want_same(call, 5, 2));
    CANN_TRY(cann_want_between(call, 1, 0, INT32_MAX));
    CANN_TRY(cann_want_rank(call, 0, 0, CANN_RANK - 1));
    if (cann_tensor_count(cann_type(call, 2)) != 1 || cann_tensor_count(cann_type(call, 3)) != 1)
        return cann_refuse(call, 2, "or offValue is not one number");
    CANN_TRY(cann_want_axis(call, 4, call->arg[4].i, x->rank + 1, &axis));
    for (int i = 0; i < shape.rank; i++)
        shape.at[i] = i == axis ? call->arg[1].i : x->dims[i < axis ? i : i - 1];
    return cann_want_shape(call, 5, &shape);
}

int cann_run_one_hot(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 5);
    int axis = (int)(call->arg[4].i < 0 ? call->arg[4].i + y->rank : call->arg[4].i);
    double on = cann_get(cann_host(call, 2), 0), off = cann_get(cann_host(call, 3), 0);
    int64_t inner = 1, n = y->shape[axis];

    for (int i = axis + 1; i < y->rank; i++) inner *= y->shape[i];
    for (int64_t i = 0; i < base_tensor_count(y); i++) {
        int64_t place = i / inner % n, from = i / inner / n * inner + i % inner;
        cann_put(y, i, cann_get(x, from) == (double)place ? on : off);
    }
    return 0;
}

/* The app learns the true extent of an output by aclGetViewShape, when the work is done. */
static void extent_report(struct cann_call *call, int arg, int64_t extent)
{
    struct cann_slot *slot = &call->slot[call->arg[arg].first];

    base_lock();
    if (base_handle_is(slot->tensor, cann_tensor_kind)) slot->tensor->dims[0] = extent;
    base_unlock();
}

/* self, out: a row for each number of self */
int cann_check_nonzero(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape shape = {2, {cann_tensor_count(x), x->rank}};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want(call, 1, BP_M(I64)));
    return cann_want_shape(call, 1, &shape);
}

int cann_run_nonzero(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 1);
    int64_t n = 0;
    struct base_call base = {.op = "nonzero",
                             .n_in = 1,
                             .n_out = 1,
                             .in = {x},
                             .out = {y},
                             .type = {x->dtype, BASE_ABSENT, BP_I64, BASE_ABSENT},
                             .result = &n};
    int code = base_tensor_count(x) ? base_compute(&base) : 0;

    if (!code) extent_report(call, 1, n);
    return code;
}

/* self, k, dim, largest, sorted, valuesOut, indicesOut */
int cann_check_topk(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 2, call->arg[2].i, shape.rank, &axis));
    if (!shape.rank) return cann_refuse(call, 0, "has no axis");
    CANN_TRY(cann_want_between(call, 1, 0, shape.at[axis]));
    shape.at[axis] = call->arg[1].i;
    CANN_TRY(cann_want_same(call, 5, 0));
    CANN_TRY(cann_want(call, 6, BP_M(I64)));
    CANN_TRY(cann_want_shape(call, 5, &shape));
    return cann_want_shape(call, 6, &shape);
}

int cann_run_topk(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 5);
    struct bp_topk_attrs attrs = {.size = sizeof attrs,
                                  .k = call->arg[1].i,
                                  .axis = call->arg[2].i,
                                  .smallest = !call->arg[3].i};
    struct base_call base = {.op = "topk",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 2,
                             .in = {x},
                             .out = {y, cann_host(call, 6)},
                             .type = {x->dtype, BASE_ABSENT, BP_I64, BASE_ABSENT}};

    return base_tensor_count(y) ? base_compute(&base) : 0;
}

/* self, stable, dim, descending, valuesOut, indicesOut */
int cann_check_sort(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 2, call->arg[2].i, shape.rank, &axis));
    CANN_TRY(cann_want_like(call, 4, 0));
    CANN_TRY(cann_want(call, 5, BP_M(I64)));
    return cann_want_shape(call, 5, &shape);
}

/* Sorts, with values NULL only the indices. */
static int sort_apply(const struct base_tensor *x, int64_t axis, int64_t descending,
                      const struct base_tensor *values, const struct base_tensor *indices)
{
    struct bp_sort_attrs attrs = {.size = sizeof attrs, .axis = axis, .descending = descending};
    struct base_call base = {.op = values ? "sort" : "argsort",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = values ? 2 : 1,
                             .in = {x},
                             .out = {values ? values : indices, values ? indices : NULL},
                             .type = {x->dtype, BASE_ABSENT, BP_I64, BASE_ABSENT}};

    if (!base_tensor_count(x)) return 0;
    if (x->rank) return base_compute(&base);
    if (values) base_tensor_copy(x, values);
    *(int64_t *)indices->data = 0;
    return 0;
}

int cann_run_sort(struct cann_call *call)
{
    return sort_apply(cann_host(call, 0), call->arg[2].i, call->arg[3].i, cann_host(call, 4),
                      cann_host(call, 5));
}

/* self, dim, descending, out */
int cann_check_argsort(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, shape.rank, &axis));
    CANN_TRY(cann_want(call, 3, BP_M(I64)));
    return cann_want_shape(call, 3, &shape);
}

int cann_run_argsort(struct cann_call *call)
{
    return sort_apply(cann_host(call, 0), call->arg[1].i, call->arg[2].i, NULL, cann_host(call, 3));
}

/* Checks the three outputs of unique: values and counts of up to n, the inverse like self. */
static int unique_check(struct cann_call *call, int value)
{
    struct cann_shape self = cann_shape(cann_type(call, 0));
    struct cann_shape all = {1, {cann_tensor_count(cann_type(call, 0))}};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, value, 0));
    CANN_TRY(cann_want(call, value + 1, BP_M(I64)));
    CANN_TRY(cann_want(call, value + 2, BP_M(I64)));
    CANN_TRY(cann_want_shape(call, value, &all));
    if (call->arg[value - 2].i || cann_tensor_count(cann_type(call, value + 1)))
        CANN_TRY(cann_want_shape(call, value + 1, &self));
    if (call->arg[value - 1].i || cann_tensor_count(cann_type(call, value + 2)))
        CANN_TRY(cann_want_shape(call, value + 2, &all));
    return 0;
}

/* value: the number of valueOut. */
static int unique_run(struct cann_call *call, const char *op, int value)
{
    const struct base_tensor *x = cann_host(call, 0);
    const struct base_tensor *inverse = cann_host(call, value + 1),
                             *counts = cann_host(call, value + 2);
    bool is_unique = !strcmp(op, "unique");
    int64_t n[4] = {0};
    struct base_call base = {.op = op,
                             .n_in = 1,
                             .n_out = is_unique ? 4 : 3,
                             .in = {x},
                             .out = {cann_host(call, value)},
                             .type = {x->dtype, BASE_ABSENT, BP_I64, BASE_ABSENT},
                             .result = n};
    int code;

    if (!base_tensor_count(x)) return 0;
    base.out[is_unique ? 2 : 1] = base_tensor_count(inverse) ? inverse : NULL;
    base.out[is_unique ? 3 : 2] = base_tensor_count(counts) ? counts : NULL;
    code = base_compute(&base);
    if (code) return code;
    extent_report(call, value, n[0]);
    if (base_tensor_count(counts)) extent_report(call, value + 2, n[0]);
    return 0;
}

/* self, sorted, returnInverse, returnCounts, valueOut, inverseOut, countsOut */
int cann_check_unique(struct cann_call *call)
{
    return unique_check(call, 4);
}

int cann_run_unique(struct cann_call *call)
{
    return unique_run(call, "unique", 4);
}

/* self, returnInverse, returnCounts, dim (1000: all numbers as one axis), valueOut, inverseOut,
 * countsOut */
int cann_check_unique_consecutive(struct cann_call *call)
{
    if (call->arg[3].i != 1000) return cann_refuse(call, 3, "is not 1000: all numbers");
    return unique_check(call, 4);
}

int cann_run_unique_consecutive(struct cann_call *call)
{
    return unique_run(call, "unique_consecutive", 4);
}
