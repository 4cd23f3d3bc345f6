/* SPDX-License-Identifier: Apache-2.0 */
/* tile_size.h: defines the size of the tile of a product that a lane computes: its rows and its
 * adjacent columns. */
#ifndef BP_DIALECT_TILE_SIZE_H
#define BP_DIALECT_TILE_SIZE_H

enum { TILE_ROWS = 8, TILE_COLUMNS = 16 };

#endif
