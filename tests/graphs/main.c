/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: makes random graphs, runs each call by call, node by node and as a program, and compares
 * the results.
 *
 *     graphs [--device NAME] [--graphs N] [--seed N] [--nodes N] [--plain] [--faults]
 *            [--bitwise] [--threads N] [--apart] [--verbose] [--environment NAME=VALUE]...
 *
 * --seed: of the first graph; graph i has seed + i. --nodes: the largest number of nodes, about.
 * --plain: no floats but f32. --faults: many graphs have indices that may be too large. --bitwise:
 * programs must have the bits of bp_graph_run. --threads: runs each program without updates on N
 * threads too. --environment: sets a variable first, to run the same graphs under other settings of
 * the library. Ends with 77 if there is no such device.
 * --apart: runs each graph in a process of its own. After a crash the program starts itself anew
 * with this option, to make the graph that crashed smaller. */
#include "graphs.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SKIPPED = 77
};

struct options {
    const char *device;
    uint64_t graphs, seed;
    uint32_t threads;
    bool bitwise, apart;
    struct fuzz_style style;
};

struct totals {
    uint64_t graphs, nodes, least, most, refused, failed;
    uint64_t compiled, runs, faults, checked, telling, fused;
    uint64_t has[FUZZ_TRAITS];
};

static bool options_flag(struct options *o, const char *text)
{
    bool *flag = !strcmp(text, "--bitwise")   ? &o->bitwise
                 : !strcmp(text, "--apart")   ? &o->apart
                 : !strcmp(text, "--plain")   ? &o->style.plain
                 : !strcmp(text, "--faults")  ? &o->style.faults
                 : !strcmp(text, "--verbose") ? &o->style.verbose
                                              : NULL;

    if (flag) *flag = true;
    return flag != NULL;
}

static bool options_read(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (options_flag(o, argv[i])) continue;
        if (!value) return false;
        if (!strcmp(argv[i], "--device")) o->device = value;
        else if (!strcmp(argv[i], "--graphs")) o->graphs = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--seed")) o->seed = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--nodes")) o->style.nodes = (uint32_t)strtoul(value, NULL, 10);
        else if (!strcmp(argv[i], "--threads")) o->threads = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--environment") || putenv(argv[i + 1])) return false;
        i++;
    }
    return o->style.nodes > 5 && o->style.nodes <= FUZZ_NODES;
}

static void totals_add(struct totals *t, const struct fuzz_recipe *r,
                       const struct fuzz_report *report)
{
    t->graphs++;
    t->nodes += r->n_node;
    if (!t->least || r->n_node < t->least) t->least = r->n_node;
    if (r->n_node > t->most) t->most = r->n_node;
    t->refused += r->refused;
    t->compiled += report->compiled;
    t->runs += report->runs;
    t->faults += report->faults;
    t->checked += report->checked;
    t->fused += report->fused;
    t->telling += r->has[FUZZ_HAS_VIEW] || r->has[FUZZ_HAS_SECOND_READER] ||
                  r->has[FUZZ_HAS_GRADIENT] || r->has[FUZZ_HAS_CHAIN];
    for (int i = 0; i < FUZZ_TRAITS; i++) t->has[i] += r->has[i];
}

static void totals_print(const struct totals *t)
{
    printf("%" PRIu64 " graphs of %" PRIu64 " to %" PRIu64 " nodes, %" PRIu64 " nodes in all\n",
           t->graphs, t->least, t->most, t->nodes);
    for (int i = 0; i < FUZZ_TRAITS; i++)
        printf("  %" PRIu64 " with %s\n", t->has[i], fuzz_traits[i]);
    printf("  %" PRIu64 " with a chain, a view, a second reader or a gradient\n", t->telling);
    printf("%" PRIu64 " results of nodes compared with references, %" PRIu64
           " runs of programs, %" PRIu64 " of them compiled\n",
           t->checked, t->runs, t->compiled);
    printf("%" PRIu64 " graphs whose program has a group of elementwise nodes as one launch\n",
           t->fused);
    printf("%" PRIu64 " runs ended with a fault of a kernel\n", t->faults);
    printf("%" PRIu64 " calls refused while graphs were made; %.1f s of processor time\n",
           t->refused, (double)clock() / CLOCKS_PER_SEC);
}

static void main_check(struct fuzz_place *place, struct fuzz_recipe *recipe, struct totals *totals)
{
    struct fuzz_report report;

    fuzz_check_somewhere(place, recipe, &report);
    totals_add(totals, recipe, &report);
    if (!report.fault) return;
    totals->failed++;
    printf("FAILED: seed %" PRIu64 ": %s\n", recipe->seed, report.message);
    fuzz_shrink(place, recipe, &report);
    printf("the smallest graph found that fails in this way: %s\n", report.message);
    fuzz_print(recipe);
    fflush(stdout);
}

/* ---- crashes ---- */

/* The arguments for a new start after a crash; the last ones replace those of the user. */
static char crash_seed[24];
static char *crash_arguments[64];

static void main_crashed(int number)
{
    static const char text[] = "CRASHED: the graph runs again in a process of its own: seed ";
    size_t length = strlen(crash_seed);

    (void)number;
    if (write(1, text, sizeof text - 1) < 0 || write(1, crash_seed, length) < 0 ||
        write(1, "\n", 1) < 0)
        _exit(3);
    execv("/proc/self/exe", crash_arguments);
    _exit(3);
}

/* Sanitizers report crashes themselves. */
static void catch_crashes(int argc, char **argv)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    static char *const more[] = {"--apart", "--graphs", "1", "--seed", crash_seed};
    static const int numbers[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = main_crashed};
    int n = 0;

    for (; n < argc && n < 56; n++) crash_arguments[n] = argv[n];
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) crash_arguments[n++] = more[i];
    action.sa_flags = (int)(SA_NODEFER | SA_RESETHAND);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
#else
    (void)argc;
    (void)argv;
    (void)main_crashed;
#endif
}

static void main_graphs(struct fuzz_place *place, const struct options *o, struct totals *totals)
{
    struct fuzz_recipe *recipe = malloc(sizeof *recipe);

    if (!recipe) abort();
    for (uint64_t i = 0; i < o->graphs && totals->failed < 5; i++) {
        snprintf(crash_seed, sizeof crash_seed, "%" PRIu64, o->seed + i);
        if (o->style.verbose) printf("seed %s\n", crash_seed);
        if (fuzz_generate(place->core, o->seed + i, &o->style, recipe))
            main_check(place, recipe, totals);
    }
    free(recipe);
}

int main(int argc, char **argv)
{
    struct options o = {
        .device = "cpu:0", .graphs = 100, .seed = 1, .style = {.nodes = FUZZ_NODES}};
    struct fuzz_place place = {0};
    struct totals totals = {0};

    if (!options_read(&o, argc, argv)) {
        fprintf(stderr, "wrong arguments: see the comment of main.c\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    place.name = o.device;
    place.bitwise = o.bitwise;
    place.threads = o.threads;
    place.apart = o.apart;
    if (!fuzz_open(&place)) {
        printf("skipped: %s\n", bp_error_message());
        return SKIPPED;
    }
    if (!o.apart) catch_crashes(argc, argv);
    main_graphs(&place, &o, &totals);
    fuzz_close(&place);
    totals_print(&totals);
    if (2 * totals.telling < totals.graphs || !totals.graphs) {
        printf("FAILED: too few graphs have what passes look for\n");
        return 1;
    }
    if (totals.graphs >= 20 && 2 * totals.compiled < totals.runs) {
        printf("FAILED: too few runs of programs were compiled\n");
        return 1;
    }
    if (o.style.faults && totals.faults < totals.graphs) {
        printf("FAILED: too few runs ended with a fault of a kernel\n");
        return 1;
    }
    return totals.failed ? 1 : 0;
}
