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
 * NULL: there is none. out_empty: the contents were freed; the caller computes them again and calls
 * bp_folded_fill before it uses the constant. */
struct bp_tensor *bp_folded_find(const struct bp_device *device, const struct bp_folded_key *key,
                                 bool *out_empty);

/* Writes the contents again, from a tensor of the same type, unless another user has. false: the
 * two differ in their types or strides. */
bool bp_folded_fill(struct bp_tensor *tensor, const struct bp_tensor *from);

/* Keeps a frozen tensor under a key, with one user. If it cannot be kept, it is not shared. */
void bp_folded_keep(const struct bp_device *device, const struct bp_folded_key *key,
                    struct bp_tensor *tensor);

/* Adds a user that reads the contents. false: the contents were freed; nothing changes. A tensor
 * that is no kept constant has no users, and the result is true. */
bool bp_folded_add_user(const struct bp_tensor *tensor);

/* One of the users does not read the contents of the constant again: its plans have copies. After
 * the last of them the contents are freed, if no other tensor lies in the memory and the device
 * can; the constant keeps its address and its identity, by which later programs find the plans'
 * copies.
 * false: the tensor is no kept constant. */
bool bp_folded_end_reads(const struct bp_tensor *tensor);

/* Ends the use of a tensor that may be a kept constant; after its last user it is forgotten.
 * unread: this user has called bp_folded_end_reads. */
void bp_folded_release(const struct bp_tensor *tensor, bool unread);

#endif
