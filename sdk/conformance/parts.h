/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: finds the kernel rows that a device needs for a case that no kernel row of its own
 * operator runs: rows of the operators into which the core decomposes the case. */
#ifndef BP_CONFORM_PARTS_H
#define BP_CONFORM_PARTS_H

#include "check.h"
#include <backplane/graph.h>
#include <ops/common/cases.h>

/* The device's kernel rows, and the results found so far for cases of one fixture. One result is
 * valid for all cases with the same operator, attributes, dtypes and ranks (separately with and
 * without elements; for cases of real size, also the same extents). Used by one thread at a
 * time. */
struct parts;

/* Accepts NULL. */
void parts_destroy(struct parts *parts);

/* Returns true if the device has no usable kernel row for an operator into which the case
 * decomposes, nor rows for all operators into which that operator decomposes in turn. Views and
 * copies need none. text then receives the missing operator and dtype (NULL: not
 * wanted). Returns false for a case with a kernel row of its own. */
bool parts_lack(struct fixture *fixture, const struct kernel_case *made, char *text, size_t size);

/* Does the same for a node of a graph, whose operator is defined in other operators and has no row
 * for the node's dtypes. */
bool parts_lack_node(struct fixture *fixture, struct bp_graph *graph,
                     const struct bp_node_info *node, char *text, size_t size);

/* Whether the case decomposes into op with one of the dtypes of the mask (for its type variable T),
 * and the device has a kernel row for that. */
bool parts_have(struct fixture *fixture, const struct kernel_case *made, const char *op,
                uint64_t dtypes);

#endif
