/* SPDX-License-Identifier: Apache-2.0 */
/* reference_philox.h: Philox4x32-10, apart from that of any plugin. */
#ifndef BP_OPS_RANDOM_REFERENCE_PHILOX_H
#define BP_OPS_RANDOM_REFERENCE_PHILOX_H

#include <stdint.h>

/* Four words of a counter of four and a key of two, the lowest first. */
void ref_philox(const uint32_t *counter, const uint32_t *key, uint32_t *out);

#endif
