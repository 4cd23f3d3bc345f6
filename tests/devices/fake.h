/* SPDX-License-Identifier: Apache-2.0 */
/* fake.h: a device for tests. A script says what the device is like, and a test gives it orders.
 *
 * Each library bp_NAME.so has a script of its own: tests/plugins/meson.build lists them. A script
 * is a list of words; a word may have a value, WORD=VALUE. When the library is opened, the words in
 * the environment's BP_FAKE are added, in front; with NAME: in front of them, to names that begin
 * so only.
 *
 *   rows=SET         the kernels, of fake_rows.c; without it: none
 *   name=NAME        of the plugin; without it: the library's
 *   kind=KIND        of its devices; without it: the plugin's name
 *   version=VERSION  of the plugin; without it: 0.1.0
 *   count=N          how many devices; without it: 1
 *   uuid  pci  arch  the device says which hardware it is
 *   red              its name has control characters
 *
 * When the work of a stream runs:
 *   work=inline      before its call returns: BP_DEVICE_INLINE; so without the word, too
 *   work=late        when the host waits for it, or has asked for an event four times
 *   work=told        when the host waits for it, or the test says so: run, below
 *   work=thread      at once, on a thread of the device; but held work waits for open, below
 *
 * Callbacks of the runtime that are there, next to the required ones:
 *   streams  events  waits (stream_wait)  peers (copy_peer)  info (memory_info)
 *   export (memory_export)
 *
 * Memory, which is the host's:
 *   visible          BP_DEVICE_HOST_VISIBLE
 *   dtypes=LIST      that it holds, of f32, i32, i8 and u8, with + between them; without it: all
 *   alignment=BYTES  of allocations; without it: 64
 *   spaces           it is in all spaces, not in BP_SPACE_DEVICE only
 *   memory=BYTES     so much is there (1M: 2^20); without it: no limit
 *   nowhere          addresses that no program may touch, each used once
 *   handles          as nowhere, and BP_DEVICE_HANDLES
 *
 * What goes wrong, in the call for SIZE bytes, or with an output of SIZE elements (launch):
 *   CALLBACK@SIZE=silent    the callback fails without a reason
 *   CALLBACK@SIZE=later     the work fails when it runs; =lost: with BP_ERR_DEVICE_LOST
 *   CALLBACK@SIZE=slow      the call takes 0.1 s
 *   memory_allocate@SIZE=null, memory_allocate@SIZE=crooked   memory that is none, or not aligned
 *   streams=N        there are N at most
 *   strict           the process aborts where the core breaks a rule: memory, a plan or a stream
 *                    goes while work uses it, or is left when the device ends
 *   event-ok         events say nothing of work that has failed
 *   sync-ok          synchronize and copy_out say nothing of it
 *   add-waits, copy-waits   a launch, or a copy on the device, returns when its work has been done;
 *                    an event behind it is reached when it has been asked for, all the same
 *   one-block        launches of all streams have one block of arguments
 *   declines         a row takes small tensors only, which is sound
 *   plan-malloc      plans are the plugin's own memory, and are not freed
 *   event-leak, map-leak, file-leak, plan-leak, host-leak   events are not freed; memory stays
 *                    mapped; each stream opens a file that stays open; plans, or arguments of
 *                    launches, in the host's memory are not released
 *   wrong-size       these arguments are released as another size
 *   mutant=NAME      a kernel of rows=mutant, or this device, breaks in one way: fake_mutant.c
 *   spoil=WHAT       a table or an operator is wrong, or unusual: fake_tables.c, fake_operators.c
 *
 * What the plugin does to its process, STEP=MISDEED:
 *   open  entry  create  devices  device  launch  destroy  atexit  close   the steps: when its
 *                    library is opened, in bp_plugin_get, create, device_count, device_properties,
 *                    a launch, destroy, an exit handler, and when the library is closed
 *   exit  end  crash  abort  raise  hang  pause  fork  forks  daemon  babble  print  forge   the
 *                    misdeeds: _exit, exit, signals 11 and 6, SIGUSR1, waits that only SIGKILL, or
 *                    any signal, ends, one process more, 31 more, one in another session, output
 *                    without end, a line of output, false lines on descriptor 3
 *   every=raise      SIGUSR1 at each step but the last two
 *   create=fails, create=silent, create=absent, devices=fails   what these two answer
 */
#ifndef BP_TEST_FAKE_H
#define BP_TEST_FAKE_H

#include <backplane/plugin.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

/* Callbacks that can be told what to answer. */
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

/* Orders to all devices of a library, and what they count. Any thread may call; where a stream is
 * named, it is the plugin's, or NULL for the one order of a device without streams. */
struct fake {
    /* The callback answers that from now on, whether it is a status or not; 0: what it should.
     * reason: a string that stays, or NULL. */
    void (*answer)(enum fake_callback callback, uint32_t status, const char *reason);

    /* work=thread: */
    void (*hold)(bool on);         /* work that is given from now on does not run, or does */
    void (*open)(void);            /* all that was held runs */
    uint64_t (*ended)(void);       /* pieces of work that have run, so far */
    void (*fail)(uint32_t status); /* the next work that runs fails */
    void (*lose)(void); /* who gives work or waits gets BP_ERR_DEVICE_LOST; nothing runs */
    void (*mute)(bool on);         /* events say nothing of work that has failed, or do */

    /* work=told: */
    void (*run)(void *stream, uint64_t n); /* up to n pieces of work end, and waits that can */
    uint32_t (*index)(void *stream);       /* what stands for the stream, also when it is gone */
    uint64_t (*position)(void *stream);    /* the place of its last piece of work */
    bool (*is_done)(uint32_t index, uint64_t position);
    /* Whether work given to stream from now on comes after that place. */
    bool (*is_before)(uint32_t index, uint64_t position, void *stream);

    uint64_t budget; /* bytes of memory; set it before the device is opened */
    uint64_t used;   /* bytes of memory taken now */
    uint64_t chunks; /* allocations ever */
    uint64_t broken; /* memory, plans and streams that went while work used them */

    int plans;   /* there now */
    int packed;  /* plans with a copy of a constant */
    int slow;    /* launches of rows whose name ends in "_slow" */
    int updates; /* launches of sgd */
    int apart;   /* those of them whose output is not the very view that it updates */
};

/* What bp_plugin_get answers, which is longer than a plugin's. */
struct fake_table {
    struct bp_plugin plugin;
    struct fake *fake;
};

/* The orders of a library that is open, at this path; NULL: it is not open. */
static inline struct fake *fake_of(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    const struct fake_table *(*get)(void) = NULL;

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    dlclose(library);
    return get ? get()->fake : NULL;
}

/* Opens the library, which stays open: orders that are given before its device is created. */
static inline struct fake *fake_open(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL) ? fake_of(path) : NULL;
}

#endif
