/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h: declares how tests run the host code of plugins/gpu without the core: a host that counts
 * allocations and records messages, the plugin on the simulator, and launches made by hand. Each
 * case runs in a separate child process. */
#ifndef BP_TEST_GPU_KIT_H
#define BP_TEST_GPU_KIT_H

#include <backplane/attrs.h>
#include <backplane/ccl.h>
#include <backplane/capture.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdbool.h>

enum { STREAMS = 2, ELEMENTS = 16, LARGE = 300000 };

/* An instance of the plugin, and the objects that a case made with it. Objects that exist are not
 * NULL. */
struct world {
    const struct bp_plugin *plugin;
    const struct bp_runtime *r;
    const struct bp_captures *g;
    void *self;
    struct bp_memory memory[3]; /* one for each memory space */
    struct bp_memory large, x, index, y, workspace;
    struct bp_memory there; /* on device 1 */
    void *stream[STREAMS], *event, *other, *recording;
    int64_t result;
};

/* The messages of the plugin since the last expect_no_error: `heard` has failures and warnings,
 * `told` all other messages. */
extern char error_text[65536], log_text[65536];
void expect_no_error(void);

/* The host's memory: the number of live allocations, and the number of the allocation that will
 * fail (counted from now on; 0: none). */
extern _Atomic int host_live;
extern int host_doomed;
const struct bp_host *host(void);

/* Loads the plugin; returns NULL and reports a message if it cannot be loaded. */
const struct bp_plugin *load(const char *path);
/* The number of the simulator's live objects. path: the library of the simulator. */
size_t driver_live(const char *path);
/* The number of waits in which the simulator has spun. */
size_t driver_spun(const char *path);
/* The number of kernels and library calls that the simulator has enqueued or recorded. */
size_t driver_computed(const char *path);

/* The caller's own use of the driver. caller_begin makes a context current before the plugin is
 * loaded; caller_stays checks that it is still current. device: the context's device; -1: no
 * context. */
void caller_begin(const char *path, int device);
void caller_stays(const char *when);
void caller_end(void);

/* Returns the kernel row of this name; NULL and a message if there is none. */
const struct bp_kernel *find_named(const struct world *w, const char *name);

/* Launches by hand, on stream 0 of device 0, with memory of the world. launch_gather and
 * launch_select compute y = x[index]; an index outside x is a fault. launch_count counts the bytes
 * of x that are not 0, into the result of the world. */
enum bp_status launch_gather(struct world *w);
enum bp_status launch_select(struct world *w); /* as launch_gather, by row sim_index_select */
enum bp_status launch_count(struct world *w, int64_t *result);

/* Copy to and from device 0. */
enum bp_status put(struct world *w, struct bp_memory to, const void *from, uint64_t size);
enum bp_status get(struct world *w, void *to, struct bp_memory from, uint64_t size);

/* world_make creates the instance, memory and streams; world_end frees all of them. */
enum bp_status world_make(struct world *w, const struct bp_plugin *plugin);
void world_end(struct world *w);

/* Reports the message and fails the case if good is false. Returns good. */
__attribute__((format(printf, 2, 3))) bool expect(bool good, const char *format, ...);
/* The number of failed expectations in this process. */
extern int unmet;

/* Runs body(arg) in a child process. Returns its exit status, 1 if an expectation failed, or more
 * than 256 if a signal ended it. */
int run_child(void (*body)(const void *arg), const void *arg);
/* The n-th time that a call is made, where it fails. code: the status that the call returns, or a
 * number that the test gives a meaning. */
struct failing_call {
    const char *call;
    int n, code;
};
/* The exit status of a child in which the call was made fewer than n times. */
enum { NOT_REACHED = 77 };
/* Runs body(&place) in a child for one place after the other, until there are no more, and reports
 * a line of TAP. before: is called before each child, or is NULL. */
void each_place(const char *call, int code, void (*body)(const void *place), void (*before)(void));
/* Prints one line of TAP. */
void report(bool good, const char *name);
void run_case(const char *name, void (*body)(const void *arg), const void *arg);
/* Prints the plan of TAP; returns the exit status. */
int cases_end(void);

#endif
