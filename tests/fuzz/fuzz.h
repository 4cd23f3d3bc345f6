/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz.h: a fuzzer is one function over bytes and some seeds to begin with. With clang and
 * -Dfuzz=true libFuzzer drives it (seeds.c); otherwise mutate.c does, in every build, for as long
 * as it is given. */
#ifndef BP_TEST_FUZZ_H
#define BP_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const char *const bp_fuzz_seeds[]; /* ends with NULL */

#endif
