/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_kit.h: declares helpers of the loader's tests: a private directory, plugins in it, a core
 * whose log is kept, and the check that each hostile plugin must pass. */
#ifndef BP_TEST_PLUGIN_KIT_H
#define BP_TEST_PLUGIN_KIT_H

#include <backplane/backplane.h>
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OK(call) cr_assert_eq((call), BP_OK, "%s: %s", #call, bp_error_message())

/* Creates a new directory that only the user can write to, with no symbolic link in its path. */
char *kit_create(void);
void kit_destroy(const char *directory);

/* Tests whether a chown with this result was not permitted; any other failure fails the test. */
bool kit_is_refused(int result);

/* Keeps a text until the process ends: no function frees it. */
char *kit_keep(char *text);

/* Formats a path or a text, and keeps it. */
char *kit_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

void kit_write(const char *path, const void *data, size_t size);
void kit_copy(const char *from, const char *to);
void kit_patch(const char *path, long at, const void *data, size_t size);

/* Copies the built plugin bp_NAME.so, or its manifest, or both, into a directory. */
void kit_library(const char *directory, const char *name);
void kit_manifest(const char *directory, const char *name);
void kit_plugin(const char *directory, const char *name);

/* The messages that a core has logged. */
struct kit_log {
    int count[4];       /* by level */
    char text[4][4096]; /* the last message of each level */
};

/* Creates a core that searches path and keeps its log messages, from info level on. */
struct bp_core *kit_core(struct kit_log *log, const char *path, const char *plugins);

/* The index of a plugin, or UINT32_MAX. */
uint32_t kit_find(struct bp_core *core, const char *name);
struct bp_plugin_info kit_info(struct bp_core *core, const char *name);

/* A plugin that must fail to load, and the only message that the core may log about it. */
struct kit_case {
    const char *name; /* the plugin's name in the core's list */
    void (*make)(
        const char *dir);  /* puts it into dir; NULL: copies the built plugin of this name */
    enum bp_status status; /* of loading it */
    const char *message; /* {D}: the directory, {L}, {J}: its library and manifest, {U}: the user,
                                    * {M}: this machine, {H}: the library's hash,
                                    * {N}: the bytes that its program headers need,
                                    * {S}, {O}: the sanitizer of this build, and another */
};

/* Loads the plugin beside a good one. Checks that the core logs one message, at error level (at
 * info level for a plugin that counts as absent), that a second load fails with the same message,
 * and that the good plugin works. */
void kit_check(const struct kit_case *hostile);

#endif
