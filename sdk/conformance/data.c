/* SPDX-License-Identifier: Apache-2.0 */
/* data.c: fills the inputs of kernel cases with numbers. */
#include "operand.h"
#include <math.h>
#include <stdlib.h>

/* Numbers at which conversions and additions often have errors: ends of the types, ties of the
 * formats, subnormals. Each is rounded to the dtype of the input. */
static const long double special_floats[] = {
    0.0L,
    -0.0L,
    1,
    -1,
    0.5L,
    -0.5L,
    1.5L,
    -1.5L,
    2.5L,
    -2.5L,
    0.999L,
    -0.999L,
    NAN,
    INFINITY,
    -INFINITY,
    126.5L,
    127,
    127.5L,
    128,
    129,
    -127.5L,
    -128,
    -128.5L,
    -129,
    254.5L,
    255,
    255.5L,
    256,
    257,
    32767,
    32768,
    -32768,
    -32769,
    65535,
    65536,
    2147483647,
    2147483648.0L,
    -2147483648.0L,
    -2147483649.0L,
    4294967295.0L,
    4294967296.0L,
    0x1p53L,
    0x1.fffffffffffffp62L,
    0x1p63L,
    -0x1p63L,
    -0x1.0000001p63L,
    0x1.fffffffffffffp63L,
    0x1p64L,
    0x1p65L,
    -0x1p64L,
    1e30L,
    -1e30L,
    0x1.002p0L,
    0x1.006p0L,
    0x1.00200001p0L,
    0x1.001fffffp0L, /* ties of f16 and their neighbours */
    0x1.01p0L,
    0x1.03p0L,
    0x1.010001p0L,
    0x1.00ffffp0L, /* ties of bf16 */
    0x1.000001p0L,
    0x1.000003p0L,
    0x1.0000010000001p0L, /* ties of f32 */
    0x1.0020000000001p0L,
    0x1.0100000000001p0L, /* ties of half types that rounding to f32 first would change */
    65504,
    65519,
    65519.996L,
    65520,
    -65520,
    65536,
    0x1.fep127L,
    0x1.ffp127L,
    0x1.fffffep127L,
    0x1.ffffffp127L,
    0x1p-14L,
    0x1.ff8p-15L,
    0x1p-24L,
    0x1p-25L,
    0x1.004p-25L,
    0x1.8p-24L, /* subnormals of f16 */
    0x1p-126L,
    0x1p-127L,
    0x1p-133L,
    0x1p-134L,
    0x1.02p-134L,
    0x1.8p-133L, /* subnormals of bf16 */
    0x1p-149L,
    0x1p-150L,
    0x1.8p-149L,
    -0x1p-149L,
    0x1p-1022L,
    0x1p-1074L,
    -0x1p-1074L,
};
enum {
    N_FLOATS = sizeof special_floats / sizeof *special_floats
};

static const uint64_t special_ints[] = {
    0,
    1,
    UINT64_MAX,
    2,
    7,
    100,
    0x7f,
    0x80,
    0x81,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0x8001,
    0xffff,
    0x10000,
    0x7fffffff,
    0x80000000,
    0x80000001,
    0xffffffff,
    0x100000000,
    0x7fffffffffffffff,
    0x8000000000000000,
    0x8000000000000001,
    257,
    259,
    2049,
    2051,
    65519,
    65520, /* ties of bf16 and f16, and the end of f16 */
    0x1000001,
    0x1000003,
    0x20000000000001,
    0x20000000000003, /* ties of f32 and f64 */
    0x7fffffbfffffffff,
    0xffffff8000000000,
    0xfffffffffffffc00,
    0x101000000000001, /* wrong if rounded twice */
};
enum {
    N_INTS = sizeof special_ints / sizeof *special_ints
};

/* A number of any magnitude of the type, including subnormals: the exponent is drawn. */
static long double any_float(const struct num_type *type, struct random *r)
{
    int least = type->emin - type->digits + 1;
    int exponent = least + (int)random_below(r, (uint64_t)(type->emax - least + 1));
    long double number = ldexpl(1 + (long double)random_unit(r), exponent);

    return random_below(r, 2) ? -number : number;
}

static long double plain_float(const struct num_type *type, enum data data, struct random *r)
{
    switch (data) {
    case DATA_EXACT: return (long double)random_below(r, 7) - 3;
    case DATA_POSITIVE: return 0.5L + random_unit(r);
    case DATA_WIDE: return 80 * random_unit(r) - 40;
    case DATA_UNIT: return 2 * random_unit(r) - 1;
    case DATA_LARGE: return 20000 * random_unit(r) - 10000;
    case DATA_RANGE: return any_float(type, r);
    case DATA_UNREAD: return NAN;
    case DATA_ZERO: return random_below(r, 2) ? -0.0L : 0.0L;
    case DATA_SPARSE:
        switch (random_below(r, 16)) {
        case 0: return NAN;
        case 1: case 2: return -0.0L;
        case 3: case 4: case 5: case 6: case 7: case 8: return 0;
        default: break;
        }
        break;
    default: break;
    }
    return 4 * random_unit(r) - 2;
}

static uint64_t plain_int(const struct num_type *type, enum data data, struct random *r)
{
    bool is_signed = type->class == NUM_SIGNED;

    if (data == DATA_ZERO || (data == DATA_SPARSE && random_below(r, 2))) return 0;
    if (type->class == NUM_BOOL) return random_below(r, 2);
    switch (data) {
    case DATA_EXACT: return random_below(r, 7) - (is_signed ? 3 : 0);
    case DATA_POSITIVE: return random_below(r, 16);
    case DATA_WIDE: return random_below(r, 80) - (is_signed ? 40 : 0);
    case DATA_UNREAD: return UINT64_MAX >> is_signed;
    default: return random_bits(r);
    }
}

/* Probabilities: each line along the last axis adds up to about 1. */
static void fill_logits(struct ref_array *values, struct random *random)
{
    int64_t length = values->rank ? values->shape[values->rank - 1] : 1;

    for (int64_t i = 0; i < values->count; i++)
        values->v[i] = 2 * (long double)random_unit(random) / (long double)(length ? length : 1);
}

/* Draws each number from another cell. [-2, 2) is divided into a multiple of 8 cells, so that
 * multiples of 1/2 are cell boundaries; each input uses another part of its cells. */
static void fill_apart(struct ref_array *values, int index, struct random *random)
{
    int64_t cells = values->count > 40 ? (values->count + 7) / 8 * 8 : 40, left = cells;
    int64_t *cell = malloc((size_t)cells * sizeof *cell);

    if (!cell) abort();
    for (int64_t c = 0; c < cells; c++) cell[c] = c;
    for (int64_t i = 0; i < values->count; i++) {
        int64_t at = (int64_t)random_below(random, (uint64_t)left), mine = cell[at];
        long double part = 0.2L + 0.25L * (index % 3) + 0.1L * random_unit(random);
        cell[at] = cell[--left];
        values->v[i] = -2 + 4 * ((long double)mine + part) / (long double)cells;
    }
    free(cell);
}

/* The distance between non-finite numbers is so large that a line of a softmax has one or two of
 * them, and each kind also occurs alone. The first ones of two inputs lie at the same index. */
static void add_nonfinite(struct ref_array *values, int index)
{
    static const long double kinds[] = {INFINITY, -INFINITY, NAN};
    int64_t step = index == 0 ? 61 : 23;

    for (int64_t i = 7, k = index == 0; i < values->count * values->type->parts; i += step, k++)
        values->v[i] = kinds[k % 3];
}

static void set_number(struct ref_array *values, int64_t i, double number)
{
    if (values->u) values->u[i] = (uint64_t)(int64_t)number;
    else values->v[i] = (long double)number;
}

/* 0 to n - 1 in random order, by the Fisher-Yates shuffle. */
static void fill_shuffled(struct ref_array *values, struct random *random)
{
    int64_t *number = malloc(((size_t)values->count + 1) * sizeof *number);

    if (!number) abort();
    for (int64_t i = 0; i < values->count; i++) number[i] = i;
    for (int64_t i = values->count - 1; i > 0; i--) {
        int64_t j = (int64_t)random_below(random, (uint64_t)i + 1), other = number[j];
        number[j] = number[i];
        number[i] = other;
    }
    for (int64_t i = 0; i < values->count; i++) set_number(values, i, (double)number[i]);
    free(number);
}

/* Kinds of data whose numbers the case states. Returns false for other kinds. */
static bool fill_named(struct ref_array *values, const struct kernel_input *in,
                       struct random *random)
{
    switch (in->data) {
    case DATA_INDEX:
        for (int64_t i = 0; i < values->count; i++)
            set_number(values, i,
                       (double)(in->low + (int64_t)random_below(
                                              random, (uint64_t)(in->high - in->low))));
        return true;
    case DATA_LIST:
        for (int64_t i = 0; i < values->count * values->type->parts; i++)
            set_number(values, i, in->list[i % in->n_list]);
        return true;
    case DATA_SHUFFLED: fill_shuffled(values, random); return true;
    default: return false;
    }
}

static void fill_drawn(struct ref_array *values, enum data data, int index, struct random *random)
{
    int64_t n = values->count * values->type->parts;

    for (int64_t i = 0; i < n; i++) {
        const struct num_type *type = values->type;
        bool in_turn = index == 0 && i < (values->u ? N_INTS : N_FLOATS);
        bool special = data == DATA_SPECIAL && (in_turn || random_below(random, 2));
        uint64_t which = in_turn ? (uint64_t)i
                                 : random_below(random, values->u ? N_INTS : N_FLOATS);
        if (values->u)
            values->u[i] = special ? special_ints[which] : plain_int(type, data, random);
        else values->v[i] = special ? special_floats[which] : plain_float(type, data, random);
    }
    if (data == DATA_NONFINITE && values->v) add_nonfinite(values, index);
}

void data_fill(struct ref_array *values, const struct kernel_input *in, int index,
               struct random *random)
{
    if (in->data == DATA_LOGIT && values->v) fill_logits(values, random);
    else if (in->data == DATA_APART && values->v) fill_apart(values, index, random);
    else if (!fill_named(values, in, random)) fill_drawn(values, in->data, index, random);
    for (int64_t i = 0; values->v && !num_has_sign(values->type) && i < values->count; i++)
        values->v[i] = fabsl(values->v[i]);
    /* Round the numbers to the dtype. */
    void *bytes = malloc(values->count ? (size_t)values->count * values->type->size : 1);
    if (!bytes) abort();
    ref_array_encode(values, bytes);
    ref_array_decode(values, bytes);
    free(bytes);
}
