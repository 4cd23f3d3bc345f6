/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: declares a fuzzer: one function over bytes, and some seeds. With clang and -Dfuzz=true,
 * libFuzzer drives it (seeds.c). In all other builds mutate.c drives it, for the given time. */
#ifndef BP_TEST_FUZZ_H
#define BP_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const char *const bp_fuzz_seeds[]; /* ends with NULL */

#endif
