/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: what the cases of the suite ccl share: a case as two numbers, ranks as threads of the
 * case's process and as processes of their own, the numbers that calls are given, and one call that
 * is held to what it should leave. */
#ifndef BP_CONFORM_CCL_H
#define BP_CONFORM_CCL_H

#include "../check.h"
#include <ops/common/reference_number.h>

/* What ranks do. X(NAME, function in ccl_other.c or ccl_failure.c). */
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
    CCL_MIXED = 2,     /* odd ranks are of cpu:0 */
    CCL_ASYNC = 4,     /* streams with queues */
    CCL_PROCESSES = 8, /* each rank is a process */
    CCL_SPECIAL = 16,  /* NaN and infinities among the numbers */
};

/* call: enum bp_comm_call; SEND stands for a ring of sends and receives. n: elements of the part of
 * one rank; of programs but CALL a variant. */
struct ccl_case {
    uint32_t program, call, dtype, reduction, ranks, root, flags;
    int64_t n;
};
void ccl_pack(const struct ccl_case *k, int64_t *arg);
struct ccl_case ccl_unpack(const int64_t *arg);
const char *ccl_call_name(uint32_t call);
bool ccl_call_reduces(uint32_t call);
const char *ccl_reduction_name(uint32_t reduction);

/* One rank, on a thread or in a process of its own. */
struct ccl_rank {
    struct check check; /* its own result */
    struct result result;
    struct ccl_case k;
    struct bp_device *device; /* the case's, or cpu:0 */
    struct bp_stream *stream; /* the two are made by ccl_join */
    struct bp_comm *comm;
    uint32_t rank, size;
    struct bp_comm_id id[2]; /* of the job, and of what comes after a failure */
    uint64_t hash;           /* of what has to be the same on all ranks */
};

/* Runs a case: makes its ranks, waits for them, and takes what they found. */
void ccl_case_run(struct check *c, const int64_t *arg);
/* One rank of it in a process of its own, which conform_child is; reports one line. */
int ccl_child(struct place *place, char **words);

/* Makes the stream and the communicator of the job (which: 0 or 1), as rank of size. */
bool ccl_join(struct ccl_rank *r, int which, uint32_t rank, uint32_t size);
/* Gives both up, where they are there; a communicator that is not whole is aborted, so that nobody
 * waits for this rank. */
void ccl_part(struct ccl_rank *r);
/* The status of the call and of what it left on the stream. */
enum bp_status ccl_done(struct ccl_rank *r, enum bp_status status);

/* Numbers of all ranks for a call: the same wherever they are made. */
struct ccl_data {
    struct num_type type;
    uint32_t ranks;
    bool rounds_each;           /* small floats are rounded after each rank, as a plugin may */
    int64_t room;               /* elements of each rank */
    unsigned char *src[8];      /* of each rank */
    long double *want, *allowed; /* of reductions: each number and how far off it may be */
};
enum { CCL_SHIFT = 7 }; /* elements that turns of a call begin apart */
void ccl_data_make(struct ccl_data *d, const struct ccl_rank *r, const struct ccl_case *k,
                   int64_t room);
void ccl_data_finish(struct ccl_data *d);
/* Whether elements got are those from `from` on; else says which is wrong, and how. */
bool ccl_data_check(struct ccl_rank *r, const struct ccl_data *d, const char *call,
                    const unsigned char *got, int64_t from, int64_t n);

/* Three turns of one call on the rank's communicator, each held to what it should leave: results,
 * sources and what lies around them as they were; equal turns equal bits. */
bool ccl_check_call(struct ccl_rank *r, const struct ccl_case *k);
/* The call itself: src and dst, of which a rank may have none. */
enum bp_status ccl_call(struct ccl_rank *r, const struct ccl_case *k, struct bp_tensor *src,
                        struct bp_tensor *dst);

typedef void ccl_program_fn(struct ccl_rank *r);
#define X(NAME, function) ccl_program_fn function;
CCL_PROGRAMS(X)
#undef X

#endif
