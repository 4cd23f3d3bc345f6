/* SPDX-License-Identifier: Apache-2.0 */
/* block_size.h: defines the sizes of the block of a product that a team computes: its edge, the
 * number of terms in the team's memory at a time, the lanes of the team, and the edge of each
 * lane's part. */
#ifndef BP_DIALECT_BLOCK_SIZE_H
#define BP_DIALECT_BLOCK_SIZE_H

enum { BLOCK = 128, BLOCK_STEP = 8, BLOCK_LANES = 256, BLOCK_EDGE = 8 };

#endif
