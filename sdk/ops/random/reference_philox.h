/* SPDX-License-Identifier: Apache-2.0 */
/* reference_philox.h: declares the suite's own Philox4x32-10, independent of the code of any
 * plugin. */
#ifndef BP_OPS_RANDOM_REFERENCE_PHILOX_H
#define BP_OPS_RANDOM_REFERENCE_PHILOX_H

#include <stdint.h>

/* Computes four words from a counter of four words and a key of two words, lowest word first. */
void ref_philox(const uint32_t *counter, const uint32_t *key, uint32_t *out);

#endif
