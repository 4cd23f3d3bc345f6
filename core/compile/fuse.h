/* SPDX-License-Identifier: Apache-2.0 */
/* fuse.h: declares groups of elementwise nodes that the pass `fuse` replaces by one call of
 * `fused`. */
#ifndef BP_FUSE_H
#define BP_FUSE_H

#include "ir.h"

#include <backplane/fused.h>

/* Nodes of a group, in the order of execution. */
struct bp_fuse_group {
    uint32_t node[BP_FUSED_STEPS], n;
};

/* A group as a call: its code, and the IR's values for inputs and outputs. */
struct bp_fuse_call {
    int64_t word[BP_FUSED_WORDS];
    size_t n_word;
    uint32_t in[BP_FUSED_IN], out[BP_FUSED_OUT], n_in, n_out;
};

/* fuse_code.c: writes a group as code. Inputs, registers and outputs are numbered in the order of
 * their first use, so that equal groups have equal code. Values that nodes outside of the group or
 * the app read become outputs. false: the code would exceed a limit of fused.h. */
bool bp_fuse_encode(const struct bp_ir *ir, const struct bp_fuse_group *group,
                    struct bp_fuse_call *out_call);

/* Returns the number of operands of an operator that code may name; 0 for other operators. */
uint32_t bp_fuse_operands(const struct bp_opdef *row);

#endif
