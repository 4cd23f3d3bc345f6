/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c: finds out whether the process may not use the device nodes of Ascend devices: CANN then
 * returns a code that does not say so. */
#include "nodes.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool npu_nodes_advice(const char *folder, char *out, size_t size)
{
    DIR *nodes = opendir(folder);
    const struct dirent *node;
    char path[512];
    bool found = false;

    while (nodes && !found && (node = readdir(nodes)) != NULL) {
        if (strncmp(node->d_name, "davinci", 7)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, node->d_name);
        if (!access(path, R_OK | W_OK)) continue;
        snprintf(out, size, "this user may not use %s: add the user to the group of the node",
                 path);
        found = true;
    }
    if (nodes) closedir(nodes);
    return found;
}
