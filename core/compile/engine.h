/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: declares engines of plugins inside the compiler: nodes that an engine claims become
 * groups, and a group that the engine compiles becomes one node, which runs as one launch. */
#ifndef BP_COMPILE_ENGINE_H
#define BP_COMPILE_ENGINE_H

#include "../call/prepared.h"
#include "../memory/writeback.h"
#include "graph_data.h"

#include <backplane/program.h>

/* The operator of nodes that an engine runs: any number of inputs and of outputs. It is in no
 * table: such a node is neither recorded nor saved. */
extern struct bp_opdef bp_engine_row;
static inline bool bp_engine_is_row(const struct bp_opdef *row)
{
    return row == &bp_engine_row;
}

/* ---- reports ---- */

/* The result for one group. */
struct bp_engine_group {
    const char *engine; /* the name of the plugin */
    char *name;         /* of its last node */
    uint32_t n_node;
    bool compiled;
    char *text; /* the engine's note, or why kernels run the nodes; or NULL */
    uint32_t origin; /* enum bp_group_origin */

    /* Of a group that was compiled, numbers of the IR: the node that runs it, the nodes that it
     * replaces, and the values that it read when it was compiled. */
    uint32_t node;
    uint32_t *replaced, *in; /* owned */
};

/* The results of the engines for one graph. */
struct bp_engine_report {
    char *failure; /* why an engine has claimed nothing, or NULL */
    struct bp_engine_group *group;
    uint32_t n_group;
    const char **left; /* of each node of the IR before the pass: why it is in no group, as constant
                          text; NULL: it is in one */
    uint32_t n_left;
};
void bp_engine_report_destroy(struct bp_engine_report *report);

/* ---- engine_claim.c, engine_partition.c ---- */

/* A group of nodes that an engine has claimed. */
struct bp_claimed_group {
    struct bp_plugin_entry *entry; /* of the engine */
    double score;
    uint32_t first, n; /* its nodes in bp_claimed.order */
};

/* The nodes of a graph by groups, none of which depends on its own results. */
struct bp_claimed {
    const struct bp_graph_copy *graph;
    uint32_t *group;     /* of each node: 0, or the number of its group, from 1 */
    const char **reason; /* of each node in no group: constant text */
    uint32_t *order;     /* the nodes in an order of execution in which groups are contiguous */
    bool reordered;      /* it is not that of the graph */
    struct bp_claimed_group *list;
    uint32_t n_list, room_list;
    char *failure; /* the messages of engines that claim nothing because of a failure, or NULL */
};

/* Lists the plugins whose engines serve the device, in an array that the caller frees: the device's
 * plugin and its add-ons, those of the highest priority first. */
enum bp_status bp_engine_entries(const struct bp_ir *ir, struct bp_plugin_entry ***out_list,
                                 uint32_t *out_n);

/* Requests the claims of the engines. An engine that fails claims nothing. */
enum bp_status bp_claimed_create(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                 struct bp_plugin_entry *const *entry, uint32_t n_entry,
                                 struct bp_claimed *out_claimed);
void bp_claimed_finish(struct bp_claimed *claimed);

/* Removes from the groups views of memory outside the group whose results are read outside. Splits
 * groups so that no group depends on its own results, and finds an order in which each group is
 * contiguous. */
enum bp_status bp_claimed_partition(const struct bp_ir *ir, struct bp_claimed *claimed);

/* Returns why a node cannot be in a group of the engine, or NULL. */
struct bp_updates;
const char *bp_claim_refusal(const struct bp_ir *ir, const struct bp_graph_copy *graph, uint32_t n,
                             const struct bp_updates *updates, const struct bp_plugin_entry *entry);
/* Whether the engine of a device claims the only node of the graph of a call: BP_ERR_UNSUPPORTED,
 * with the reason: no. allow: as struct bp_prep has it. */
enum bp_status bp_engine_claims_call(struct bp_device *device, uint32_t allow,
                                     const struct bp_graph_copy *graph);

/* ---- engine_updates.c ---- */

/* Of each root of the IR whose memory the graph updates: why nodes that use the memory are in no
 * group, as constant text; NULL: they may be in one. */
struct bp_updates {
    const char **why;
};
enum bp_status bp_updates_create(const struct bp_ir *ir, struct bp_updates *out_updates);
void bp_updates_finish(struct bp_updates *updates);

/* Returns why updates keep node n of the IR out of groups of an engine, or NULL. */
const char *bp_updates_refuse(const struct bp_updates *updates, const struct bp_ir *ir,
                              const struct bp_plugin_entry *entry, uint32_t n);

/* Takes the nodes that use updated memory out of their groups if nodes that are not in the same
 * group use that memory too. */
enum bp_status bp_updates_drop(const struct bp_ir *ir, struct bp_claimed *claimed,
                               bool *out_dropped);
/* Whether there are no such nodes for one group, whose nodes of the IR are listed. */
enum bp_status bp_updates_check_list(const struct bp_ir *ir, const uint32_t *nodes, uint32_t n,
                                     bool *out_good);

/* ---- engine_group.c ---- */

/* The bytes that an engine saved of an equal group. */
struct bp_engine_blob {
    const void *bytes;
    uint64_t n;
    const uint8_t *hash; /* of the group's graph: bp_graph_data.hash */
};

/* Compiles a group of n nodes, which are contiguous in the order of execution, into one node, and
 * fills the report apart from `engine`, `name` and `n_node`. blob: NULL: there is none. A failure
 * has a message and leaves the IR as it was. */
enum bp_status bp_engine_make_group(struct bp_ir *ir, struct bp_plugin_entry *entry,
                                    const uint32_t *nodes, uint32_t n,
                                    const struct bp_engine_blob *blob, struct bp_engine_group *to);

/* ---- engine_info.c ---- */

/* The flags for the program that is compiled: enum bp_engine_flags. */
uint32_t bp_engine_flags_of(const struct bp_ir *ir);
/* The same for a call. allow: as struct bp_prep has it. */
uint32_t bp_engine_flags_of_call(uint32_t allow);

/* Makes a type like `of` in a layout of enum bp_engine_layout, which is not BP_ENGINE_ANY. */
void bp_engine_strides(struct bp_typed_view *to, const struct bp_view *of, uint32_t layout);
/* Makes the type of output o of a compiled group, in the layout that the engine writes. */
void bp_engine_type(const struct bp_prepared *prepared, uint32_t o, struct bp_typed_view *type);

/* Marks the memory that a node of an engine updates. */
void bp_engine_find_updates(struct bp_ir *ir, uint32_t node);

/* ---- engine_refit.c ---- */

/* The groups that engines compiled for another program: references to their calls. */
struct bp_engine_donors {
    struct bp_prepared **group;
    uint32_t n;
};
struct bp_schedule;
enum bp_status bp_engine_donors_create(const struct bp_schedule *schedule,
                                       struct bp_engine_donors **out_donors);
void bp_engine_donors_destroy(struct bp_engine_donors *donors);

/* Returns a group of the donors of the IR that differs from a graph in the contents of frozen
 * constants only, and that the engine of `entry` compiled under the same flags; or NULL. Of
 * several, that with the fewest differences. */
struct bp_prepared *bp_engine_donor_find(const struct bp_ir *ir,
                                         const struct bp_plugin_entry *entry,
                                         const struct bp_graph_copy *graph);
/* Counts the frozen constants of a graph whose contents are not those of the group, and lists their
 * numbers (NULL: only counts). */
struct bp_engine_code;
uint32_t bp_engine_changed(const struct bp_engine_code *code, const struct bp_graph_copy *graph,
                           uint32_t *list);

/* ---- engine_compile.c ---- */

/* Compiles a group on a thread of its own, and returns a call with one step that runs the group.
 * Takes over the graph. With a blob or a donor (NULL: none) that the engine cannot use it compiles
 * the group without. A failure has a message; kernels run the nodes. */
enum bp_status bp_engine_compile_group(const struct bp_ir *ir, struct bp_plugin_entry *entry,
                                       struct bp_graph_copy *graph,
                                       const struct bp_engine_blob *blob,
                                       struct bp_prepared *donor,
                                       struct bp_prepared **out_prepared, uint32_t *out_origin);

/* The same for the graph of a call: returns the plan, which is the code. Its run does not read
 * frozen constants apart from inputs. */
struct bp_engine_code;
enum bp_status bp_engine_compile_call(struct bp_device *device, uint32_t allow,
                                      struct bp_graph_copy *graph,
                                      struct bp_engine_code **out_code, struct bp_plan *out_plan);

/* ---- engine_run.c ---- */

/* A context of the plugin, for one run at a time: one for each context of a schedule on an inline
 * device, and for each timeline of another device. It is the plan of a launch. */
struct bp_engine_code;
struct bp_engine_context {
    struct bp_engine_code *code;
    void *context;                /* the plugin's, or NULL */
    struct bp_timeline *timeline; /* that uses it, of a device that is not inline */
    void *stream;                 /* of a call, on such a device: that uses it */
    bool taken;                   /* by a context of a schedule, or by a call that runs */
    struct bp_engine_context *next;          /* of the code */
    struct bp_engine_context *next_of_owner; /* of the context of a schedule */
};

/* An input that the engine keeps: a constant of the only program that has the group. The program
 * has a reference to the tensor. */
struct bp_kept {
    uint32_t input;
    struct bp_buffer *buffer;
    uint64_t first, end; /* its bytes in the buffer */
    struct bp_typed_view type; /* with its address */
};

/* A compiled group: the plan of its call. */
struct bp_engine_code {
    struct bp_kernel kernel; /* the row of the launch */
    char name[80];
    const struct bp_engines *engines;
    struct bp_plugin_entry *entry; /* of the engine */
    struct bp_device *device;      /* its owner keeps it alive */
    void *engine;                  /* the plugin's */
    uint16_t *in_layout, *out_layout; /* enum bp_engine_layout: owned, as may_share */
    int32_t *may_share;
    uint32_t n_in, n_out, width;
    uint64_t workspace, workspace_alignment; /* that each run needs */
    char *note; /* or NULL */
    uint8_t hash[32];    /* of the group's graph */
    uint16_t *call_at; /* of a call: for each input and output of the graph its number in the lists
                          of the launch: owned; NULL: they are those lists */
    struct bp_engine_code *next_call; /* of a call: in the list of its row (plugin/engine_rows.h) */
    struct bp_graph_copy *graph;      /* of a call: owned */
    uint32_t refs;                    /* of a call: plans that are this */
    uint32_t allow, flags;            /* what the program allows; enum bp_engine_flags */
    bool *updates; /* of a group: whether it updates each input; owned; NULL: it updates none */
    uint64_t *id;                     /* of a group: the identity of the contents of each value of
                                         the graph, 0: not frozen, or unknown; owned */
    struct bp_engine_code *variant;   /* of a call: the same for other values of attributes that a
                                         run may change, the last one that was made first */
    uint32_t running;                 /* of a variant: runs that are being submitted */

    struct bp_prepared *prepared; /* of a group: its call, without a reference */
    uint32_t *keeps;              /* of a group: bp_engine_compiled.keeps, if it is not 0: owned */
    struct bp_keeper keeper;      /* with keeps */
    struct bp_kept *kept;         /* owned, as user */
    uint32_t n_kept, n_user;

    pthread_mutex_t lock;              /* guards all below */
    pthread_cond_t turn;               /* a submission or `giving` has ended */
    uint32_t submitting;               /* runs that are being submitted, of a code with keeps */
    bool giving;                       /* a thread calls `state`: no run begins */
    struct bp_user *user;              /* runs that may not have ended: the last of a timeline */
    struct bp_engine_context *context; /* all of them */
    struct bp_engine_context plain;    /* for runs without a context of the plugin */
};

/* engine_content.c: makes the engines of a schedule's launches get the rows of a context. */
struct bp_schedule;
struct bp_schedule_context;
enum bp_status bp_content_allocate(const struct bp_schedule *schedule,
                                   struct bp_schedule_context *c);
/* Fills the rows for a run with these inputs. Called in the order of the calls of the app. */
struct bp_timeline;
void bp_content_fill(const struct bp_schedule *schedule, struct bp_schedule_context *c,
                     const struct bp_timeline *timeline, struct bp_tensor *const *in);
/* Rows for runs of which nothing is known: for as many inputs as a launch can have. */
extern const struct bp_content bp_content_unknown[];

/* The run of a group with the tensors of a launch, without a context. */
static inline struct bp_engine_run bp_engine_run_of(const struct bp_engine_code *code,
                                                    const struct bp_launch *l,
                                                    const struct bp_content *content)
{
    return (struct bp_engine_run){
        .self = l->self,
        .engine = code->engine,
        .stream = l->stream,
        .in = l->in,
        .out = l->out,
        .n_in = l->n_in,
        .n_out = l->n_out,
        .workspace = l->workspace,
        .workspace_memory = l->workspace_memory,
        .workspace_size = l->workspace_size,
        .fault = l->fault,
        .tag = l->tag,
        .device = l->device,
        .width = l->width,
        .content = content,
    };
}

/* Returns the compiled group of a call, or NULL. */
static inline struct bp_engine_code *bp_engine_code_of(const struct bp_prepared *p)
{
    return bp_engine_is_row(p->row) ? p->step->plan.plan : NULL;
}

/* Fills the row, and all that does not depend on the engine's result. */
void bp_engine_code_init(struct bp_engine_code *code, struct bp_plugin_entry *entry,
                         struct bp_device *device);

/* Makes one plan more of a code, whose memory is counted already. */
static inline void bp_engine_code_plan(struct bp_engine_code *code, struct bp_plan *out)
{
    *out = (struct bp_plan){.size = sizeof *out,
                            .plan = code,
                            .workspace = code->workspace,
                            .workspace_alignment = code->workspace_alignment};
}
/* Destroys the code of a call, or of a group. All launches have ended. */
void bp_engine_code_destroy(void *self, const struct bp_kernel *kernel, void *code);

/* Takes a context for one run of a call on a stream of the plugin, and returns it after the run. A
 * stream of a device that is not inline keeps its context: its runs follow each other. */
enum bp_status bp_engine_context_take(struct bp_engine_code *code, void *stream,
                                      struct bp_engine_context **out_context);
void bp_engine_context_return(struct bp_engine_context *context);

/* ---- engine_state.c ---- */

/* Makes an input of a group a kept one. */
enum bp_status bp_state_add(struct bp_engine_code *code, uint32_t input, struct bp_tensor *tensor);
void bp_state_finish(struct bp_engine_code *code);

/* After a run of a group that keeps values: writes those of tensors whose address the app has. */
enum bp_status bp_state_write_through(const struct bp_engine_code *code,
                                      const struct bp_launch *launch);

/* A run of a schedule, for which engines keep values. enter makes sure that the memory of all
 * tensors that launches read has the contents, apart from what the schedule's own groups keep.
 * begin and end surround the submission of the launches. */
struct bp_state_run {
    const struct bp_schedule *schedule;
    bool counted;
    struct bp_state_run *outer; /* of the same thread */
};
enum bp_status bp_state_enter(const struct bp_schedule *schedule, struct bp_tensor *const *in,
                              struct bp_tensor *const *out);
void bp_state_begin(const struct bp_schedule *schedule, bool waits_for_queue,
                    struct bp_state_run *run);
void bp_state_end(struct bp_state_run *run, struct bp_timeline *timeline);

/* Before a schedule is destroyed: writes all that its groups keep. Waits. Values that cannot be
 * written now are written when something needs them. */
void bp_state_leave(const struct bp_schedule *schedule);

/* ---- engine_run.c, engine_content.c ---- */

/* Gives contexts of the plugin to the launches of a schedule's context that engines run. */
struct bp_schedule;
struct bp_schedule_context;
enum bp_status bp_engine_bind(const struct bp_schedule *schedule, struct bp_schedule_context *c,
                              struct bp_timeline *timeline);
/* Returns the contexts of the plugin. */
void bp_engine_unbind(struct bp_schedule_context *c);

#endif
