/* SPDX-License-Identifier: Apache-2.0 */
/* paced.h: what a test may ask of paced.c, and tell it. Look the symbol `paced` up in the
 * library. */
#ifndef BP_TEST_PACED_H
#define BP_TEST_PACED_H

#include <stdbool.h>
#include <stdint.h>

/* stream: the plugin's, as the core has it; NULL where there is one order. */
struct paced {
    uint64_t budget; /* bytes of memory; set it before the device is opened */
    uint64_t used;   /* bytes of memory taken now */
    uint64_t broken; /* memory that was given back while work that uses it had not ended */
    uint64_t chunks; /* allocations ever */

    /* Lets up to n pieces of work of a stream end; a wait ends if what it waits for has. */
    void (*run)(void *stream, uint64_t n);
    /* What stands for a stream from now on, and the place of its last piece of work. */
    uint32_t (*index)(void *stream);
    uint64_t (*position)(void *stream);
    bool (*is_done)(uint32_t index, uint64_t position);
    /* Whether work given to stream from now on comes after that place. */
    bool (*is_before)(uint32_t index, uint64_t position, void *stream);
};

#endif
