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
    bool is_open; /* the group reads truth values of other nodes, or others read truth values of
                     the group: such values are no inputs and outputs, so that it is no call */
};

/* An operator that code may name: its number of operands, a bit for each of them that is a truth
 * value, and whether the result is one. */
struct bp_fuse_member {
    uint32_t n, truths, to_truth;
};

/* fuse_code.c: writes a group as code. Inputs, registers and outputs are numbered in the order of
 * their first use, so that equal groups have equal code. Values that nodes outside of the group or
 * the app read become outputs. false: the code would exceed a limit of fused.h, or its inputs would
 * have several dtypes. */
bool bp_fuse_encode(const struct bp_ir *ir, const struct bp_fuse_group *group,
                    struct bp_fuse_call *out_call);
/* Whether bp_fuse_encode would write the group. *out_is_open: as in the call. */
bool bp_fuse_fits(const struct bp_ir *ir, const struct bp_fuse_group *group, bool *out_is_open);

/* Returns NULL for an operator that code may not name. */
const struct bp_fuse_member *bp_fuse_member_of(const struct bp_opdef *row);

#endif
