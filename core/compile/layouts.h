/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.h: declares how values of the IR will lie in memory: the strides that lower.c gives
 * them. */
#ifndef BP_LAYOUTS_H
#define BP_LAYOUTS_H

#include "ir.h"

struct bp_layouts {
    struct bp_ir *ir;
    struct bp_typed_view *at;  /* of each value: its type with strides */
    struct bp_invocation *inv; /* of the last node */
    uint32_t n, room;          /* values and room of `at` */
    bool copies;               /* the last node is a view of a copy: its input's strides allow no
                                  view */
};

/* Begins with the graph's inputs, which are dense, and the constants. BP_ERR_MEMORY. */
enum bp_status bp_layouts_init(struct bp_layouts *layouts, struct bp_ir *ir);
void bp_layouts_finish(struct bp_layouts *layouts);

/* Finds the strides of a node's results; those of its inputs are known. Fills layouts->inv. */
enum bp_status bp_layouts_visit(struct bp_layouts *layouts, uint32_t node);

/* Finds which outputs of the graph are row-major, and keeps them so (ir->dense). Called before a
 * pass changes layouts. */
enum bp_status bp_layouts_keep_outputs(struct bp_ir *ir);

/* Whether a node updates the result of another one, perhaps by a view. With another layout the view
 * may become a copy, and the update would be lost. */
bool bp_layouts_update_results(const struct bp_ir *ir);

#endif
