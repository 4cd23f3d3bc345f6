/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: runs a command in a child process with a deadline and limits, and says how it ended.
 * What a plugin does to its process (a crash, a hang, an exit, endless output) costs its caller one
 * line.
 *
 * Used by `bp doctor`, `bp list --probe` and `bp conform`. */
#ifndef BP_CHILD_H
#define BP_CHILD_H

#include <stddef.h>
#include <stdint.h>

struct bp_child {
    const char *const *argv; /* ends with NULL; argv[0] is an absolute path */
    const char *const *env;  /* ends with NULL: "NAME=value" on top of our own; or NULL */
    uint64_t timeout_ns;     /* 0: none */
    size_t output_max;       /* bytes of output and error together; 0: 1 MiB. More ends it */
    uint64_t cpu_s;          /* processor seconds; 0: no limit */

    /* The child may write to file descriptor BP_CHILD_REPORT, apart from its output. Each line of
     * that is given here, without its newline, while the child runs; a last line without one too,
     * so a child that died while it wrote may leave half a line. More than 16 MiB of one line ends
     * it. NULL: the descriptor is not open. */
    void (*report)(void *ctx, const char *line);
    void *ctx;
};
enum { BP_CHILD_REPORT = 3 };

enum bp_child_end {
    BP_CHILD_EXITED,    /* code: exit status */
    BP_CHILD_SIGNALLED, /* code: signal */
    BP_CHILD_TIMEOUT,   /* killed at the deadline (code 0), or out of processor time (SIGXCPU) */
    BP_CHILD_OUTPUT,    /* killed for writing too much */
    BP_CHILD_NOT_RUN,   /* could not be started; code: errno */
};

struct bp_child_result {
    enum bp_child_end end;
    int code;
    double seconds;
    char *output; /* standard output and error as they came, at most output_max; ends with 0 */
    size_t output_size;

    /* Processes that the child left behind, which did not end by themselves soon after it; and the
     * name of one of them. They have been killed. */
    uint32_t left;
    char left_name[32];
};

/* Runs it to its end. It is the leader of a process group of its own, its standard input is empty,
 * and it gets no descriptor but 0 to 2 and the report. When this returns it has been killed, and so
 * have all processes that it or its children started, whatever group or session they went to. They
 * are killed, too, when the calling thread ends meanwhile, even by a SIGKILL of this process. A
 * killed process that is stuck in a driver is waited for 10 s at most, then left behind. Always
 * fills result, which bp_child_finish empties.
 *
 * No other thread of the caller needs to be quiet. */
void bp_child_run(const struct bp_child *child, struct bp_child_result *out_result);
void bp_child_finish(struct bp_child_result *result);

/* "exit status 3", "killed by signal 11 (Segmentation fault)", "no end after 10.0 s", ... */
void bp_child_describe(const struct bp_child_result *result, char *text, size_t size);

#endif
