/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c: finds device nodes that the process may not use. */
#include "nodes.h"
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool node_is_refused(const char *path)
{
    struct stat state;

    return access(path, R_OK | W_OK) && !stat(path, &state) && !S_ISDIR(state.st_mode);
}

/* The same for the nodes of one pattern. */
static bool nodes_are_refused(const char *pattern, char out[KIT_ADVICE_SIZE])
{
    bool found = false;
    glob_t all;

    if (glob(pattern, 0, NULL, &all)) return false;
    for (size_t i = 0; i < all.gl_pathc && !found; i++) {
        found = node_is_refused(all.gl_pathv[i]);
        if (found)
            snprintf(out, KIT_ADVICE_SIZE,
                     "this user may not use %s: add the user to the group of the node",
                     all.gl_pathv[i]);
    }
    globfree(&all);
    return found;
}

bool kit_nodes_advice(const char *plugin, const char *nodes, char out[KIT_ADVICE_SIZE])
{
    const char *given = kit_setting(plugin, "NODES"), *rest = given ? given : nodes;
    char pattern[KIT_PATH_SIZE];

    *out = 0;
    while (*rest) {
        size_t length = strcspn(rest, ":");
        snprintf(pattern, sizeof pattern, "%.*s", (int)length, rest);
        if (length < sizeof pattern && nodes_are_refused(pattern, out)) return true;
        rest += length + (rest[length] == ':');
    }
    return false;
}
