/* SPDX-License-Identifier: Apache-2.0 */
/* graph_work.c: builds, runs and checks the graph of sums and its program (graph_work.h). */
#include "graph_work.h"
#include <stdlib.h>
#include <string.h>

bool graph_begin(struct graph *g, struct check *c, const int64_t *arg)
{
    memset(g, 0, sizeof *g);
    work_init(&g->w, c);
    return work_adds(c) && work_stream(&g->w, 0, arg[0]) && work_stream(&g->w, 1, arg[1]) &&
           check_ok(c, bp_graph_create(c->fixture->core, &g->graph), "bp_graph_create") &&
           work_floats(&g->w, WORK_HOST, GRAPH_N, &g->x) &&
           work_floats(&g->w, WORK_HOST, GRAPH_N, &g->y) && work_put(&g->w, 0, g->x, 1, 0) &&
           work_put(&g->w, 0, g->y, 2, 1) && work_sync(&g->w, 0);
}

bool graph_input(struct graph *g, int i, const char *name)
{
    int64_t n = GRAPH_N;

    return check_ok(g->w.c, bp_graph_input(g->graph, name, BP_F32, 1, &n, &g->symbol[i]),
                    "bp_graph_input");
}

bool graph_sums(struct graph *g, struct bp_tensor *x, struct bp_tensor *y)
{
    struct bp_scope *scope = bp_graph_scope(g->graph);

    return work_add(&g->w, scope, x, y, &g->symbol[2]) &&
           work_add(&g->w, scope, g->symbol[2], x, &g->symbol[3]) &&
           work_add(&g->w, scope, g->symbol[3], g->symbol[2], &g->symbol[4]) &&
           check_ok(g->w.c, bp_graph_output(g->graph, g->symbol[4], "c"), "bp_graph_output");
}

bool graph_record(struct graph *g)
{
    return graph_input(g, 0, "x") && graph_input(g, 1, "y") &&
           graph_sums(g, g->symbol[0], g->symbol[1]);
}

bool graph_run(struct graph *g, int stream, struct bp_tensor *x, int out)
{
    struct bp_tensor *in[2] = {x, g->y};

    return check_ok(g->w.c, bp_graph_run(g->graph, g->w.stream[stream], in, 2, &g->out[out], 1),
                    "bp_graph_run");
}

void graph_finish(struct graph *g)
{
    for (int i = 0; i < 5; i++) bp_tensor_destroy(g->symbol[i]);
    bp_tensor_destroy(g->x);
    bp_tensor_destroy(g->y);
    bp_tensor_destroy(g->out[0]);
    bp_tensor_destroy(g->out[1]);
    bp_graph_destroy(g->graph);
    work_finish(&g->w);
}

bool program_make(struct program *p)
{
    return check_ok(p->g.w.c, bp_program_create(p->g.graph, p->g.w.device, &p->program),
                    "bp_program_create");
}

bool program_begin(struct program *p, struct check *c, const int64_t *arg)
{
    p->program = NULL;
    return graph_begin(&p->g, c, arg) && graph_record(&p->g) && program_make(p);
}

void program_finish(struct program *p)
{
    bp_program_destroy(p->program);
    graph_finish(&p->g);
}

bool program_run_into(struct program *p, int stream, struct bp_tensor *x, struct bp_tensor *y,
                      struct bp_tensor **out)
{
    struct bp_tensor *in[2] = {x, y};

    return check_ok(p->g.w.c,
                    bp_program_run(p->program, p->g.w.stream[stream], in, y ? 2 : 1, out, 1),
                    "bp_program_run");
}

bool program_run(struct program *p, int stream, int factor, int add, const char *what)
{
    struct bp_tensor *out = NULL;
    bool good = program_run_into(p, stream, p->g.x, p->g.y, &out) &&
                work_has(&p->g.w, stream, out, factor, add, what);

    bp_tensor_destroy(out);
    return good;
}

struct bp_program_info program_info(struct program *p)
{
    struct bp_program_info info = {.size = sizeof info};

    check_ok(p->g.w.c, bp_program_get_info(p->program, &info), "bp_program_get_info");
    return info;
}

/* Whether the device must record programs: unless it reports that its programs run node by node, or
 * the user's settings forbid recording. */
static bool program_records(struct bp_device *device)
{
    struct bp_device_properties p = {.size = sizeof p};
    const char *sync = getenv("BP_SYNC"); /* "launch": the core waits after each launch and records
                                             nothing */

    return !(bp_device_emulated(device) & BP_EMULATED_RECORDING) &&
           !bp_device_get_properties(device, &p) && !(p.flags & BP_DEVICE_INLINE) &&
           !(sync && !strcmp(sync, "launch"));
}

bool program_counted(struct program *p, uint64_t runs, uint64_t replays)
{
    struct bp_program_info info = program_info(p);

    if (!program_records(p->g.w.device)) replays = 0;
    return check_that(p->g.w.c, info.runs == runs && info.replays == replays,
                      "%d runs, of these %d replays, expected %d and %d; it says: %s",
                      (int)info.runs, (int)info.replays, (int)runs, (int)replays, info.reason);
}

bool program_refused(struct program *p, const char *why)
{
    struct bp_program_info info = program_info(p);
    struct bp_memory_stats stats;

    return !program_records(p->g.w.device) ||
           (check_that(p->g.w.c, !info.replays && strstr(info.reason, why),
                       "%d replays; expected a reason with '%s', got: %s", (int)info.replays, why,
                       info.reason) &&
            work_stats(&p->g.w, &stats) &&
            check_that(p->g.w.c, !stats.captured && !info.bytes, "%d bytes stay recorded",
                       (int)stats.captured));
}
