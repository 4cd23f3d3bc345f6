/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_kept.h: caches cuDNN's graphs for each device, so that plans of equal operations share
 * them. */
#ifndef GPU_CUDNN_KEPT_H
#define GPU_CUDNN_KEPT_H

#include "cudnn_descriptor.h"

/* Makes the graph that a key describes. false: no engine meets the guarantees of the kernel rows;
 * all descriptors are destroyed again. */
typedef bool cudnn_graph_fn(const void *of, struct cudnn_graph *out);

/* Returns the graph of a key, which is compared as bytes and begins with a number that no other
 * kind of key has; make(of) makes the graph if the device has none. The device caches it and shares
 * it with other plans. NULL: there is none. Under the device's lock `loading`. */
const struct cudnn_graph *cudnn_kept_take(struct gpu_device *device, const void *key, size_t size,
                                          cudnn_graph_fn *make, const void *of);
/* A plan no longer needs the graph (NULL: no effect). */
void cudnn_graph_return(struct gpu_device *device, const struct cudnn_graph *graph);
/* The device is about to be closed: destroys all graphs in its cache. */
void cudnn_forget(struct gpu_device *device);

/* Enqueues a graph in a stream, with the addresses of n tensors. */
enum bp_status cudnn_graph_enqueue(const struct gpu_device *device, const struct cudnn_graph *graph,
                                   struct gpu_stream *stream, int n, const int64_t *id,
                                   void *const *at, void *workspace);

#endif
