/* SPDX-License-Identifier: Apache-2.0 */
/* folded.h: declares constants that the compiler computed, which programs with equal expressions
 * share: the programs of one model for several shapes keep one copy of merged filters. */
#ifndef BP_FOLDED_H
#define BP_FOLDED_H

#include "../schema/op.h"

/* The expression that computes a constant, as bytes: operators, attributes and the identities of
 * the frozen tensors that it begins with. Equal bytes: equal constants. */
struct bp_folded_key {
    char *bytes; /* owned; NULL: there is no key, so the constant is not shared */
    size_t n;
};

/* Returns a new reference to the constant that was kept under this key, and one more user of it;
 * NULL: there is none. */
struct bp_tensor *bp_folded_find(const struct bp_device *device, const struct bp_folded_key *key);

/* Keeps a frozen tensor under a key, with one user. If it cannot be kept, it is not shared. */
void bp_folded_keep(const struct bp_device *device, const struct bp_folded_key *key,
                    struct bp_tensor *tensor);

/* Ends the use of a tensor that may be a kept constant; after its last user it is forgotten. */
void bp_folded_release(const struct bp_tensor *tensor);

#endif
