/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h: declares schedules: a graph that is compiled for a device, as a flat list of launches
 * whose kernels, types and memory are chosen in advance. */
#ifndef BP_SCHEDULE_H
#define BP_SCHEDULE_H

#include "../call/prepared.h"
#include "ir.h"

#include <backplane/program.h>

/* settings.c: whether a list of words that are separated by commas, or NULL, has this word; whether
 * BP_VALIDATE has it: "passes", "passes-values", "rewrite", "order", "arena" or "formats". */
bool bp_setting_has(const char *list, const char *word, size_t n);
bool bp_compile_checks(const char *word);
/* Creates a stream for work during a compilation: inline if the device has inline streams. */
enum bp_status bp_compile_stream(struct bp_device *device, struct bp_stream **out_stream);

/* The memory that a value lies in. */
enum bp_memory_source {
    BP_SOURCE_ARENA,    /* memory of the run, which values with separate lifetimes share */
    BP_SOURCE_INPUT,    /* the tensor of graph input `index` */
    BP_SOURCE_CONSTANT, /* the tensor of the IR's value `index` */
    BP_SOURCE_SHAPE,    /* none: launches read only the shape */
    BP_SOURCE_RESULT    /* tensor `index` of those that a run returns or writes */
};

/* A value of the IR, a temporary between the launches of one call, or a workspace. A value that
 * is a view, or an updated input, lies in the memory of another one, its root. */
struct bp_scheduled_value {
    struct bp_typed_view type; /* of a constant with its address, and of a view of one */
    uint32_t root;             /* the value's own number if it has memory */
    uint64_t offset;           /* bytes from the root's first element */
    /* of a root: */
    uint32_t source, index;     /* enum bp_memory_source */
    uint64_t bytes, alignment;
    uint32_t first, last;       /* the launches that write it first and use it last */
    uint64_t at;                /* its offset in the arena */
    uint64_t guard;             /* the last of its bytes in the arena, which nothing may write */
    bool written;               /* an input or constant that launches update */
    uint32_t n_update;          /* of a constant: updated constants in the same buffer */
    bool is_joined;             /* concats read slices of it, also after others have been read */
};

/* One launch: a step of a prepared call. */
struct bp_scheduled_launch {
    struct bp_prepared *prepared; /* a reference */
    const struct bp_step *step;
    uint32_t node;                /* of the IR, for messages */
    uint32_t *value;              /* the inputs, then the outputs: numbers of values; BP_NO_VALUE:
                                     absent */
    uint32_t workspace;           /* a value, or BP_NO_VALUE */
    bool tuned;                   /* the row was chosen by its measured time */
    bool is_special;              /* a fallback step, which is counted, or one without a kernel */
    uint64_t bytes;               /* that a fallback step writes */
    uint64_t random_at;           /* its first block of random numbers, of those of the run */
};

/* The memory of one run at a time: views and launches with their addresses. */
struct bp_schedule_context;

/* A compiled graph. It does not change, apart from its users and its list of idle contexts. */
struct bp_schedule {
    _Atomic uint32_t refs;        /* the program's, and one for each task of a queue */
    struct bp_ir *ir;             /* owned */
    struct bp_device *device;     /* its owner keeps it alive */
    struct bp_scheduled_value **value;
    struct bp_scheduled_launch *launch;
    uint32_t n_value, n_launch;
    uint32_t n_engine; /* launches that engines run */
    uint32_t n_kept;    /* of their inputs: those whose contents engines keep */
    uint32_t n_content; /* inputs of those among them whose engines get rows of bp_content */
    uint32_t *input, *output; /* the values of the graph's inputs and outputs */
    uint32_t *result;   /* the roots of source BP_SOURCE_RESULT */
    uint32_t *update;   /* the inputs and constants that launches update: roots */
    uint32_t *constant; /* the constants of the IR: roots */
    uint32_t n_result, n_update, n_constant;
    uint64_t arena, alignment; /* of the arena: bytes, and the alignment of its first byte */
    uint64_t unplanned;        /* bytes of all values in the arena, if none shared memory */
    bool has_guards;           /* values in the arena have bytes behind them that are checked */

    pthread_mutex_t lock; /* guards the following */
    struct bp_users users; /* the last work on each stream that is not inline */
    struct bp_schedule_context *idle;
    uint32_t n_idle;
    struct bp_shrinker shrinker; /* frees the idle contexts when memory runs out */
};

/* lower.c: compiles an IR for dense inputs that are not frozen, and takes the IR over, also if it
 * fails. BP_ERR_UNSUPPORTED: a node cannot be scheduled (an extent depends on data, or another
 * device runs it and bp_launch_other cannot); any failure of preparing a node is returned too.
 * tuner chooses kernel rows; or NULL. */
struct bp_tuner;
enum bp_status bp_schedule_create(struct bp_ir *ir, struct bp_tuner *tuner,
                                  struct bp_schedule **out_schedule);

/* schedule.c. Destroys the schedule of a program, NULL is allowed. Never blocks: what the work on
 * streams uses is freed when that work has ended. */
void bp_schedule_destroy(struct bp_schedule *schedule);
/* Drops the reference of a task. */
void bp_schedule_release(struct bp_schedule *schedule);
/* Records that work `number` of a timeline launches from the schedule, or from a recording of it.
 * Does nothing for an inline timeline. */
void bp_schedule_add_user(struct bp_schedule *schedule, struct bp_timeline *timeline,
                          uint64_t number);

/* arena.c: finds the lifetimes of the values, and offsets in the arena for those that lie there. */
enum bp_status bp_schedule_plan_memory(struct bp_schedule *schedule);

/* context.c. A context belongs to one run at a time; its views of inputs and results have no
 * addresses until bp_context_bind. Contexts of inline streams keep their arenas, which all these
 * streams may use. The arena of another stream is allocated for the run and freed when the launches
 * were submitted: later work of that stream may reuse the memory. */
struct bp_context_patch {
    uint32_t value, root; /* numbers of values */
    uint64_t offset;      /* from the root's first element */
};
struct bp_schedule_context {
    struct bp_schedule_context *next;
    _Atomic uint32_t refs;   /* the caller's of a run, and the task's of a queue */
    struct bp_buffer *arena; /* a reference, or NULL: no value lies in it, or no run has it */
    struct bp_address placed; /* the arena that the views have addresses of */
    bool is_placed;
    bool fills_arena;        /* before each run, with bytes that are NaN in every float dtype; and
                                guards.c checks the bytes behind values */
    struct bp_timeline *timeline; /* of the stream that the launches are for */
    void *stream;                 /* the plugin's; a later stream may get the same timeline */
    struct bp_view *view;         /* of each value */
    struct bp_launch *launch;
    const struct bp_view **list;  /* the views of the launches' tensors */
    struct bp_context_patch *patch; /* values in the memory of inputs and results */
    uint32_t n_patch;
    struct bp_tensor **result; /* of the run: room for the schedule's results */
    struct bp_engine_context *engines; /* engine.h: those that only this context uses */
    struct bp_content *content; /* engine.h: n_content rows, which are attrs of launches; or NULL */
};

/* Takes an idle context or creates one, for a run on a timeline. BP_ERR_MEMORY: there is no memory
 * for its arena. */
enum bp_status bp_context_take(struct bp_schedule *schedule, struct bp_timeline *timeline,
                               struct bp_schedule_context **out);
/* Frees the arena of a run on a timeline that is not inline, when its launches were submitted. */
void bp_context_leave_arena(struct bp_schedule_context *context,
                            const struct bp_timeline *timeline);
/* Drops a reference. After the last one the context is idle; few are kept. */
void bp_context_put(struct bp_schedule *schedule, struct bp_schedule_context *context);
/* Frees the idle contexts. Returns whether there were any. */
bool bp_context_free_idle(struct bp_schedule *schedule);

/* Sets the addresses of the run: of the inputs, of context->result, and the stream. */
void bp_context_bind(const struct bp_schedule *schedule, struct bp_schedule_context *context,
                     struct bp_timeline *timeline, struct bp_tensor *const *in);

/* guards.c, for BP_VALIDATE=arena on a device whose memory the host reaches when a launch has
 * returned: fills the bytes behind the outputs and the workspace of launch n, and checks after the
 * launch that they are unchanged. The values have such bytes if bp_guards_wanted when the program
 * was compiled. */
bool bp_guards_wanted(const struct bp_device *device);
void bp_guards_fill(const struct bp_schedule *schedule, const struct bp_schedule_context *context,
                    uint32_t n);
enum bp_status bp_guards_check(const struct bp_schedule *schedule,
                               const struct bp_schedule_context *context, uint32_t n);

/* A function of the app that sees each launch of a run; watcher NULL: none. */
struct bp_schedule_watch {
    bp_program_watcher *watcher;
    void *ctx;
    struct bp_program *program;
};

/* launch_all.c: launches everything: now on an inline stream, otherwise in the order of the stream.
 * A failure names the node. Nothing has been launched if a push into the stream's queue fails. */
enum bp_status bp_schedule_launch(struct bp_schedule *schedule,
                                  struct bp_schedule_context *context, struct bp_stream *stream,
                                  const struct bp_schedule_watch *watch);

/* launch_info.c: describes launch number n of a schedule, except its size. */
void bp_schedule_describe(const struct bp_schedule *schedule, uint32_t n,
                          struct bp_launch_info *out);
/* Describes value k of the values of a launch: its inputs, then its outputs. */
void bp_schedule_operand(const struct bp_schedule *schedule, uint32_t n, uint32_t k,
                         struct bp_operand_info *out);
/* Bytes of the constants that launches read, and of those among them that the compiler made. */
void bp_schedule_constants(const struct bp_schedule *schedule, uint64_t *out_bytes,
                           uint64_t *out_folded);

/* launch_other.c: whether a step without a kernel can be a launch on the device: the host reaches
 * its memory, and work is done when its call returns. in, out: those of a step of the core. And
 * runs it. */
bool bp_launch_other_can(const struct bp_device *device, const struct bp_step *step,
                         const struct bp_view *in, const struct bp_view *out);
enum bp_status bp_launch_other(struct bp_device *device, const struct bp_scheduled_launch *from,
                               const struct bp_launch *launch);

/* launch_flops.c: the floating-point operations of a launch of this operator, or 0: not known. */
uint64_t bp_launch_flops(const struct bp_opdef *row, const void *attrs,
                         const struct bp_view *const *in, uint32_t n_in,
                         const struct bp_view *const *out);

#endif
