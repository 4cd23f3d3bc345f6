/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h: declares the functions that the files of the plugin loader share; entry.h is the
 * loader's interface to the rest of the core.
 *
 * search.c finds manifests (path.c, trust.c, manifest.c, select.c) and makes entries (entry.c) of
 * them. load.c takes an entry through the steps of loading (trust.c, file.c, features.c, ltdl.c,
 * mapped.c, table.c, host.c). api.c implements the public functions. */
#ifndef BP_PLUGIN_LOADER_H
#define BP_PLUGIN_LOADER_H

#include "entry.h"
#include <sys/stat.h>

/* The reason why a plugin cannot be used. All members 0: no reason is known. */
struct bp_refusal {
    uint32_t state; /* BP_PLUGIN_ABSENT or BP_PLUGIN_BROKEN */

    /* "file: the problem: expected ..., got ...; advice". NULL: no memory even for the text. */
    char *text;

    /* Host memory ran out: the plugin itself may be usable. */
    bool memory;
};

/* Fill `why`, which must be empty, with "file: " and the formatted text. Return false. */
bool bp_broken(struct bp_refusal *why, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool bp_absent(struct bp_refusal *why, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Like bp_broken, when host memory runs out. */
bool bp_no_memory(struct bp_refusal *why, const char *file);

/* Finds the cause of a dynamic linker's failure for the library at path. `why` is the linker's
 * message: it begins with the file that it is about, and ends with the system's text for errno if a
 * system call failed. */
enum bp_library_cause {
    BP_LIBRARY_OTHER,
    BP_LIBRARY_MEMORY, /* host memory ran out; why may be NULL */
    BP_LIBRARY_LACKS,  /* a library that it depends on was not found */
};
enum bp_library_cause bp_library_cause(const char *path, const char *why);

/* Copies a text for use in a message, to size bytes: control characters are replaced, so that a
 * message stays one line, and the middle is cut out if the text is longer. A message has up to 2047
 * bytes: room for four paths and words, or a path, a reason and words. */
enum {
    BP_SHOWN_PATH = 400,
    BP_SHOWN_REASON = 1200
};
const char *bp_show(char *to, size_t size, const char *text);

/* A quoted copy of a text from a file or a plugin, for use in a message: without control
 * characters, shortened if necessary. */
struct bp_quote {
    char text[128];
};
const char *bp_quote(struct bp_quote *quote, const char *text);

/* path.c. These return new strings, or NULL without memory. bp_path_normalize removes "//", "/./"
 * and a '/' at the end. */
char *bp_path_normalize(const char *path);
char *bp_path_join(const char *directory, const char *name);
char *bp_path_dirname(const char *path);
bool bp_path_has_parent(const char *path); /* has a component ".." */
bool bp_path_has_control(const char *path); /* has a control character */
const char *bp_path_basename(const char *path);
bool bp_path_has_suffix(const char *path, const char *end);

/* Returns "x" for "/a/bp_x.json": the name of a plugin until its manifest or table is read. */
char *bp_path_plugin_name(const char *path);

/* Returns the directory of this library, with all links resolved; NULL if it cannot be found
 * out. */
char *bp_path_of_core(void);

/* trust.c: checks that only root and the user of this process can have written the regular file at
 * path, or can replace it. Fills out_file with the state of the checked file. */
bool bp_trust_check(const char *path, struct stat *out_file, struct bp_refusal *why);

/* select.c: whether globs ("cuda,!hip*"; NULL: everything) select a plugin of that name. */
bool bp_select_match(const char *globs, const char *name);

/* Copies the index-th glob without '!' to out; false: there are fewer. */
bool bp_select_glob(const char *globs, size_t index, char out[64]);

/* manifest.c. path is the manifest's: messages name it, and a relative "library" is relative to its
 * directory. On failure out is empty. out->ignored: the first unknown key, or NULL. */
bool bp_manifest_read(const char *path, struct bp_manifest *out, struct bp_refusal *why);
bool bp_manifest_parse(const char *path, const char *text, size_t size, struct bp_manifest *out,
                       struct bp_refusal *why);
void bp_manifest_finish(struct bp_manifest *manifest);
bool bp_name_is_valid(const char *name); /* of a plugin or a kind: letters, digits, '_' */
bool bp_version_is_valid(const char *text); /* of a plugin */

/* file.c: checks that the file is still the one that was checked for trust, and that it has the
 * hash (bp_file_hash) or is a shared object for this machine (bp_file_elf). */
bool bp_file_hash(const char *path, const struct stat *checked, const char *sha256,
                  struct bp_refusal *why);
bool bp_file_elf(const char *path, const struct stat *checked, struct bp_refusal *why);

/* sha256.c: computes the hash of everything that can be read from fd, as 64 digits. false: a read
 * failed, see errno. */
bool bp_sha256_fd(int fd, char out[65]);

/* features.c: returns the first feature of the manifest that this processor lacks, or NULL. */
const char *bp_features_find_missing(const struct bp_manifest *manifest);

/* ltdl.c: opens the library at an absolute path permanently, and returns the address of symbol in
 * it. out_opened: whether the library could be opened. If not, out_why has the dynamic linker's
 * message, which the caller frees. */
void *bp_library_open_symbol(const char *path, const char *symbol, bool *out_opened,
                             char **out_why);

/* mapped.c: returns the current name of the file that is mapped at address (of a deleted file:
 * "PATH (deleted)"), to be freed; NULL if it cannot be found out. */
char *bp_mapped_file_find(const void *address);

/* The state of one attempt to load a plugin. */
struct bp_load {
    struct bp_plugin_entry *entry;
    struct bp_plugin_entry *owner; /* of an add-on: the plugin that it joins, or NULL if that is not
                                      known yet */
    struct stat file;              /* state of the library when it was checked */
    void *symbol;                  /* bp_plugin_get, or NULL */
    const struct bp_plugin *table; /* the plugin's own table */
    struct bp_kernels kernels;     /* a copy */
    bool created;
    bool postponed;                /* an add-on that was loaded by its path: the steps continue when
                                      its owner is loaded */
    struct bp_refusal why;

    /* Takes an add-on through the steps of loading, for its owner. The caller holds the add-on's
     * lock. */
    enum bp_status (*load_addon)(struct bp_plugin_entry *entry, struct bp_plugin_entry *owner);
};

/* table.c: the steps that check the plugin's tables and copy them to the entry. */
bool bp_table_check(struct bp_load *load);    /* size, ABI and names, before any other member is
                                                 used */
bool bp_table_manifest(struct bp_load *load); /* whether plugin and manifest agree */
bool bp_table_runtime(struct bp_load *load);
bool bp_table_captures(struct bp_load *load);
bool bp_table_profiler(struct bp_load *load);
bool bp_table_ccl(struct bp_load *load);
bool bp_table_engines(struct bp_load *load);
bool bp_table_operators(struct bp_load *load);
bool bp_table_kernels(struct bp_load *load);
bool bp_table_layouts(struct bp_load *load);
bool bp_table_passes(struct bp_load *load); /* a pattern that is wrong is not used */

/* engine_rows.c: a step of loading: adds rows for the operators that the plugin's engine knows, if
 * its devices have BP_DEVICE_GRAPH_ONLY. */
bool bp_engine_rows_add(struct bp_load *load);

/* addon.c. bp_addons_load: a step of loading each plugin with devices: loads the add-ons of its
 * kind and appends their rows to the plugin's. bp_addon_load: loads an add-on by loading its owner
 * with `load`; the caller holds no lock. bp_addon_table: checks the members of struct bp_plugin
 * that an add-on may not have. bp_addon_fits: a step of loading an add-on: whether it was built for
 * the streams of its owner, and no row has the name of another one. bp_addon_patterns: whether the
 * compiler has room for its patterns beside those of its owner. */
bool bp_addons_load(struct bp_load *load);
enum bp_status bp_addon_load(struct bp_plugin_entry *entry,
                             enum bp_status (*load)(struct bp_plugin_entry *owner));
bool bp_addon_table(struct bp_load *load);
bool bp_addon_fits(struct bp_load *load);
bool bp_addon_patterns(struct bp_load *load);
bool bp_stream_type_is_valid(const char *text);
static inline bool bp_addon_is(const struct bp_plugin_entry *entry)
{
    return entry->plugin.adds_to != NULL;
}

/* host.c: fills entry->host. */
void bp_host_init(struct bp_plugin_entry *entry);

/* entry.c. bp_plugin_entry_create: makes an entry without tables, in the state unprobed.
 * bp_plugin_entry_append: makes it visible; the caller holds the core's lock. */
struct bp_plugin_entry *bp_plugin_entry_create(struct bp_core *core, const char *manifest_path);
enum bp_status bp_plugin_entry_append(struct bp_core *core, struct bp_plugin_entry *entry,
                                      uint32_t *out_index);

/* Stores the result of a search or load in the entry, logs the reason for a failure, and empties
 * why. The caller holds the entry's lock, or no other thread knows the entry. */
void bp_plugin_set_result(struct bp_plugin_entry *entry, struct bp_refusal *why);

/* Destroys the plugin's instance. */
void bp_plugin_destroy_instance(struct bp_plugin_entry *entry);

/* Frees the copies of the plugin's tables. */
void bp_plugin_clear_tables(struct bp_plugin_entry *entry);

/* entry.c: makes a list of an entry longer, or all lists that have a member for each kernel row.
 * False: no memory; the lists are as before, or longer. New members are not initialized. */
bool bp_entry_resize(void *list, size_t count, size_t size);
bool bp_entry_resize_rows(struct bp_plugin_entry *entry, size_t count);

#endif
