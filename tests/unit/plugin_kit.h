/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_kit.h: what the tests of the loader share: a directory of their own, plugins in it, a
 * core whose log is kept, and the check that every hostile plugin must pass. */
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

/* A fresh directory, without links in its path, that only the user can write to. */
char *kit_create(void);
void kit_destroy(const char *directory);

/* Whether a chown, whose result this is, is not permitted; any other failure fails the test. */
bool kit_is_refused(int result);

/* Keeps a text for as long as the process lives: nobody frees it. */
char *kit_keep(char *text);

/* Formats a path or a text, and keeps it. */
char *kit_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

void kit_write(const char *path, const void *data, size_t size);
void kit_copy(const char *from, const char *to);
void kit_patch(const char *path, long at, const void *data, size_t size);

/* Puts the built plugin bp_NAME.so, or its manifest, or both, into a directory. */
void kit_library(const char *directory, const char *name);
void kit_manifest(const char *directory, const char *name);
void kit_plugin(const char *directory, const char *name);

/* What a core said. */
struct kit_log {
    int count[4];       /* by level */
    char text[4][4096]; /* the last one of each level */
};

/* A core that searches path and keeps what it says, from info level on. */
struct bp_core *kit_core(struct kit_log *log, const char *path, const char *plugins);

/* The index of a plugin, or UINT32_MAX. */
uint32_t kit_find(struct bp_core *core, const char *name);
struct bp_plugin_info kit_info(struct bp_core *core, const char *name);

/* A plugin that is no good, and all that may be heard of it. */
struct kit_case {
    const char *name; /* of the plugin, as it is listed */
    void (*make)(
        const char *dir);  /* puts it there; NULL: the plugin of that name, as it was built */
    enum bp_status status; /* of loading it */
    const char *message; /* {D}: the directory, {L}, {J}: library and manifest there, {U}: the user,
                                    * {M}: this machine, {H}: the library's hash,
                                    * {N}: the bytes that it needs by its program headers,
                                    * {S}, {O}: the sanitizer of this build, and another */
};

/* Loads it beside a good one: one message, at error level (absent: info), the same ever after;
 * the good one works. */
void kit_check(const struct kit_case *hostile);

#endif
