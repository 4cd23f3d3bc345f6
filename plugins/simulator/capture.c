/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c: records calls on a captured stream, and makes and launches graphs of them, each launch
 * as one work item. Captures have the mode "relaxed", which allows other calls meanwhile: memory
 * and modules may be created and freed. A wait for a captured stream, or a query of its state, is
 * refused and invalidates the capture. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

struct step {
    struct step *next;
    int (*run)(void *work, int code);
    struct sim_about about;
    _Alignas(16) unsigned char work[];
};

/* Recorded steps in order, shared by reference count: by a graph, its executable graphs, and their
 * launches. */
struct steps {
    int refs;
    struct step *first, **last;
};
struct graph {
    enum sim_magic magic; /* SIM_GRAPH, or SIM_PROGRAM for a graph that can be launched */
    struct steps *steps;
};

struct sim_capture {
    struct sim_capture *next; /* list of all open captures */
    struct sim_device *device;
    uint64_t number;
    bool spoilt;
    struct steps *steps;
};
static struct sim_capture *captures;

static void drop_steps(struct steps *steps)
{
    struct step *next;

    if (--steps->refs) return;
    for (struct step *s = steps->first; s; s = next) {
        next = s->next;
        free(s);
    }
    free(steps);
}

uint64_t sim_capture_number(const struct sim_capture *capture)
{
    return capture ? capture->number : 0;
}

int sim_capture_spoil(uint64_t number, int code)
{
    for (struct sim_capture *c = captures; c; c = c->next)
        if (c->number == number) c->spoilt = true;
    return code;
}

bool sim_capture_spoil_all(const struct sim_device *device)
{
    bool any = false;

    for (struct sim_capture *c = captures; c; c = c->next)
        if (c->device == device) any = c->spoilt = true;
    return any;
}

int sim_capture_add(struct sim_capture *capture, int (*run)(void *work, int code), const void *of,
                    size_t size, const struct sim_about *about)
{
    struct step *step;

    if (capture->spoilt) return SIM_CAPTURE_INVALIDATED;
    step = aligned_alloc(16, (sizeof *step + size + 15) / 16 * 16);
    if (!step) return SIM_OUT_OF_MEMORY;
    step->next = NULL;
    step->run = run;
    step->about = *about;
    memcpy(step->work, of, size);
    *capture->steps->last = step;
    capture->steps->last = &step->next;
    return SIM_SUCCESS;
}

void sim_capture_drop(struct sim_capture *capture)
{
    struct sim_capture **at = &captures;

    if (!capture) return;
    while (*at != capture) at = &(*at)->next;
    *at = capture->next;
    if (capture->steps) drop_steps(capture->steps);
    free(capture);
}

static int capture_begin(struct sim_device *device, struct sim_capture **out)
{
    static uint64_t number;
    struct sim_capture *capture = malloc(sizeof *capture);
    struct steps *steps = calloc(1, sizeof *steps);

    if (!capture || !steps) {
        free(capture);
        free(steps);
        return SIM_OUT_OF_MEMORY;
    }
    *steps = (struct steps){1, NULL, &steps->first};
    *capture = (struct sim_capture){captures, device, ++number, false, steps};
    captures = *out = capture;
    return SIM_SUCCESS;
}

int sim_capture_begin(void *stream, int mode)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_capture_begin, &device);
    struct sim_capture **at = sim_capture_of(stream);

    if (!code && !at) code = SIM_INVALID_HANDLE;
    if (!code && mode != 2) code = SIM_INVALID_VALUE;
    if (!code && *at) code = SIM_ILLEGAL_STATE;
    return sim_leave(code ? code : capture_begin(device, at));
}

static struct graph *make_graph(enum sim_magic magic, struct steps *steps)
{
    struct graph *graph = malloc(sizeof *graph);

    if (!graph) return NULL;
    *graph = (struct graph){magic, steps};
    steps->refs++;
    sim.live++;
    return graph;
}

/* Calls on the stream are executed again, whatever the result of the capture is, also if this call
 * is set to fail. */
int sim_capture_end(void *stream, void **out)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_capture_end, &device);
    struct sim_capture **at = sim_capture_of(stream);
    struct graph *graph = NULL;

    if (!at || !*at) return sim_leave(code ? code : at ? SIM_ILLEGAL_STATE : SIM_INVALID_HANDLE);
    if (!code && (*at)->spoilt) code = SIM_CAPTURE_INVALIDATED;
    if (!code) graph = make_graph(SIM_GRAPH, (*at)->steps);
    if (!code && !graph) code = SIM_OUT_OF_MEMORY;
    *out = graph;
    sim_capture_drop(*at);
    *at = NULL;
    return sim_leave(code);
}

static struct graph *capture_checked(void *handle, enum sim_magic magic)
{
    return handle && *(enum sim_magic *)handle == magic ? handle : NULL;
}

int sim_graph_instantiate(void **out, void *handle, unsigned long long flags)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_graph_instantiate, &device);
    struct graph *graph = capture_checked(handle, SIM_GRAPH), *program = NULL;

    if (!code && !graph) code = SIM_INVALID_HANDLE;
    if (!code && flags) code = SIM_INVALID_VALUE;
    if (!code) program = make_graph(SIM_PROGRAM, graph->steps);
    if (!code && !program) code = SIM_OUT_OF_MEMORY;
    if (!code) *out = program;
    return sim_leave(code);
}

static int capture_destroy(enum sim_call call, void *handle, enum sim_magic magic)
{
    struct sim_device *device;
    int code = sim_enter_context(call, &device);
    struct graph *graph = capture_checked(handle, magic);

    if (!graph) return sim_leave(SIM_INVALID_HANDLE);
    drop_steps(graph->steps);
    graph->magic = 0;
    free(graph);
    sim.live--;
    return sim_leave(code);
}

int sim_graph_destroy(void *graph)
{
    return capture_destroy(SIM_CALL_graph_destroy, graph, SIM_GRAPH);
}

int sim_program_destroy(void *program)
{
    return capture_destroy(SIM_CALL_program_destroy, program, SIM_PROGRAM);
}

static int capture_run_steps(void *p, int code)
{
    struct steps *steps = *(struct steps **)p;

    for (struct step *s = steps->first; s; s = s->next) {
        uint64_t begin = sim_now();
        code = s->run(s->work, code);
        sim_observe_part(&s->about, begin);
    }
    drop_steps(steps);
    return code;
}

int sim_program_launch(void *handle, void *stream)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_program_launch, &device);
    struct graph *program = capture_checked(handle, SIM_PROGRAM);
    struct sim_capture **at = sim_capture_of(stream);

    if (!code && (!program || !at)) code = SIM_INVALID_HANDLE;
    if (!code && *at) code = sim_capture_spoil((*at)->number, SIM_CAPTURE_UNSUPPORTED);
    if (code) return sim_leave(code);
    program->steps->refs++;
    code = sim_submit(stream, capture_run_steps, &program->steps, sizeof program->steps);
    if (code) drop_steps(program->steps);
    return sim_leave(code);
}
