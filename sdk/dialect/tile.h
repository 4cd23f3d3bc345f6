/* SPDX-License-Identifier: Apache-2.0 */
/* tile.h: computes the tile of a product that a lane owns, from panels of both sides: TILE_ROWS
 * lines of a and TILE_COLUMNS lines of b, stored k after k, of type acc. */
#ifndef BP_DIALECT_TILE_H
#define BP_DIALECT_TILE_H

#include "tile_size.h"
#include "simd.h"

KFN void tile_make(wide *s, i64 k, GLOBAL const acc *a, GLOBAL const acc *b)
{
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) s[r] = wide_zero();
    for (; k > 0; k--, a += TILE_ROWS, b += TILE_COLUMNS) {
        wide line = wide_load(b);
        UNROLL
        for (int r = 0; r < TILE_ROWS; r++) s[r] = wide_mul_add(s[r], a[r], line);
    }
}

#endif
