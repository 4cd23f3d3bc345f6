/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: runs a graph many times, as a program. The work that bp_graph_run repeats for each run
 * is done once. If the following is not possible, the program runs node by node like bp_graph_run;
 * bp_program_get_info returns the reason.
 *
 * The first run compiles the graph. Passes rewrite it: equal computations are done once, results
 * that nothing reads are not computed (nor are their faults reported; the other nodes draw the
 * random numbers that they would draw with them), what depends on frozen constants only is computed
 * in advance, and expressions become operators with one kernel, such as a convolution with its
 * norm, additions and activation. Results may differ from those of bp_graph_run by roundings; NaN
 * and infinities stay, unless an intermediate result overflows or underflows in one of the two
 * only. Then kernels are chosen, and the intermediate results get fixed places in one block of
 * memory, the arena, which results with separate lifetimes share. Later runs launch the kernels one
 * after the other, without look-ups. On an inline stream they run in the call. A stream with a
 * queue (BP_STREAM_ASYNC on an inline device) runs them as one piece of work; another stream
 * receives them one by one.
 *
 * Freeze weights (bp_tensor_freeze) before the first run or bp_program_compile: constants that are
 * not frozen then are read in each run, nothing is computed from them in advance, and freezing
 * later changes nothing.
 *
 * Several threads may run a compiled program at the same time: each run has its own arena. The
 * program keeps up to 8 idle ones of inline streams until memory runs out; those of other streams
 * are memory of the stream, which its later work may reuse. Runs that update the same constant must
 * not overlap. The following is not compiled: operators whose extents depend on data (BP_OP_BOUND),
 * a node that updates memory that it reads, and, unless the device is inline and the host reaches
 * its memory, calls that run on another device, or for which the library copies tensors or converts
 * indices. A run goes node by node if an input is strided or lies in other memory than
 * BP_SPACE_DEVICE, if an output overlaps an input or a constant, if a node updates a tensor that
 * overlaps another one or must not be written, if the stream is watched (bp_stream_watch), has
 * failed or was cancelled, and if there is no memory for an arena.
 *
 * If the device can record its work (cuda, hip), later runs on a stream replay the recording as a
 * whole, at the cost of one launch. The first run on a stream is not recorded. The second
 * consecutive run on that stream is recorded, from the compiled program if there is one, and
 * replayed; all later runs on that stream are replayed. A program is recorded for one stream at a
 * time: a run on another stream is none of a recording, and two consecutive runs there record it
 * anew. */
#ifndef BP_PROGRAM_H
#define BP_PROGRAM_H

#include <backplane/api.h>
#include <backplane/graph.h>
#include <backplane/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_program;

/* Creates a program of a complete graph. As long as the graph has programs, calls that would change
 * the graph are refused (BP_ERR_INVALID): recorded calls, gradients, inputs, outputs and names.
 * Constants of the graph must lie on device. The app may destroy the graph's handle. */
BP_API enum bp_status bp_program_create(struct bp_graph *graph, struct bp_device *device,
                                        struct bp_program **out_program);

enum bp_program_flags {
    BP_PROGRAM_NO_PASSES = 1, /* the compiler rewrites nothing, as by BP_PASSES=none: each recorded
                                 node runs as its own kernels */
    BP_PROGRAM_TUNE = 2, /* where several kernel rows take a call, the compilation times them on
                            tensors of the call's types and chooses the fastest, if it is faster
                            than the row of highest priority by more than the spread; it takes
                            longer. Choices are kept in the cache folder, and later programs with
                            that folder take them, without this flag and without measuring. Rows
                            may round differently */
    BP_PROGRAM_WINOGRAD = 4, /* BP_ALLOW_WINOGRAD for this program, as by BP_ALLOW=winograd for all:
                                kernel.h states what it costs */
    BP_PROGRAM_FAST_MATH = 8 /* BP_ALLOW_FAST_MATH for this program, as by BP_ALLOW=fast-math for
                                all: engines may compute operators by other rules (kernel.h) */
};
enum {
    BP_PROGRAM_FLAGS = BP_PROGRAM_NO_PASSES | BP_PROGRAM_TUNE | BP_PROGRAM_WINOGRAD |
                       BP_PROGRAM_FAST_MATH /* all */
};
struct bp_program_options { /* parameters: set size, zero the rest */
    size_t size;
    uint32_t flags;    /* enum bp_program_flags */
    uint32_t zero;     /* 0 */
    const char *cache; /* a folder, created if it does not exist, in which the library keeps what
                          the compiler found for later programs, in this process or another one:
                          see bp_program_save. "": none; NULL: that of BP_PROGRAM_CACHE, if it is
                          set */
    struct bp_program *like; /* NULL, or a compiled program of the same device, whose graph differs
                                in its constants, such as new weights. Groups of nodes that its
                                engines compiled are used where frozen constants are the same
                                tensors, and otherwise serve to make those of this program, if
                                the engine can change weights (bp_group_info.origin). Both programs
                                run as if neither knew the other, and either may be destroyed
                                first */
};

/* bp_program_create with options (NULL: none). BP_ERR_NOT_READY: options->like is not compiled. */
BP_API enum bp_status bp_program_create_with(struct bp_graph *graph, struct bp_device *device,
                                             const struct bp_program_options *options,
                                             struct bp_program **out_program);

/* Destroys a program. Never blocks: the recording is freed when its replays have ended. */
BP_API void bp_program_destroy(struct bp_program *program);

/* Runs the program on a stream of its device, with the arguments and the results of bp_graph_run.
 * Any thread may call it, at the same time on different streams; on a device that records, and
 * where the program is not compiled, concurrent calls for streams that are not inline run one after
 * the other. After a failed run the contents of the given outputs are undefined, and updates that
 * nodes made before the failure stay.
 *
 * A replay copies the inputs to memory of the program, after the stream's earlier work, and copies
 * the results from there to the outputs: new tensors, or the tensors in out. Each run may therefore
 * pass other input tensors, with other values and with any strides. Constants are read at their own
 * address, with their values at that time, and nodes that update a constant change it in each run.
 * If a kernel finds a fault (an index out of range), the call reports it on an inline stream, and
 * the message names the node. Another stream reports the fault later. The message names the node if
 * the stream has a queue, and with BP_SYNC=launch; otherwise the launches that may have failed; of
 * a replay, "a program".
 *
 * Each run draws new random numbers, those that a run node by node would draw from the generator of
 * the stream.
 *
 * The following cannot be recorded: operators whose extents depend on data (BP_OP_BOUND), random
 * operators whose kernels have no BP_KERNEL_RNG or whose device has BP_DEVICE_HANDLES, calls that
 * run on another device, kernels with BP_KERNEL_NO_CAPTURE, a node that updates an input, and an
 * output that is a view of an input. Nothing is recorded under BP_SYNC=launch, or if there
 * is not enough memory for a second copy of the nodes' intermediate results. A failed run leaves
 * the stream as usable as a failed bp_graph_run does. */
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
    uint32_t compiled;   /* 1: the last run launched from the compiled schedule, or replayed a
                            recording of it */
    uint32_t launches;   /* launches of a compiled run */
    uint64_t arena;      /* bytes of a compiled run's intermediate results and workspaces */
    uint64_t unplanned;  /* bytes that these would take if none shared memory */
    const char *not_compiled; /* why the last run was not a compiled one, "" if it was one; valid
                                 until the next run */
    uint64_t constants;  /* bytes of the constants that a compiled run reads */
    uint64_t folded;     /* bytes of those among them that the compiler computed; programs with
                            equal expressions share them */
    uint32_t recorded_nodes; /* nodes of the graph */
    uint32_t nodes;      /* nodes after the passes and the choice of kernels; 0: not compiled */
    uint32_t loaded;     /* 1: the compiler's work was read from a file */
    uint32_t records;    /* 1: the device can record work, so that runs on streams that are neither
                            inline nor have a queue go one after the other */
    const char *cache;   /* what happened to the program's file in the cache folder ("loaded",
                            "saved", or why not), "" without one; valid until the next run */
    uint32_t derived;    /* 1: the program was made from a template */
    uint32_t zero;       /* 0 */
    const char *engines; /* why engines of the device failed to claim groups of nodes, "" if none
                            failed or there is none; valid as long as the program */
};
BP_API enum bp_status bp_program_get_info(struct bp_program *program, struct bp_program_info *out);

/* ---- the work of the compiler ---- */

/* Compiles the program now, unless a run has. Any thread may call it. On a device without inline
 * streams the call waits for the constants that it computes. BP_ERR_UNSUPPORTED: it cannot be
 * compiled, and the message states why. BP_ERR_CANCELLED: see bp_program_cancel. */
BP_API enum bp_status bp_program_compile(struct bp_program *program);

/* Cancels the compilation or the load that goes on in another thread: in bp_program_compile, in
 * bp_program_load or in the first bp_program_run. That call ends soon, also if an engine is
 * compiling a group, or measurements go on. bp_program_compile and bp_program_load return
 * BP_ERR_CANCELLED; runs go node by node until another bp_program_compile or bp_program_load. A
 * compilation that is nearly over may still succeed. Any thread may call this function, which never
 * blocks. BP_ERR_NOT_FOUND: the program is not being compiled. */
BP_API enum bp_status bp_program_cancel(struct bp_program *program);

/* Writes what the compiler found to a file: the nodes after the passes and the kernel rows that
 * they run on, but no contents of constants; and the groups that engines compiled, as the engines
 * save them. The file appears as a whole or not at all; missing folders of the path are created.
 * BP_ERR_NOT_READY: the program is not compiled (bp_program_compile). BP_ERR_INVALID,
 * BP_ERR_NOT_FOUND: the file cannot be written. BP_ERR_UNSUPPORTED: an engine has failed, so that
 * another compilation may find more. */
BP_API enum bp_status bp_program_save(struct bp_program *program, const char *path);

/* Compiles the program from a file of bp_program_save in place of running the passes. The file
 * must come from an equal graph (nodes, names, types), and from the same device, driver, plugin,
 * version of the library and settings; constants whose values decided what the passes did, and
 * those of groups that engines compiled, must have these values. An engine that cannot use the
 * bytes of a group compiles the group again. Values that depend on constants only are computed
 * again from the program's own constants, and kernels are prepared again. A failure changes
 * nothing: the program can still be compiled.
 *
 * BP_ERR_NOT_FOUND: there is no such file. BP_ERR_INVALID: the file is stale, damaged, another
 * user's, or writable for others; the message says which. BP_ERR_BUSY: the program is compiled
 * already. A damaged or foreign file cannot harm the process, but a file that was made on purpose
 * can describe another computation: load files that are as trustworthy as the app. */
BP_API enum bp_status bp_program_load(struct bp_program *program, const char *path);

/* ---- templates ---- */

/* A template: all that programs have in common which compute the same for inputs of several
 * extents. A program for other extents is made from it in less time. */
struct bp_template;

/* Makes a template of 3 to 8 programs, its samples, which are compiled if they are not. Their
 * graphs were recorded by the same code for inputs that differ in one number, such as the length
 * of a sequence: at[i] is that number for samples[i], not negative, and no other sample's. The
 * differences of these numbers must have no common divisor.
 *
 * The graphs, and the work of the compiler on them, must have the same nodes. Each extent, each
 * integer attribute and each integer of a frozen constant that differs between samples must be a
 * sum of a number and an integer multiple of at[i], and such an extent is never 0 or 1. A frozen
 * constant whose extents differ must be the leading block of that of the largest sample; parts of
 * one tensor must begin at one place.
 * Everything else must be equal. BP_ERR_UNSUPPORTED: it is not, or a program cannot be compiled;
 * the message says why. The samples may be destroyed afterwards. */
BP_API enum bp_status bp_template_create(struct bp_program *const *samples, const int64_t *at,
                                         size_t n, struct bp_template **out_template);
/* Destroys a template. Programs that were made from it stay. No other call may use it. */
BP_API void bp_template_destroy(struct bp_template *tmpl);

/* Makes a compiled program, and its graph, for another number: at least the smallest and at most
 * the largest of the samples. No pass runs; launches that do not depend on the number are those of
 * the samples. The graph cannot be changed. Any thread may call this function.
 *
 * Between the samples the extents are inferred, not known: the types of all results are checked
 * against the operators' rules, but a computation that differs in between without a trace in three
 * samples is not found. BP_ERR_UNSUPPORTED: the number is outside the samples, or the program
 * cannot be made: record and compile it. */
BP_API enum bp_status bp_template_program(struct bp_template *tmpl, int64_t at,
                                          struct bp_graph **out_graph,
                                          struct bp_program **out_program);

/* Compares the graph that the template gives for a number with one that was recorded for it.
 * BP_ERR_INTERNAL: they differ; the message says where. */
BP_API enum bp_status bp_template_check(struct bp_template *tmpl, int64_t at,
                                        struct bp_graph *recorded);

/* A pass of the compiler. The texts are constant data. */
struct bp_pass_info { /* output struct: set size before the call */
    size_t size;
    const char *name; /* as in BP_PASSES=-name */
    const char *doc;  /* what it does, in one sentence */
    const char *reason; /* of a pattern of a plugin: why it is not used; else "" */
    int32_t priority;   /* passes with higher ones run first */
    uint32_t zero;      /* 0 */
};
/* Describes pass number index, in the order in which the passes run; BP_ERR_NOT_FOUND past the
 * last one. */
BP_API enum bp_status bp_pass_get(uint32_t index, struct bp_pass_info *out);

/* The same for programs of one device: the passes of the compiler and the patterns of the device's
 * plugin, "PLUGIN.PATTERN", also those that are not used. The texts live as long as the device. */
BP_API enum bp_status bp_device_pass(struct bp_device *device, uint32_t index,
                                     struct bp_pass_info *out);

/* The work of a pass on a program. */
struct bp_pass_result { /* output struct: set size before the call */
    size_t size;
    const char *name;
    uint32_t ran;     /* 0: BP_PASSES leaves it out */
    uint32_t changes; /* nodes that it removed or replaced */
    uint32_t nodes;   /* nodes after it */
    uint32_t zero;    /* 0 */
};
/* Describes the work of pass number index on a compiled program; patterns of the device's plugin
 * are among the passes, if they are used. BP_ERR_NOT_FOUND: there is no such pass;
 * BP_ERR_NOT_READY: the program is not compiled (bp_program_compile). */
BP_API enum bp_status bp_program_pass(struct bp_program *program, uint32_t index,
                                      struct bp_pass_result *out);

/* How an engine made the group. */
enum bp_group_origin {
    BP_GROUP_COMPILED = 0, /* the engine compiled it, or made it from a file */
    BP_GROUP_REFITTED = 1, /* from a group of options->like, with other contents of constants */
    BP_GROUP_SHARED = 2    /* it is a group of options->like, whose constants are the same */
};

/* A group of nodes that an engine of a plugin has claimed (backplane/engine.h). Texts are valid as
 * long as the program. */
struct bp_group_info { /* output struct: set size before the call */
    size_t size;
    const char *engine; /* the name of the plugin */
    const char *node;   /* the last node of the group; NULL: there is no such group */
    uint32_t nodes;     /* how many it has */
    uint32_t compiled;  /* 1: the group is one launch; 0: kernels run its nodes */
    const char *text;   /* compiled: the engine's note, or ""; otherwise why not */
    uint32_t origin;    /* compiled: enum bp_group_origin */
    uint32_t zero;      /* 0 */
};
/* Describes group number index, and bp_program_left node number index of those that are in no
 * group. Without an engine of the device there are neither groups nor such nodes; a program that
 * was loaded has no such nodes. BP_ERR_NOT_READY: the program is not compiled
 * (bp_program_compile). */
BP_API enum bp_status bp_program_group(struct bp_program *program, uint32_t index,
                                       struct bp_group_info *out);
struct bp_left_info { /* output struct: set size before the call */
    size_t size;
    const char *node, *op; /* names of the node and of its operator; NULL: there is no such node */
    const char *why;       /* why it is in no group */
};
BP_API enum bp_status bp_program_left(struct bp_program *program, uint32_t index,
                                      struct bp_left_info *out);

/* One launch of a compiled program. Pointers are valid as long as the program. */
struct bp_launch_info { /* output struct: set size before the call */
    size_t size;
    const char *node;    /* the node: its name in the graph, or those of the nodes that it merges,
                            "conv_0+relu_1", shortened if they are many */
    const char *const *source; /* the names of the recorded nodes that the node replaces */
    uint32_t sources;    /* how many they are, at least 1 */
    uint32_t fallback;   /* enum bp_fallback_kind: why this is not a launch of node_op itself; 0: it
                            is one */
    const char *node_op; /* the operator of the node */
    const char *op;      /* the operator of the launch: another one if the node is decomposed */
    const char *kernel;  /* the name of the kernel's row */
    uint32_t n_in, n_out; /* operands, flat in declared order, with absent ones */
    uint64_t read, written; /* bytes of the inputs and outputs. An operator that reads a part of an
                               input only (gather) reads less */
    uint64_t workspace;  /* bytes */
    uint64_t flops;      /* additions and multiplications of products and convolutions; 0: other
                            operators, whose time is that of their memory */
    uint32_t tuned;      /* 1: the row was chosen by its measured time (BP_PROGRAM_TUNE) */
    uint32_t zero;       /* 0 */
};
/* Describes launch number index, in the order in which they run. BP_ERR_NOT_FOUND: there is no such
 * launch; BP_ERR_NOT_READY: the program is not compiled (bp_program_compile). */
BP_API enum bp_status bp_program_launch(struct bp_program *program, uint32_t index,
                                        struct bp_launch_info *out);

enum bp_operand_memory {
    BP_MEMORY_ARENA = 0,    /* the arena of the run */
    BP_MEMORY_INPUT = 1,    /* the tensor of an input of the graph */
    BP_MEMORY_CONSTANT = 2, /* a constant */
    BP_MEMORY_RESULT = 3,   /* a tensor that the run returns */
    BP_MEMORY_NONE = 4      /* none: the launch reads only the shape (bp_port.shape_only) */
};
/* One tensor of a launch. */
struct bp_operand_info { /* output struct: set size before the call */
    size_t size;
    const struct bp_view *type; /* NULL: it is absent. Valid as long as the program; its address is
                                   set for constants only; the contents of a folded constant of
                                   which the plan has a copy may have been freed */
    uint64_t bytes;    /* of its elements */
    uint32_t memory;   /* enum bp_operand_memory */
    uint32_t index;    /* of an input: its number; otherwise a number that tensors in one block of
                          memory have in common */
    uint64_t offset;   /* bytes from the beginning of the arena or the tensor */
    uint32_t in_place; /* 1: an output that lies over an input of the launch */
    uint32_t folded;   /* 1: a constant that the compiler computed */
    const char *layout; /* the name of the plugin's layout that the tensor is in, or "": its strides
                           describe it */
};
/* Describes operand number operand of a launch: its inputs, then its outputs. Fails as
 * bp_program_launch does. */
BP_API enum bp_status bp_program_operand(struct bp_program *program, uint32_t launch,
                                         uint32_t operand, struct bp_operand_info *out);

/* A launch that a watcher sees after it has run. Pointers are valid until the watcher returns;
 * those in info are valid as long as the program. */
struct bp_watched_launch { /* output struct; the library sets size */
    size_t size;
    struct bp_program *program;
    const struct bp_launch_info *info;
    struct bp_device *device;
    const struct bp_view *const *in, *const *out; /* info->n_in and n_out tensors with their
                                                     addresses (NULL of those of which only the
                                                     shape is read); NULL: absent. The memory of an
                                                     output in the arena serves later launches. The
                                                     contents of a folded constant may have been
                                                     freed if the kernel reads a copy of its own */
    uint64_t ns;         /* how long the launch took; on a stream of the plugin from its submission
                            until a wait for it has ended */
    uint32_t launch;     /* its number, as in bp_program_launch */
    uint32_t zero;       /* 0 */
};
typedef void bp_program_watcher(void *ctx, const struct bp_watched_launch *launch);

/* Calls watcher(ctx, launch) after each launch of each compiled run that begins later; watcher NULL
 * ends this. The launches and their memory stay the same; each is timed, so that a run takes
 * longer. On a stream that is not inline the run waits for its launches, and is no replay; the
 * watcher is called on the thread of the run, or on that of the stream's queue. Runs in a function
 * of bp_stream_callback on their own stream are not watched. A launch that fails is not seen, nor
 * are runs node by node and replays. Runs on several threads call the watcher at the same time.
 * Runs that have begun keep their watcher, so ctx must live until they have ended. The watcher may
 * call functions of this header that describe the program; it must not use the stream of the run,
 * or destroy the program. Any thread may call this function. */
BP_API enum bp_status bp_program_watch(struct bp_program *program, bp_program_watcher *watcher,
                                       void *ctx);

#ifdef __cplusplus
}
#endif

#endif
