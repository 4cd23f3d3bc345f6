/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: functions shared by the cases of the suite ccl: a case as two numbers, ranks as threads of
 * the case's process or as processes, the input data of calls, and one call whose results are
 * checked. */
#ifndef BP_CONFORM_CCL_H
#define BP_CONFORM_CCL_H

#include "../check.h"
#include <ops/common/reference_number.h>

/* The programs that ranks run. X(NAME, function in ccl_other.c or ccl_failure.c). */
#define CCL_PROGRAMS(X) \
    X(CALL, ccl_program_call) \
    X(ALL, ccl_program_all) \
    X(REUSE, ccl_program_reuse) \
    X(SPLIT, ccl_program_split) \
    X(SEVERAL, ccl_program_several) \
    X(STREAMS, ccl_program_streams) \
    X(OVERWRITTEN, ccl_program_overwritten) \
    X(MISMATCH, ccl_program_mismatch) \
    X(LATE, ccl_program_late) \
    X(ABORT, ccl_program_abort) \
    X(DEATH, ccl_program_death) \
    X(ABSENT, ccl_program_absent)
enum ccl_program {
#define X(NAME, function) CCL_PROGRAM_##NAME,
    CCL_PROGRAMS(X)
#undef X
};

enum ccl_flags {
    CCL_IN_PLACE = 1,
    CCL_MIXED = 2,     /* odd ranks have cpu:0 as their device */
    CCL_ASYNC = 4,     /* streams are asynchronous */
    CCL_PROCESSES = 8, /* each rank is a process */
    CCL_SPECIAL = 16,  /* the data contain NaN and infinities */
};

/* call: enum bp_comm_call; SEND means a ring of sends and receives. n: elements of one rank's part;
 * for programs other than CALL the number of a variant. */
struct ccl_case {
    uint32_t program, call, dtype, reduction, ranks, root, flags;
    int64_t n;
};
void ccl_pack(const struct ccl_case *k, int64_t *arg);
struct ccl_case ccl_unpack(const int64_t *arg);
const char *ccl_call_name(uint32_t call);
bool ccl_call_reduces(uint32_t call);
const char *ccl_reduction_name(uint32_t reduction);

/* One rank, on a thread or in its own process. */
struct ccl_rank {
    struct check check; /* records into `result` below */
    struct result result;
    struct ccl_case k;
    struct bp_device *device; /* the device of the case, or cpu:0 */
    struct bp_stream *stream; /* stream and comm are created by ccl_join */
    struct bp_comm *comm;
    uint32_t rank, size;
    struct bp_comm_id id[2]; /* of the first communicator, and of the one after a failure */
    uint64_t hash;           /* hash of the data that must be equal on all ranks */
};

/* Runs a case: starts its ranks, waits for them, and combines their results. */
void ccl_case_run(struct check *c, const int64_t *arg);
/* Runs one rank in its own process, called by conform_child. Reports its result as one line. */
int ccl_child(struct fixture *fixture, char **words);

/* Creates the rank's stream and a communicator with the id r->id[which] (which: 0 or 1), as `rank`
 * of `size`. */
bool ccl_join(struct ccl_rank *r, int which, uint32_t rank, uint32_t size);
/* Destroys the stream and the communicator, if they exist. After a failure of the case the
 * communicator is aborted first, so that no other rank waits for this one. */
void ccl_part(struct ccl_rank *r);
/* Returns the status of the call, or of the work that it submitted to the stream. */
enum bp_status ccl_done(struct ccl_rank *r, enum bp_status status);

/* The input data of all ranks for one call; every process computes the same data. */
struct ccl_data {
    struct num_type type;
    uint32_t ranks;
    /* Floats of small types are rounded after each rank, as a plugin's own collectives may do. */
    bool rounds_each;
    int64_t room;          /* elements of each rank */
    unsigned char *src[8]; /* the data of each rank */
    /* For reductions of floats: each expected number and its allowed error. The expected results of
     * integers are computed when they are compared. */
    long double *want, *allowed;
};
enum { CCL_SHIFT = 7 }; /* distance in elements between the data of two repetitions of a call */
void ccl_data_make(struct ccl_data *d, const struct ccl_rank *r, const struct ccl_case *k,
                   int64_t room);
void ccl_data_finish(struct ccl_data *d);
/* Whether elements got are the expected ones from index `from` on. If not, the case records which
 * element is wrong. */
bool ccl_data_check(struct ccl_rank *r, const struct ccl_data *d, const char *call,
                    const unsigned char *got, int64_t from, int64_t n);

/* Makes one call three times on the rank's communicator and checks each repetition: the results,
 * that sources and the surrounding bytes are unchanged, and that repetitions with equal data give
 * equal bits. */
bool ccl_check_call(struct ccl_rank *r, const struct ccl_case *k);
/* Makes the call. src or dst may be NULL where the rank has none. */
enum bp_status ccl_call(struct ccl_rank *r, const struct ccl_case *k, struct bp_tensor *src,
                        struct bp_tensor *dst);

typedef void ccl_program_fn(struct ccl_rank *r);
#define X(NAME, function) ccl_program_fn function;
CCL_PROGRAMS(X)
#undef X

#endif
