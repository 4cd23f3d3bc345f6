/* SPDX-License-Identifier: Apache-2.0 */
/* ipu.h: declares an instance of the plugin for Graphcore's IPU, and the functions that its files
 * share. Read next: plugin.c, then engine.h.
 *
 * The plugin has no kernels, but an engine: Poplar compiles parts of a graph as a whole. Memory of
 * the tiles has no addresses: tensors are in host memory, and a run copies them. Weights stay on
 * the tiles between runs. Work is done when its call returns. */
#ifndef IPU_H
#define IPU_H

#include "library.h"

#include <backplane/engine.h>
#include <backplane/runtime.h>
#include <kit/call.h>

struct ipu {
    const struct bp_host *host;
    const struct ipu_calls *call;
    struct bp_ipu *devices;
    uint32_t target; /* enum bp_ipu_target */
    uint32_t n_device;
};

/* Calls a function of the shim and translates its code. */
#define IPU(self, device, name, ...) \
    ipu_check((self)->host, (self)->call, device, (self)->call->name(__VA_ARGS__), #name)

/* The callbacks of runtime.h: device.c. */
#define IPU_CALLBACKS(X) \
    X(device_count) \
    X(device_properties) \
    X(memory_allocate) X(memory_free) X(copy_in) X(copy_out) X(copy_within) X(synchronize)
#define X(name) __typeof__(*((struct bp_runtime *)0)->name) ipu_##name;
IPU_CALLBACKS(X)
#undef X

extern const struct bp_engines ipu_engines; /* engine.c */

#endif
