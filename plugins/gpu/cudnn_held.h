/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_held.h: declares what all plans share that run one of cuDNN's graphs: the graph, and copies
 * of operands whose addresses the graph does not accept. */
#ifndef GPU_CUDNN_HELD_H
#define GPU_CUDNN_HELD_H

#include "cudnn_kept.h"

/* The maximum number of operands in the device's memory. */
enum {
    CUDNN_VIEWS = 8
};

/* The first member of a plan. */
struct cudnn_held {
    size_t size; /* of the plan */
    struct gpu_device *device;
    void *handle; /* for make, while the plan is being prepared */
    const struct cudnn_graph *graph;
    uint32_t results;            /* a bit for each operand that the graph writes */
    uint64_t bytes[CUDNN_VIEWS]; /* of a copy in the workspace, for operands at addresses that are
                                    no multiples of 16; 0: there is no such operand */
};

/* The bytes of a copy of n elements. */
uint64_t cudnn_held_bytes(uint8_t dtype, uint64_t n);

/* Makes a plan from `made`, whose members size, results and bytes are set: takes the graph of the
 * key from the device's cache, or makes it by make(made). BP_ERR_UNSUPPORTED: the library has no
 * engine for the graph. */
enum bp_status cudnn_held_prepare(void *self, const struct bp_prep *prep, struct cudnn_held *made,
                                  const void *key, size_t key_size, cudnn_graph_fn *make,
                                  struct bp_plan *out);
/* plan_destroy of all rows with such plans. */
void gpu_cudnn_held_end(void *self, const struct bp_kernel *row, void *plan);

/* Begins a launch: stores in at[i] the view that the graph uses for operand i, and enqueues the
 * copies of inputs. view[i] NULL: the operand is absent, or, if it has bytes, it is only in the
 * workspace: only its address is set. Returns the graph's own workspace in out_workspace. */
enum bp_status cudnn_held_begin(const struct cudnn_held *held, const struct bp_launch *launch,
                                const struct bp_view *const view[CUDNN_VIEWS],
                                struct bp_view at[CUDNN_VIEWS], void **out_workspace);
/* Ends a launch behind the graph: enqueues the copies of results. */
enum bp_status cudnn_held_finish(const struct cudnn_held *held, const struct bp_launch *launch,
                                 const struct bp_view *const view[CUDNN_VIEWS],
                                 const struct bp_view at[CUDNN_VIEWS]);

#endif
