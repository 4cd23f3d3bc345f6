/* SPDX-License-Identifier: Apache-2.0 */
/* entry.h: a plugin as the core keeps it: what its manifest says, what became of loading it, and
 * its tables in the core's own shape. */
#ifndef BP_PLUGIN_ENTRY_H
#define BP_PLUGIN_ENTRY_H

#include "../base/base.h"

/* What a manifest says; strings are owned. */
struct bp_manifest {
    char *name, *kind, *version;
    char *library;       /* absolute path */
    char **cpu_features; /* n_cpu_features names as /proc/cpuinfo has them */
    uint32_t n_cpu_features;
    char *sha256;        /* 64 hexadecimal digits, or NULL */
    uint32_t abi_major, abi_minor;
    int64_t priority;
    char *ignored;       /* the first key that is not known, or NULL */
};

struct bp_plugin_entry {
    struct bp_core *core;
    char *manifest_path; /* "" for a plugin loaded by its path */

    /* Its name, kind, version and library are never NULL; "" where they are not known. */
    struct bp_manifest manifest;
    struct bp_manifest previous_manifest; /* of a plugin loaded by its path: what was in manifest
                                             until then */

    /* Written while both lock and the core's lock are held, so that either lets one read them. */
    uint32_t state;        /* enum bp_plugin_state */
    uint32_t step;         /* enum bp_plugin_step: bp_plugin_step */
    const char *reason;    /* never NULL; owned unless "" */
    enum bp_status status; /* what loading answered, for those who ask again */

    /* Held while the plugin is loaded: one thread loads, others wait. The one lock that is held
     * while a plugin runs, and while the log is called: see the top of backplane/plugin.h. Never
     * taken by who holds the core's lock. */
    pthread_mutex_t lock;
    _Atomic bool finished; /* loading is over: see host.c */

    /* Set once the state is ready, constant from then on; zero in every other state. */
    struct bp_plugin plugin;   /* copies: tails that the plugin lacks are NULL */
    struct bp_runtime runtime;
    struct bp_captures captures;
    struct bp_ccl ccl;
    struct bp_kernel *kernel;  /* n_kernel rows, copied by the plugin's stride */
    const struct bp_kernel **kernel_row; /* the plugin's own rows: see bp_kernel_registered */
    const struct bp_kernel **kernel_best; /* the rows by their op, as an address; best first */
    char **kernel_reason;      /* why this machine cannot run a row, or NULL */
    uint32_t n_kernel;
    struct bp_host host;       /* ctx is this entry */
    void *self;
    uint32_t n_device;
};

/* The plugin's own row of which kernel, one of the entry's, is the copy. A plugin may have put
 * more behind it than this core knows: every callback gets the row as it was registered. */
static inline const struct bp_kernel *bp_kernel_registered(const struct bp_plugin_entry *entry,
                                                           const struct bp_kernel *kernel)
{
    return entry->kernel_row[kernel - entry->kernel];
}

/* search.c: fills core->entry from all manifests of the search path. Broken manifests become broken
 * entries; none stops another. */
enum bp_status bp_plugin_search(struct bp_core *core);

/* load.c: loads an entry, once; answers what the first time answered. */
enum bp_status bp_plugin_load(struct bp_plugin_entry *entry);

/* Before each step of loading: notes it in the entry, and logs "LIBRARY: step WORD" at debug
 * level, so that who watches a load from outside (bp doctor) knows where a plugin was when it
 * took its process with it. */
void bp_plugin_step(struct bp_plugin_entry *entry, enum bp_plugin_step step);

/* Makes an entry for a bare path and adds it to the core, or finds the one that is there. */
enum bp_status bp_plugin_add_path(struct bp_core *core, const char *path, uint32_t *out_index);

/* Destroys the plugin's instance and frees the entry. The library stays mapped. */
void bp_plugin_entry_destroy(struct bp_plugin_entry *entry);

/* In a forked child: global locks that another thread may have held. */
void bp_library_after_fork(void); /* ltdl.c */
void bp_manifest_after_fork(void); /* manifest.c */

#endif
