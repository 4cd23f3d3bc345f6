/* SPDX-License-Identifier: Apache-2.0 */
/* harness.h: drives a plugin without a core: with its own host table, hand-written launches, and
 * TAP lines. A sanitizer then checks only the plugin, and a test may break rules that a core would
 * enforce. */
#ifndef HARNESS_H
#define HARNESS_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>

/* One instance of the plugin, its tables, and the host table that it received. */
struct harness {
    const struct bp_plugin *plugin;
    const struct bp_runtime *runtime;
    struct bp_host host;
    void *self;
    atomic_int live;        /* blocks of host memory that the plugin holds */
    atomic_bool no_memory;  /* host allocations fail */
};

/* Opens the library; exits with a message if that fails. */
const struct bp_plugin *harness_open(const char *path);

void harness_init(struct harness *h, const struct bp_plugin *plugin);
void harness_finish(struct harness *h); /* checks that live is 0 */

/* Returns the text of the last failure on this thread; "" after harness_clear. */
const char *harness_message(void);
void harness_clear(void);

/* A tensor of f32 on the device; view.shape and view.stride point into the struct. */
enum { HARNESS_RANK = 9 };
struct tensor {
    struct bp_memory memory;
    int64_t shape[HARNESS_RANK], stride[HARNESS_RANK];
    struct bp_view view;
};

/* Creates a row-major tensor with new memory. shape ends with -1. */
void tensor_init(struct tensor *t, struct harness *h, const int64_t *shape);
void tensor_finish(struct tensor *t, struct harness *h);
void tensor_write(struct tensor *t, struct harness *h, const float *from);
void tensor_read(struct tensor *t, struct harness *h,
                 float *to); /* all of its memory, count elements */

/* Launches kernel row `name` with views of in0, in1 (may be NULL) and out. attrs: the struct that
 * the row expects. */
enum bp_status harness_launch(struct harness *h, const char *name, const void *attrs,
                              struct tensor *out, struct tensor *in0, struct tensor *in1);

/* A test prints one TAP line. A failed CHECK prints its file and line; harness_end prints the plan
 * and returns main's exit status. */
#define CHECK(condition) harness_check((condition), #condition, __FILE__, __LINE__)
bool harness_check(bool good, const char *text, const char *file, int line);
void harness_test(const char *name, void (*test)(struct harness *h),
                  const struct bp_plugin *plugin);
int harness_end(void);

/* Runs test in a child process, on a new instance. Returns the signal that ended the child;
 * 0: none. */
int harness_death(const struct bp_plugin *plugin, void (*test)(struct harness *h));

#endif
