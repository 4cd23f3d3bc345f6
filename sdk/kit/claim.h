/* SPDX-License-Identifier: Apache-2.0 */
/* claim.h: states the reasons for which engines over a vendor's compiler leave nodes out, whatever
 * their operators are. Reasons are constant text. */
#ifndef KIT_CLAIM_H
#define KIT_CLAIM_H

#include <backplane/graph_data.h>
#include <stdbool.h>

enum {
    KIT_CLAIM_RANK = 8 /* the axes of a value, at most */
};

/* Why a node with these flags (enum bp_data_node_flags) is left out, or NULL. Random numbers and
 * updates are the engine's own to refuse. */
static inline const char *kit_claim_flags(uint32_t flags)
{
    if (flags & BP_DATA_BOUND) return "extents that depend on data";
    if (flags & BP_DATA_PINNED) return "the app demands a kernel";
    return flags & BP_DATA_FIXED ? "the node belongs to the core" : NULL;
}

/* Whether a value has one of these dtypes (a mask of 1 << enum bp_dtype). */
static inline bool kit_claim_has_dtype(const struct bp_data_value *v, uint64_t dtypes)
{
    return v->dtype < 64 && dtypes & UINT64_C(1) << v->dtype;
}

/* Why a value is left out whose shape and layout a compiler of static shapes does not take; or
 * NULL. */
static inline const char *kit_claim_value(const struct bp_data_value *v, bool may_be_empty)
{
    if (v->rank > KIT_CLAIM_RANK) return "more than 8 axes";
    if (v->layout) return "a layout of its own";
    if (v->flags & BP_DATA_SHAPE_ONLY) return "a value without contents";
    for (uint32_t a = 0; a < v->rank; a++)
        if (v->shape[a] < 0 || (!v->shape[a] && !may_be_empty))
            return "an empty tensor, or an extent that is not known";
    return NULL;
}

/* Whether an input of the node supplies an attribute, whose value is then not known. */
static inline bool kit_claim_has_attribute_tensor(const struct bp_data_node *node)
{
    for (uint32_t p = 0; p < node->info->n_in; p++)
        for (uint32_t i = node->in_at[p]; i < node->in_at[p + 1]; i++)
            if (node->info->in[p].kind == BP_PORT_HOST && node->in[i] != BP_DATA_NONE) return true;
    return false;
}

#endif
