/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: keeps the contents of tensors after a run, and compares two runs. */
#include "graphs.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_snapshot_add(struct fuzz_snapshot *s, struct bp_stream *stream, struct bp_tensor *tensor,
                       const char *kind, uint32_t number)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct fuzz_array *a = &s->array[s->n];

    if (s->status) return;
    s->status = bp_tensor_get_info(tensor, &info);
    if (s->status) return;
    memset(a, 0, sizeof *a);
    a->dtype = info.dtype;
    a->bytes = info.bytes;
    a->data = malloc(info.bytes + 1);
    if (!a->data) abort();
    snprintf(a->name, sizeof a->name, "%s %%%u", kind, number);
    s->n++;
    if (info.bytes) s->status = bp_tensor_read(stream, tensor, a->data, info.bytes);
    if (s->status) snprintf(s->message, sizeof s->message, "%s", bp_error_message());
}

void fuzz_snapshot_clear(struct fuzz_snapshot *s)
{
    for (uint32_t i = 0; i < s->n; i++) free(s->array[i].data);
    s->n = 0;
}

/* Whether two elements are the same: equal bits, or two NaN. */
static bool element_same(const struct num_type *type, const char *a, const char *b)
{
    if (!memcmp(a, b, type->size)) return true;
    return type->class == NUM_FLOAT && isnan(num_get_float(type, a)) &&
           isnan(num_get_float(type, b));
}

static long double element_number(const struct num_type *type, const char *at)
{
    if (type->class == NUM_FLOAT) return num_get_float(type, at);
    return type->class == NUM_SIGNED ? (long double)(int64_t)num_get_int(type, at)
                                     : (long double)num_get_int(type, at);
}

static bool element_is_near(const struct num_type *type, const char *a, const char *b,
                            double tolerance)
{
    long double difference = fabsl(element_number(type, a) - element_number(type, b));

    return difference <= (long double)tolerance;
}

static bool array_same(const struct fuzz_array *got, const struct fuzz_array *expected,
                       const double *tolerance, char *message, size_t size)
{
    const struct num_type *type = num_type(expected->dtype);
    uint64_t n = expected->bytes / type->size, wrong = 0, first = 0;

    if (got->dtype != expected->dtype || got->bytes != expected->bytes) {
        snprintf(message, size, "%s has another type", expected->name);
        return false;
    }
    for (uint64_t i = n; i-- > 0;) {
        const char *a = got->data + i * type->size, *b = expected->data + i * type->size;
        if (element_same(type, a, b) || (tolerance && element_is_near(type, a, b, tolerance[i])))
            continue;
        first = i;
        wrong++;
    }
    if (wrong)
        snprintf(message, size,
                 "%s: %" PRIu64 " of %" PRIu64 " elements differ, the first is [%" PRIu64
                 "]: %.9Lg, expected %.9Lg%s",
                 expected->name, wrong, n, first,
                 element_number(type, got->data + first * type->size),
                 element_number(type, expected->data + first * type->size),
                 tolerance ? " (beyond the tolerance)" : "");
    return !wrong;
}

bool fuzz_same(const struct fuzz_snapshot *got, const struct fuzz_snapshot *expected,
               double *const *tolerance, char *message, size_t size)
{
    if (got->status != expected->status) {
        snprintf(message, size, "%s (%s), expected %s (%s)", bp_status_name(got->status),
                 got->message, bp_status_name(expected->status), expected->message);
        return false;
    }
    if (got->status) return true;
    if (got->drawn != expected->drawn) {
        snprintf(message, size, "the generator is at block %" PRIu64 ", expected %" PRIu64,
                 got->drawn, expected->drawn);
        return false;
    }
    for (uint32_t i = 0; i < expected->n; i++)
        if (!got->array[i].ignored && !expected->array[i].ignored &&
            !array_same(&got->array[i], &expected->array[i], tolerance ? tolerance[i] : NULL,
                        message, size))
            return false;
    return true;
}
