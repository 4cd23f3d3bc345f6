/* SPDX-License-Identifier: Apache-2.0 */
/* harness.h: drives a plugin without a core: a host of its own, launches by hand, and TAP lines. So
 * that a sanitizer sees the plugin alone, and so that a test may break what a core would refuse. */
#ifndef HARNESS_H
#define HARNESS_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>

/* One instance of the plugin, its tables, and the host that it was given. */
struct harness {
    const struct bp_plugin *plugin;
    const struct bp_runtime *runtime;
    struct bp_host host;
    void *self;
    atomic_int live;        /* blocks of host memory that the plugin holds */
    atomic_bool no_memory;  /* the host has none */
};

/* Opens the library; ends the program with a message if it cannot. */
const struct bp_plugin *harness_open(const char *path);

void harness_init(struct harness *h, const struct bp_plugin *plugin);
void harness_finish(struct harness *h); /* checks that live is 0 */

/* The text of the last failure on this thread; "" after harness_clear. */
const char *harness_message(void);
void harness_clear(void);

/* A tensor of f32 on the device; view.shape and view.stride point into it. */
enum { HARNESS_RANK = 9 };
struct tensor {
    struct bp_memory memory;
    int64_t shape[HARNESS_RANK], stride[HARNESS_RANK];
    struct bp_view view;
};

/* Row-major, with new memory. shape ends with -1. */
void tensor_init(struct tensor *t, struct harness *h, const int64_t *shape);
void tensor_finish(struct tensor *t, struct harness *h);
void tensor_write(struct tensor *t, struct harness *h, const float *from);
void tensor_read(struct tensor *t, struct harness *h,
                 float *to); /* all of its memory, count elements */

/* Launches row name with views of in (one or two) and out. attrs as the row wants them. */
enum bp_status harness_launch(struct harness *h, const char *name, const void *attrs,
                              struct tensor *out, struct tensor *in0, struct tensor *in1);

/* One TAP line. Failures add their place; harness_end prints the plan and is main's answer. */
#define CHECK(condition) harness_check((condition), #condition, __FILE__, __LINE__)
bool harness_check(bool good, const char *text, const char *file, int line);
void harness_test(const char *name, void (*test)(struct harness *h),
                  const struct bp_plugin *plugin);
int harness_end(void);

/* The signal that ends a child which runs test on an instance of its own; 0: none did. */
int harness_death(const struct bp_plugin *plugin, void (*test)(struct harness *h));

#endif
