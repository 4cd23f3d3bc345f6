/* SPDX-License-Identifier: Apache-2.0 */
/* run_size.h: defines how many elements of a size in bytes a lane of a GPU computes together: 16
 * bytes of them, or two. For a cast the number is small, because the other operand's elements may
 * be eight times as long. Always a power of two. */
#ifndef BP_DIALECT_RUN_SIZE_H
#define BP_DIALECT_RUN_SIZE_H

#define RUN_OF(bytes) ((bytes) < 16 ? 16 / (int)(bytes) : 2)
#define CAST_RUN_OF(bytes) ((bytes) < 8 ? 4 : 2)

#endif
