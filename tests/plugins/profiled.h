/* SPDX-License-Identifier: Apache-2.0 */
/* profiled.h: declares the controls and counters of tests/plugins/profiled.c, its symbol
 * "profiled". */
#ifndef BP_TEST_PROFILED_H
#define BP_TEST_PROFILED_H

#include <backplane/profiler.h>
#include <stdatomic.h>
#include <stdint.h>

/* The records of work are of this kind of the plugin: the second of its two own kinds. */
enum {
    PROFILED_WORK = BP_RECORD_OWN + 1
};

struct profiled {
    /* Set before a profiler starts. The clock of the records shows offset_ns at the first reading,
     * and moves by `rate` nanoseconds in one. */
    uint64_t offset_ns;
    double rate;
    enum bp_status start_status, clock_status; /* the results of these callbacks */
    const char *start_reason;                  /* the message of a start that fails; NULL: none */
    _Atomic uint32_t kind; /* of the records of work that is submitted from now on */

    /* Changes the rate of the clock from now on. */
    void (*set_rate)(double rate);
    /* The time of the records' clock now. */
    uint64_t (*now)(void);
    /* Hands over records by the sink of the last start, also after stop. */
    void (*put)(const struct bp_record *first, size_t count, size_t stride);

    _Atomic uint64_t starts, stops, flushes, readings;
    _Atomic uint64_t tags;   /* calls of tag with a tag */
    _Atomic uint64_t faults; /* tags of a stream that do not rise, that are not reset on the same
                                 thread, or that come while nothing is recorded */
    _Atomic uint64_t begun, ended; /* ranges */
    char range[32];                /* the name of the range that began last */
    _Atomic uint64_t marks;
    char mark[32]; /* the name of the last one */
};

#endif
