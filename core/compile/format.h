/* SPDX-License-Identifier: Apache-2.0 */
/* format.h: declares the parts of the pass format, which gives values layouts of the plugin. */
#ifndef BP_FORMAT_H
#define BP_FORMAT_H

#include "../call/kernel_layout.h"
#include "layouts.h"
#include "passes.h"

/* A value that is a copy of another one in another layout. */
struct bp_format_copy {
    uint32_t is;   /* the copy */
    uint32_t next; /* the next copy of the same value, or BP_NO_VALUE */
};

struct bp_format {
    struct bp_compilation *c;
    struct bp_ir *ir;
    struct bp_layouts layouts; /* strides of the values so far */
    struct bp_format_copy *copy;
    uint32_t *first; /* of each value: the first of its copies, or BP_NO_VALUE */
    uint32_t n_copy, room_copy, room_first;
    bool converts_all; /* BP_VALIDATE=formats: whatever the work of a node */
};

static inline uint32_t bp_format_layout(const struct bp_format *f, uint32_t v)
{
    return f->ir->value[v].type->view.layout;
}

/* ---- format_row.c ---- */

/* Returns the value itself or its copy that is in a layout; BP_NO_VALUE: there is none. */
uint32_t bp_format_find(const struct bp_format *f, uint32_t v, uint32_t layout);

/* Chooses the row with layouts that runs a node; NULL: none, so that all its tensors
 * are in strides. Fails if a plugin's function fails. */
enum bp_status bp_format_choose(struct bp_format *f, uint32_t node,
                                const struct bp_kernel **out_kernel);

#endif
