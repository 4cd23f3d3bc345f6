/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: tests the engine of a plugin by programs of small networks: what it claims compiles, and
 * its results are those of kernels, in each run, on several threads, and after a deadline. */
#include "engaged.h"
#include "suites.h"

#include <backplane/graph.h>
#include <backplane/observe.h>
#include <backplane/program.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    SEEDS = 6,
    THREADS = 8,
    THREAD_RUNS = 10,
    CYCLES = 10,
    KEPT_MOST = 4096
};

bool engaged_check_groups(struct engaged *e)
{
    struct bp_program_info info = {.size = sizeof info};
    struct bp_group_info group = {.size = sizeof group};

    if (!check_ok(e->n.c, bp_program_get_info(e->program, &info), "bp_program_get_info") ||
        !check_that(e->n.c, !*info.engines, "the engine's claim: %s", info.engines))
        return false;
    for (e->groups = 0;; e->groups++) {
        if (!check_ok(e->n.c, bp_program_group(e->program, e->groups, &group), "bp_program_group"))
            return false;
        if (!group.node) return true;
        if (!check_that(e->n.c, group.compiled, "%u nodes up to %s were claimed, not compiled: %s",
                        group.nodes, group.node, group.text))
            return false;
    }
}

/* Records a network and creates its program. false: the case has ended. */
static bool engaged_create(struct engaged *e, struct check *c, int64_t network, int64_t rows,
                           uint32_t weights, const struct engaged *like)
{
    const struct bp_program_options options = {.size = sizeof options,
                                               .like = like ? like->program : NULL};

    *e = (struct engaged){.program = NULL};
    return network_record_as(&e->n, c, (uint32_t)network, rows, weights) &&
           network_has_kernels(&e->n) &&
           check_ok(c,
                    bp_program_create_with(e->n.graph, c->fixture->device, &options, &e->program),
                    "bp_program_create_with");
}

/* Judges what bp_program_compile returned. false: the case has ended. */
static bool engaged_is_compiled(struct check *c, enum bp_status status)
{
    if (status != BP_ERR_UNSUPPORTED) return check_ok(c, status, "bp_program_compile");
    check_unsupported(c, "%s", bp_error_message());
    return false;
}

bool engaged_begin_as(struct engaged *e, struct check *c, int64_t network, int64_t rows,
                      uint32_t weights, const struct engaged *like)
{
    return engaged_create(e, c, network, rows, weights, like) &&
           engaged_is_compiled(c, bp_program_compile(e->program));
}

bool engaged_begin(struct engaged *e, struct check *c, int64_t network)
{
    return engaged_begin_as(e, c, network, 0, 0, NULL);
}

void engaged_finish(struct engaged *e)
{
    bp_program_destroy(e->program);
    network_finish(&e->n);
}

bool engaged_run(struct engaged *e, uint32_t seed, const char *what)
{
    struct bp_stream *stream = e->n.c->fixture->stream;
    struct network_values got, want;
    struct bp_tensor *x = NULL;
    bool good = network_expected(&e->n, seed, &want) && network_input(&e->n, stream, seed, &x) &&
                network_run(&e->n, e->program, stream, x, &got) &&
                network_agree(&e->n, &got, &want, what);

    bp_tensor_destroy(x);
    return good;
}

/* graph/claims/NETWORK */
void engine_claims(struct check *c, const int64_t *arg)
{
    struct engaged e;

    if (engaged_begin(&e, c, arg[0]) && engaged_check_groups(&e) && !e.groups)
        check_unsupported(c, "the engine claims no node of this network");
    engaged_finish(&e);
}

/* graph/results/NETWORK: each run has the results of kernels for its input. */
void engine_results(struct check *c, const int64_t *arg)
{
    struct engaged e;
    bool good = engaged_begin(&e, c, arg[0]);

    for (uint32_t seed = 0; good && seed < SEEDS; seed++)
        good = engaged_run(&e, seed, seed ? "a further run" : "the first run");
    engaged_finish(&e);
}

/* graph/inputs/NETWORK: a run leaves its input as it was, and reads it in each run. */
void engine_inputs(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream = c->fixture->stream;
    static struct network_values first, again;
    struct bp_tensor *x = NULL;
    struct engaged e;

    if (engaged_begin(&e, c, arg[0]) && network_input(&e.n, stream, 1, &x) &&
        network_run(&e.n, e.program, stream, x, &first) &&
        network_run(&e.n, e.program, stream, x, &again))
        network_agree(&e.n, &again, &first, "a second run with the same tensor");
    bp_tensor_destroy(x);
    engaged_finish(&e);
}

/* graph/twice/NETWORK: a second program of the network has the same groups and results. */
void engine_twice(struct check *c, const int64_t *arg)
{
    struct engaged a, b = {.program = NULL};

    if (engaged_begin(&a, c, arg[0]) && engaged_check_groups(&a) && engaged_begin(&b, c, arg[0]) &&
        engaged_check_groups(&b) &&
        check_that(c, a.groups == b.groups, "%u groups, and %u the second time", a.groups,
                   b.groups) &&
        engaged_run(&a, 3, "the first program") && engaged_run(&b, 4, "the second program"))
        engaged_run(&a, 5, "the first program, beside the second one");
    if (b.n.c) engaged_finish(&b);
    engaged_finish(&a);
}

/* ---- threads ---- */

/* A thread that runs the program with an input of its own. check_that is not for threads: the
 * thread has a result of its own. */
struct runner {
    struct engaged *e;
    struct network n; /* a copy whose check is the thread's */
    struct check check;
    struct result result;
    struct network_values want;
    pthread_t thread;
    uint32_t seed;
    bool started;
};

static void *runner_main(void *ctx)
{
    struct runner *r = ctx;
    struct network_values *got = malloc(sizeof *got);
    struct bp_stream *stream = NULL;
    struct bp_tensor *x = NULL;
    bool good = got &&
                check_ok(&r->check, bp_stream_create(r->check.fixture->device, &stream),
                         "bp_stream_create") &&
                network_input(&r->n, stream, r->seed, &x);

    for (int run = 0; good && run < THREAD_RUNS; run++)
        good = network_run(&r->n, r->e->program, stream, x, got) &&
               network_agree(&r->n, got, &r->want, "a run beside others");
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    free(got);
    return NULL;
}

/* graph/threads/NETWORK: runs on several threads do not disturb each other. */
void engine_threads(struct check *c, const int64_t *arg)
{
    struct runner *r = calloc(THREADS, sizeof *r);
    struct engaged e;
    bool good = engaged_begin(&e, c, arg[0]) && check_that(c, r != NULL, "no memory");

    for (uint32_t i = 0; good && i < THREADS; i++) {
        r[i].e = &e;
        r[i].seed = i;
        r[i].check = (struct check){c->fixture, &r[i].result, c->id};
        r[i].result = (struct result){.outcome = OUTCOME_PASS};
        good = network_expected(&e.n, i, &r[i].want);
        r[i].n = e.n;
        r[i].n.c = &r[i].check;
    }
    for (uint32_t i = 0; good && i < THREADS; i++)
        r[i].started = !pthread_create(&r[i].thread, NULL, runner_main, &r[i]);
    for (uint32_t i = 0; r && i < THREADS; i++) {
        if (!r[i].started) continue;
        pthread_join(r[i].thread, NULL);
        check_that(c, r[i].result.outcome == OUTCOME_PASS, "thread %u: %s", i, r[i].result.message);
    }
    engaged_finish(&e);
    free(r);
}

/* ---- deadline and leaks ---- */

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* graph/deadline/NETWORK: with hardly any time, groups are compiled or given to kernels, soon, and
 * results are right; then the engine compiles again. A device without kernels may have no other way
 * to compute a node in time: then the compilation fails, and says so. */
void engine_deadline(struct check *c, const int64_t *arg)
{
    struct engaged e;
    double start = seconds_now();
    bool good, late = false;

    setenv("BP_ENGINE_TIMEOUT", "0.001", 1);
    good = engaged_create(&e, c, arg[0], 0, 0, NULL);
    if (good) {
        enum bp_status status = bp_program_compile(e.program);
        late = status == BP_ERR_NO_KERNEL &&
               c->fixture->properties.flags & BP_DEVICE_GRAPH_ONLY;
        good = late || engaged_is_compiled(c, status);
    }
    unsetenv("BP_ENGINE_TIMEOUT");
    good = good &&
           check_that(c, seconds_now() - start < 10, "the compilation took %.1f s",
                      seconds_now() - start) &&
           (late || engaged_run(&e, 1, "after a deadline"));
    engaged_finish(&e);
    if (!good) return;
    if (engaged_begin(&e, c, arg[0]) && engaged_check_groups(&e))
        engaged_run(&e, 2, "compiled again");
    engaged_finish(&e);
}

/* Memory of the device that the core has allocated, and of the process if it has glibc's
 * malloc. */
struct used {
    uint64_t device, host;
};

static bool used_now(struct check *c, struct used *out)
{
    struct bp_memory_stats stats = {.size = sizeof stats};
    bool good = check_ok(c, bp_stream_synchronize(c->fixture->stream), "bp_stream_synchronize") &&
                check_ok(c, bp_device_memory(c->fixture->device, &stats), "bp_device_memory");

    out->device = stats.allocated;
    out->host = 0;
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
    out->host = mallinfo2().uordblks;
#endif
    return good;
}

/* graph/leaks/NETWORK: programs that were run and destroyed leave no memory behind. The first
 * cycles fill caches. */
void engine_leaks(struct check *c, const int64_t *arg)
{
    struct used before = {0, 0}, after;
    bool good = true;

    for (int i = 0; i < 2 * CYCLES && good; i++) {
        struct engaged e;
        good = engaged_begin(&e, c, arg[0]) && engaged_run(&e, 1, "a run");
        engaged_finish(&e);
        if (i == CYCLES - 1) good = good && used_now(c, &before);
    }
    if (!good || !used_now(c, &after)) return;
    check_that(c, after.device <= before.device, "%d programs left %llu bytes of device memory",
               CYCLES, (unsigned long long)(after.device - before.device));
    check_that(c, after.host < before.host + CYCLES * KEPT_MOST,
               "%d programs, each run once, left %llu bytes of host memory", CYCLES,
               (unsigned long long)(after.host - before.host));
}
