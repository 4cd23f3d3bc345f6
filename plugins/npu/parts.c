/* SPDX-License-Identifier: Apache-2.0 */
/* parts.c: composes operators of several calls from functions on temporaries. */
#include "parts.h"
#include "call.h"
#include <string.h>

bool part_is_half(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16;
}

uint32_t part_dtype(const struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *v = kit_arg_view(b, &x);

    return v ? v->dtype : BP_F32;
}

struct kit_arg part_like(struct kit_build *b, struct kit_arg x)
{
    const struct bp_view *v = kit_arg_view(b, &x);

    return v ? kit_temporary_like(b, v) : KIT_VALUE(KIT_NONE);
}

struct kit_arg part_cast(struct kit_build *b, struct kit_arg x, uint32_t dtype)
{
    const struct bp_view *v = kit_arg_view(b, &x);
    struct kit_arg to;

    if (!v || v->dtype == dtype) return x;
    to = kit_temporary(b, dtype, v->rank, v->shape);
    KIT_STEP(b, "Cast", x, KIT_DTYPE_IS(dtype), to);
    return to;
}

struct kit_arg part_in(struct kit_build *b, uint32_t port)
{
    struct kit_arg x = KIT_IN(port);

    return part_is_half(part_dtype(b, x)) ? part_cast(b, x, BP_F32) : x;
}

static struct kit_arg part_filled(struct kit_build *b, struct kit_arg to, struct kit_arg number)
{
    struct kit_arg updated = to;

    updated.role = KIT_UPDATES;
    KIT_STEP(b, "InplaceFillScalar", updated, number);
    return to;
}

/* Writes a number as an element of a dtype. false: it has to be converted by a function. */
static bool part_element(uint32_t dtype, double number, int64_t whole, void *out)
{
    switch (dtype) {
    case BP_F64: memcpy(out, &number, sizeof number); return true;
    case BP_F32: memcpy(out, &(float){(float)number}, sizeof(float)); return true;
    case BP_I64:
    case BP_I32:
    case BP_I16:
    case BP_I8:
    case BP_U8: memcpy(out, &whole, part_item_size(dtype)); return true; /* little-endian */
    default: return false;
    }
}

/* A constant of the plan; a value that a launch may change is filled in by each launch. */
struct kit_arg part_number(struct kit_build *b, uint32_t dtype, struct kit_arg number)
{
    char element[8];
    const int64_t whole = kit_arg_int(b, &number);

    if (!npu_row_of(b->kernel)->each &&
        part_element(dtype, kit_arg_number(b, &number), whole, element))
        return kit_constant(b, dtype, 0, NULL, element);
    return part_filled(b, kit_temporary(b, dtype, 0, NULL), number);
}

struct kit_arg part_full(struct kit_build *b, const struct bp_view *like, struct kit_arg number)
{
    return part_filled(b, kit_temporary_like(b, like), number);
}

/* A temporary of the shape to which up to three tensors broadcast. */
static struct kit_arg part_broadcast(struct kit_build *b, uint32_t dtype, const struct kit_arg *arg,
                                     int n)
{
    int64_t shape[KIT_AXES_MAX];
    uint32_t rank = 0;

    for (int i = 0; i < n; i++) {
        const struct bp_view *v = kit_arg_view(b, &arg[i]);

        if (!v) return KIT_VALUE(KIT_NONE);
        if (v->rank > rank) rank = v->rank;
    }
    for (uint32_t a = 0; a < rank; a++) shape[a] = 1;
    for (int i = 0; i < n; i++) {
        const struct bp_view *v = kit_arg_view(b, &arg[i]);

        for (uint32_t a = 0; a < v->rank; a++)
            if (v->shape[a] != 1) shape[rank - v->rank + a] = v->shape[a];
    }
    return kit_temporary(b, dtype, rank, shape);
}

struct kit_arg part_one(struct kit_build *b, const char *function, struct kit_arg x)
{
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), &x, 1);

    KIT_STEP(b, function, x, to);
    return to;
}

static struct kit_arg part_pair(struct kit_build *b, const char *function, uint32_t dtype,
                                struct kit_arg x, struct kit_arg y)
{
    const struct kit_arg both[2] = {x, y};
    struct kit_arg to = part_broadcast(b, dtype, both, 2);

    KIT_STEP(b, function, x, y, to);
    return to;
}

struct kit_arg part_two(struct kit_build *b, const char *function, struct kit_arg x,
                        struct kit_arg y)
{
    return part_pair(b, function, part_dtype(b, x), x, y);
}

struct kit_arg part_test(struct kit_build *b, const char *function, struct kit_arg x,
                         struct kit_arg y)
{
    return part_pair(b, function, BP_BOOL, x, y);
}

struct kit_arg part_compare(struct kit_build *b, const char *function, struct kit_arg x,
                            struct kit_arg number)
{
    return part_test(b, function, x, part_number(b, part_dtype(b, x), number));
}

struct kit_arg part_times(struct kit_build *b, struct kit_arg x, struct kit_arg number)
{
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), &x, 1);

    KIT_STEP(b, "Muls", x, number, to);
    return to;
}

struct kit_arg part_plus(struct kit_build *b, struct kit_arg x, struct kit_arg number)
{
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), &x, 1);

    KIT_STEP(b, "Adds", x, number, KIT_SCALAR_IS(1), to);
    return to;
}

static struct kit_arg part_sum(struct kit_build *b, const char *function, struct kit_arg x,
                               struct kit_arg y)
{
    const struct kit_arg both[2] = {x, y};
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), both, 2);

    KIT_STEP(b, function, x, y, KIT_SCALAR_IS(1), to);
    return to;
}

struct kit_arg part_add(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    return part_sum(b, "Add", x, y);
}

struct kit_arg part_sub(struct kit_build *b, struct kit_arg x, struct kit_arg y)
{
    return part_sum(b, "Sub", x, y);
}

struct kit_arg part_clamp(struct kit_build *b, struct kit_arg x, struct kit_arg min,
                          struct kit_arg max)
{
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), &x, 1);

    KIT_STEP(b, "Clamp", x, min, max, to);
    return to;
}

struct kit_arg part_where(struct kit_build *b, struct kit_arg condition, struct kit_arg x,
                          struct kit_arg y)
{
    const struct kit_arg all[3] = {condition, x, y};
    struct kit_arg to = part_broadcast(b, part_dtype(b, x), all, 3);

    KIT_STEP(b, "SWhere", condition, x, y, to);
    return to;
}

struct kit_arg part_where_else(struct kit_build *b, struct kit_arg condition, struct kit_arg x,
                               struct kit_arg number)
{
    return part_where(b, condition, x, part_number(b, part_dtype(b, x), number));
}

struct kit_arg part_where_number(struct kit_build *b, struct kit_arg condition,
                                 struct kit_arg number, struct kit_arg y)
{
    return part_where(b, condition, part_number(b, part_dtype(b, y), number), y);
}

struct kit_arg part_softplus(struct kit_build *b, struct kit_arg x)
{
    struct kit_arg zero = part_number(b, part_dtype(b, x), KIT_VALUE(KIT_NUMBER_IS(0)));
    struct kit_arg below = part_one(b, "Neg", part_one(b, "Abs", x));

    return part_add(b, part_two(b, "Maximum", x, zero),
                    part_one(b, "Log1p", part_one(b, "Exp", below)));
}

double part_value(const struct kit_build *b, struct kit_arg scalar)
{
    return kit_arg_number(b, &scalar);
}

static bool part_same_type(const struct bp_view *x, const struct bp_view *y)
{
    return x->dtype == y->dtype && x->rank == y->rank &&
           (!x->rank || !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape));
}

enum bp_status part_end(struct kit_build *b, struct kit_arg value)
{
    const struct bp_view *v = kit_arg_view(b, &value), *out = b->out[b->out_at[0]];
    const struct kit_step *last = b->n_step ? &b->step[b->n_step - 1] : NULL;
    struct kit_arg *to = last ? &b->arg[b->n_arg - 1] : NULL;

    if (b->status || !v) return kit_refuse(b);
    if (to && last->of == b->n_step - 1 && to->from == KIT_FROM_TENSOR &&
        value.from == KIT_FROM_TENSOR && to->at == value.at && part_same_type(v, out))
        *to = kit_as(KIT_VALUE(KIT_OUT(0)), KIT_WRITES);
    else if (v->dtype != out->dtype)
        KIT_STEP(b, "Cast", value, KIT_DTYPE_IS(out->dtype), KIT_OUT(0));
    else KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), value);
    return part_pack(b);
}

uint64_t part_item_size(uint32_t dtype)
{
    switch (dtype) {
#define X(NAME, name, number, bits, class) \
    case BP_##NAME: return (bits) / 8;
        BP_DTYPES(X)
#undef X
    default: return 1;
    }
}

/* The tensor of the workspace in which a tensor of the build lies. -1: in none. */
static int part_base(const struct kit_build *b, int at)
{
    while (b->tensor[at].base.from == KIT_FROM_TENSOR) at = b->tensor[at].base.at;
    if (b->tensor[at].word || b->tensor[at].held) return -1;
    return b->tensor[at].base.from != KIT_FROM_NONE ? -1 : at;
}

struct part_use {
    int first, last; /* steps; first -1: none */
    uint64_t at, size;
};

static void part_uses(const struct kit_build *b, struct part_use use[KIT_TENSORS])
{
    for (uint32_t t = 0; t < b->n_tensor; t++) use[t].first = -1;
    for (uint32_t s = 0; s < b->n_step; s++) {
        for (uint32_t a = 0; a < b->step[s].n; a++) {
            const struct kit_arg *arg = &b->step[s].arg[a];
            int t = arg->from == KIT_FROM_TENSOR ? part_base(b, arg->at) : -1;

            if (t < 0) continue;
            if (use[t].first < 0) use[t].first = (int)s;
            use[t].last = (int)s;
        }
    }
    for (uint32_t i = 0; i < b->n_result; i++) /* read behind the last step */
        use[b->result[i].tensor].last = (int)b->n_step;
}

enum bp_status part_pack(struct kit_build *b)
{
    enum {
        ALIGN = 512
    };
    struct part_use use[KIT_TENSORS];
    uint64_t end = 0;

    if (b->status) return b->status;
    part_uses(b, use);
    for (uint32_t t = 0; t < b->n_tensor; t++) {
        struct part_use *u = &use[t];

        if (u->first < 0) continue;
        u->size = part_item_size(b->tensor[t].view.dtype) * (uint64_t)b->tensor[t].view.count;
        u->size = (u->size + 32 + ALIGN - 1) / ALIGN * ALIGN;
        u->at = 0;
        for (uint32_t o = 0; o < t; o++) { /* until no earlier one is in the way */
            const struct part_use *w = &use[o];

            if (w->first < 0 || w->last < u->first || u->last < w->first) continue;
            if (u->at >= w->at + w->size || w->at >= u->at + u->size) continue;
            u->at = w->at + w->size;
            o = UINT32_MAX; /* from the first one again */
        }
        b->tensor[t].view.data = (void *)(uintptr_t)u->at;
        if (u->at + u->size > end) end = u->at + u->size;
    }
    b->bytes = end;
    return BP_OK;
}
