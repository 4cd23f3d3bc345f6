/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: runs a graph many times, as a program. The work that bp_graph_run repeats for each run
 * is done once. If neither of the following is possible, the program runs node by node like
 * bp_graph_run; bp_program_get_info returns the reason.
 *
 * On an inline stream the first run compiles the graph. Passes rewrite it: equal computations are
 * done once, results that nothing reads are not computed (nor are their faults reported), what
 * depends on frozen constants only is computed in advance, and expressions become operators with
 * one kernel, such as a convolution with its norm, additions and activation. Results may differ
 * from those of bp_graph_run by roundings; NaN and infinities stay. Then kernels are chosen, and
 * the intermediate results get fixed places in one block of memory, the arena, which results with
 * separate lifetimes share. Constants that are not frozen (bp_tensor_freeze) are read in each run,
 * and nothing is computed from them in advance. Later runs launch the kernels one after the other,
 * without look-ups and allocations. Several threads may run a compiled program at the same time: each run has its own arena. The
 * program keeps idle arenas until memory runs out. The following is not compiled: operators whose
 * extents depend on data (BP_OP_BOUND), and calls that run on another device. A run goes node by
 * node if an input is strided or lies in other memory than BP_SPACE_DEVICE, if an output overlaps
 * an input or a constant, if a node updates a tensor that overlaps another one, if the stream is
 * watched (bp_stream_watch), and if there is no memory for an arena.
 *
 * If the device can record its work (cuda, hip), later runs on a stream replay the recording as a
 * whole, at the cost of one launch. The first run on a stream goes node by node. The second
 * consecutive run on that stream is recorded and replayed, and all later runs on that stream are
 * replayed. A program is recorded for one stream at a time: a run on another stream goes node by
 * node, and two consecutive runs there record it anew. */
#ifndef BP_PROGRAM_H
#define BP_PROGRAM_H

#include <backplane/api.h>
#include <backplane/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_program;

/* Creates a program of a complete graph. As long as the graph has programs, calls that would change
 * the graph are refused (BP_ERR_INVALID): recorded calls, gradients, inputs, outputs and names.
 * Constants of the graph must lie on device. The app may destroy the graph's handle. */
BP_API enum bp_status bp_program_create(struct bp_graph *graph, struct bp_device *device,
                                        struct bp_program **out_program);

/* Destroys a program. Never blocks: the recording is freed when its replays have ended. */
BP_API void bp_program_destroy(struct bp_program *program);

/* Runs the program on a stream of its device, with the arguments and the results of bp_graph_run.
 * Any thread may call it. Compiled runs may run at the same time; other concurrent runs of one
 * program run one after the other.
 *
 * A replay copies the inputs to memory of the program, after the stream's earlier work, and copies
 * the results from there to the outputs: new tensors, or the tensors in out. Each run may therefore
 * pass other input tensors, with other values and with any strides. Constants are read at their own
 * address, with their values at that time, and nodes that update a constant change it in each run.
 * If a kernel finds a fault during a replay (an index out of range), the stream reports it, like
 * the fault of any launch; the message names "a program".
 *
 * The following cannot be recorded: random operators, operators whose extents depend on data
 * (BP_OP_BOUND), calls that run on another device, kernels with BP_KERNEL_NO_CAPTURE, a node that
 * updates an input, and an output that is a view of an input. Nothing is recorded under
 * BP_SYNC=launch, or if there is not enough memory for a second copy of the nodes' intermediate
 * results. A failed run leaves the stream as usable as a failed bp_graph_run does. */
BP_API enum bp_status bp_program_run(struct bp_program *program, struct bp_stream *stream,
                                     struct bp_tensor *const *in, size_t n_in,
                                     struct bp_tensor **out, size_t n_out);

struct bp_program_info { /* output struct: set size before the call */
    size_t size;
    uint64_t runs;       /* runs that did not fail */
    uint64_t replays;    /* how many of these runs were replays */
    uint64_t bytes;      /* device memory that the program keeps for replays */
    uint32_t recorded;   /* 1: the next run on the same stream is a replay */
    const char *reason;  /* why the last run was no replay, "" if it was one; valid until the next
                            run */
    uint32_t compiled;   /* 1: the last run launched from the compiled schedule */
    uint32_t launches;   /* launches of a compiled run */
    uint64_t arena;      /* bytes of a compiled run's intermediate results and workspaces */
    uint64_t unplanned;  /* bytes that these would take if none shared memory */
    const char *not_compiled; /* why the last run was not a compiled one, "" if it was one; valid
                                 until the next run */
};
BP_API enum bp_status bp_program_get_info(struct bp_program *program, struct bp_program_info *out);

#ifdef __cplusplus
}
#endif

#endif
