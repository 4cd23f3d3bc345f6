/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h: declares advice about device nodes, such as /dev/kfd, that a process may not use. */
#ifndef BP_KIT_NODES_H
#define BP_KIT_NODES_H

#include "library.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    KIT_ADVICE_SIZE = KIT_PATH_SIZE + 128 /* bytes that advice about a node needs */
};

/* Looks for a device node that the process may not read and write: vendors' libraries then report
 * that there is no device, or a code that does not say why. Call it only after such a failure.
 * nodes: paths as patterns of glob(3), separated by colons; the setting BP_<PLUGIN>_NODES replaces
 * them. Returns true and writes advice to `out` if there is such a node; otherwise `out` is empty.
 * Folders are not nodes. Any thread. */
bool kit_nodes_advice(const char *plugin, const char *nodes, char out[KIT_ADVICE_SIZE]);

#endif
