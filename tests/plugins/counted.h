/* SPDX-License-Identifier: Apache-2.0 */
/* counted.h: what tests/plugins/counted.c counts, in its symbol "counted". */
#ifndef BP_TEST_COUNTED_H
#define BP_TEST_COUNTED_H

#include <stdint.h>

/* Bytes that were copied since the library was opened. */
struct counted {
    uint64_t in, out; /* from the host, to the host */
};

#endif
