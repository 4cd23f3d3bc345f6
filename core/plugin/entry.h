/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h: declares a plugin entry: the contents of the plugin's manifest, the result of loading
 * it, and copies of its tables in the form of this core's version. */
#ifndef BP_PLUGIN_ENTRY_H
#define BP_PLUGIN_ENTRY_H

#include "../base/base.h"

/* The contents of a manifest; strings are owned. */
struct bp_manifest {
    char *name, *kind, *version; /* kind: "" in an add-on */
    char *adds_to;       /* of an add-on: the kind of its owner's devices; else NULL */
    char *library;       /* absolute path */
    char **cpu_features; /* n_cpu_features names, spelt as in /proc/cpuinfo */
    uint32_t n_cpu_features;
    char *sha256;        /* 64 hexadecimal digits, or NULL */
    uint32_t abi_major, abi_minor;
    int64_t priority;
    char *ignored;       /* the first unknown key, or NULL */
};

struct bp_plugin_entry {
    struct bp_core *core;
    char *manifest_path; /* "" for a plugin loaded by its path */

    /* name, kind, version and library are never NULL, but "" while they are unknown. */
    struct bp_manifest manifest;
    struct bp_manifest previous_manifest; /* of a plugin loaded by its path: manifest, before the
                                             plugin's table replaced it */

    /* Written with both lock and the core's lock held, so that holding either is enough to read. */
    uint32_t state;        /* enum bp_plugin_state */
    uint32_t step;         /* enum bp_plugin_step: bp_plugin_step */
    const char *reason;    /* never NULL; owned unless "" */
    enum bp_status status; /* the result of loading, for later calls */

    /* Held while a thread loads the plugin; other threads wait. This is the only lock that is held
     * while a plugin runs and while the log is called: see the top of backplane/plugin.h. A thread
     * that holds the core's lock must not take it. */
    pthread_mutex_t lock;
    _Atomic bool finished; /* loading has ended: see host.c */

    /* Filled in during loading, and constant once the state is ready. In all other states nothing
     * may be read from them. */
    struct bp_plugin plugin;   /* copies: members that an older plugin lacks are NULL */
    struct bp_runtime runtime;
    struct bp_captures captures;
    struct bp_ccl ccl;
    struct bp_engines engines;
    struct bp_profilers profilers;
    struct bp_kernel *kernel;  /* n_kernel rows, copied by the plugin's stride */
    const struct bp_kernel **kernel_row; /* the plugin's own rows: see bp_kernel_registered */
    const struct bp_kernel **kernel_best; /* the rows sorted by op (its address), best first */
    char **kernel_reason;      /* why this machine cannot run a row, or NULL */
    char **kernel_layouts;     /* the names of the layouts of a row that has some, or NULL */
    uint32_t n_kernel;         /* with those of add-ons, which come behind the plugin's own rows */
    uint32_t n_own;            /* the plugin's own rows */
    struct bp_plugin_entry **kernel_from; /* for each row of an add-on: its entry */
    struct bp_plugin_entry *owner; /* of an add-on that has joined: the plugin that it adds to */
    struct bp_plugin_entry **addon; /* n_addon add-ons that have joined */
    uint32_t n_addon;
    struct bp_plugin_pattern *pattern; /* patterns.h: n_pattern of them */
    uint32_t n_pattern;
    struct bp_plugin_rewrite *rewrite; /* patterns.h: the plugin's own pass, or NULL */
    struct bp_layout *layout;  /* n_layout rows, copied by the plugin's stride; layout i has the
                                  number i + 1 */
    uint32_t n_layout;
    struct bp_host host;       /* ctx is this entry */
    void *self;
    uint32_t n_device;
    bool graph_only; /* its devices have BP_DEVICE_GRAPH_ONLY */
    struct bp_engine_call_row *call_row; /* engine_rows.h: rows that the core has made, the
                                            last of the plugin's own; n_call_row of them */
    uint32_t n_call_row;
};

/* Returns the plugin's own kernel row for a copy in the entry. The row may have members that this
 * core does not know, so each callback receives the row that the plugin registered. */
static inline const struct bp_kernel *bp_kernel_registered(const struct bp_plugin_entry *entry,
                                                           const struct bp_kernel *kernel)
{
    return entry->kernel_row[kernel - entry->kernel];
}

/* Returns the plugin that brought a kernel row: the entry itself or one of its add-ons. kernel: a
 * copy in the entry, or the row of a group that an engine of the entry has compiled. */
static inline struct bp_plugin_entry *bp_kernel_plugin(struct bp_plugin_entry *entry,
                                                       const struct bp_kernel *kernel)
{
    uintptr_t i = ((uintptr_t)kernel - (uintptr_t)entry->kernel) / sizeof *kernel;

    return i < entry->n_own || i >= entry->n_kernel ? entry : entry->kernel_from[i - entry->n_own];
}

/* search.c: fills core->entry from all manifests of the search path. A broken manifest becomes a
 * broken entry and does not affect the others. */
enum bp_status bp_plugin_search(struct bp_core *core);

/* load.c: loads an entry once; later calls return the result of the first one. */
enum bp_status bp_plugin_load(struct bp_plugin_entry *entry);

/* Called before each step of loading: stores the step in the entry, and logs "LIBRARY: step WORD"
 * at debug level. A program that watches a load from outside (bp doctor) then knows the step in
 * which the plugin crashed its process. */
void bp_plugin_step(struct bp_plugin_entry *entry, enum bp_plugin_step step);

/* Adds an entry for the path of a library to the core, or finds the existing one. */
enum bp_status bp_plugin_add_path(struct bp_core *core, const char *path, uint32_t *out_index);

/* Destroys the plugin's instance and frees the entry. The library stays mapped. */
void bp_plugin_entry_destroy(struct bp_plugin_entry *entry);

/* The same for all entries of a core, add-ons first, and frees their list. */
void bp_plugin_entries_destroy(struct bp_core *core);

/* To be called in a forked child: initialize global locks that another thread may have held. */
void bp_library_after_fork(void); /* ltdl.c */
void bp_manifest_after_fork(void); /* manifest.c */

/* host.c: sets the function that serves constant_read of all hosts. constant: a number of
 * bp_prep.constant. */
typedef enum bp_status bp_host_reader(uint64_t constant);
void bp_host_set_reader(bp_host_reader *reader);

#endif
