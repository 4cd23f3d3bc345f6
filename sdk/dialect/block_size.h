/* SPDX-License-Identifier: Apache-2.0 */
/* block_size.h: the block of a product that a team makes: its edge, terms that lie in the team's
 * memory at a time, lanes of the team, the edge of what each of them makes. */
#ifndef BP_DIALECT_BLOCK_SIZE_H
#define BP_DIALECT_BLOCK_SIZE_H

enum { BLOCK = 128, BLOCK_STEP = 8, BLOCK_LANES = 256, BLOCK_EDGE = 8 };

#endif
