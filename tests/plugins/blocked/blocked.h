/* SPDX-License-Identifier: Apache-2.0 */
/* blocked.h: declares the rows of the plugin of tests that has layouts.
 *
 *   c8   images, f32 of four axes and 4 or more channels: channels in blocks of 8, a block
 *        innermost, the last one with padding
 *   n8   matrices, f32 of two axes: columns in blocks of 8, a block innermost */
#ifndef BP_TEST_BLOCKED_H
#define BP_TEST_BLOCKED_H

#include <backplane/kernel.h>

#include <stdbool.h>
#include <stddef.h>

enum {
    BLOCKED_STRIDES,
    BLOCKED_C8,
    BLOCKED_N8,
    BLOCKED_LAYOUTS = BLOCKED_N8
};

extern const struct bp_layout blocked_layout[BLOCKED_LAYOUTS];
extern const struct bp_kernel blocked_row[];
extern const size_t blocked_row_count;

/* Whether BP_BLOCKED is this word. */
bool blocked_is(const char *word);
/* Changes a row as BP_BLOCKED says. false: the plugin does not have the row now. */
bool blocked_row_is_wanted(struct bp_kernel *row);

#endif
