/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h: the host code of plugins/gpu without the core: a host that counts and remembers, the
 * plugin on the simulator, launches made by hand. Each case runs in a child of its own. */
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

/* An instance and what a case made with it. Made things are not NULL. */
struct world {
    const struct bp_plugin *plugin;
    const struct bp_runtime *r;
    const struct bp_captures *g;
    void *self;
    struct bp_memory memory[3]; /* by space */
    struct bp_memory large, x, index, y, workspace;
    struct bp_memory there; /* of device 1 */
    void *stream[STREAMS], *event, *other, *recording;
    int64_t result;
};

/* What the plugin has said since heard_nothing: failures and warnings; and what is neither. */
extern char heard[65536], told[65536];
void heard_nothing(void);

/* Of the host's memory: how many allocations are live, and the one that fails (counted from now
 * on; 0: none). */
extern int host_live, host_doomed;
const struct bp_host *host(void);

/* Loads the plugin; NULL and a message where it cannot be. */
const struct bp_plugin *load(const char *path);
/* Live things of the simulator's; it is the library of this path. */
size_t driver_live(const char *path);
/* In how many waits it has spun. */
size_t driver_spun(const char *path);

/* The caller's own use of the driver: what it makes current, before the plugin is there, is current
 * all the while. device: whose context; -1: none. */
void caller_begin(const char *path, int device);
void caller_stays(const char *when);
void caller_end(void);

/* The row of this name; NULL and a message: there is none. */
const struct bp_kernel *find_named(const struct world *w, const char *name);

/* Launches by hand, on stream 0 of device 0, with memory of the world: y = x[index], a value of
 * x that index does not name is a fault; and the number of bytes of x that are not 0, into result
 * of the world. */
enum bp_status launch_gather(struct world *w);
enum bp_status launch_select(struct world *w); /* the same by another row, sim_index_select */
enum bp_status launch_count(struct world *w, int64_t *result);

/* Copies to and from device 0. */
enum bp_status put(struct world *w, struct bp_memory to, const void *from, uint64_t size);
enum bp_status get(struct world *w, void *to, struct bp_memory from, uint64_t size);

/* Makes instance, memory, streams; and gives all back. */
enum bp_status world_make(struct world *w, const struct bp_plugin *plugin);
void world_end(struct world *w);

/* Says what is wrong, and fails the case. */
__attribute__((format(printf, 2, 3))) bool expect(bool good, const char *format, ...);
/* How many expectations of this process failed. */
extern int unmet;

/* Runs body(arg) in a child: its exit status, 1 where an expectation was not met, or more than 256
 * where a signal ended it. */
int run_child(void (*body)(const void *arg), const void *arg);
/* Prints a line of TAP. */
void report(bool good, const char *name);
void run_case(const char *name, void (*body)(const void *arg), const void *arg);
/* Prints the plan; the exit status. */
int cases_end(void);

#endif
