/* SPDX-License-Identifier: Apache-2.0 */
/* affine.h: declares nodes that multiply each channel by a frozen factor and add a frozen shift,
 * y = a x + t, and how passes merge them into their neighbours. */
#ifndef BP_AFFINE_H
#define BP_AFFINE_H

#include "passes.h"
#include "rewrite.h"

#include "../call/compose.h"

enum { /* the inputs of batch_norm */
    BP_NORM_X,
    BP_NORM_SCALE,
    BP_NORM_BIAS,
    BP_NORM_MEAN,
    BP_NORM_VARIANCE,
    BP_NORM_INPUTS
};

/* A batch_norm, scale, mul, div, add or sub. Channels are axis 1. */
struct bp_affine {
    uint32_t node;
    uint32_t x;                  /* the value that changes */
    uint32_t in[BP_NORM_INPUTS]; /* of a batch_norm; of mul, div, add and sub in[1] is the operand;
                                    BP_NO_VALUE: absent */
    int64_t channels;
    uint32_t dtype; /* f32 or f64: half types round at other places */
};

/* The largest magnitudes of the factors and shifts; infinity if one is not finite. */
struct bp_affine_bounds {
    double factor, shift;
};

/* The factor and the shift as symbolic tensors of one element, or one for each channel; NULL:
 * none. */
struct bp_affine_terms {
    struct bp_tensor *factor, *shift;
};

/* affine.c. Whether node n is such a node, whose input number `side` changes (0, or of mul and add
 * 1), and which names no kernel. Looks at types only. */
bool bp_affine_find(const struct bp_ir *ir, uint32_t n, uint32_t side, struct bp_affine *out);

/* Whether the node may add something other than 0. */
bool bp_affine_shifts(const struct bp_ir *ir, const struct bp_affine *a);

/* Reads the constants. false: they cannot be read. */
bool bp_affine_read(const struct bp_ir *ir, const struct bp_affine *a,
                    struct bp_affine_bounds *out);

/* Whether a factor has a moderate size: otherwise weights might become infinite that were finite,
 * or a channel would be NaN in another way than before. */
bool bp_affine_is_moderate(double factor);

/* The largest magnitude of a frozen constant; infinity if it cannot be read or is not finite; 0 for
 * BP_NO_VALUE. */
double bp_affine_largest(const struct bp_ir *ir, uint32_t value);

/* Returns the value of a port of one tensor, or BP_NO_VALUE. */
uint32_t bp_affine_input(const struct bp_ir *ir, const struct bp_node *node, uint32_t port);

/* Whether all values that are there are frozen constants of this dtype. */
bool bp_affine_frozen(const struct bp_ir *ir, const uint32_t *value, uint32_t n, uint32_t dtype);

/* Records the terms. A failure is one of the composition. */
struct bp_affine_terms bp_affine_record(struct bp_compose *c, struct bp_rewrite *rw,
                                        const struct bp_affine *a);

/* Returns a term as a tensor of one axis, with an element for each channel; NULL for NULL. */
struct bp_tensor *bp_affine_vector(struct bp_compose *c, const struct bp_affine *a,
                                   struct bp_tensor *term);

/* affine_before.c: merges such a node into the convolution that alone reads its result, node n.
 * *out_merged: whether it did. */
enum bp_status bp_affine_merge_before(struct bp_ir *ir, uint32_t n, bool *out_merged);

static inline bool bp_affine_is(const struct bp_node *node, enum bp_row_number row)
{
    return node->row == &bp_opdef[row];
}

#endif
