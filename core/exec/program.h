/* SPDX-License-Identifier: Apache-2.0 */
/* program.h: declares a program inside the core, and how it runs a schedule
 * (../compile/schedule.h) with the app's tensors. */
#ifndef BP_PROGRAM_PRIVATE_H
#define BP_PROGRAM_PRIVATE_H

#include "../compile/cancel.h"
#include "../compile/passes.h"
#include "capture.h"

struct bp_program {
    uint32_t magic;
    struct bp_graph *graph; /* a reference, as device. Unchanged while it has programs */
    struct bp_device *device;

    pthread_mutex_t lock;           /* guards all below */
    struct bp_capture *recording; /* NULL: no capture, and no tensors */
    struct bp_tensor **place;       /* of each input: the tensor that replays read */
    struct bp_tensor **result;      /* of each output: written by replays, or an input or
                                       constant */
    bool never;                     /* it cannot be captured */
    bool *written;                  /* of each value: it is a constant that replays write to */
    bool from_schedule;             /* the recording is one of the schedule */
    struct bp_timeline *last;       /* of the stream of the last run */
    uint64_t base;                  /* identifies that stream: its numbers begin here */
    uint64_t runs, replays;
    char why[512];
    struct bp_schedule *schedule;   /* NULL: not compiled yet, or it cannot be compiled */
    bool compiled, uncompilable;    /* the last run launched from the schedule; it has none */
    char why_not[512];              /* why the last run was not a compiled one */
    char uncompiled[512];           /* why there is no schedule, if uncompilable */
    enum bp_status failure;       /* of the compilation that `uncompiled` is about */
    struct bp_schedule_watch watch;
    uint32_t flags;                 /* enum bp_program_flags */
    struct bp_tuner *tuner;         /* during a compilation, or NULL */
    struct bp_cancel cancel;  /* not guarded by the lock */
    struct bp_engine_donors *donors; /* owned, until it is compiled: groups of another program; or
                                        NULL */
    char *cache;                    /* owned: the folder of files, or NULL */
    bool loaded;                    /* the schedule was made from a file */
    bool derived;                   /* the schedule was made from a template */
    char cached[512];               /* what happened to the file in the folder */
};

static inline bool bp_program_is(const struct bp_program *p)
{
    return bp_magic_is(p ? p->magic : 0, BP_MAGIC_PROGRAM);
}

/* program_seen.c: compiles the graph, unless that was tried before. A failure is no failure of the
 * call, so the thread's previous message is restored. Called with the program locked. */
void bp_program_make_schedule(struct bp_program *p);

/* program_kept.c: fills the options of the program's compilation. bp_program_take compiles from the
 * file in the cache folder, if there is one that fits; bp_program_keep writes that file. Both note
 * in `cached` what happened; a failure is no failure of the program. Called with the program
 * locked. */
enum bp_status bp_program_tuner_begin(struct bp_program *p);
void bp_program_tuner_end(struct bp_program *p);
struct bp_compile_options bp_program_compilation(const struct bp_program *p);
bool bp_program_take(struct bp_program *p);
void bp_program_keep(struct bp_program *p);

/* program_kept.c: begin and end the work that bp_program_cancel cancels. */
void bp_program_work_begin(struct bp_program *p);
void bp_program_work_end(struct bp_program *p);

/* program_kept.c: forgets the groups of another program. */
void bp_program_drop_donors(struct bp_program *p);

/* program_move.c: copies the elements of src to *dst. If *dst is NULL, it is created with the axis
 * order of src. */
enum bp_status bp_program_move(struct bp_stream *stream, struct bp_tensor *src,
                               struct bp_tensor **dst);

/* compiled_run.c. Whether a schedule can run with these tensors, which bp_graph_check has accepted:
 * the inputs have the types for which it was compiled, and no output or updated tensor overlaps
 * another tensor in a way that only a run node by node handles. */
bool bp_schedule_fits(const struct bp_schedule *schedule, const struct bp_stream *stream,
                      struct bp_tensor *const *in, struct bp_tensor *const *out);

/* Runs a schedule on a stream. out: as in bp_program_run; unchanged after a failure.
 * BP_ERR_MEMORY before the first launch sets *out_began to false: nothing has run. */
enum bp_status bp_schedule_run(struct bp_schedule *schedule,
                               const struct bp_schedule_watch *watch, struct bp_stream *stream,
                               struct bp_tensor *const *in, struct bp_tensor **out,
                               bool *out_began);

/* validate_passes.c, for BP_VALIDATE=passes-values: runs the graph as recorded and after each of
 * the n passes of a list with equal inputs. BP_ERR_INTERNAL: a pass changed the results; the
 * message names the pass. */
enum bp_status bp_passes_compare(const struct bp_graph *graph, struct bp_device *device,
                                 const struct bp_pass *list, uint32_t n);

#endif
