/* SPDX-License-Identifier: Apache-2.0 */
/* loader.h: what the files of the loader share. entry.h is what the rest of the core sees of it.
 *
 * search.c finds manifests (path.c, trust.c, manifest.c, select.c) and makes entries (entry.c) of
 * them; load.c takes an entry through the steps of loading (trust.c, file.c, features.c, ltdl.c,
 * mapped.c, table.c, host.c); api.c is the public side. */
#ifndef BP_PLUGIN_LOADER_H
#define BP_PLUGIN_LOADER_H

#include "entry.h"
#include <sys/stat.h>

/* Why a plugin cannot be used. Zeroed: nothing is known against it. */
struct bp_refusal {
    uint32_t state; /* BP_PLUGIN_ABSENT or BP_PLUGIN_BROKEN */

    /* "file: what is wrong: expected ..., got ...; advice". NULL: no memory even for that. */
    char *text;

    /* There was not enough host memory: nothing is known against the plugin. */
    bool memory;
};

/* Fill why, which holds nothing yet, with "file: " and the rest, and return false. */
bool bp_broken(struct bp_refusal *why, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool bp_absent(struct bp_refusal *why, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for host memory that could not be had. */
bool bp_no_memory(struct bp_refusal *why, const char *file);

/* What the dynamic linker's words for a failure tell of the library at path: they begin with the
 * file that is meant, and end with the system's text for an errno value where there was one. */
enum bp_library_cause {
    BP_LIBRARY_OTHER,
    BP_LIBRARY_MEMORY, /* there was not enough host memory; why may be NULL */
    BP_LIBRARY_LACKS,  /* another library, which it needs, was not found */
};
enum bp_library_cause bp_library_cause(const char *path, const char *why);

/* A text for a message, in size bytes: without control characters, so that a message is one line,
 * and without its middle if it is longer. A message holds 2047 bytes: four paths and words, or a
 * path, a reason and words. */
enum {
    BP_SHOWN_PATH = 400,
    BP_SHOWN_REASON = 1200
};
const char *bp_show(char *to, size_t size, const char *text);

/* What a file or a plugin said, fit for a message: in quotes, without control characters,
 * shortened. */
struct bp_quote {
    char text[128];
};
const char *bp_quote(struct bp_quote *quote, const char *text);

/* path.c. New strings, or NULL without memory. clean: without "//", "/./" and a '/' at the end. */
char *bp_path_normalize(const char *path);
char *bp_path_join(const char *directory, const char *name);
char *bp_path_dirname(const char *path);
bool bp_path_has_parent(const char *path); /* has a component ".." */
bool bp_path_has_control(const char *path); /* has a control character */
const char *bp_path_basename(const char *path);
bool bp_path_has_suffix(const char *path, const char *end);

/* "x" of "/a/bp_x.json": how a plugin is called until it has said its name. */
char *bp_path_plugin_name(const char *path);

/* The directory of this very library, all links resolved; NULL if that cannot be known. */
char *bp_path_of_core(void);

/* trust.c: whether nobody but root and the user of this process can have written the regular file
 * that path names, or can put another one in its place. Fills out_file with what was checked. */
bool bp_trust_check(const char *path, struct stat *out_file, struct bp_refusal *why);

/* select.c: whether globs ("cuda,!hip*"; NULL: everything) admit a plugin of that name. */
bool bp_select_match(const char *globs, const char *name);

/* Copies glob number index that a name must match to out; false past the last one. */
bool bp_select_glob(const char *globs, size_t index, char out[64]);

/* manifest.c. path is that of the manifest: it is named in messages, and library is relative to it.
 * On failure out is empty. ignored: the first key that is not known, or NULL. */
bool bp_manifest_read(const char *path, struct bp_manifest *out, struct bp_refusal *why);
bool bp_manifest_parse(const char *path, const char *text, size_t size, struct bp_manifest *out,
                       struct bp_refusal *why);
void bp_manifest_finish(struct bp_manifest *manifest);
bool bp_name_is_valid(const char *name); /* of a plugin or a kind: letters, digits, '_' */
bool bp_version_is_valid(const char *text); /* of a plugin */

/* file.c: whether the file is still the one that was checked for trust, and has the hash, or is a
 * shared object for this machine. */
bool bp_file_hash(const char *path, const struct stat *checked, const char *sha256,
                  struct bp_refusal *why);
bool bp_file_elf(const char *path, const struct stat *checked, struct bp_refusal *why);

/* sha256.c: the hash of all that can be read from fd, as 64 digits. false: a read failed, see
 * errno. */
bool bp_sha256_fd(int fd, char out[65]);

/* features.c: the first feature of the manifest that this processor lacks, or NULL. */
const char *bp_features_find_missing(const struct bp_manifest *manifest);

/* ltdl.c: opens the library at an absolute path, for good; the address of symbol in it.
 * out_opened says whether it could be opened at all, if not, out_why has the dynamic linker's
 * words (free it). */
void *bp_library_open_symbol(const char *path, const char *symbol, bool *out_opened,
                             char **out_why);

/* mapped.c: the file that is mapped at address, as it is called now (a deleted one: "PATH
 * (deleted)"), to be freed; NULL if that cannot be known. */
char *bp_mapped_file_find(const void *address);

/* One loading. */
struct bp_load {
    struct bp_plugin_entry *entry;
    struct stat file;              /* of the library, as it was checked */
    void *symbol;                  /* bp_plugin_get, or NULL */
    const struct bp_plugin *table; /* as the plugin gave it */
    struct bp_kernels kernels;     /* a copy */
    bool created;
    struct bp_refusal why;
};

/* table.c: the steps that read the plugin's tables and copy them to the entry. */
bool bp_table_check(struct bp_load *load);    /* size, ABI, name: before anything is believed */
bool bp_table_manifest(struct bp_load *load); /* does the manifest lie? */
bool bp_table_runtime(struct bp_load *load);
bool bp_table_captures(struct bp_load *load);
bool bp_table_ccl(struct bp_load *load);
bool bp_table_operators(struct bp_load *load);
bool bp_table_kernels(struct bp_load *load);

/* host.c: fills entry->host. */
void bp_host_init(struct bp_plugin_entry *entry);

/* entry.c. create: an empty one, unprobed. append: makes it visible; the caller holds the core's
 * lock. */
struct bp_plugin_entry *bp_plugin_entry_create(struct bp_core *core, const char *manifest_path);
enum bp_status bp_plugin_entry_append(struct bp_core *core, struct bp_plugin_entry *entry,
                                      uint32_t *out_index);

/* Writes down what became of an entry, and says so in the log if why holds anything; empties why.
 * The caller holds the entry's lock, or is the only one to know the entry. */
void bp_plugin_set_result(struct bp_plugin_entry *entry, struct bp_refusal *why);

/* Ends the plugin's instance. */
void bp_plugin_destroy_instance(struct bp_plugin_entry *entry);

/* Forgets what was copied from the plugin's tables. */
void bp_plugin_clear_tables(struct bp_plugin_entry *entry);

#endif
