/* SPDX-License-Identifier: Apache-2.0 */
/* tile_size.h: results that a lane makes of a product: rows, and columns side by side. */
#ifndef BP_DIALECT_TILE_SIZE_H
#define BP_DIALECT_TILE_SIZE_H

enum { TILE_ROWS = 8, TILE_COLUMNS = 16 };

#endif
