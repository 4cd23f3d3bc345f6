/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: declares how the runtime library of XRE 5 does what gpu/calls.def expects. */
#ifndef KUNLUN_RUNTIME_H
#define KUNLUN_RUNTIME_H

#include "gpu/gpu.h"

extern const struct gpu_own kunlun_own;

/* Whether the runtime can fill memory in the order of a stream; and fills memory with zeros. */
bool kunlun_has_fill(void);
enum bp_status kunlun_fill_zero(struct gpu_stream *stream, void *memory, uint64_t size);

#endif
