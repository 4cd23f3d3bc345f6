/* SPDX-License-Identifier: Apache-2.0 */
/* path.c: handles paths as strings, and finds the directory of this library. */
#include "loader.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *bp_path_normalize(const char *path)
{
    char *clean = malloc(strlen(path) + 2), *to = clean;
    bool rooted = path[0] == '/';

    if (!clean) return NULL;
    while (*path) {
        size_t length = strcspn(path, "/");
        if (length && !(length == 1 && path[0] == '.')) {
            if (to != clean || rooted) *to++ = '/';
            memcpy(to, path, length);
            to += length;
        }
        path += length;
        path += *path == '/';
    }
    if (to == clean) *to++ = rooted ? '/' : '.';
    *to = 0;
    return clean;
}

char *bp_path_join(const char *directory, const char *name)
{
    char *path;

    if (asprintf(&path, "%s%s%s", directory, bp_path_has_suffix(directory, "/") ? "" : "/", name) <
        0)
        return NULL;
    return path;
}

char *bp_path_dirname(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash) return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

const char *bp_path_basename(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool bp_path_has_suffix(const char *path, const char *end)
{
    size_t length = strlen(path), n = strlen(end);
    return length >= n && !strcmp(path + length - n, end);
}

bool bp_path_has_parent(const char *path)
{
    while (*path) {
        size_t length = strcspn(path, "/");
        if (length == 2 && !strncmp(path, "..", 2)) return true;
        path += length;
        path += *path == '/';
    }
    return false;
}

bool bp_path_has_control(const char *path)
{
    for (; *path; path++)
        if ((unsigned char)*path < ' ' || *path == 0x7f) return true;
    return false;
}

char *bp_path_plugin_name(const char *path)
{
    const char *base = bp_path_basename(path);
    size_t length;

    if (!strncmp(base, "bp_", 3)) base += 3;
    length = strcspn(base, ".");
    return strndup(base, length);
}

char *bp_path_of_core(void)
{
    Dl_info info;
    char *directory, *own;

    /* A relative name was valid in the directory where the process started; now it may name any
     * file. */
    if (!dladdr((void *)(uintptr_t)bp_path_of_core, &info) || !info.dli_fname ||
        info.dli_fname[0] != '/')
        return NULL;
    directory = bp_path_dirname(info.dli_fname);
    if (!directory) return NULL;
    own = realpath(directory, NULL);
    free(directory);
    return own;
}
