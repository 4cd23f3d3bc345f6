/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: defines interface 7 of a plugin: an engine, which claims parts of a graph and compiles
 * each as a whole.
 *
 * The interface is optional. When the core compiles a program for a device of the plugin, it shows
 * the graph to the engine (claim), which returns groups of nodes. The core checks the groups,
 * and lets the engine compile each (compile). A group that fails, is cancelled or is too late is
 * run by kernels as if it had never been claimed, and the program reports why. A group that was
 * compiled is one launch of the program (run).
 *
 * The core shows the graph after it has recognised operators in expressions and has folded what
 * depends on frozen constants only, and before it chooses layouts and fuses: nodes are rows of
 * docs/ops.md, types are contiguous, biases and activations are nodes of their own.
 *
 * On a device with BP_DEVICE_GRAPH_ONLY the core also shows graphs of one node to the engine: calls
 * of operators that the engine lists as known, outside programs or left out of all groups. All
 * inputs of such a graph are inputs of run, also frozen constants. The compiled graph is kept like
 * the plan of a kernel, for all later calls of equal types and attributes. With BP_ENGINE_UPDATES
 * also calls of operators that update inputs are shown: the inputs lack BP_DATA_STATE, and the
 * results are outputs of the graph, whose views in run are those of the updated inputs. */
#ifndef BP_ENGINE_H
#define BP_ENGINE_H

#include <backplane/graph_data.h>
#include <backplane/kernel.h>
#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operator that the engine knows. The first fields are those of a kernel row, so that
 * BP_OPROW(op) of attrs.h sets them. A node of another operator, or one with inputs, outputs or
 * attributes that are not zero beyond those that the engine knows, cannot be claimed. */
struct bp_engine_op { /* rows */
    const char *op;      /* the operator's own name, not an alias */
    uint32_t attrs_size; /* size of the attribute struct that the engine knows; 0: none */
    uint16_t in_known, out_known; /* numbers of declared ports that the engine knows */

    /* On BP_DEVICE_GRAPH_ONLY: masks of the dtypes that calls may have, as those of a kernel row.
     * 0: all that the operator has. */
    uint64_t types[4];
};

/* The groups that an engine claims. The core makes the arrays, filled with zeros, and copies what
 * it needs before the next callback. */
struct bp_claim { /* output struct */
    size_t size;

    /* Of each node of the graph: 0, or its group, 1 to n_group. The numbers that are used have no
     * gaps. The core may take nodes out of a group, so that the group is convex (no path between
     * two of its nodes leaves it) and contains no node that cannot be claimed: one with flags of
     * enum bp_data_node_flags, or one that reads or writes memory which the graph updates (but see
     * BP_ENGINE_UPDATES). The rest of the group may become several groups. */
    uint32_t *group;

    /* Of each node that is in no group: why, as constant text of the plugin; or NULL. */
    const char **reason;

    /* Of each group, at index group - 1, with room for as many groups as there are nodes: how many
     * times faster than kernels the engine is expected to be; 0 counts as 1. If engines of several
     * plugins claim a node, the group with the highest score has it. */
    double *score;
    uint32_t n_group; /* the plugin sets it */

    /* For which program the engine claims: the core sets them, as those of bp_engine_compile. An
     * engine leaves out what it cannot compute under them. */
    uint32_t flags; /* enum bp_engine_flags */
    uint32_t allow; /* enum bp_allow of kernel.h */
    uint32_t zero;  /* 0 */
};

/* Without BP_ENGINE_FAST_MATH, NaN, infinities and denormal numbers stay as the operators' rules
 * (docs/ops.md) say, and results are as accurate: an engine does not claim operators that its
 * compiler computes by other rules. */
enum bp_engine_flags {
    BP_ENGINE_DETERMINISTIC = 1, /* equal inputs must give bitwise equal results; set unless
                                    BP_ENGINE_FAST_MATH is */
    BP_ENGINE_FAST_MATH = 2,     /* the app allows BP_ALLOW_FAST_MATH (kernel.h) */
    BP_ENGINE_TRAIN = 4,         /* nodes of the program update memory, such as parameters:
                                    constants that are not frozen change from run to run */
    BP_ENGINE_CALL = 8,          /* a graph of one node, for a call, which waits: compiling should
                                    be fast. Layouts other than BP_ENGINE_ROW_MAJOR and
                                    BP_ENGINE_ANY fail, and may_share has no effect */
};

/* Abilities of an engine: bp_engines.flags.
 *
 * BP_ENGINE_UPDATES: groups may contain nodes with BP_DATA_UPDATE, and all other nodes that use the
 * memory which they update, if that memory is a constant with BP_DATA_STATE, contiguous, all nodes
 * of the app's graph that use it are in the group, and no output of the app's graph lies in it. If
 * not, the core takes the nodes that use it out of the group. The constant is one input of the
 * group, and a run leaves the updated contents there. The values of the group that lie in its
 * memory have BP_DATA_STATE too: results of updates, and of operators that make views.
 *
 * A node reads the contents that the last update before it has left, in the order of the nodes. The
 * core makes sure that an engine may take each update for a node with a new result: what a node
 * updates is the constant itself, or the result of an update of it; the node reads the memory by no
 * other input; and no node reads a view of the memory, or the result of an update, after a later
 * update. */
enum bp_engine_abilities {
    BP_ENGINE_UPDATES = 1,
};

/* One group to compile. The core calls compile on a thread of its own; everything here is valid
 * until compile returns, also if that is after the deadline. */
struct bp_engine_compile { /* parameters */
    size_t size;

    /* The group as a graph of its own: nodes of the group, and all values that they read and make.
     * in: the values that run gets, all with memory: no frozen constants. out: those that the rest
     * of the program reads. */
    const struct bp_graph_data *graph;

    uint32_t device;
    uint32_t width;       /* the most threads that a run gets */
    uint32_t flags;       /* enum bp_engine_flags */
    uint32_t allow;       /* enum bp_allow of kernel.h */
    uint64_t dtypes;      /* mask of the dtypes in which the engine may compute values of other
                             floating dtypes; 0: in none of fewer bits than the value's */
    uint64_t memory;      /* bytes that the engine may keep on the device; 0: any number */
    uint64_t deadline_ns; /* time of CLOCK_MONOTONIC after which the core discards the result; 0: no
                             limit */

    /* The bytes that save wrote for an equal group before, or NULL. BP_ERR_STALE, without a
     * message: the engine cannot use them; the core calls compile again without a blob. They may
     * come from a file and must be checked like all input from outside. */
    const void *blob;
    uint64_t blob_size;

    /* To be called from time to time, at best once a second, by the thread that compile runs on.
     * done: the part of the work that is done, 0 to 1, or below 0: unknown. what: the current work,
     * or NULL. Returns 0; or another number: no thread waits for the result any more, and
     * compile should return BP_ERR_CANCELLED soon. */
    void *ctx;
    uint32_t (*progress)(void *ctx, double done, const char *what);
};

/* A group to make from a group that the engine compiled before. The graphs are equal in all but
 * names and the contents of frozen constants, flags and allow are the same, and the numbers of
 * values and nodes agree. */
struct bp_engine_refit { /* parameters */
    size_t size;
    const struct bp_engine_compile *compile; /* the group to make; without a blob */

    /* The group that was compiled before. It must not change: runs of another program may use it
     * now and later, and it may be destroyed before or after the new one. */
    void *engine;

    /* Numbers of the values that are frozen constants with other contents than in that group, in
     * ascending order; at least one. */
    const uint32_t *value;
    uint32_t n_value;
    uint32_t zero; /* 0 */
};

/* The order in memory of an input or output that the engine wants. The core converts others by
 * copies, which the program counts as launches. */
enum bp_engine_layout {
    BP_ENGINE_ROW_MAJOR = 0,     /* contiguous, axis 0 outermost */
    BP_ENGINE_CHANNELS_LAST = 1, /* of 3 axes or more: contiguous in the order 0, 2, 3, .., 1 */
    BP_ENGINE_ANY = 2,           /* of inputs only: any strides; the view states them */
};

/* A compiled group. It does not change once it is made, apart from what is in contexts. */
struct bp_engine_compiled { /* output struct */
    size_t size;
    void *engine;                 /* not NULL; the plugin's, until engine_destroy */
    uint64_t workspace;           /* bytes of device memory that each run needs */
    uint64_t workspace_alignment; /* a power of two; 0: the device's alignment */
    uint64_t bytes;               /* of memory that the engine keeps, as far as known */

    /* Arrays of the core, with an entry for each input or output of the graph, filled with zeros
     * (in_layout, out_layout: enum bp_engine_layout) and with -1 (may_share). may_share: the input
     * whose memory the output may have, of the same type and layout, if nothing reads it later; -1:
     * none. Without it, outputs share memory with no input. */
    uint16_t *in_layout, *out_layout;
    int32_t *may_share;

    /* Arrays of the core, filled with the types that the core has inferred for the outputs. An
     * engine that knows its own types writes them here. If one differs, the core refuses the
     * compiled group, rather than let a run write beyond memory. */
    struct bp_inferred *out_type;

    const char *note; /* a line for reports: precision, tactics; or NULL. Lives as long as engine */

    /* 1: runs may be recorded (capture.h) and replayed: a run only submits work to the stream, and
     * the work reads nothing but memory that stays the same for all runs with a context. 0: a
     * program with the group is not recorded. No effect with BP_ENGINE_CALL. */
    uint32_t captures;
    uint32_t zero; /* 0 */

    /* An array of the core, with an entry for each input of the graph, filled with zeros. 1, of an
     * input that the group updates: `run` leaves the new contents in memory of the engine, from
     * where later runs take them, and `state` writes them to the tensor when something else needs
     * them. Such a group is never recorded, and no other program shares it. */
    uint32_t *keeps;
};

/* Identifies the contents of an input of a run. If `memory` is not 0, and equal rows of two runs
 * come with equal views, nothing has written the elements between the runs. Other contents of equal
 * views come with another `version`. A write to other elements of the memory may change `version`
 * too.
 *
 * An engine with a copy of an input in memory of its own notes `memory` and `after` with the copy,
 * and need not copy the input again if the next run with an equal view has this `memory`, and a
 * `version` that is equal to the `after` that it noted. */
struct bp_content { /* hot */
    uint64_t memory;  /* a number that no other memory of the process ever has; 0: nothing is known
                         of the contents: values that the program computes, runs that are recorded,
                         and memory that the app can write without the core */
    uint64_t version; /* of the contents before the run */
    uint64_t after;   /* of the contents that the run leaves: `version`, and more if the program of
                         the run updates the memory */
};

/* One run of a compiled group: a launch. Every pointer is valid during the call only, apart from
 * engine and context. Views and rules are those of bp_launch; in and out are those of the group's
 * graph, in order. The core has checked types and has converted layouts. */
struct bp_engine_run { /* hot */
    void *self;
    void *engine;
    void *context; /* from context_create; NULL without that callback */
    void *stream;  /* the plugin's stream: as in bp_launch */
    const struct bp_view *const *in, *const *out;
    uint32_t n_in, n_out;
    void *workspace, *workspace_memory; /* as in bp_launch */
    uint64_t workspace_size;
    uint32_t *fault;                    /* as in bp_launch */
    uint64_t tag;                       /* the stream's number for this run */
    uint32_t device;
    uint32_t width; /* threads that this run may use; 1: the calling thread only */
    const struct bp_content *content; /* n_in rows */
};

/* known to engine_destroy are required; context_create and context_destroy are either both set or
 * both NULL. Callbacks may run at the same time on several threads, also claim and compile. */
struct bp_engines { /* table */
    size_t size;

    const struct bp_engine_op *known;
    size_t n_known, known_stride; /* at least 1; sizeof(struct bp_engine_op) of the plugin's
                                     headers */

    /* Claims groups of a graph. It should take milliseconds. A failure claims nothing. */
    enum bp_status (*claim)(void *self, const struct bp_graph_data *graph, struct bp_claim *out);

    /* Compiles one group; may take minutes. Any failure, with a message, returns the group to
     * kernels; BP_ERR_CANCELLED after progress has returned another number than 0. */
    enum bp_status (*compile)(void *self, const struct bp_engine_compile *compile,
                              struct bp_engine_compiled *out);

    /* Runs a compiled group, or submits it to the stream. Takes no lock that another run can hold
     * for long. With context_create, one run at a time uses a context; without it, several
     * threads may run one engine at once. */
    enum bp_status (*run)(const struct bp_engine_run *run);

    /* Destroys a compiled group. All runs have ended, and all its contexts were destroyed. */
    void (*engine_destroy)(void *self, uint32_t device, void *engine);

    /* Makes the memory and handles that one run at a time needs. NULL: runs need none. */
    enum bp_status (*context_create)(void *self, uint32_t device, void *engine, void **out_context);
    /* Destroys a context. All its runs have ended. */
    void (*context_destroy)(void *self, uint32_t device, void *engine, void *context);

    /* Writes the compiled group by one or more calls of write, from which compile can make it again
     * in another process on an equal device. A failure of write ends save with that status. NULL:
     * groups are compiled again in each process. */
    enum bp_status (*save)(void *self, uint32_t device, void *engine, void *ctx,
                           enum bp_status (*write)(void *ctx, const void *data, uint64_t size));

    /* Makes a compiled group from another one with other contents of frozen constants, in less time
     * than compile needs. Rules and results are those of compile: it runs on a thread of its own,
     * calls progress, and out may have other layouts and another workspace. After any failure, such
     * as BP_ERR_STALE without a message, the core calls compile. NULL: such groups are compiled. */
    enum bp_status (*refit)(void *self, const struct bp_engine_refit *refit,
                            struct bp_engine_compiled *out);

    uint32_t flags; /* enum bp_engine_abilities */
    uint32_t zero;  /* 0 */

    /* Takes a kept value from the engine: input number `input` of a group, whose memory the view
     * states. After a run the engine's value of a kept input is newer than the memory, and the next
     * run uses it and does not read the view. forget 0: the engine writes its value to the view;
     * then the two are equal, and the next run uses the value if the row of bp_content says that
     * the memory was not written since. forget 1: the engine writes nothing, and the next run reads
     * the view.
     *
     * The work is done in the order of the stream. All runs have ended, and none begins before that
     * work has ended, except that the core calls state with forget 0 directly after a run, in the
     * order of its stream, if the app has an address of the memory. If the value is not newer than
     * the view, state may write it again or do nothing. After a run that failed, state fails unless
     * the value is that from before the run: the core then refuses to read the tensor until the app
     * has written all of it. Required if a group keeps an input. */
    enum bp_status (*state)(void *self, uint32_t device, void *engine, uint32_t input,
                            uint32_t forget, const struct bp_view *view, void *stream);
};

#ifdef __cplusplus
}
#endif

#endif
