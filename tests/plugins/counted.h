/* SPDX-License-Identifier: Apache-2.0 */
/* counted.h: declares the counters of tests/plugins/counted.c, its symbol "counted". */
#ifndef BP_TEST_COUNTED_H
#define BP_TEST_COUNTED_H

#include <stdint.h>

/* Bytes copied since the library was opened. */
struct counted {
    uint64_t in, out; /* from the host, to the host */
};

#endif
