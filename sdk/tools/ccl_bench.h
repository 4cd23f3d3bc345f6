/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench.h: what the files of `bp ccl-bench` share: one rank's part of the measurement. */
#ifndef BP_CCL_BENCH_H
#define BP_CCL_BENCH_H

#include "tools.h"

/* How much of a tensor a call takes: nothing, the part of one rank, or one part for each rank. */
enum ccl_extent { CCL_NONE, CCL_PART, CCL_ALL };

struct ccl_call {
    const char *name;
    uint32_t id; /* enum bp_comm_call */
    enum ccl_extent src, dst; /* dst CCL_NONE: src is dst too */
};
extern const struct ccl_call ccl_calls[];
extern const size_t n_ccl_calls;

/* Whether its larger buffer has a part for each rank. */
static inline bool ccl_has_parts(const struct ccl_call *call)
{
    return call->src == CCL_ALL || call->dst == CCL_ALL;
}

/* What a call of one size works on. */
struct ccl_buffers {
    struct bp_tensor *src, *dst; /* the same in place; NULL for a barrier */
    void *src_data, *dst_data;   /* their memory, where the host reaches it */
    struct bp_tensor *from, *to; /* for the copies of the limit; NULL: there are none */
    void *from_data, *to_data;
    uint64_t moved; /* bytes that each rank has to read, and to write; 0: ranks do not do alike */
    int64_t count;  /* elements of the part of one rank */
    int64_t n_src, n_dst;
};

struct ccl_bench {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_comm *comm;
    struct ccl_mpi *mpi; /* whose mpirun started the ranks; or NULL */
    bool beside;         /* its calls are measured too */
    uint32_t rank, size;
    int turns;
};

/* The ways in which a turn can be taken. */
enum ccl_way { CCL_OURS, CCL_MPI, CCL_COPY, CCL_COPY_PAST_CACHES, CCL_WAYS };

/* Medians of turns of the slowest rank, in microseconds; NaN: that way was not taken. */
struct ccl_times {
    double ours, mpi;
    double limit; /* that the bytes set which have to move: the faster of both kinds of copy */
};

/* ccl_bench_turns.c: all ranks do it together. bytes: of the larger buffer. False: it failed, and
 * it was printed why. */
bool ccl_measure(const struct ccl_bench *bench, const struct ccl_call *call, uint64_t bytes,
                 struct ccl_times *out_times);

/* ccl_bench_mpi.c: Open MPI, found at run time. */

/* Whether its mpirun is installed: then *out_reason is NULL, else why not. */
bool ccl_mpi_is_there(const char **out_reason);

/* Becomes mpirun, which starts bp as so many ranks; argv as for the command. Returns only if it
 * fails, with an exit status. */
int ccl_mpi_launch(int ranks, int argc, char **argv);

/* In a process that mpirun started; elsewhere NULL, and *out_reason says why. Only once. */
struct ccl_mpi *ccl_mpi_create(const char **out_reason);

/* good: with all ranks, which it waits for; else they may have failed too. */
void ccl_mpi_destroy(struct ccl_mpi *mpi, bool good);
const char *ccl_mpi_version(const struct ccl_mpi *mpi); /* "Open MPI v4.1.4" */
void ccl_mpi_rank(const struct ccl_mpi *mpi, uint32_t *out_rank, uint32_t *out_size);
void ccl_mpi_share_id(const struct ccl_mpi *mpi, struct bp_comm_id *id); /* rank 0's, to all */
void ccl_mpi_barrier(const struct ccl_mpi *mpi);

/* Does a call of ccl_calls. count is at most INT_MAX; its failures end all ranks. */
void ccl_mpi_call(const struct ccl_mpi *mpi, const struct ccl_call *call,
                  const struct ccl_buffers *buffers);

#endif
