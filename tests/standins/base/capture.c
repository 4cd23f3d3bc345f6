/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c: records the work of captured streams, and runs the recorded work again. All work of a
 * capture is in one list, in the order of the calls, which respects all waits between its streams;
 * a graph runs the list in this order. */
#include "internal.h"
#include <stdlib.h>

const char base_graph_kind[] = "graph";

struct steps {
    int refs;
    struct base_item *first, **last;
    size_t n;
};
struct base_capture {
    struct base_capture *next; /* list of all open captures */
    uint64_t number;
    enum base_mode mode;
    pthread_t thread;
    bool invalid;
    struct base_stream *member[BASE_CAPTURE_STREAMS]; /* NULL: destroyed */
    struct base_clock given;                          /* work of each stream so far */
    int n_member;
    struct steps *steps;
};
struct base_graph {
    struct steps *steps;
};
static struct base_capture *captures;
static uint64_t n_captures;

static void steps_drop(struct steps *steps)
{
    struct base_item *next;

    if (--steps->refs) return;
    for (struct base_item *item = steps->first; item; item = next) {
        next = item->next;
        base_item_drop(item);
    }
    free(steps);
}

uint64_t base_capture_number(const struct base_capture *capture)
{
    return capture->number;
}

struct base_capture *base_capture_numbered(uint64_t number)
{
    struct base_capture *c = captures;

    while (c && c->number != number) c = c->next;
    return c;
}

int base_capture_spoil(struct base_capture *capture)
{
    bool was = capture->invalid;

    capture->invalid = true;
    return was ? BASE_INVALIDATED : BASE_CAPTURED;
}

bool base_capture_spoil_all(const struct base_device *device)
{
    bool any = false;

    for (struct base_capture *c = captures; c; c = c->next)
        for (int i = 0; i < c->n_member; i++)
            if (c->member[i] && c->member[i]->device == device) any = c->invalid = true;
    return any;
}

bool base_capture_forbids(void)
{
    bool any = false;

    for (struct base_capture *c = captures; c; c = c->next)
        if (c->mode == BASE_GLOBAL ||
            (c->mode == BASE_THREAD && pthread_equal(c->thread, pthread_self())))
            any = c->invalid = true;
    return any;
}

/* Adds a stream to a capture. */
static int capture_enlist(struct base_capture *c, struct base_stream *stream)
{
    if (c->n_member == BASE_CAPTURE_STREAMS) return BASE_NO_MEMORY;
    stream->capture = c;
    stream->member = c->n_member;
    stream->clock = (struct base_clock){{0}};
    c->member[c->n_member++] = stream;
    return BASE_OK;
}

int base_capture_begin(struct base_stream *stream, enum base_mode mode)
{
    struct base_capture *c;

    if (stream->capture) return BASE_CAPTURED;
    c = calloc(1, sizeof *c);
    if (c) c->steps = calloc(1, sizeof *c->steps);
    if (!c || !c->steps) {
        free(c);
        return BASE_NO_MEMORY;
    }
    c->steps->refs = 1;
    c->steps->last = &c->steps->first;
    c->number = ++n_captures;
    c->mode = mode;
    c->thread = pthread_self();
    c->next = captures;
    captures = c;
    return capture_enlist(c, stream);
}

int base_capture_add(struct base_stream *stream, struct base_item *item)
{
    struct base_capture *c = stream->capture;

    if (c->invalid) {
        base_item_drop(item);
        return BASE_INVALIDATED;
    }
    *c->steps->last = item;
    c->steps->last = &item->next;
    c->steps->n++;
    stream->clock.at[stream->member] = ++c->given.at[stream->member];
    return BASE_OK;
}

int base_capture_join(struct base_stream *stream, const struct base_event *event)
{
    struct base_capture *c = base_capture_numbered(event->capture);
    int code = BASE_OK;

    if (c->invalid) return BASE_INVALIDATED;
    if (stream->capture && stream->capture != c) {
        base_capture_spoil(stream->capture);
        base_capture_spoil(c);
        return BASE_ISOLATION;
    }
    if (!stream->capture) code = capture_enlist(c, stream);
    for (int i = 0; i < c->n_member && !code; i++)
        if (event->clock.at[i] > stream->clock.at[i]) stream->clock.at[i] = event->clock.at[i];
    return code;
}

/* Whether the stream that began the capture has waited for all work of the others. */
static bool capture_is_joined(const struct base_capture *c)
{
    for (int i = 1; i < c->n_member; i++)
        if (c->member[0]->clock.at[i] < c->given.at[i]) return false;
    return true;
}

/* Ends a capture without a graph: its streams are as others again. */
static void capture_close(struct base_capture *c)
{
    struct base_capture **at = &captures;

    while (*at != c) at = &(*at)->next;
    *at = c->next;
    for (int i = 0; i < c->n_member; i++)
        if (c->member[i]) c->member[i]->capture = NULL;
    steps_drop(c->steps);
    free(c);
}

int base_capture_end(struct base_stream *stream, struct base_graph **out)
{
    struct base_capture *c = stream->capture;
    struct base_graph *graph = NULL;
    int code = BASE_OK;

    if (!c) return BASE_NOT_CAPTURED;
    if (stream->member) {
        base_capture_spoil(c);
        return BASE_BAD;
    }
    if (c->invalid) code = BASE_INVALIDATED;
    else if (!capture_is_joined(c)) code = BASE_UNJOINED;
    else if (!(graph = base_handle_create(base_graph_kind, sizeof *graph))) code = BASE_NO_MEMORY;
    if (graph) {
        graph->steps = c->steps;
        c->steps->refs++;
        *out = graph;
    }
    capture_close(c);
    return code;
}

enum base_capturing base_capture_state(const struct base_stream *stream)
{
    if (!stream->capture) return BASE_CAPTURE_NONE;
    return stream->capture->invalid ? BASE_CAPTURE_INVALID : BASE_CAPTURE_ACTIVE;
}

void base_capture_leave(struct base_stream *stream)
{
    struct base_capture *c = stream->capture;

    if (!c) return;
    if (!stream->member) {
        capture_close(c);
        return;
    }
    c->invalid = true;
    c->member[stream->member] = NULL;
    stream->capture = NULL;
}

bool base_graph_is(const void *handle)
{
    return base_handle_is(handle, base_graph_kind);
}

size_t base_graph_size(const struct base_graph *graph)
{
    return graph->steps->n;
}

static int steps_run(void *data, int code)
{
    const struct steps *steps = *(struct steps **)data;

    for (struct base_item *item = steps->first; item && !code; item = item->next)
        code = item->work->run(item->data, code);
    return code;
}

static void steps_release(void *data)
{
    steps_drop(*(struct steps **)data);
}

static const struct base_work steps_work = {steps_run, steps_release};

int base_graph_launch(struct base_graph *graph, struct base_stream *stream)
{
    graph->steps->refs++;
    return base_submit(stream, &steps_work, &graph->steps, sizeof graph->steps);
}

void base_graph_destroy(struct base_graph *graph)
{
    steps_drop(graph->steps);
    base_handle_destroy(graph);
}
