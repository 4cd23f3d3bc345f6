/* SPDX-License-Identifier: Apache-2.0 */
/* child.h: runs a command in a child process with a deadline and limits, and reports how it ended.
 * A plugin that crashes, hangs, exits or writes endless output in the child costs the caller one
 * line of its report.
 *
 * Used by `bp doctor`, `bp list --probe` and `bp conform`. */
#ifndef BP_CHILD_H
#define BP_CHILD_H

#include <stddef.h>
#include <stdint.h>

struct bp_child {
    const char *const *argv; /* ends with NULL; argv[0] is an absolute path */
    const char *const *env;  /* ends with NULL: "NAME=value", added to the caller's; or NULL */
    uint64_t timeout_ns;     /* 0: none */
    size_t output_max;       /* standard output and error together; 0: 1 MiB. More ends the child */
    uint64_t cpu_s;          /* processor seconds; 0: no limit */

    /* The child may write to file descriptor BP_CHILD_REPORT, separately from its output. Each line
     * is passed to this callback, without its newline, while the child runs. A last line without a
     * newline is passed too, so a child that died while it wrote may leave half a line. A line of
     * more than 16 MiB ends the child. NULL: the descriptor is not open. */
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
    char *output; /* standard output and error as received, at most output_max bytes; ends with 0 */
    size_t output_size;

    /* Processes that the child left behind and that did not end by themselves within a short time;
     * they have been killed. The name is that of one of them. */
    uint32_t left;
    char left_name[32];
};

/* Runs the child until it ends. The child is the leader of its own process group, its standard
 * input is empty, and its only open descriptors are 0 to 2 and the report. When this function
 * returns, the child has been killed, and so have all processes that it or its children started, in
 * any group or session. They are also killed if the calling thread ends meanwhile, even by a
 * SIGKILL of this process. The function waits at most 10 s for a killed process that is stuck in a
 * driver, and then leaves it behind. Always fills out_result, which bp_child_finish empties.
 *
 * Other threads of the caller may run meanwhile. */
void bp_child_run(const struct bp_child *child, struct bp_child_result *out_result);
void bp_child_finish(struct bp_child_result *result);

/* Formats the result: "exit status 3", "killed by signal 11 (Segmentation fault)", "no end after
 * 10.0 s", ... */
void bp_child_describe(const struct bp_child_result *result, char *text, size_t size);

#endif
