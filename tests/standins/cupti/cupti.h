/* SPDX-License-Identifier: Apache-2.0 */
/* cupti.h: declares the stand-in for CUPTI, written from the comments of cupti_activity.h. It makes
 * records of the simulator's work, as the strict reader of CUPTI's documentation expects it:
 *
 *   - a kind is enabled once, after the callbacks have been registered, and makes no records
 *     before; a wrong call ends the process with a message
 *   - buffers are requested when a record needs room, and returned by a thread of its own when they
 *     are full, or by a flush
 *   - records of several streams follow each other as the work ends
 *   - the record of an external id precedes that of the call of the driver, if both kinds are
 *     enabled
 *   - a forced flush returns records of unfinished work, which have no times
 *
 * Environment variables, read when the callbacks are registered:
 *
 *   BP_STANDIN_CUPTI_VERSION=n  the version (130001)
 *   BP_STANDIN_CUPTI_USES=n     bytes of each buffer that are used (all)
 *   BP_STANDIN_CUPTI_LATE=1     external ids are recorded when a flush begins
 *   BP_STANDIN_CUPTI_KEEPS=1    buffers are returned by bp_standin_cupti_deliver only */
#ifndef STANDIN_CUPTI_H
#define STANDIN_CUPTI_H

#include "simulator/sim.h"

/* Kinds of records. */
enum standin_kind {
    STANDIN_MEMCPY = 1,
    STANDIN_MEMSET = 2,
    STANDIN_DRIVER = 4,
    STANDIN_RUNTIME = 5,
    STANDIN_CONCURRENT_KERNEL = 10,
    STANDIN_MEMCPY2 = 22,
    STANDIN_SYNCHRONIZATION = 38,
    STANDIN_EXTERNAL_CORRELATION = 39,
    STANDIN_MEMORY2 = 49,
    STANDIN_KINDS = 64,
};

/* The clock of records is ahead of CLOCK_MONOTONIC by this. */
#define STANDIN_CUPTI_AHEAD UINT64_C(3600000000000)

typedef void standin_requested(uint8_t **buffer, size_t *size, size_t *records);
typedef void standin_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                               size_t valid);

/* activity.c: what api.c calls. Each returns a code. */
int standin_register(standin_requested *requested, standin_completed *completed);
int standin_enable(int kind, bool on);
int standin_flush(bool forced);
int standin_next(uint8_t *buffer, size_t valid, void **record);
size_t standin_dropped(void);
int standin_push(uint64_t id);
int standin_pop(uint64_t *out);
uint32_t standin_version(void);
/* Ends the process: the caller has broken a rule. */
__attribute__((format(printf, 1, 2), noreturn)) void standin_broken(const char *format, ...);

#endif
