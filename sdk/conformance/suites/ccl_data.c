/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_data.c: the input data of ranks for a call, and the expected results of reductions. These are
 * computed in rank order, in long double or in integers that wrap.
 *
 * The allowed error follows from the widest freedom that a communicator has: to combine the ranks
 * in any order. A sum of n elements is then n - 1 additions in the type of computation, each off by
 * at most u times the sum so far, which is at most the sum of the magnitudes. A product is n - 1
 * multiplications, an average a sum and a division. Small floats are computed in f32 and rounded
 * once to their own type. A plugin's own collectives (sdk/include's ccl.h) may compute them in
 * their own type, in which a result below the normal range is off by half the smallest number. */
#include "ccl.h"
#include <ops/common/cases_random.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number between 1/2 and 2 in magnitude, so that no product of eight overflows. Some f8 types
 * have no infinity. */
static long double some_number(const struct ccl_case *k, const struct num_type *type, uint64_t bits)
{
    long double value = 0.5L + 1.5L * (long double)(bits >> 11) * 0x1p-53L;

    if (k->flags & CCL_SPECIAL) {
        if (bits % 29 == 3) return NAN;
        if (bits % 29 < 2 && type->size > 1) value = INFINITY;
    }
    return bits >> 3 & 1 && num_has_sign(type) ? -value : value;
}

static void ccl_data_fill(struct ccl_data *d, const struct ccl_case *k, uint32_t rank,
                          struct random random)
{
    size_t part = d->type.size / (size_t)d->type.parts;
    struct num_type type = d->type;

    random.state += rank * UINT64_C(0x51ed270b);
    for (int64_t i = 0; i < d->room * d->type.parts; i++) {
        unsigned char *at = d->src[rank] + (size_t)i * part;
        uint64_t bits = random_bits(&random);
        if (num_is_int(&type)) num_set_int(&type, at, type.class == NUM_BOOL ? bits & 1 : bits);
        else num_set_float(&type, at, some_number(k, &type, bits));
    }
}

static bool is_less(const struct num_type *type, uint64_t a, uint64_t b)
{
    return type->class == NUM_SIGNED ? (int64_t)a < (int64_t)b : a < b;
}

/* Converts value to the integer type: drops the bits beyond it and extends its sign. */
static uint64_t ccl_data_wrap(const struct num_type *type, uint64_t value)
{
    unsigned char bytes[8] = {0};

    num_set_int(type, bytes, value);
    return num_get_int(type, bytes);
}

static uint64_t reduce_int(const struct ccl_data *d, uint32_t reduction, int64_t i)
{
    const struct num_type *type = &d->type;
    size_t at = (size_t)i * type->size;
    uint64_t x = num_get_int(type, d->src[0] + at);
    bool truth = type->class == NUM_BOOL;

    for (uint32_t j = 1; j < d->ranks; j++) {
        uint64_t y = num_get_int(type, d->src[j] + at);
        switch (reduction) {
        case BP_REDUCE_PRODUCT: x = ccl_data_wrap(type, x * y); break;
        case BP_REDUCE_MIN: x = is_less(type, y, x) ? y : x; break;
        case BP_REDUCE_MAX: x = is_less(type, x, y) ? y : x; break;
        default: x = truth ? x | y : ccl_data_wrap(type, x + y);
        }
    }
    if (reduction != BP_REDUCE_AVERAGE) return x;
    if (type->class == NUM_SIGNED)
        return ccl_data_wrap(type, (uint64_t)((int64_t)x / (int64_t)d->ranks));
    return x / d->ranks;
}

static long double ccl_data_minmax(long double x, long double y, bool least)
{
    if (isnan(x) || isnan(y)) return NAN;
    return (y < x) == least ? y : x;
}

/* Reduces number i, counting the parts of complex elements separately. */
static void reduce_float(struct ccl_data *d, uint32_t reduction, int64_t i)
{
    const struct num_type *own = &d->type, *wide = num_type(BP_F32);
    size_t at = (size_t)i * own->size / (size_t)own->parts;
    bool is_small = own->digits < wide->digits, rounds_once = is_small && !d->rounds_each;
    long double u = num_unit(rounds_once ? wide : own), n = d->ranks;
    long double x = num_get_float(own, d->src[0] + at), size = fabsl(x), off = 0;

    for (uint32_t j = 1; j < d->ranks; j++) {
        long double y = num_get_float(own, d->src[j] + at);
        if (reduction == BP_REDUCE_PRODUCT) x *= y, size *= fabsl(y);
        else if (reduction == BP_REDUCE_MIN) x = ccl_data_minmax(x, y, true);
        else if (reduction == BP_REDUCE_MAX) x = ccl_data_minmax(x, y, false);
        else x += y, size += fabsl(y);
    }
    if (reduction != BP_REDUCE_MIN && reduction != BP_REDUCE_MAX) off = 1.01L * (n - 1) * u * size;
    if (reduction == BP_REDUCE_AVERAGE) {
        x /= n;
        off = off / n + 2 * u * fabsl(x);
    }
    if (rounds_once && off > 0) off += num_ulp(own, fabsl(x) + off) / 2;
    if (is_small && d->rounds_each && off > 0) off += n * num_ulp(own, 0) / 2;
    d->want[i] = x;
    d->allowed[i] = off;
}

/* A product of complex numbers: each multiplication has four products and two sums. */
static void reduce_complex_product(struct ccl_data *d, int64_t i)
{
    size_t part = d->type.size / 2, at = (size_t)i * d->type.size;
    long double re = 1, im = 0, size = 1;

    for (uint32_t j = 0; j < d->ranks; j++) {
        long double a = num_get_float(&d->type, d->src[j] + at),
                    b = num_get_float(&d->type, d->src[j] + at + part);
        long double next = re * a - im * b;
        im = re * b + im * a;
        re = next;
        size *= hypotl(a, b);
    }
    d->want[2 * i] = re;
    d->want[2 * i + 1] = im;
    d->allowed[2 * i] = d->allowed[2 * i + 1] =
        4.04L * (d->ranks - 1) * num_unit(&d->type) * size;
}

static void ccl_data_reduce(struct ccl_data *d, uint32_t reduction)
{
    int64_t n = d->room * d->type.parts;

    d->want = calloc((size_t)n + 1, sizeof *d->want);
    d->allowed = calloc((size_t)n + 1, sizeof *d->allowed);
    if (!d->want || !d->allowed) abort();
    for (int64_t i = 0; i < d->room && d->type.parts == 2 && reduction == BP_REDUCE_PRODUCT; i++)
        reduce_complex_product(d, i);
    if (d->type.parts == 2 && reduction == BP_REDUCE_PRODUCT) return;
    for (int64_t i = 0; i < n; i++)
        if (!num_is_int(&d->type)) reduce_float(d, reduction, i);
}

void ccl_data_make(struct ccl_data *d, const struct ccl_rank *r, const struct ccl_case *k,
                   int64_t room)
{
    struct random random = random_of(r->check.id, r->check.fixture->seed);
    const char *how = r->comm ? bp_comm_algorithm(r->comm, k->call, 0) : NULL;

    *d = (struct ccl_data){.type = *num_type(k->dtype), .ranks = r->size,
                           .room = room + CCL_SHIFT,
                           .rounds_each = how && !strcmp(how, "native")};
    random.state += k->call * UINT64_C(0x2545f491) + (uint64_t)k->n;
    for (uint32_t j = 0; j < d->ranks; j++) {
        d->src[j] = malloc((size_t)d->room * d->type.size);
        if (!d->src[j]) abort();
        ccl_data_fill(d, k, j, random);
    }
    if (ccl_call_reduces(k->call)) ccl_data_reduce(d, k->reduction);
}

void ccl_data_finish(struct ccl_data *d)
{
    for (uint32_t j = 0; j < d->ranks; j++) free(d->src[j]);
    free(d->want);
    free(d->allowed);
}

static bool check_int(struct ccl_rank *r, const struct ccl_data *d, const char *call,
                      const unsigned char *got, int64_t from, int64_t i)
{
    uint64_t want = reduce_int(d, r->k.reduction, from + i);
    uint64_t x = num_get_int(&d->type, got + (size_t)i * d->type.size);

    return check_that(&r->check, x == want, "%s: rank %u of %u, element %lld: got %#llx, "
                      "expected %#llx", call, r->rank, r->size, (long long)i,
                      (unsigned long long)x, (unsigned long long)want);
}

bool ccl_data_check(struct ccl_rank *r, const struct ccl_data *d, const char *call,
                    const unsigned char *got, int64_t from, int64_t n)
{
    int parts = d->type.parts;
    size_t part = d->type.size / (size_t)parts;

    for (int64_t i = 0; i < n * parts; i++) {
        long double want, x, off, allowed;
        if (num_is_int(&d->type)) {
            if (!check_int(r, d, call, got, from, i)) return false;
            continue;
        }
        want = d->want[from * parts + i];
        allowed = d->allowed[from * parts + i];
        x = num_get_float(&d->type, got + (size_t)i * part);
        off = fabsl(x - want);
        if (off > 0 && allowed > 0 && (double)(off / allowed) > r->result.worst)
            r->result.worst = (double)(off / allowed);
        if (x == want || off <= allowed || (isnan(x) && isnan(want))) continue;
        return check_that(&r->check, false, "%s: rank %u of %u, element %lld: got %.9Lg, expected "
                          "%.9Lg, and at most %.3Lg off", call, r->rank, r->size,
                          (long long)(i / parts), x, want, allowed);
    }
    return true;
}
