/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_many.c: runs kernel cases with many extents in sequence, and with more than 2^24
 * elements. */
#include "case_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds the extent to the message of a run that did not pass. */
static void name_extent(struct check *c, int64_t extent)
{
    char message[CONFORM_MESSAGE];

    snprintf(message, sizeof message, "%s", c->result->message);
    snprintf(c->result->message, sizeof c->result->message, "extent %lld: %.*s",
             (long long)extent, CONFORM_MESSAGE - 40, message);
}

void run_extents(struct check *c, const struct kernel_case *made)
{
    struct kernel_case *one = case_copy(made);

    one->sweep = 0;
    for (int64_t n = 1; n <= made->sweep && c->result->outcome == OUTCOME_PASS; n++) {
        for (int i = 0; i < one->n_in; i++)
            if (one->in[i].present) one->in[i].shape[one->in[i].rank - 1] = n;
        run_once(c, one);
        if (c->result->outcome != OUTCOME_PASS) name_extent(c, n);
    }
    free(one);
}

/* Returns host memory of at least `bytes` bytes. All cases of the process use the same memory, one
 * after another, because the kernel of the system clears each new page. */
static void *many_memory(uint64_t bytes)
{
    static void *memory;
    static uint64_t size;

    if (bytes <= size) return memory;
    free(memory);
    memory = malloc(bytes);
    if (!memory) abort();
    size = bytes;
    return memory;
}

/* Returns n elements that repeat the elements of an array, in many_memory. */
static void *many_repeat(const struct ref_array *values, int64_t n)
{
    size_t size = values->type->size, done = (size_t)values->count * size, all = (size_t)n * size;
    char *bytes = many_memory(all);

    ref_array_encode(values, bytes);
    while (done < all) {
        size_t more = done < all - done ? done : all - done;
        memcpy(bytes + done, bytes, more);
        done += more;
    }
    return bytes;
}

/* Replaces an input of the case by one with n elements. */
static bool many_enlarge(struct run *r, int i, int64_t n)
{
    const struct ref_array *values = &r->in[i].values;
    struct bp_tensor *large = NULL;
    enum bp_status status;
    void *bytes;

    status = bp_tensor_create(r->c->fixture->device, values->type->dtype, 1, &n, &large);
    if (status == BP_ERR_MEMORY) check_skip(r->c, "%s", bp_error_message());
    else check_ok(r->c, status, "bp_tensor_create of a large input");
    if (status) return false;
    bytes = many_repeat(values, n);
    status = bp_tensor_write(r->c->fixture->stream, large, bytes, (uint64_t)n * values->type->size);
    bp_tensor_destroy(r->in[i].tensor);
    r->in[i].tensor = r->tensor[i] = large;
    return check_ok(r->c, status, "bp_tensor_write of a large input");
}

/* Compares all periods of the result. A period whose bytes equal those of the first passes; the
 * others are compared with the reference. */
static bool judge_all(struct run *r, const char *got, int64_t n)
{
    int64_t period = r->expected.count, size = r->expected.type->size;
    bool ok = run_judge(r, got, "elements from 0: ");

    for (int64_t from = period; ok && from < n; from += period) {
        int64_t count = n - from < period ? n - from : period;
        char which[64];
        if (!memcmp(got + from * size, got, (size_t)(count * size))) continue;
        snprintf(which, sizeof which, "elements from %lld: ", (long long)from);
        r->expected.count = count;
        ok = run_judge(r, got + from * size, which);
        r->expected.count = period;
    }
    return ok;
}

/* Checks that the result has n elements, then reads and compares them. */
static void judge_large(struct run *r, struct bp_tensor *out, int64_t n)
{
    struct bp_tensor_info info = {.size = sizeof info};
    uint64_t bytes = (uint64_t)n * r->expected.type->size;
    char *got = many_memory(bytes);

    if (check_ok(r->c, bp_tensor_get_info(out, &info), "bp_tensor_get_info of the result") &&
        check_that(r->c, info.count == n, "the result has %lld elements, expected %lld",
                   (long long)info.count, (long long)n) &&
        check_ok(r->c, bp_tensor_read(r->c->fixture->stream, out, got, bytes), "bp_tensor_read"))
        judge_all(r, got, n);
}

/* Creates the output of n elements and fills it with numbers, so that an element that the kernel
 * does not write is no NaN by chance. */
static bool large_output(struct run *r, int64_t n, struct bp_tensor **out)
{
    uint64_t bytes = (uint64_t)n * r->expected.type->size;
    enum bp_status status = bp_tensor_create(r->c->fixture->device, r->expected.type->dtype, 1, &n,
                                             out);
    void *filled;

    if (status == BP_ERR_MEMORY) check_skip(r->c, "%s", bp_error_message());
    else check_ok(r->c, status, "bp_tensor_create of a large output");
    if (status) return false;
    filled = many_memory(bytes);
    memset(filled, 0x3c, bytes);
    status = bp_tensor_write(r->c->fixture->stream, *out, filled, bytes);
    return check_ok(r->c, status, "bp_tensor_write of a large output");
}

void run_large(struct check *c, const struct kernel_case *made)
{
    struct bp_tensor *out = NULL;
    enum bp_status status;
    struct run r;
    bool ok = run_init(&r, c, made);

    for (int i = 0; ok && i < made->n_in; i++)
        if (made->in[i].present) ok = many_enlarge(&r, i, made->large);
    if (ok && large_output(&r, made->large, &out)) {
        status = case_call(&r, &out);
        c->result->executed = status == BP_OK;
        if (kernel_is_refused(status)) {
            r.call.kernel = NULL;
            status = case_call(&r, &out);
            c->result->refused = kernel_is_refused(status);
        }
        if (status == BP_ERR_MEMORY) check_skip(c, "%s", bp_error_message());
        else if (check_ok(c, status, "the call with many elements"))
            judge_large(&r, out, made->large);
    }
    bp_tensor_destroy(out);
    run_finish(&r);
}
