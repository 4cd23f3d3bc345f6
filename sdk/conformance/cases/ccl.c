/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: makes the cases of the suite ccl. The sizes lie around the limits in the core's table of
 * algorithms, counted in elements of one rank's part: f32 of 40 bytes and more, 2, 4 and 16 KiB and
 * more, 1 MiB and more. */
#include "ccl.h"
#include <stdio.h>

struct into {
    cases_ccl_fn *made;
    void *ctx;
    int n;
};

static const uint32_t calls[] = {
    BP_COMM_ALL_REDUCE, BP_COMM_REDUCE,  BP_COMM_BROADCAST, BP_COMM_ALL_GATHER,
    BP_COMM_REDUCE_SCATTER, BP_COMM_GATHER, BP_COMM_SCATTER, BP_COMM_ALL_TO_ALL,
    BP_COMM_ALL_TO_ALL_RAGGED, BP_COMM_SEND,
};
enum { CALLS = sizeof calls / sizeof *calls, QUICK = 7 };

/* Adds ccl/<call>/<dtype>[-<reduction>]/<ranks>x<elements>[/<variant>]. One of QUICK consecutive
 * cases is part of a quick run. */
static void ccl_add(struct into *into, struct ccl_case k, const char *variant)
{
    const char *dtype = num_type(k.dtype)->name;
    bool reduces = ccl_call_reduces(k.call);
    char id[96];

    if (!k.root) k.root = k.ranks - 1;
    snprintf(id, sizeof id, "%s/%s%s%s/%ux%lld%s%s", ccl_call_name(k.call), dtype,
             reduces ? "-" : "", reduces ? ccl_reduction_name(k.reduction) : "", k.ranks,
             (long long)k.n, *variant ? "/" : "", variant);
    into->made(into->ctx, &k, into->n++ % QUICK == 0, id);
}

static void add_sizes(struct into *into)
{
    static const uint32_t ranks[] = {1, 2, 3, 4, 7, 8};
    static const int64_t counts[] = {0, 1, 11, 513, 1025, 4099};
    enum { RANKS = sizeof ranks / sizeof *ranks, COUNTS = sizeof counts / sizeof *counts };

    for (size_t c = 0; c < CALLS; c++)
        for (size_t r = 0; r < RANKS; r++)
            for (size_t n = 0; n < COUNTS; n++)
                ccl_add(into,
                        (struct ccl_case){
                            .call = calls[c], .dtype = BP_F32, .ranks = ranks[r], .n = counts[n]},
                        "");
    for (size_t c = 0; c < CALLS; c++)
        ccl_add(into, (struct ccl_case){.call = calls[c], .dtype = BP_F32, .ranks = 2, .n = 262147},
                "");
    ccl_add(into,
            (struct ccl_case){.dtype = BP_F32, .call = BP_COMM_ALL_REDUCE, .ranks = 3, .n = 262147},
            "");
}

/* Complex numbers have no order, booleans no average. */
static bool ccl_has(const struct num_type *type, uint32_t reduction)
{
    if (type->class == NUM_BOOL) return reduction != BP_REDUCE_AVERAGE;
    return type->class != NUM_COMPLEX ||
           (reduction != BP_REDUCE_MIN && reduction != BP_REDUCE_MAX);
}

static void add_dtypes(struct into *into)
{
    for (uint32_t t = 0; t < 64; t++) {
        const struct num_type *type = num_type(t);
        if (!type) continue;
        for (uint32_t op = 0; op < BP_REDUCTION_COUNT; op++) {
            if (!ccl_has(type, op)) continue;
            ccl_add(into, (struct ccl_case){.call = BP_COMM_ALL_REDUCE, .dtype = t, .reduction = op,
                                        .ranks = 7, .n = 5}, "");
            ccl_add(into, (struct ccl_case){.call = BP_COMM_REDUCE_SCATTER, .dtype = t,
                                        .reduction = op, .ranks = 3, .n = 3001}, "");
        }
        ccl_add(into,
                (struct ccl_case){.call = BP_COMM_ALL_TO_ALL, .dtype = t, .ranks = 3, .n = 41}, "");
        if (type->class == NUM_FLOAT)
            for (uint32_t op = 0; op < BP_REDUCTION_COUNT; op++)
                ccl_add(into, (struct ccl_case){.call = BP_COMM_ALL_REDUCE, .dtype = t,
                                            .reduction = op, .ranks = 3, .n = 700,
                                            .flags = CCL_SPECIAL}, "special");
    }
}

static void add_variants(struct into *into)
{
    static const int64_t counts[] = {9, 1500, 20011};

    for (size_t c = 0; c < CALLS; c++)
        for (size_t n = 0; n < 3; n++) {
            struct ccl_case k = {.call = calls[c], .dtype = BP_F32, .ranks = 3, .n = counts[n]};
            bool meets = k.call != BP_COMM_ALL_TO_ALL && k.call != BP_COMM_ALL_TO_ALL_RAGGED &&
                         k.call != BP_COMM_SEND;
            k.root = 1;
            k.flags = CCL_IN_PLACE;
            if (meets) ccl_add(into, k, "in-place");
            k.ranks = 4;
            k.flags = CCL_MIXED;
            ccl_add(into, k, "mixed");
            k.flags = CCL_ASYNC;
            ccl_add(into, k, "async");
        }
}

static void add_program(struct into *into, uint32_t program, uint32_t ranks, int64_t n,
                        uint32_t flags, const char *name)
{
    static const struct {
        uint32_t flags;
        const char *text;
    } ends[] = {{0, ""}, {CCL_ASYNC, "/async"}, {CCL_PROCESSES, "/processes"},
                {CCL_MIXED, "/mixed"}};
    struct ccl_case k = {.program = program, .dtype = BP_F32, .ranks = ranks, .n = n,
                         .flags = flags};
    char id[96];

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ends[i].flags == flags) {
            snprintf(id, sizeof id, "%s/%u%s", name, ranks, ends[i].text);
            into->made(into->ctx, &k, !flags, id);
        }
}

static void add_failures(struct into *into)
{
    static const char *const odd[] = {"operation", "dtype", "count", "reduction", "root",
                                      "barrier", "two-roots"};
    static const char *const deaths[] = {"before", "waiting", "data"};
    char name[48];

    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "mismatch/%s", odd[i]);
        add_program(into, CCL_PROGRAM_MISMATCH, 3, i, 0, name);
        add_program(into, CCL_PROGRAM_MISMATCH, 8, i, 0, name);
        add_program(into, CCL_PROGRAM_MISMATCH, 4, i, CCL_ASYNC, name);
        add_program(into, CCL_PROGRAM_MISMATCH, 4, i, CCL_MIXED, name);
    }
    /* No rank waits in this case. */
    add_program(into, CCL_PROGRAM_MISMATCH, 2, 6, 0, "mismatch/two-roots");
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "death/%s", deaths[i]);
        add_program(into, CCL_PROGRAM_DEATH, 2, i, 0, name);
        add_program(into, CCL_PROGRAM_DEATH, 4, i, 0, name);
        add_program(into, CCL_PROGRAM_DEATH, 3, i, CCL_ASYNC, name);
        add_program(into, CCL_PROGRAM_DEATH, 3, i, CCL_PROCESSES, name);
    }
    add_program(into, CCL_PROGRAM_ABSENT, 3, 0, CCL_PROCESSES, "absent");
    for (uint32_t ranks = 2; ranks < 5; ranks++) {
        add_program(into, CCL_PROGRAM_LATE, ranks, 0, 0, "late");
        add_program(into, CCL_PROGRAM_LATE, ranks, 0, CCL_ASYNC, "late");
    }
    add_program(into, CCL_PROGRAM_ABORT, 3, 0, 0, "abort");
    add_program(into, CCL_PROGRAM_ABORT, 3, 0, CCL_ASYNC, "abort");
    add_program(into, CCL_PROGRAM_ABORT, 3, 0, CCL_PROCESSES, "abort");
}

void cases_ccl(cases_ccl_fn *made, void *ctx)
{
    struct into into = {made, ctx, 0};

    add_sizes(&into);
    add_dtypes(&into);
    add_variants(&into);
    for (uint32_t ranks = 2; ranks < 6; ranks++) {
        add_program(&into, CCL_PROGRAM_REUSE, ranks, 0, 0, "reuse");
        add_program(&into, CCL_PROGRAM_SPLIT, ranks, 0, 0, "split");
        add_program(&into, CCL_PROGRAM_SEVERAL, ranks, 0, 0, "several");
    }
    add_program(&into, CCL_PROGRAM_REUSE, 3, 0, CCL_ASYNC, "reuse");
    add_program(&into, CCL_PROGRAM_REUSE, 4, 0, CCL_MIXED, "reuse");
    add_program(&into, CCL_PROGRAM_OVERWRITTEN, 4, 0, 0, "overwritten");
    add_program(&into, CCL_PROGRAM_OVERWRITTEN, 3, 0, CCL_PROCESSES, "overwritten");
    add_program(&into, CCL_PROGRAM_STREAMS, 4, 0, CCL_ASYNC, "streams");
    for (uint32_t ranks = 2; ranks < 4; ranks++)
        add_program(&into, CCL_PROGRAM_ALL, ranks, 0, CCL_PROCESSES, "all");
    add_failures(&into);
}
