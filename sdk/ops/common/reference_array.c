/* SPDX-License-Identifier: Apache-2.0 */
/* reference_array.c: implements the arrays of references, and the growth of rounding errors in
 * sums. */
#include "reference.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *ref_array_zeros(int64_t n, size_t size)
{
    void *memory = calloc(n ? (size_t)n : 1, size);

    if (memory) return memory;
    fprintf(stderr, "conformance: no memory for a reference of %lld elements\n", (long long)n);
    abort();
}

void ref_array_init(struct ref_array *array, uint32_t dtype, int rank, const int64_t *shape)
{
    *array = (struct ref_array){.type = num_type(dtype), .rank = rank, .count = 1};
    for (int i = 0; i < rank; i++) {
        array->shape[i] = shape[i];
        array->count *= shape[i];
    }
    if (num_is_int(array->type)) {
        array->u = ref_array_zeros(array->count, sizeof *array->u);
    } else {
        array->v = ref_array_zeros(array->count * array->type->parts, sizeof *array->v);
        array->bound = ref_array_zeros(array->count * array->type->parts, sizeof *array->bound);
    }
}

void ref_array_finish(struct ref_array *array)
{
    free(array->u);
    free(array->v);
    free(array->bound);
    *array = (struct ref_array){0};
}

void ref_array_decode(struct ref_array *array, const void *data)
{
    const struct num_type *type = array->type;
    const char *at = data;

    if (array->u)
        for (int64_t i = 0; i < array->count; i++)
            array->u[i] = num_get_int(type, at + i * type->size);
    else
        for (int64_t i = 0; i < array->count * type->parts; i++)
            array->v[i] = num_get_float(type, at + i * (type->size / (uint32_t)type->parts));
}

void ref_array_encode(const struct ref_array *array, void *data)
{
    const struct num_type *type = array->type;
    char *at = data;

    if (array->u)
        for (int64_t i = 0; i < array->count; i++)
            num_set_int(type, at + i * type->size, array->u[i]);
    else
        for (int64_t i = 0; i < array->count * type->parts; i++)
            num_set_float(type, at + i * (type->size / (uint32_t)type->parts), array->v[i]);
}

bool ref_next(int rank, const int64_t *shape, int64_t *at)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++at[i] < shape[i]) return true;
        at[i] = 0;
    }
    return false;
}

int64_t ref_index(const struct ref_array *array, int rank, const int64_t *at)
{
    int64_t index = 0;
    int skip = rank - array->rank;

    for (int i = 0; i < array->rank; i++)
        index = index * array->shape[i] + (array->shape[i] == 1 ? 0 : at[i + skip]);
    return index;
}

/* A term that passes through n roundings is off by at most n u of itself, to first order (Higham
 * 2002, sections 3.1 and 4.2). Over random data, roundings are independent and of mean zero, and
 * the error exceeds 6 sqrt(n) u with a probability below 2 exp(-6 * 6 / 2) < 4e-8 only (Higham and
 * Mary 2019, theorem 2.4). */
long double ref_growth(int64_t n)
{
    long double exact = n > 0 ? (long double)n : 0, random = 6 * sqrtl(exact);

    return exact < random ? exact : random;
}

void ref_bound_whole(struct ref_array *out, bool whole, long double growth)
{
    long double most = whole ? 1 / num_unit(num_accumulate(out->type)) : 0;

    for (int64_t i = 0; i < out->count * out->type->parts; i++)
        out->bound[i] *= out->bound[i] <= most ? 0 : growth;
}

void ref_array_copy(struct ref_array *out, int64_t to, const struct ref_array *in, int64_t from)
{
    int parts = out->type->parts;

    if (out->u) out->u[to] = in->u[from];
    else
        for (int p = 0; p < parts; p++) out->v[to * parts + p] = in->v[from * parts + p];
}

long double ref_number(const struct num_type *type, const void *attrs, size_t i)
{
    double number;

    if (!attrs || *(const size_t *)attrs < 8 * (i + 1)) return 0;
    number = ((const double *)attrs)[i];
    return num_accumulate(type)->digits < 53 ? (long double)(float)number : (long double)number;
}

int ref_broadcast(const struct ref_array *a, const struct ref_array *b, int64_t *shape)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;

    for (int i = 0; i < rank; i++) {
        int in_a = i - (rank - a->rank), in_b = i - (rank - b->rank);
        int64_t extent_a = in_a < 0 ? 1 : a->shape[in_a], extent_b = in_b < 0 ? 1 : b->shape[in_b];
        shape[i] = extent_a == 1 ? extent_b : extent_a;
    }
    return rank;
}
