/* SPDX-License-Identifier: Apache-2.0 */
/* topo.c: implements captures of CNRT. The recorded work of a queue is a topology (`topo`), of
 * which instances (`entity`) run. An instance keeps the recorded work, so its topology may be
 * destroyed before it. Only the calls of these functions are confirmed, and neither the numbers of
 * modes nor what each mode forbids: the stand-in takes them as numbered in cnrt.h. */
#include "cnrt.h"
#include <stdlib.h>

static const char topo_kind[] = "topo", entity_kind[] = "entity";

/* A topology and its instances share the recorded work. */
struct recorded {
    struct base_graph *graph;
    int refs;
};

/* A topology or an instance. */
struct topo {
    struct recorded *recorded;
    struct base_device *device;
};

static struct topo *topo_create(const char *kind, struct recorded *recorded,
                                struct base_device *device)
{
    struct topo *topo = base_handle_create(kind, sizeof *topo);

    if (!topo) return NULL;
    *topo = (struct topo){recorded, device};
    recorded->refs++;
    return topo;
}

static void topo_destroy(struct topo *topo)
{
    struct recorded *recorded = topo->recorded;

    base_handle_destroy(topo);
    if (--recorded->refs) return;
    base_graph_destroy(recorded->graph);
    free(recorded);
}

int cnrtQueueBeginCapture(void *queue, int mode)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueueBeginCapture", &device);
    static const enum base_mode modes[] = {BASE_GLOBAL, BASE_THREAD, BASE_RELAXED};

    if (!code && (mode < CNRT_CAPTURE_GLOBAL || mode > CNRT_CAPTURE_RELAXED))
        code = base_refuse(CNRT_ARGS, "no capture mode %d is known", mode);
    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_capture_begin(queue, modes[mode]);
    return cnrt_leave(code == BASE_CAPTURED ? CNRT_STATE : code);
}

int cnrtQueueEndCapture(void *queue, void **out_topo)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueueEndCapture", &device);
    struct base_graph *graph = NULL;
    struct recorded *recorded;

    if (!code && !out_topo) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_capture_end(queue, &graph);
    if (code) return cnrt_leave(code == BASE_BAD ? CNRT_CAPTURE_UNMATCHED : code);
    recorded = calloc(1, sizeof *recorded);
    if (recorded) recorded->graph = graph;
    *out_topo = recorded ? topo_create(topo_kind, recorded, device) : NULL;
    if (*out_topo) return cnrt_leave(0);
    base_graph_destroy(graph);
    free(recorded);
    return cnrt_leave(CNRT_SYS_NO_MEMORY);
}

int cnrtTaskTopoInstantiate(void **out_entity, void *topo, void *error_node, char *log,
                            size_t log_size)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtTaskTopoInstantiate", &device);
    const struct topo *from = topo;

    if (!code && !base_handle_is(topo, topo_kind))
        code = base_misuse(CNRT_HANDLE, "%p is not a topology", topo);
    if (!code && (!out_entity || error_node || log || log_size))
        code = base_refuse(CNRT_ARGS, "only (entity, topo, NULL, NULL, 0) is known");
    if (code) return cnrt_leave(code);
    *out_entity = topo_create(entity_kind, from->recorded, device);
    return cnrt_leave(*out_entity ? 0 : CNRT_SYS_NO_MEMORY);
}

int cnrtTaskTopoEntityInvoke(void *entity, void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtTaskTopoEntityInvoke", &device);
    const struct topo *topo = entity;

    if (!code && !base_handle_is(entity, entity_kind))
        code = base_misuse(CNRT_HANDLE, "%p is not an instance of a topology", entity);
    if (!code) cnrt_queue(queue, device, &code);
    if (!code && topo->device != device)
        code = base_refuse(CNRT_OTHER_DEVICE, "the topology is of another device");
    if (!code) code = base_graph_launch(topo->recorded->graph, queue);
    return cnrt_leave(code);
}

static int topo_end(const char *name, void *topo, const char *kind)
{
    struct base_device *device;
    int code = cnrt_enter_release(name, &device);

    if (!code && !base_handle_is(topo, kind))
        code = base_misuse(CNRT_HANDLE, "%s: %p is not one", name, topo);
    if (!code) topo_destroy(topo);
    return cnrt_leave(code);
}

int cnrtTaskTopoEntityDestroy(void *entity)
{
    return topo_end("cnrtTaskTopoEntityDestroy", entity, entity_kind);
}

int cnrtTaskTopoDestroy(void *topo)
{
    return topo_end("cnrtTaskTopoDestroy", topo, topo_kind);
}
