/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: a graph that is run again and again. What bp_graph_run does each time is done once
 * where the device can record its work (cuda, hip): later runs replay it as a whole, at the cost of
 * one launch. Elsewhere, and where something of the graph cannot be recorded, it runs node by node
 * as bp_graph_run does; bp_program_get_info says why.
 *
 * The first run on a stream goes node by node. The second in a row is recorded and replayed, as all
 * are that follow on that stream. A program is recorded for one stream at a time: a run on another
 * one goes node by node, two in a row there record it anew. */
#ifndef BP_PROGRAM_H
#define BP_PROGRAM_H

#include <backplane/api.h>
#include <backplane/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_program;

/* A program of a graph that is complete. As long as it has programs, what would change the graph is
 * refused (BP_ERR_INVALID): recorded calls, gradients, inputs, outputs and names. Constants of the
 * graph lie on device. The graph's handle may be destroyed. */
BP_API enum bp_status bp_program_create(struct bp_graph *graph, struct bp_device *device,
                                        struct bp_program **out_program);

/* Never blocks: what was recorded goes when its replays have ended. */
BP_API void bp_program_destroy(struct bp_program *program);

/* Runs it on a stream of its device, with arguments as of bp_graph_run and the same results. Any
 * thread may call it; calls on one program wait for each other to return.
 *
 * A replay copies the inputs to memory of the program, behind the stream's earlier work, and the
 * results from there to the outputs: new tensors, or those that are given. So inputs may be other
 * tensors, or hold other values, each time; they may be strided. Constants are read where they lie,
 * as they are then, and nodes that update one change it each time. A fault that a replay finds (an
 * index that names nothing) is told by the stream, as that of any launch; it names "a program".
 *
 * Not recorded are random operators, those whose extents depend on data (BP_OP_BOUND), calls that
 * another device runs, kernels that say so, a node that updates an input, an output that is a view
 * of an input; and nothing under BP_SYNC=launch, nor where memory does not suffice for a second
 * time what the nodes need in between. A failure of a run leaves the stream as usable as that of
 * bp_graph_run. */
BP_API enum bp_status bp_program_run(struct bp_program *program, struct bp_stream *stream,
                                     struct bp_tensor *const *in, size_t n_in,
                                     struct bp_tensor **out, size_t n_out);

struct bp_program_info { /* answer: set size before the call */
    size_t size;
    uint64_t runs;       /* that did not fail */
    uint64_t replays;    /* of these */
    uint64_t bytes;      /* of device memory that it keeps for replays */
    uint32_t recorded;   /* 1: the next run on the same stream is a replay */
    const char *reason;  /* why the last run was none, "" if it was; valid until the next run */
};
BP_API enum bp_status bp_program_get_info(struct bp_program *program, struct bp_program_info *out);

#ifdef __cplusplus
}
#endif

#endif
