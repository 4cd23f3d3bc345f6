/* SPDX-License-Identifier: Apache-2.0 */
/* format.h: the file that a profiler writes, and that bp_profile_open reads. Numbers are those of
 * the machine that wrote the file.
 *
 * A header is followed by chunks of equal size, the first at BP_PROFILE_HEADER bytes. Each thread
 * of the app fills chunks of its own with records; the core fills others with records of plugins
 * (thread 0), and with names. The file is mapped while it is written: what a record holds is in the
 * file once `used` of its chunk counts it, also if the process is killed.
 *
 * Times of the host are nanoseconds by the clock of ticks.h, whose rate was measured before the
 * recording: in an hour it differs from CLOCK_MONOTONIC by some milliseconds. Times of plugins are
 * those of the plugin's clock, and clock records say what it showed. */
#ifndef BP_PROFILE_FORMAT_H
#define BP_PROFILE_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define BP_PROFILE_MAGIC "BPPROF"
enum {
    BP_PROFILE_VERSION = 1,
    BP_PROFILE_HEADER = 8192,
    BP_PROFILE_CHUNK = 256 * 1024,
    BP_PROFILE_COMMAND = 4096,
};

struct bp_profile_header {
    char magic[8];
    uint32_t version, header_bytes, chunk_bytes, record_bytes;
    uint32_t process;
    _Atomic uint32_t finished; /* 1: all chunks are complete */
    uint64_t start_ns;         /* CLOCK_MONOTONIC when times of records began to count from 0 */
    uint64_t start_unix_ns;
    _Atomic uint64_t length_ns; /* if finished */
    _Atomic uint64_t lost, late;
    char command[BP_PROFILE_COMMAND]; /* arguments, separated by spaces; ends with 0 */
};

enum bp_profile_chunk_kind {
    BP_PROFILE_CHUNK_RECORDS = 1,
    BP_PROFILE_CHUNK_NAMES = 2,
};

/* Of BP_PROFILE_CHUNK bytes; the content begins behind it. A chunk of zeros was never used. */
struct bp_profile_chunk {
    uint32_t kind;
    uint32_t thread;       /* gettid(); 0: records of plugins */
    uint32_t thread_name;  /* the number of a name */
    _Atomic uint32_t used; /* records, or bytes of names */
    uint64_t zero[6];
};

enum bp_profile_record_flags {
    BP_PROFILE_ON_DEVICE = 1, /* the times are those of the device */
    BP_PROFILE_RAW_CLOCK = 2, /* times of the plugin's clock, not since the start: clock records of
                                 the device say how to convert them */
};

/* A record of this kind is no event: begin is a time since the start, and end the time of the clock
 * of `device` at that moment. Readers draw straight lines between such points; beyond the first and
 * the last one the clocks run at the same rate, or at that of the nearest line. */
enum {
    BP_PROFILE_KIND_CLOCK = 255
};

struct bp_profile_record {
    uint64_t begin, end; /* nanoseconds since the start */
    uint64_t tag;        /* of allocations and frees: the total */
    uint64_t bytes;
    uint32_t name, kernel, node, shapes, device; /* numbers of names; 0: none */
    uint32_t stream;
    uint16_t kind;  /* enum bp_record_kind, enum bp_profile_kind, BP_PROFILE_KIND_CLOCK */
    uint16_t flags; /* enum bp_profile_record_flags */
    uint32_t queue;
};

/* A name: this, then `length` bytes without a 0, then bytes up to a multiple of 8. A chunk whose
 * `used` counts a record has the names of the record in this chunk or another. */
struct bp_profile_name {
    uint32_t number; /* from 1 */
    uint32_t length;
};

#endif
