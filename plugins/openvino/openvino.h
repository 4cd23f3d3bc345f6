/* SPDX-License-Identifier: Apache-2.0 */
/* openvino.h: declares an instance of the plugin, and the functions that its files share. Read
 * next: plugin.c.
 *
 * The plugin has no kernels, but an engine: OpenVINO compiles parts of a graph as a whole. The
 * devices are those that the library finds, by its names: CPU, GPU, NPU. Their memory is host
 * memory, of which the library reads and writes the tensors of a run in place or by copies of its
 * own, and work is done when its call returns. */
#ifndef OPENVINO_H
#define OPENVINO_H

#include "library.h"

#include <backplane/engine.h>
#include <backplane/runtime.h>
#include <kit/call.h>
#include <pthread.h>

enum {
    OPENVINO_DEVICES = 16,
    OPENVINO_NAME = 32,
    OPENVINO_RANK = 8,
    OPENVINO_TYPES = BP_F64 + 1
};

struct openvino {
    const struct bp_host *host;
    const struct openvino_calls *call;
    struct ov_core *core;
    unsigned type[OPENVINO_TYPES]; /* the library's number of each dtype */
    uint32_t n_device;
    char device[OPENVINO_DEVICES][OPENVINO_NAME]; /* "CPU", "GPU.0" */
    char version[48];
    pthread_mutex_t importing; /* held while properties are those of one import */
};

/* Calls a function of the library and translates its error. */
#define OV(self, name, ...) \
    openvino_check((self)->host, (self)->call, (self)->call->name(__VA_ARGS__), #name)

/* The callbacks of runtime.h: device.c and memory.c. */
#define OPENVINO_CALLBACKS(X) \
    X(device_count) \
    X(device_properties) X(memory_allocate) X(memory_free) X(copy_in) X(copy_out) X(copy_within) \
        X(synchronize)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) openvino_##name;
OPENVINO_CALLBACKS(X)
#undef X

/* device.c: finds the library's devices; an instance is being created. */
enum bp_status openvino_find_devices(struct openvino *self);
/* Whether a device computes on processors of this machine. */
bool openvino_is_cpu(const struct openvino *self, uint32_t device);

extern const struct bp_engines openvino_engines; /* engine.c */

#endif
