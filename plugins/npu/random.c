/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: builds the rows of operators that draw random numbers. CANN's own functions draw other
 * numbers than Backplane, whose numbers are the same on all devices: so the words of Philox4x32-10
 * (random.h) are computed by functions of integers. Each launch has its own seed and offset. */
#include "builds.h"
#include "parts.h"
#include <math.h>
#include <string.h>

enum {
    RANDOM_ROUNDS = 10
};

/* A part of the words of 32 bits of a tensor of i64: from number `first` on, every second one. */
static struct kit_arg random_halves(struct kit_build *b, struct kit_arg x, uint32_t rank,
                                    const int64_t *shape, int64_t first)
{
    int64_t stride[KIT_AXES_MAX], step = 2;

    for (uint32_t i = rank; i-- > 0; step *= shape[i]) stride[i] = step;
    return kit_alias(b, x, BP_I32, rank, shape, stride, 4 * first);
}

/* The keys of the rounds: two rows. */
static struct kit_arg random_keys(struct kit_build *b)
{
    static const uint32_t add[2] = {0x9E3779B9u, 0xBB67AE85u};
    const int64_t shape[2] = {2, RANDOM_ROUNDS}, column[2] = {2, 1}, one[1] = {1};
    struct kit_arg first = kit_temporary(b, BP_I32, 2, column), number = KIT_SCALAR_IS(0);
    uint32_t table[2 * RANDOM_ROUNDS];
    int32_t whole;

    for (int i = 0; i < 2 * RANDOM_ROUNDS; i++)
        table[i] = add[i / RANDOM_ROUNDS] * (uint32_t)(i % RANDOM_ROUNDS);
    for (int i = 0; i < 2; i++) {
        const uint32_t half = (uint32_t)(b->seed >> 32 * i);

        memcpy(&whole, &half, sizeof whole);
        number.i = whole;
        KIT_STEP(b, "InplaceFillScalar",
                 kit_as(kit_alias(b, first, BP_I32, 1, one, NULL, 4 * i), KIT_UPDATES), number);
    }
    return part_add(b, kit_constant(b, BP_I32, 2, shape, table), first);
}

/* Philox's state between rounds: `even` holds its words 2 and 0 as i64, `odd` words 1 and 3. */
struct random_state {
    int64_t n; /* blocks */
    struct kit_arg even, even_row[2], odd, factors, keys;
};

/* The counters of n blocks; and again, if the number in their upper half, the same for n blocks, is
 * once 0 and once 1. */
static struct kit_arg random_counters(struct kit_build *b, int64_t n, int64_t numbers)
{
    const int64_t all[1] = {numbers * n}, line[1] = {n};
    struct kit_arg counter = kit_temporary(b, BP_I64, 1, all), first = counter;
    struct kit_arg start = KIT_SCALAR_IS(0), end = KIT_SCALAR_IS(0);

    start.i = (int64_t)b->offset;
    end.i = (int64_t)(b->offset + (uint64_t)n);
    if (numbers > 1) first = kit_temporary(b, BP_I64, 1, line);
    KIT_STEP(b, "Arange", start, end, KIT_SCALAR_IS(1), first);
    for (int64_t i = 0; numbers > 1 && i < numbers; i++)
        KIT_STEP(b, "InplaceCopy",
                 kit_as(kit_alias(b, counter, BP_I64, 1, line, NULL, 8 * n * i), KIT_UPDATES),
                 first);
    return counter;
}

static struct random_state random_begin(struct kit_build *b, int64_t blocks, int64_t numbers)
{
    static const int64_t factors[2] = {0xCD9E8D57, 0xD2511F53};
    const int64_t n = numbers * blocks, shape[2] = {2, n}, column[2] = {2, 1}, line[1] = {n};
    struct random_state s = {.n = n};
    struct kit_arg counter = random_counters(b, blocks, numbers), zero = KIT_SCALAR_IS(0);

    s.even = kit_temporary(b, BP_I64, 2, shape);
    s.odd = kit_temporary(b, BP_I32, 2, shape);
    KIT_STEP(b, "InplaceFillScalar", kit_as(s.even, KIT_UPDATES), zero);
    KIT_STEP(b, "InplaceFillScalar", kit_as(s.odd, KIT_UPDATES), zero);
    for (int i = 0; i < 2; i++)
        s.even_row[i] = kit_as(random_halves(b, s.even, 1, line, i ? 2 * n : 0), KIT_UPDATES);
    if (numbers > 1)
        KIT_STEP(b, "InplaceFillScalar",
                 kit_as(kit_alias(b, s.even, BP_I64, 1, &blocks, NULL, 8 * blocks), KIT_UPDATES),
                 KIT_SCALAR_IS(1));
    KIT_STEP(b, "InplaceCopy", s.even_row[1], random_halves(b, counter, 1, line, 0));
    KIT_STEP(b, "InplaceCopy", kit_as(kit_alias(b, s.odd, BP_I32, 1, line, NULL, 0), KIT_UPDATES),
             random_halves(b, counter, 1, line, 1));
    s.factors = kit_constant(b, BP_I64, 2, column, factors);
    s.keys = random_keys(b);
    return s;
}

static void random_round(struct kit_build *b, struct random_state *s, int round)
{
    const int64_t shape[2] = {2, s->n}, line[1] = {s->n}, one[1] = {1};
    struct kit_arg products = part_two(b, "Mul", s->even, s->factors), mixed;

    mixed = part_two(b, "BitwiseXorTensor", random_halves(b, products, 2, shape, 1), s->odd);
    for (int i = 0; i < 2; i++) /* the rows change places */
        KIT_STEP(b, "BitwiseXorTensor", kit_alias(b, mixed, BP_I32, 1, line, NULL, 4 * i * s->n),
                 kit_alias(b, s->keys, BP_I32, 1, one, NULL, 4 * (RANDOM_ROUNDS * i + round)),
                 s->even_row[!i]);
    s->odd = random_halves(b, products, 2, shape, 0);
}

/* The words of the elements of the output, as i64 of one axis: the first words of all, then the
 * further ones. */
static void random_words(struct kit_build *b, int64_t count, int numbers, struct kit_arg out[])
{
    const int64_t blocks = (count + 3) / 4, n = numbers * blocks, shape[2] = {n, 4}, line[1] = {n},
                  step[1] = {4};
    struct random_state s = random_begin(b, blocks, numbers);
    struct kit_arg words = kit_temporary(b, BP_I64, 2, shape), from, to;
    int64_t stride[1] = {8};

    for (int i = 0; i < RANDOM_ROUNDS; i++) random_round(b, &s, i);
    KIT_STEP(b, "InplaceFillScalar", kit_as(words, KIT_UPDATES), KIT_SCALAR_IS(0));
    for (int i = 0; i < 2; i++) {
        from = kit_alias(b, s.even, BP_I64, 1, line, NULL, i ? 0 : 8 * n); /* words 0 and 2 */
        to = kit_alias(b, words, BP_I64, 1, line, step, 16 * i);
        KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES), from);
        stride[0] = 2;
        from = kit_alias(b, s.odd, BP_I32, 1, line, stride, 8 * n * i); /* words 1 and 3 */
        stride[0] = 8;
        to = kit_alias(b, words, BP_I32, 1, line, stride, 16 * i + 8);
        KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES), from);
    }
    for (int i = 0; i < numbers; i++)
        out[i] = kit_alias(b, words, BP_I64, 1, &count, NULL, 32 * blocks * i);
}

struct kit_arg npu_random_numbers(struct kit_build *b, int64_t count, uint32_t dtype)
{
    struct kit_arg word, parts = part_number(b, BP_I64, KIT_VALUE(KIT_SCALAR_IS(256)));

    random_words(b, count, 1, &word);
    return part_cast(b, part_two(b, "FloorDivide", word, parts), dtype);
}

static uint32_t random_wide(uint32_t dtype)
{
    return dtype == BP_F64 ? BP_F64 : BP_F32;
}

/* Writes a value of one axis to the output. */
static enum bp_status random_end(struct kit_build *b, struct kit_arg value)
{
    return part_end(b, kit_reshaped(b, value, b->out[0]->rank, b->out[0]->shape));
}

/* 1 where the number is below its probability. */
enum bp_status npu_bernoulli_build(struct kit_build *b)
{
    const struct bp_view *p = b->in[0];
    struct kit_arg scale = KIT_NUMBER_IS(0x1p-24), u;

    if (!p->count) return b->status;
    u = part_times(b, npu_random_numbers(b, p->count, random_wide(p->dtype)), scale);
    u = part_test(b, "LtTensor", u, kit_reshaped(b, part_in(b, 0), 1, &p->count));
    return random_end(b, u);
}

/* The largest number of a dtype that is below another number. */
static double random_below(uint32_t dtype, double high)
{
    const bool is_f16 = dtype == BP_F16;
    const int digits = is_f16 ? 10 : 7, least = is_f16 ? -14 : -126;
    const double most = is_f16 ? 65504 : 0x1.fep127;
    int at = high != 0 ? ilogb(high) : least;
    double step, below;

    if (dtype == BP_F64) return nextafter(high, -INFINITY);
    if (dtype == BP_F32) return (double)nextafterf((float)high, -INFINITY);
    at = at < least ? least : at;
    step = ldexp(1, at - digits);
    if (high == ldexp(1, at) && at > least) step /= 2;
    below = (ceil(high / step) - 1) * step;
    return below > most ? most : below;
}

/* low + (high - low) u, where u has 24 bits; results that reach high become the number below. */
enum bp_status npu_uniform_build(struct kit_build *b)
{
    const struct bp_uniform_attrs *a = b->attrs;
    const struct bp_view *y = b->out[0];
    const uint32_t dtype = random_wide(y->dtype);
    double low = a->low, high = a->high, width;
    struct kit_arg factor = KIT_NUMBER_IS(0), scale = KIT_NUMBER_IS(0), from = KIT_NUMBER_IS(0);
    struct kit_arg end = KIT_NUMBER_IS(0), below = KIT_NUMBER_IS(0), z, reached;

    if (!y->count) return b->status;
    if (dtype == BP_F32) low = (double)(float)low, high = (double)(float)high;
    width = dtype == BP_F32 ? (double)((float)high - (float)low) : high - low;
    factor.f = width > 1 ? width * 0x1p-25 : width;
    scale.f = width > 1 ? 2 : 0x1p-24;
    from.f = low, end.f = high, below.f = random_below(y->dtype, high);
    z = part_times(b, part_times(b, npu_random_numbers(b, y->count, dtype), factor), scale);
    z = part_cast(b, part_plus(b, z, from), y->dtype);
    if (!(high > low)) return random_end(b, z);
    reached = part_compare(b, "GeTensor", part_cast(b, z, dtype), end);
    return random_end(b, part_where_number(b, reached, below, z));
}

/* -log((v + 1) 2^-24) / rate, in f64. */
enum bp_status npu_exponential_build(struct kit_build *b)
{
    const struct bp_exponential_attrs *a = b->attrs;
    struct kit_arg one = KIT_NUMBER_IS(1), scale = KIT_NUMBER_IS(0x1p-24), rate = KIT_NUMBER_IS(0),
                   z;

    if (!b->out[0]->count) return b->status;
    rate.f = -(double)(float)a->rate;
    z = part_plus(b, npu_random_numbers(b, b->out[0]->count, BP_F64), one);
    z = part_one(b, "Log", part_times(b, z, scale));
    return random_end(b, part_two(b, "Div", z, part_number(b, BP_F64, rate)));
}

/* Two words make two numbers, by Box and Muller: in f64, so that no digits of f32 are lost. */
enum bp_status npu_normal_build(struct kit_build *b)
{
    const struct bp_normal_attrs *a = b->attrs;
    const int64_t count = b->out[0]->count, pairs = (count + 1) / 2, two[1] = {2};
    const int64_t all[2] = {pairs, 2};
    struct kit_arg mean = KIT_NUMBER_IS(0), deviation = KIT_NUMBER_IS(0), turn = KIT_NUMBER_IS(0);
    struct kit_arg one = KIT_NUMBER_IS(1), scale = KIT_NUMBER_IS(0x1p-24), z, r, t, words;
    struct kit_arg minus = KIT_NUMBER_IS(-2);

    if (!count) return b->status;
    mean.f = (double)(float)a->mean, deviation.f = (double)(float)a->std;
    turn.f = ldexp(acos(-1), -23);
    words = npu_random_numbers(b, 2 * pairs, BP_F64);
    r = part_plus(b, kit_alias(b, words, BP_F64, 1, &pairs, two, 0), one);
    r = part_one(b, "Log", part_times(b, r, scale));
    r = part_one(b, "Sqrt", part_times(b, r, minus));
    t = part_times(b, kit_alias(b, words, BP_F64, 1, &pairs, two, 8), turn);
    z = kit_temporary(b, BP_F64, 2, all);
    KIT_STEP(b, "Mul", r, part_one(b, "Cos", t),
             kit_as(kit_alias(b, z, BP_F64, 1, &pairs, two, 0), KIT_WRITES));
    KIT_STEP(b, "Mul", r, part_one(b, "Sin", t),
             kit_as(kit_alias(b, z, BP_F64, 1, &pairs, two, 8), KIT_WRITES));
    z = part_plus(b, part_times(b, kit_alias(b, z, BP_F64, 1, &count, NULL, 0), deviation), mean);
    return random_end(b, z);
}

/* mean + std sqrt(2) erfinv(t), t between the erf of both ends: in f64, as normal. */
enum bp_status npu_truncated_normal_build(struct kit_build *b)
{
    const struct bp_truncated_normal_attrs *a = b->attrs;
    const bool is_f64 = b->out[0]->dtype == BP_F64;
    const double root = sqrt(2), first = erf(a->low / root), width = erf(a->high / root) - first;
    const struct kit_arg low = KIT_NUMBER_IS(a->low), high = KIT_NUMBER_IS(a->high);
    const struct kit_arg scale = KIT_NUMBER_IS(width * 0x1p-24), from = KIT_NUMBER_IS(first);
    const struct kit_arg two = KIT_NUMBER_IS(root);
    const struct kit_arg mean = KIT_NUMBER_IS(is_f64 ? a->mean : (double)(float)a->mean);
    const struct kit_arg deviation = KIT_NUMBER_IS(is_f64 ? a->std : (double)(float)a->std);
    struct kit_arg z;

    if (!b->out[0]->count) return b->status;
    z = npu_random_numbers(b, b->out[0]->count, BP_F64);
    z = part_plus(b, part_times(b, z, scale), from);
    z = part_times(b, part_one(b, "Erfinv", z), two);
    z = part_clamp(b, z, low, high);
    return random_end(b, part_plus(b, part_times(b, z, deviation), mean));
}

static double random_dropout_factor(const struct bp_dropout_attrs *a)
{
    if (!a->training) return a->mode ? 1 - a->p : 1;
    return a->mode ? 1 : a->p < 1 ? 1 / (1 - a->p) : 0;
}

enum bp_status npu_dropout_grad_build(struct kit_build *b)
{
    const struct bp_dropout_grad_attrs *a = b->attrs;
    const struct bp_dropout_attrs of = {.p = a->p, .mode = a->mode, .training = a->training};
    struct kit_arg factor = KIT_NUMBER_IS(random_dropout_factor(&of)), dx;

    if (!b->out[0]->count) return b->status;
    dx = part_times(b, part_in(b, 0), factor);
    return part_end(b, part_where_else(b, KIT_VALUE(KIT_IN(1)), dx, KIT_VALUE(KIT_NUMBER_IS(0))));
}

/* Elements whose numbers are below p become 0; without training none are. */
enum bp_status npu_dropout_build(struct kit_build *b)
{
    const struct bp_dropout_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0];
    struct kit_arg limit = KIT_NUMBER_IS(a->training ? a->p * 0x1p24 : 0), kept, y;
    struct kit_arg factor = KIT_NUMBER_IS(random_dropout_factor(a));

    if (!x->count) return b->status;
    kept = part_compare(b, "GeTensor", npu_random_numbers(b, x->count, BP_F64), limit);
    if (b->out[b->out_at[1]])
        KIT_STEP(b, "InplaceCopy", KIT_UPDATED(1), kit_reshaped(b, kept, x->rank, x->shape));
    y = part_times(b, kit_reshaped(b, part_in(b, 0), 1, &x->count), factor);
    y = part_where_else(b, kept, y, KIT_VALUE(KIT_NUMBER_IS(0)));
    return random_end(b, y);
}

/* The lower or the upper 32 bits of numbers, as numbers of their own. */
static struct kit_arg random_half(struct kit_build *b, struct kit_arg x, int64_t count, bool upper)
{
    struct kit_arg half = kit_temporary(b, BP_I64, 1, &count), low;

    KIT_STEP(b, "InplaceFillScalar", kit_as(half, KIT_UPDATES), KIT_SCALAR_IS(0));
    low = random_halves(b, half, 1, &count, 0);
    KIT_STEP(b, "InplaceCopy", kit_as(low, KIT_UPDATES), random_halves(b, x, 1, &count, upper));
    return half;
}

static struct kit_arg random_whole(struct kit_build *b, uint64_t value)
{
    struct kit_arg number = KIT_SCALAR_IS(0);

    memcpy(&number.i, &value, sizeof value);
    return part_number(b, BP_I64, number);
}

/* The upper 64 bits of the product of `range` and numbers of 64 bits, by products of 32 bits, whose
 * bits are those of unsigned numbers. low: the lower 32 bits of the numbers; none: they are 0. */
static struct kit_arg random_scaled(struct kit_build *b, struct kit_arg high, struct kit_arg low,
                                    uint64_t range, int64_t count)
{
    struct kit_arg below, above, middle, other;

    if (low.from == KIT_FROM_NONE) /* at most 2^32 */
        return random_half(b, part_two(b, "Mul", high, random_whole(b, range)), count, true);
    below = random_whole(b, (uint32_t)range), above = random_whole(b, range >> 32);
    middle = part_two(b, "Mul", high, below);
    middle = part_add(b, middle, random_half(b, part_two(b, "Mul", low, below), count, true));
    other = part_add(b, part_two(b, "Mul", low, above), random_half(b, middle, count, false));
    high = part_add(b, part_two(b, "Mul", high, above), random_half(b, middle, count, true));
    return part_add(b, high, random_half(b, other, count, true));
}

/* low + (word range >> 32); of ranges above 2^32, low + (two words range >> 64). The steps do not
 * depend on the range, because launches may have another one than the plan: those of i64 always
 * have two words, of which the second becomes 0 for the smaller ranges. */
enum bp_status npu_randint_build(struct kit_build *b)
{
    const struct bp_randint_attrs *a = b->attrs;
    const struct bp_view *y = b->out[0];
    const uint64_t range = (uint64_t)a->high - (uint64_t)a->low;
    const bool is_wide = y->dtype == BP_I64;
    struct kit_arg word[2] = {KIT_NONE, KIT_NONE}, z;

    if (!y->count) return b->status;
    random_words(b, y->count, is_wide ? 2 : 1, word);
    if (is_wide) word[1] = part_two(b, "Mul", word[1], random_whole(b, range > (uint64_t)1 << 32));
    z = random_scaled(b, word[0], word[1], range, y->count);
    return random_end(b, part_add(b, z, random_whole(b, (uint64_t)a->low)));
}
