/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.h: declares the check of device nodes. */
#ifndef NPU_NODES_H
#define NPU_NODES_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a node davinci* in this folder ("/dev") exists that the process may not read and write:
 * then `out` receives advice. */
bool npu_nodes_advice(const char *folder, char *out, size_t size);

#endif
