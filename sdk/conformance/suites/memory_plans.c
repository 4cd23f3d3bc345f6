/* SPDX-License-Identifier: Apache-2.0 */
/* memory_plans.c: checks that the memory of a prepared call is freed with it. For each row a call
 * is prepared and destroyed many times, also with frozen inputs where the row has such cases; the
 * process must not use more memory afterwards. The calls are not run, because threads of the device
 * would allocate memory meanwhile. */
#include "case_run.h"
#include "async_fixture.h"
#include "../list.h"
#include <inttypes.h>
#include <time.h>

enum {
    /* Calls before memory is compared. Objects that are created once are created then, and with
     * each of a row's first 64 plans the core registers its exit handler again. */
    FIRST = 66,
    CALLS = 16, /* calls between two measurements */
    /* Measurements; only growth in each of them is a leak. An engine compiles on threads, which may
     * not have ended when memory is measured: growth in three of three was chance for one row of
     * 200. */
    LOOKS = 12,
    LEAST = 16, /* bytes for each call; less is no leak, as no allocator has smaller blocks */
    ROWS_S = 10 /* seconds for all rows; rows beyond them are not tested */
};

/* Prepares and destroys n calls, and stores the growth of the memory in use. Returns false after a
 * failure, or if the row declines the call. */
static bool prepare_calls(struct run *r, int n, uint64_t *out_more, bool *out_taken)
{
    uint64_t before = heap_in_use(), now;
    bool ok = true;

    *out_taken = true;
    for (int i = 0; ok && *out_taken && i < n; i++) ok = run_plan(r, out_taken);
    now = heap_in_use();
    *out_more = now > before ? now - before : 0;
    return ok && *out_taken;
}

/* Finds the smallest growth of the memory in use for each call, or 0. Returns false if the row
 * declines the case. */
static bool plans_measure(struct check *c, const struct kernel_case *made, uint64_t *out_least)
{
    bool taken = true;
    uint64_t more, least = UINT64_MAX;
    struct run r;
    bool ok = run_init(&r, c, made) && prepare_calls(&r, FIRST, &more, &taken);

    for (int i = 0; ok && least && i < LOOKS; i++) {
        ok = prepare_calls(&r, CALLS, &more, &taken);
        more = more / CALLS < LEAST ? 0 : more / CALLS;
        if (more < least) least = more;
    }
    *out_least = ok ? least : 0;
    run_finish(&r);
    return taken;
}

/* Measures the first of a row's cases that the row accepts: those of real size, or, for a row
 * without such cases, quick ones, the smallest first. */
static void look_at(struct check *c, const struct kernel_case *row, bool real, bool frozen)
{
    for (int i = 0; i < row->n_twice; i++) {
        const struct kernel_case *made = row->of_twice[real ? i : row->n_twice - 1 - i];
        uint64_t least;
        bool has_frozen = kernel_case_facts(made) >> ROW_FROZEN & 1;
        if (has_frozen != frozen || made->real != real) continue;
        if (!made->real && (!made->quick || !kernel_case_has_elements(made))) continue;
        if (!plans_measure(c, made, &least)) continue;
        if (c->result->outcome == OUTCOME_PASS)
            check_that(c, !least,
                       "row %s: with each call that is prepared and destroyed%s the process has "
                       "%" PRIu64 " bytes more allocated: the plugin does not free them",
                       row->row, frozen ? ", with frozen inputs," : "", least);
        return;
    }
}

static bool has_real(const struct kernel_case *row)
{
    int i = 0;

    while (i < row->n_twice && !row->of_twice[i]->real) i++;
    return i < row->n_twice;
}

static void returned_plans(struct check *c, const int64_t *arg)
{
    const struct selection wanted = {.suites = "kernel"};
    struct timespec start, now;
    struct list list;
    bool real;

    (void)arg;
    if (!heap_in_use()) {
        check_skip(c, "the process's allocator does not say how much is in use");
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    list_init(&list, c->fixture, LIST_ALL, &wanted);
    for (size_t i = 0; i < list.n && c->result->outcome == OUTCOME_PASS; i++) {
        const struct kernel_case *row = list.at[i].kernel;
        if (!row || !row->twice || row->in_program) continue;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec - start.tv_sec > ROWS_S) break;
        real = has_real(row);
        look_at(c, row, real, false);
        if (real) look_at(c, row, real, true);
    }
    list_finish(&list);
}

const struct check_case suite_memory_plans[] = {
    {"returned/plans", returned_plans},
    {NULL, NULL},
};
