/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_program_other.c: tests programs of other graphs: with constants, updates, views and
 * faults, and with nodes that cannot be recorded. */
#include "graph_work.h"
#include "suites.h"
#include <backplane/ops.h>
#include <stdlib.h>
#include <string.h>

static uint64_t version_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    return bp_tensor_get_info(t, &info) ? 0 : info.version;
}

/* A constant is read; a constant that a node updates changes with each run, and its version
 * increases. */
static void program_other_constant(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};
    struct bp_tensor *lr = NULL;
    int64_t none = 0;
    float one = 1;

    if (!graph_begin(&p.g, c, arg) || !kernel_has_row(p.g.w.device, "sgd", BP_F32)) {
        if (p.g.graph) check_unsupported(c, "the device has no row of sgd for f32");
        graph_finish(&p.g);
        return;
    }
    bool good =
        graph_input(&p.g, 0, "x") &&
        check_ok(c, bp_tensor_create(p.g.w.device, BP_F32, 0, &none, &lr), "lr") &&
        check_ok(c, bp_tensor_write(p.g.w.stream[0], lr, &one, sizeof one), "lr") &&
        check_ok(c, bp_op_sgd(bp_graph_scope(p.g.graph), p.g.y, p.g.symbol[0], lr, &p.g.symbol[1]),
                 "bp_op_sgd") &&
        work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[1], p.g.symbol[0], &p.g.symbol[2]) &&
        check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
        program_make(&p);
    for (int k = 1; good && k < 5; k++) { /* y = y - x, at first 2 i + 1; the output is y + x */
        struct bp_tensor *out = NULL;
        uint64_t version = version_of(p.g.y);
        good = program_run_into(&p, 0, p.g.x, NULL, &out) &&
               check_that(c, version_of(p.g.y) > version, "run %d: the constant's version stays",
                          k) &&
               work_has(&p.g.w, 0, p.g.y, 2 - k, 1, "the constant") &&
               work_has(&p.g.w, 0, out, 3 - k, 1, "what follows from it");
        bp_tensor_destroy(out);
    }
    if (good) program_counted(&p, 4, 3);
    bp_tensor_destroy(lr);
    program_finish(&p);
}

/* The app's tensor is updated in each run. Therefore the program is not recorded, and reports the
 * reason. */
static void program_other_updated(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};
    struct bp_tensor *lr = NULL, *out;
    float one = 1;
    int64_t none = 0;
    bool good = graph_begin(&p.g, c, arg),
         has = good && kernel_has_row(p.g.w.device, "sgd", BP_F32);

    if (good && !has) check_unsupported(c, "the device has no row of sgd for f32");
    good = has && graph_input(&p.g, 0, "x") && graph_input(&p.g, 1, "y") &&
           check_ok(c, bp_tensor_create(p.g.w.device, BP_F32, 0, &none, &lr), "lr") &&
           check_ok(c, bp_tensor_write(p.g.w.stream[0], lr, &one, sizeof one), "lr") &&
           check_ok(c,
                    bp_op_sgd(bp_graph_scope(p.g.graph), p.g.symbol[1], p.g.symbol[0], lr,
                              &p.g.symbol[2]),
                    "bp_op_sgd") &&
           check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
           program_make(&p);
    for (int k = 1; good && k < 5; k++) {
        out = NULL;
        good = program_run_into(&p, 0, p.g.x, p.g.y, &out) &&
               work_has(&p.g.w, 0, p.g.y, 2 - k, 1, "the input") &&
               work_has(&p.g.w, 0, out, 2 - k, 1, "the output");
        bp_tensor_destroy(out);
    }
    if (good) program_refused(&p, "input y is written to");
    bp_tensor_destroy(lr);
    program_finish(&p);
}

/* The outputs are the input itself, a result and views of it, as those of a graph run are. */
static void program_other_views(struct check *c, const int64_t *arg)
{
    const int64_t shape[2] = {8, GRAPH_N / 8};
    const struct bp_reshape_attrs as = {.size = sizeof as, .shape = {shape, 2}};
    struct program p = {.program = NULL};
    struct bp_tensor *out[4] = {NULL};
    struct bp_scope *scope;
    bool good = graph_begin(&p.g, c, arg) && graph_input(&p.g, 0, "x");

    scope = bp_graph_scope(p.g.graph);
    good = good && work_add(&p.g.w, scope, p.g.symbol[0], p.g.y, &p.g.symbol[1]) &&
           check_ok(c, bp_op_reshape(scope, p.g.symbol[1], NULL, &as, &p.g.symbol[2]), "reshape") &&
           check_ok(c, bp_op_transpose(scope, p.g.symbol[2], NULL, &p.g.symbol[3]), "transpose");
    for (int i = 0; good && i < 4; i++)
        good = check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[i], NULL), "bp_graph_output");
    good = good && program_make(&p);
    for (int k = 0; good && k < 3; k++) {
        float t[GRAPH_N];
        good = check_ok(c, bp_program_run(p.program, p.g.w.stream[0], &p.g.x, 1, out, 4),
                        "bp_program_run") &&
               check_that(c, out[0] == p.g.x, "an input that is an output is another tensor") &&
               work_has(&p.g.w, 0, out[1], 3, 1, "a result") &&
               work_has(&p.g.w, 0, out[2], 3, 1, "a view of it") &&
               check_ok(c, bp_tensor_read(p.g.w.stream[0], out[3], t, sizeof t), "bp_tensor_read");
        for (int i = 0; good && i < GRAPH_N; i++)
            good = check_that(c, (int)t[i] == 3 * (i % 8 * (GRAPH_N / 8) + i / 8) + 1,
                              "the transposed: element %d is %g", i, (double)t[i]);
        for (int i = 0; i < 4; i++) {
            bp_tensor_destroy(out[i]);
            out[i] = NULL;
        }
    }
    if (good) program_counted(&p, 3, 2);
    program_finish(&p);
}

/* A graph that cannot be recorded: its runs are correct, its stream stays usable, and another
 * program can be recorded on that stream. */
static void not_recorded(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};
    struct bp_tensor *out[2] = {NULL};
    struct bp_program *sums = NULL;
    bool good = graph_begin(&p.g, c, arg) && graph_record(&p.g) &&
                check_ok(c, bp_program_create(p.g.graph, p.g.w.device, &sums), "bp_program_create");
    bool has = good && kernel_has_row(p.g.w.device, "nonzero", BP_F32);

    bp_graph_destroy(p.g.graph);
    p.g.graph = NULL;
    for (int i = 0; i < 5; i++) bp_tensor_destroy(p.g.symbol[i]);
    memset(p.g.symbol, 0, sizeof p.g.symbol);
    if (good && !has) check_unsupported(c, "the device has no row of nonzero for f32");
    good = has && check_ok(c, bp_graph_create(c->fixture->core, &p.g.graph), "bp_graph_create") &&
           graph_input(&p.g, 0, "x") && graph_input(&p.g, 1, "y") &&
           work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[0], p.g.symbol[1],
                     &p.g.symbol[2]) &&
           check_ok(c, bp_op_nonzero(bp_graph_scope(p.g.graph), p.g.symbol[0], &p.g.symbol[3]),
                    "bp_op_nonzero") &&
           check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
           check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[3], "places"), "bp_graph_output") &&
           program_make(&p);
    for (int k = 0; good && k < 3; k++) {
        struct bp_tensor_info info = {.size = sizeof info};
        struct bp_tensor *in[2] = {p.g.x, p.g.y};
        good = check_ok(c, bp_program_run(p.program, p.g.w.stream[0], in, 2, out, 2),
                        "bp_program_run") &&
               work_has(&p.g.w, 0, out[0], 3, 1, "a sum") &&
               check_ok(c, bp_tensor_get_info(out[1], &info), "bp_tensor_get_info") &&
               check_that(c, info.shape[0] == GRAPH_N - 1, "%d elements are not 0, expected %d",
                          (int)info.shape[0], GRAPH_N - 1) &&
               work_sync(&p.g.w, 0);
        for (int i = 0; i < 2; i++) {
            bp_tensor_destroy(out[i]);
            out[i] = NULL;
        }
    }
    good = good && program_refused(&p, "node places: nonzero: its extents depend on data");
    bp_program_destroy(p.program);
    p.program = sums;
    for (int k = 0; good && k < 3; k++) good = program_run(&p, 0, 7, 2, "another program");
    if (good) program_counted(&p, 3, 2);
    program_finish(&p);
}

/* Whether the program's random node can be recorded: memory has addresses, and the reason why the
 * program was not recorded names no row that does not use launch->rng. */
static bool program_must_draw(struct bp_device *device, const char *reason)
{
    struct bp_device_properties p = {.size = sizeof p};

    if (bp_device_get_properties(device, &p) || p.flags & BP_DEVICE_HANDLES) return false;
    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (bp_device_kernel(device, i, &info) || *info.reason) continue;
        if (!strcmp(info.op, "uniform") && !(info.flags & BP_KERNEL_RNG) &&
            strstr(reason, info.name))
            return false;
    }
    return true;
}

/* Checks that the last two of three runs were replays, or none where the device cannot record
 * random nodes. */
static bool program_drew(struct program *p)
{
    struct bp_program_info info = program_info(p);

    if (program_must_draw(p->g.w.device, info.reason)) return program_counted(p, 3, 2);
    return program_refused(p, "draws random numbers");
}

/* Each run draws other random numbers. The program is recorded, unless the device's row does not
 * use launch->rng or its memory has handles. */
static void program_other_drawn(struct check *c, const int64_t *arg)
{
    const int64_t n = GRAPH_N;
    const struct bp_uniform_attrs attrs = {
        .size = sizeof attrs, .shape = {&n, 1}, .high = 1, .dtype = BP_F32};
    struct program p = {.program = NULL};
    struct bp_tensor *out[3] = {NULL};
    float v[3][GRAPH_N];
    bool good = graph_begin(&p.g, c, arg),
         has = good && kernel_has_row(p.g.w.device, "uniform", BP_F32);

    if (good && !has) check_unsupported(c, "the device has no row of uniform for f32");
    good = has && graph_input(&p.g, 0, "x") &&
           check_ok(c, bp_op_uniform(bp_graph_scope(p.g.graph), NULL, &attrs, &p.g.symbol[1]),
                    "bp_op_uniform") &&
           work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[0], p.g.symbol[1],
                     &p.g.symbol[2]) &&
           check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
           program_make(&p);
    for (int k = 0; good && k < 3; k++)
        good = program_run_into(&p, 0, p.g.x, NULL, &out[k]) &&
               check_ok(c, bp_tensor_read(p.g.w.stream[0], out[k], v[k], sizeof v[k]), "read") &&
               check_that(c, !k || memcmp(v[k], v[k - 1], sizeof *v), "run %d has the same numbers",
                          k);
    if (good) program_drew(&p);
    for (int k = 0; k < 3; k++) bp_tensor_destroy(out[k]);
    program_finish(&p);
}

/* Each run draws the numbers of a random node that nothing reads, a replay too. */
static void program_other_unread(struct check *c, const int64_t *arg)
{
    const int64_t n = GRAPH_N;
    const struct bp_uniform_attrs attrs = {
        .size = sizeof attrs, .shape = {&n, 1}, .high = 1, .dtype = BP_F32};
    struct program p = {.program = NULL};
    struct bp_generator *generator = NULL;
    struct bp_tensor *out = NULL;
    uint64_t seed = 0, offset = 0;
    bool good = graph_begin(&p.g, c, arg),
         has = good && kernel_has_row(p.g.w.device, "uniform", BP_F32);

    if (good && !has) check_unsupported(c, "the device has no row of uniform for f32");
    good = has && graph_input(&p.g, 0, "x") &&
           check_ok(c, bp_op_uniform(bp_graph_scope(p.g.graph), NULL, &attrs, &p.g.symbol[1]),
                    "bp_op_uniform") &&
           work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[0], p.g.symbol[0],
                    &p.g.symbol[2]) &&
           check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
           program_make(&p) && check_ok(c, bp_generator_create(5, &generator), "a generator") &&
           check_ok(c, bp_stream_set_generator(p.g.w.stream[0], generator), "a generator");
    for (int k = 0; good && k < 3; k++) {
        good = program_run_into(&p, 0, p.g.x, NULL, &out);
        bp_tensor_destroy(out), out = NULL;
    }
    if (good && program_drew(&p) && check_ok(c, bp_generator_get(generator, &seed, &offset), "get"))
        check_that(c, seed == 5 && offset == 3 * ((GRAPH_N + 3) / 4),
                   "the generator is at block %d, expected %d", (int)offset,
                   3 * ((GRAPH_N + 3) / 4));
    bp_generator_destroy(generator);
    program_finish(&p);
}

struct watched_program {
    struct check *c;
    uint32_t launches;
};

/* A watcher may describe the program that runs. */
static void watched_describe(void *ctx, const struct bp_watched_launch *launch)
{
    struct watched_program *seen = ctx;
    struct bp_program_info info = {.size = sizeof info};
    struct bp_launch_info l = {.size = sizeof l};

    check_ok(seen->c, bp_program_get_info(launch->program, &info), "bp_program_get_info");
    check_ok(seen->c, bp_program_launch(launch->program, launch->launch, &l), "bp_program_launch");
    check_that(seen->c, info.launches > launch->launch && !strcmp(l.op, launch->info->op),
               "launch %d of %d is %s, expected %s", (int)launch->launch, (int)info.launches, l.op,
               launch->info->op);
    seen->launches++;
}

static void program_other_watched(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};
    struct watched_program seen = {c, 0};
    struct bp_tensor *out = NULL;
    bool good = graph_begin(&p.g, c, arg) && graph_input(&p.g, 0, "x") &&
                work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[0], p.g.symbol[0],
                         &p.g.symbol[1]) &&
                check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[1], NULL), "bp_graph_output") &&
                program_make(&p) &&
                check_ok(c, bp_program_watch(p.program, watched_describe, &seen),
                         "bp_program_watch");

    for (int k = 0; good && k < 3; k++) {
        good = program_run_into(&p, 0, p.g.x, NULL, &out);
        bp_tensor_destroy(out), out = NULL;
    }
    if (good) check_that(c, seen.launches > 0, "the watcher has seen no launch");
    program_finish(&p);
}

static bool input_like(struct graph *g, struct bp_tensor *t, const char *name,
                       struct bp_tensor **out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    return check_ok(g->w.c, bp_tensor_get_info(t, &info), "bp_tensor_get_info") &&
           check_ok(g->w.c,
                    bp_graph_input(g->graph, name, info.dtype, info.rank, info.shape, out),
                    "bp_graph_input");
}

/* A bad index found by a replay is reported by the stream. */
static void program_other_fault(struct check *c, const int64_t *arg)
{
    struct program p = {.program = NULL};
    struct work *w = &p.g.w;
    struct bp_tensor *out = NULL;
    struct work_fault f = {.op = NULL};
    bool good = graph_begin(&p.g, c, arg) && work_fault_init(w, 0, &f) &&
                input_like(&p.g, f.x, "x", &p.g.symbol[0]) &&
                input_like(&p.g, f.index, "index", &p.g.symbol[1]) &&
                check_ok(c,
                         work_fault_call(&f, bp_graph_scope(p.g.graph), p.g.symbol[0],
                                         p.g.symbol[1], &p.g.symbol[2]),
                         "bp_call_run on a graph") &&
                check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[2], NULL), "bp_graph_output") &&
                program_make(&p);

    for (int k = 0; good && k < 3; k++) {
        good = work_fault_put(w, 0, &f, false) && program_run_into(&p, 0, f.x, f.index, &out) &&
               work_sync(w, 0);
        bp_tensor_destroy(out);
        out = NULL;
    }
    if (good && program_counted(&p, 3, 2) && work_fault_put(w, 0, &f, true)) {
        struct bp_tensor *in[2] = {f.x, f.index};
        enum bp_status status = bp_program_run(p.program, w->stream[0], in, 2, &out, 1);
        if (status == BP_OK) status = bp_stream_synchronize(w->stream[0]);
        check_that(c, status == BP_ERR_FAULT, "a bad index answers %s, expected %s",
                   bp_status_name(status), bp_status_name(BP_ERR_FAULT));
        bp_tensor_destroy(out);
    }
    work_fault_finish(&f);
    program_finish(&p);
}

/* BP_MEM_LIMIT leaves memory for one set of the graph's intermediate tensors. A recording would
 * need a set of its own, so the program is not recorded, and its runs are still correct. */
static void program_other_memory(struct check *c, const int64_t *arg)
{
    enum {
        BIG = 1 << 20
    };
    struct program p = {.program = NULL};
    struct bp_tensor *t = NULL, *out = NULL;
    struct bp_memory_stats stats;
    int64_t n = BIG;
    float *v = malloc(BIG * sizeof *v);
    bool good;

    memset(&p.g, 0, sizeof p.g);
    if (!v) abort();
    good =
        work_init_own(&p.g.w, c, "30000000") && work_stream(&p.g.w, 0, arg[0]) &&
        kernel_has_row(p.g.w.device, "add", BP_F32) &&
        check_ok(c, bp_graph_create(p.g.w.core, &p.g.graph), "bp_graph_create") &&
        check_ok(c, bp_graph_input(p.g.graph, "x", BP_F32, 1, &n, &p.g.symbol[0]),
                 "bp_graph_input") &&
        work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[0], p.g.symbol[0], &p.g.symbol[1]) &&
        work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[1], p.g.symbol[0], &p.g.symbol[2]) &&
        work_add(&p.g.w, bp_graph_scope(p.g.graph), p.g.symbol[2], p.g.symbol[1], &p.g.symbol[3]) &&
        check_ok(c, bp_graph_output(p.g.graph, p.g.symbol[3], NULL), "bp_graph_output") &&
        check_ok(c, bp_tensor_create(p.g.w.device, BP_F32, 1, &n, &t), "bp_tensor_create") &&
        program_make(&p);
    for (int i = 0; i < BIG; i++) v[i] = (float)(i % 1000);
    good = good && check_ok(c, bp_tensor_write(p.g.w.stream[0], t, v, BIG * sizeof *v), "write");
    for (int k = 0; good && k < 4; k++) {
        good = program_run_into(&p, 0, t, NULL, &out) &&
               check_ok(c, bp_tensor_read(p.g.w.stream[0], out, v, BIG * sizeof *v), "read");
        for (int i = 0; good && i < BIG; i++)
            good = check_that(c, v[i] == (float)(5 * (i % 1000)), "run %d: element %d is %g", k, i,
                              (double)v[i]);
        bp_tensor_destroy(out);
        out = NULL;
    }
    if (good && program_refused(&p, "out of memory")) work_stats(&p.g.w, &stats);
    bp_tensor_destroy(t);
    program_finish(&p);
    free(v);
}

/* The inputs are every second element of longer tensors. */
static void program_other_strided(struct check *c, const int64_t *arg)
{
    const int64_t n = GRAPH_N, two = 2;
    struct bp_tensor *whole[2] = {NULL}, *half[2] = {NULL};
    struct program p = {.program = NULL};
    bool good = program_begin(&p, c, arg);
    bool has = good && kernel_has_row(p.g.w.device, "assign", BP_F32);

    if (good && !has) check_unsupported(c, "the device has no row of assign for f32");
    for (int i = 0; has && i < 2; i++)
        has = work_floats(&p.g.w, WORK_HOST, 2 * GRAPH_N, &whole[i]) &&
              check_ok(c, bp_tensor_view(whole[i], 0, 1, &n, &two, &half[i]), "bp_tensor_view") &&
              check_ok(c, bp_tensor_copy(p.g.w.stream[0], half[i], i ? p.g.y : p.g.x), "copy");
    for (int k = 0; has && k < 3; k++) {
        struct bp_tensor *out = NULL;
        has = program_run_into(&p, 0, half[0], half[1], &out) &&
              work_has(&p.g.w, 0, out, 7, 2, "a run with strided inputs");
        bp_tensor_destroy(out);
    }
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(half[i]);
        bp_tensor_destroy(whole[i]);
    }
    program_finish(&p);
}

const struct check_kinds suite_runtime_program_other[] = {
    {"program/constant", program_other_constant, 1}, {"program/updated", program_other_updated, 1},
    {"program/views", program_other_views, 1},       {"program/not-recorded", not_recorded, 1},
    {"program/drawn", program_other_drawn, 1},       {"program/fault", program_other_fault, 1},
    {"program/memory", program_other_memory, 1},     {"program/strided", program_other_strided, 1},
    {"program/unread", program_other_unread, 1},     {"program/watched", program_other_watched, 1},
    {NULL, NULL, 0},
};
