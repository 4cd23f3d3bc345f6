/* SPDX-License-Identifier: Apache-2.0 */
/* engined.h: declares a device of the kind cpu with an engine: the cpu plugin, and an interpreter
 * that runs groups of nodes by the cpu plugin's kernels. The interpreter stands on any other plugin
 * too.
 *
 * The same engine is an add-on to the kind cpu too, engined_addon, for which the variable is
 * BP_ENGINED_ADDON; built with ADDS_TO, to another kind. BP_ENGINED has words that say what the
 * engine does; without it the engine claims all nodes that it can run, as one group, and does
 * everything right.
 *
 *   claim=none, fails    claims nothing; fails
 *   claim=greedy         claims all nodes, also those that no engine may claim
 *   score=X              the score of its groups, else 2
 *   only=OP              claims nodes of this operator only
 *   claim=N              node number i belongs to group i * 7919 / 3 % N + 1: groups that depend on
 *                        each other
 *   claim=each           each node is a group, as claim=greedy without a look at it
 *   claim=range, score   a number of a group, and a score, that make no sense
 *   compile=fails, empty returns a failure; returns no engine
 *   compile=single       compiles groups of one node only
 *   compile=waits        waits until progress returns another number than 0
 *   compile=slow         reports progress for 0.3 s, and compiles then
 *   compile=deaf         waits until `release` is set, and looks at nothing else
 *   compile=types, layouts, shares, aligned   makes one member of the result wrong
 *   last                 wants images channels-last, as inputs and outputs
 *   shares               lets the output of a group of one node lie over an input
 *   contexts             keeps intermediate results in contexts, not in the workspace
 *   saves                saves groups: the contents of their constants, which a loaded group takes
 *                        from there
 *   save=fails           fails to save
 *   blob=stale, fails, types   refuses what was saved; fails with it; returns wrong types with it
 *   blob=trusts          does not check what was saved
 *   refits               makes a group from another one: copies only constants that are listed as
 *                        changed, and takes the others from there
 *   refit=stale, fails, types, deaf   refuses; fails; returns wrong types; waits until `release` is
 *                        set
 *   refit=keeps          takes all constants from the other group
 *   run=fails            a run fails
 *   run=none             a run does nothing, to measure what others do (when the plugin is loaded)
 *   run=NAME             a run is wrong in one way: see engined_defect.c
 *   refuse=OP            does not claim nodes of this operator
 *   updates              groups may update memory (when the plugin is loaded)
 *   copies               runs use copies of their inputs in memory of the engine, which it makes
 *                        again if the contents have changed; updated inputs are copied back
 *   keeps                copies, and runs leave updated inputs in the copies: state copies back
 *   state=never, blind   makes the copies in each run; only in the first one
 *   state=NAME           state is wrong in one way: see engined_state.c
 *   forget=ignores       state does nothing where it is to forget a value
 *
 *   captures             states that its runs may be recorded
 *
 * Built with the simulator's plugin in place of the cpu plugin, the devices are of the kind sim:
 * their streams run late, and the host cannot access their memory.
 *
 * Built with GRAPH_ONLY, the devices are of the kind graphonly, with BP_DEVICE_GRAPH_ONLY and
 * without kernels. Words:
 *   flag=lone            the plugin has no engines */
#ifndef ENGINED_H
#define ENGINED_H

#include <backplane/engine.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Counts of the engine; the library exports `engined`. */
struct engined {
    atomic_int claims, compiles, runs, busy; /* busy: runs that found their context in use */
    atomic_int engines, contexts;            /* that exist */
    atomic_int destroyed;                    /* engines that were destroyed */
    atomic_int cancelled;                    /* compilations that progress has ended */
    atomic_int release;
    atomic_int saves, loads; /* loads: groups made from what was saved */
    atomic_int refits, changed; /* groups made from others, and the constants that were changed */
    atomic_uint flags, allow; /* of the last claim */
    atomic_int differ;        /* compilations whose flags are not those of the claim */
    atomic_int given, forgotten; /* calls of state */
    atomic_int copied, reused; /* inputs of runs that were copied, and that need not be */
};
extern struct engined engined;

/* The plugin whose kernels the engine runs, and its instance for the callback that a thread is in:
 * a process may have several. */
struct engined_cpu {
    const struct bp_plugin *plugin;
    const struct bp_host *host;
    void *self;
};
extern _Thread_local struct engined_cpu engined_cpu;

/* Whether BP_ENGINED has a word; the text behind "KEY=", which ends at a space; or NULL. */
bool engined_has(const char *word);
const char *engined_word(const char *key);

static inline const struct bp_data_value *engined_value(const struct bp_graph_data *graph,
                                                        uint32_t v)
{
    return BP_ROW(struct bp_data_value, graph->value, graph->value_stride, v);
}

static inline const struct bp_data_node *engined_data_node(const struct bp_graph_data *graph,
                                                           uint32_t n)
{
    return BP_ROW(struct bp_data_node, graph->node, graph->node_stride, n);
}

/* All values of a group as views, with their shapes and strides. */
struct engined_views {
    struct bp_view *view;
    int64_t *extent; /* 16 of each */
};

/* engined_claim.c: fills the views of all values of a graph; engined_views_free frees them. */
void engined_views_fill(const struct bp_graph_data *graph, struct engined_views *to);
void engined_views_free(struct engined_views *views);

/* Claims the nodes that rows run, as "claim=", "only=" and "refuse=" say. */
void engined_claim_all(const struct bp_graph_data *graph, struct bp_claim *out);

/* engined_device.c: whether the host may access the device's memory, whose work is done when its
 * call returns. */
bool engined_is_host(uint32_t device);

/* Memory of the device, of at least one byte. size 0: there is none. */
struct engined_block {
    struct bp_memory memory; /* data: NULL on BP_DEVICE_HANDLES, for offset 0 */
    uint64_t size;
};
enum bp_status engined_block_make(uint32_t device, uint64_t size, struct engined_block *out);
void engined_block_free(uint32_t device, struct engined_block *block);

/* Copy between the host and the device, and wait. */
enum bp_status engined_write(uint32_t device, const struct engined_block *block, uint64_t at,
                             const void *from, uint64_t size);
enum bp_status engined_read(uint32_t device, const void *memory, const void *data, void *to,
                            uint64_t size);

/* In the order of the run's stream: copies the bytes of one view to another; changes an element of
 * a view of f32, by a function of the host. */
enum bp_status engined_copy(const struct bp_engine_run *run, const struct bp_view *to,
                            const struct bp_view *from, uint64_t size);
enum bp_status engined_change(const struct bp_engine_run *run, const struct bp_view *v, int64_t i,
                              void (*change)(float *element));

/* The bytes of an element. */
size_t engined_size(uint32_t dtype);

/* engined_state.c: the copies of a group's inputs, which views describe; NULL: there are none.
 * updated: of each value: whether the group updates it. */
struct engined_state;
enum bp_status engined_state_create(const struct bp_engine_compile *compile, const bool *updated,
                                    const struct bp_view *view, struct engined_state **out);
void engined_state_destroy(struct engined_state *state);
/* Before a run: makes copies, and sets `in` to them. After each begin: copies back. Returns the
 * status of the run, or of the copies. */
enum bp_status engined_state_begin(struct engined_state *state, const struct bp_engine_run *run,
                                   struct bp_view *in);
enum bp_status engined_state_end(struct engined_state *state, const struct bp_engine_run *run,
                                 enum bp_status status);

/* Whether runs leave an updated input in the copy; and what the callback state does. */
bool engined_state_keeps(const struct engined_state *state, uint32_t input);
enum bp_status engined_state_call(void *self, struct engined_state *state, uint32_t input,
                                  uint32_t forget, const struct bp_view *view, void *stream);

/* engined_defect.c: does what run=NAME says, at the end of a run. */
void engined_defect(const struct bp_engine_run *run);

/* engined_rows.c: one node that is ready to run. Views have the shapes of the group's values. */
struct engined_node {
    const struct bp_kernel *row; /* NULL: copies its input */
    struct bp_plan plan;
    void *attrs; /* a copy */
    const uint16_t *in_at, *out_at;
    uint32_t *in, *out; /* numbers of values */
    uint32_t n_in, n_out;
};

/* The value that output o of a node updates; BP_DATA_NONE: none. */
uint32_t engined_updated(const struct bp_data_node *node, uint32_t o);

/* Fills the operators that some row computes, and returns how many there are. */
size_t engined_known(const struct bp_engine_op **out_known);

/* Finds the row that runs a node with these views of all values. false: there is none. plan NULL:
 * only looks whether there is one. */
bool engined_find(const struct bp_graph_data *graph, uint32_t node, const struct bp_view *view,
                  uint32_t device, uint32_t width, const struct bp_kernel **out_row,
                  struct bp_plan *plan);

#endif
