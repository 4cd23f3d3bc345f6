/* SPDX-License-Identifier: Apache-2.0 */
/* fake.h: declares a fake device for tests. A script describes the device, and a test controls it
 * by functions.
 *
 * Each library bp_NAME.so has its own script, listed in tests/plugins/meson.build. A script is a
 * list of words; a word may have a value, WORD=VALUE. When the library is opened, the words in the
 * environment variable BP_FAKE are added in front of the script; if they begin with NAME:, then
 * only to libraries whose names begin with NAME.
 *
 *   rows=SET         the kernels, from fake_rows.c; default: none
 *   name=NAME        of the plugin; default: the library's
 *   kind=KIND        of its devices; default: the plugin's name
 *   version=VERSION  of the plugin; default: 0.1.0
 *   count=N          number of devices; default: 1
 *   uuid  pci  arch  the device reports this property of its hardware
 *   images=N         and prefers this order of images, enum bp_image_order
 *   red              its name has control characters
 *
 * When the work of a stream runs:
 *   work=inline      before its call returns: BP_DEVICE_INLINE; also the default
 *   work=late        when the host waits for it, or has queried an event four times
 *   `work=told`      when the host waits for it, or the test calls run, below
 *   work=thread      immediately, on a thread of the device; but held work waits for open, below
 *
 * Optional callbacks of the runtime that exist:
 *   streams  events  waits (stream_wait)  peers (copy_peer)  info (memory_info)
 *   export (memory_export)  captures (those of capture.h)
 *
 * Memory, which is host memory:
 *   visible          BP_DEVICE_HOST_VISIBLE
 *   dtypes=LIST      its dtypes, of f32, i32, i8 and u8, with + between them; default: all
 *   alignment=BYTES  of allocations; default: 64
 *   spaces           it has memory in all spaces, not in BP_SPACE_DEVICE only
 *   memory=BYTES     size of the memory (1M: 2^20); default: no limit
 *   nowhere          addresses that no program may access, each used once
 *   handles          as nowhere, and BP_DEVICE_HANDLES
 *   offsets          BP_DEVICE_HANDLES, with memory behind the handles
 *   casts            the rows whose names end in _casts are usable
 *
 * Failures, in the call for SIZE bytes, or with an output of SIZE elements (launch):
 *   CALLBACK@SIZE=silent    the callback fails without a reason
 *   CALLBACK@SIZE=later     the work fails when it runs; =lost: with BP_ERR_DEVICE_LOST
 *   CALLBACK@SIZE=slow      the call takes 0.1 s
 *   memory_allocate@SIZE=null, memory_allocate@SIZE=crooked   a null address, or one that is not
 *                    aligned
 *   streams=N        at most N streams can be created
 *   strict           the process aborts where the core breaks a rule: memory, a plan or a stream
 *                    is freed while work uses it, or is left when the device is destroyed
 *   event-ok         events do not report work that has failed
 *   sync-ok          synchronize and copy_out do not report it
 *   add-waits, copy-waits   a launch, or a copy on the device, returns when its work has been done;
 *                    an event behind it still completes only after queries
 *   one-block        launches of all streams share one block of arguments
 *   declines         a kernel accepts small tensors only, which is allowed
 *   plan-malloc      plans are the plugin's own memory, and are not freed
 *   event-leak, map-leak, file-leak, plan-leak, host-leak   events are not freed; memory stays
 *                    mapped; each stream opens a file that stays open; plans, or arguments of
 *                    launches, in the host's memory are not released
 *   wrong-size       these arguments are released with a wrong size
 *   mutant=NAME      a kernel of rows=mutant, or this device, has one defect: fake_mutant.c
 *   spoil=NAME       a table or an operator is wrong, or unusual: fake_tables.c, fake_operators.c
 *
 * Harm that the plugin does to its process, STEP=MISDEED:
 *   open  entry  create  devices  device  launch  destroy  atexit  close   the steps: when its
 *                    library is opened, in bp_plugin_get, create, device_count, device_properties,
 *                    a launch, destroy, an exit handler, and when the library is closed
 *   exit  end  crash  abort  raise  hang  pause  fork  forks  daemon  babble  print  forge   the
 *                    misdeeds: _exit, exit, signals 11 and 6, SIGUSR1, waits that only SIGKILL, or
 *                    any signal, ends, one process more, 31 more, one in another session, output
 *                    without end, a line of output, false lines on descriptor 3
 *   every=raise      SIGUSR1 at each step but the last two
 *   create=fails, create=silent, create=absent, devices=fails   how these two callbacks fail */
#ifndef BP_TEST_FAKE_H
#define BP_TEST_FAKE_H

#include <backplane/plugin.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* Callbacks whose results a test can set. */
#define FAKE_CALLBACKS(X) \
    X(device_properties) X(memory_allocate) X(copy_in) X(copy_out) X(copy_within) X(synchronize) \
    X(stream_create) X(event_create) X(event_record) X(event_query) X(event_wait) X(stream_wait) \
    X(memory_info) X(memory_export) X(copy_peer) X(launch) X(prepare) X(accepts) X(infer)

enum fake_callback {
#define X(name) FAKE_##name,
    FAKE_CALLBACKS(X)
#undef X
    FAKE_COUNT
};

/* Functions by which a test controls all devices of a library, and counters. Any thread may call
 * them. A stream argument is the plugin's stream, or NULL for the only queue of a device without
 * streams. */
struct fake {
    /* The callback returns this status from now on, which need not be a valid one; 0: works
     * normally. reason: a string that must remain valid, or NULL. */
    void (*result)(enum fake_callback callback, uint32_t status, const char *reason);

    /* work=thread: */
    void (*hold)(bool on);         /* holds work that is submitted from now on, or no longer */
    void (*open)(void);            /* releases all work that was held */
    uint64_t (*ended)(void);       /* number of work items that have run so far */
    void (*fail)(uint32_t status); /* the next work that runs fails */
    /* Loses the device: submissions and waits return BP_ERR_DEVICE_LOST, and no work runs. */
    void (*lose)(void);
    void (*mute)(bool on); /* events no longer report failed work, or do again */

    /* `work=told`: */
    void (*run)(void *stream, uint64_t n); /* runs up to n work items, and waits that can end */
    uint32_t (*index)(void *stream);       /* the stream's index, even after its destruction */
    uint64_t (*position)(void *stream);    /* the position of its last work item */
    bool (*is_done)(uint32_t index, uint64_t position);
    /* Whether work that is submitted to stream from now on runs after that position. */
    bool (*is_before)(uint32_t index, uint64_t position, void *stream);

    uint64_t budget; /* bytes of memory; to be set before the device is opened */
    uint64_t used;   /* bytes of memory in use */
    uint64_t segments; /* allocations so far */
    uint64_t copies; /* copies on the device */
    uint64_t broken; /* memory, plans and streams freed while in use */

    int plans;   /* number of plans that exist */
    int packed;  /* plans with a copy of a constant */
    int slow;    /* launches of kernels whose name ends in "_slow" */
    int updates; /* launches of sgd */
    int apart;   /* of these, launches whose output is not the view to update */
};

/* The struct that bp_plugin_get returns, which extends that of a plugin. */
struct fake_table {
    struct bp_plugin plugin;
    struct fake *fake;
};

/* The control functions of an open library at this path; NULL: it is not open. */
static inline struct fake *fake_of(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    const struct fake_table *(*get)(void) = NULL;

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    dlclose(library);
    return get ? get()->fake : NULL;
}

/* Opens the library, which then stays open, so that a test can control its device before creating
 * it. */
static inline struct fake *fake_open(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL) ? fake_of(path) : NULL;
}

#endif
