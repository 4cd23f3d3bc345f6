/* SPDX-License-Identifier: Apache-2.0 */
/* family.c: implements what the families of operators share: checks of dtypes and shapes, temporary
 * tensors, and single portable kernels. */
#include "family.h"
#include <dialect/half.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cann_shape cann_shape(const struct cann_tensor *t)
{
    struct cann_shape s = {.rank = t->rank};

    memcpy(s.at, t->dims, sizeof s.at);
    return s;
}

bool cann_dtype_in(int dtype, uint64_t mask)
{
    int bp = cann_bp_dtype(dtype);

    return bp >= 0 && mask >> bp & 1;
}

int cann_want(struct cann_call *call, int arg, uint64_t mask)
{
    const struct cann_arg *a = &call->arg[arg];

    for (int i = 0; i < a->n; i++) {
        int dtype = cann_type_at(call, arg, i)->dtype;
        if (!cann_dtype_in(dtype, mask))
            return cann_refuse(call, arg, "is %s, which is not supported", cann_dtype_name(dtype));
    }
    return 0;
}

int cann_want_own(struct cann_call *call, int arg)
{
    return cann_want(call, arg, call->op->dtypes);
}

int cann_want_same(struct cann_call *call, int arg, int other)
{
    const struct cann_tensor *t = cann_type(call, arg), *as = cann_type(call, other);

    if (!t || !as || t->dtype == as->dtype) return 0;
    return cann_refuse(call, arg, "is %s, %s is %s", cann_dtype_name(t->dtype),
                       call->op->port[other], cann_dtype_name(as->dtype));
}

/* Prints the extents. */
static const char *shape_text(int rank, const int64_t *at, char text[128])
{
    int n = snprintf(text, 128, "[");

    for (int i = 0; i < rank && n < 100; i++)
        n += snprintf(text + n, 128 - (size_t)n, i ? ",%lld" : "%lld", (long long)at[i]);
    snprintf(text + n, 128 - (size_t)n, "]");
    return text;
}

int cann_want_shape(struct cann_call *call, int arg, const struct cann_shape *shape)
{
    const struct cann_tensor *t = cann_type(call, arg);
    char is[128], wanted[128];

    if (!t ||
        (t->rank == shape->rank && !memcmp(t->dims, shape->at, (size_t)t->rank * sizeof *t->dims)))
        return 0;
    return cann_refuse(call, arg, "has the shape %s, expected %s", shape_text(t->rank, t->dims, is),
                       shape_text(shape->rank, shape->at, wanted));
}

int cann_want_like(struct cann_call *call, int arg, int other)
{
    struct cann_shape shape;
    int code = cann_want_same(call, arg, other);

    if (code || !cann_type(call, other)) return code;
    shape = cann_shape(cann_type(call, other));
    return cann_want_shape(call, arg, &shape);
}

int cann_want_rank(struct cann_call *call, int arg, int from, int to)
{
    const struct cann_tensor *t = cann_type(call, arg);

    if (!t || (t->rank >= from && t->rank <= to)) return 0;
    return cann_refuse(call, arg, "has %d axes, expected %d to %d", t->rank, from, to);
}

int cann_want_n(struct cann_call *call, int arg, int n)
{
    if (call->arg[arg].n_at == n) return 0;
    return cann_refuse(call, arg, "has %d numbers, expected %d", call->arg[arg].n_at, n);
}

int cann_want_between(struct cann_call *call, int arg, int64_t from, int64_t to)
{
    int64_t i = call->arg[arg].i;

    if (i >= from && i <= to) return 0;
    return cann_refuse(call, arg, "is %lld, expected %lld to %lld", (long long)i, (long long)from,
                       (long long)to);
}

int cann_want_image(struct cann_call *call, int arg)
{
    static const int formats[] = {CANN_NCL, CANN_NCHW, CANN_NCDHW};
    const struct cann_tensor *t = cann_type(call, arg);

    if (!t) return 0;
    if (t->rank >= 3 && t->rank <= 5 && t->format == formats[t->rank - 3]) return 0;
    return cann_refuse(call, arg, "has %d axes and the format %d", t->rank, t->format);
}

int cann_broadcast(struct cann_call *call, int arg, struct cann_shape *shape)
{
    const struct cann_tensor *t = cann_type(call, arg);
    int more;

    if (!t) return 0;
    more = t->rank - shape->rank;
    if (more > 0) {
        memmove(shape->at + more, shape->at, (size_t)shape->rank * sizeof *shape->at);
        for (int i = 0; i < more; i++) shape->at[i] = 1;
        shape->rank = t->rank;
    }
    for (int i = 0; i < t->rank; i++) {
        int64_t *at = &shape->at[shape->rank - t->rank + i];
        if (*at == 1) *at = t->dims[i];
        else if (t->dims[i] != 1 && t->dims[i] != *at)
            return cann_refuse(call, arg, "does not broadcast: %lld and %lld",
                               (long long)t->dims[i], (long long)*at);
    }
    return 0;
}

int cann_want_axis(struct cann_call *call, int arg, int64_t axis, int rank, int *out)
{
    int64_t n = rank ? rank : 1;

    if (axis < -n || axis >= n)
        return cann_refuse(call, arg, "is axis %lld of %d", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + n : axis);
    return 0;
}

void cann_temps_free(struct cann_temps *temps)
{
    for (int i = 0; i < temps->n; i++) free(temps->at[i]);
    temps->n = 0;
}

struct base_tensor cann_temp(struct cann_temps *temps, uint32_t dtype, int rank,
                             const int64_t *shape)
{
    struct base_tensor t = base_tensor_of(NULL, dtype, rank, shape);
    size_t bytes = (size_t)base_tensor_count(&t) * base_dtype_size(dtype);

    if (temps->n < CANN_TEMPS) t.data = temps->at[temps->n] = calloc(1, bytes + 64);
    if (t.data) temps->n++;
    else if (!temps->code) temps->code = BASE_NO_MEMORY;
    return t;
}

int cann_call_base(struct cann_temps *temps, const struct base_call *call)
{
    if (!temps->code) temps->code = base_compute(call);
    return temps->code;
}

void cann_apply(struct cann_temps *temps, const char *op, const void *attrs,
                const struct base_tensor *a, const struct base_tensor *b,
                const struct base_tensor *c, const struct base_tensor *out)
{
    struct base_call call = {.op = op,
                             .attrs = attrs,
                             .n_in = c   ? 3
                                     : b ? 2
                                     : a ? 1
                                         : 0,
                             .n_out = 1,
                             .in = {a, b, c},
                             .out = {out},
                             .type = {out->dtype, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT}};

    cann_call_base(temps, &call);
}

void cann_write(struct cann_temps *temps, const struct base_tensor *from,
                const struct base_tensor *to)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = to->dtype};
    struct base_call call = {.op = "cast",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {from},
                             .out = {to},
                             .type = {from->dtype, to->dtype, BASE_ABSENT, BASE_ABSENT}};

    if (temps->code || !base_tensor_count(to)) return;
    if (from->dtype == to->dtype) base_tensor_copy(from, to);
    else cann_call_base(temps, &call);
}

struct base_tensor cann_in_dtype(struct cann_temps *temps, const struct base_tensor *t,
                                 uint32_t dtype)
{
    struct base_tensor made;

    if (t->dtype == dtype) return *t;
    made = cann_temp(temps, dtype, t->rank, t->shape);
    cann_write(temps, t, &made);
    return made;
}

uint32_t cann_wide(uint32_t dtype)
{
    return dtype == BP_F64 ? BP_F64 : BP_F32;
}

struct base_tensor cann_number(struct cann_temps *temps, uint32_t dtype, double value)
{
    struct base_tensor t = cann_temp(temps, dtype, 0, NULL);
    struct base_tensor from = {.data = &value, .dtype = BP_F64};

    cann_write(temps, &from, &t);
    return t;
}

struct base_tensor cann_expanded(const struct base_tensor *t, int rank, const int64_t *shape)
{
    struct base_tensor out = {.data = t->data, .dtype = t->dtype, .rank = rank};

    for (int i = 0; i < rank; i++) {
        int k = i - (rank - t->rank);
        out.shape[i] = shape[i];
        out.stride[i] = k < 0 || (t->shape[k] == 1 && shape[i] != 1) ? 0 : t->stride[k];
    }
    return out;
}

/* A view of element i. */
static struct base_tensor tensor_element(const struct base_tensor *t, int64_t i)
{
    struct base_tensor one = {.dtype = t->dtype};
    int64_t at = 0;

    for (int k = t->rank; k-- > 0;) {
        at += i % t->shape[k] * t->stride[k];
        i /= t->shape[k];
    }
    one.data = (char *)t->data + at * (int64_t)base_dtype_size(t->dtype);
    return one;
}

double cann_get(const struct base_tensor *t, int64_t i)
{
    struct base_tensor one = tensor_element(t, i), to;
    struct cann_temps temps = {.n = 0};
    double value = 0;

    switch (t->dtype) { /* others, and their conversions, are slower */
    case BP_F32: return *(const float *)one.data;
    case BP_F16: return f16_to_f32(*(const uint16_t *)one.data);
    case BP_BF16: return bf16_to_f32(*(const uint16_t *)one.data);
    case BP_I32: return *(const int32_t *)one.data;
    case BP_I64: return (double)*(const int64_t *)one.data;
    case BP_BOOL:
    case BP_U8: return *(const uint8_t *)one.data;
    default: break;
    }
    to = (struct base_tensor){.data = &value, .dtype = BP_F64};
    cann_write(&temps, &one, &to);
    return value;
}

void cann_put(const struct base_tensor *t, int64_t i, double value)
{
    struct base_tensor one = tensor_element(t, i);
    struct base_tensor from = {.data = &value, .dtype = BP_F64};
    struct cann_temps temps = {.n = 0};

    if (t->dtype == BP_F32) *(float *)one.data = (float)value;
    else cann_write(&temps, &from, &one);
}
