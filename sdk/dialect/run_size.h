/* SPDX-License-Identifier: Apache-2.0 */
/* run_size.h: how many elements of so many bytes a lane of a GPU makes together: those of 16 bytes,
 * or two; of a cast few, for the others may be as long as eight. Always a power of two. */
#ifndef BP_DIALECT_RUN_SIZE_H
#define BP_DIALECT_RUN_SIZE_H

#define RUN_OF(bytes) ((bytes) < 16 ? 16 / (int)(bytes) : 2)
#define CAST_RUN_OF(bytes) ((bytes) < 8 ? 4 : 2)

#endif
