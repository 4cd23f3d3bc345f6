/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench.h: types and functions shared by the files of `bp ccl-bench`: the measurement on one
 * rank. */
#ifndef BP_CCL_BENCH_H
#define BP_CCL_BENCH_H

#include "tools.h"

/* The size of a tensor of a call: it is absent, holds the part of one rank, or one part for each
 * rank. */
enum ccl_extent { CCL_NONE, CCL_PART, CCL_ALL };

struct ccl_call {
    const char *name;
    uint32_t id; /* enum bp_comm_call */
    enum ccl_extent src, dst; /* dst CCL_NONE: src is also the destination */
};
extern const struct ccl_call ccl_calls[];
extern const size_t n_ccl_calls;

/* Whether the larger buffer of the call has one part for each rank. */
static inline bool ccl_has_parts(const struct ccl_call *call)
{
    return call->src == CCL_ALL || call->dst == CCL_ALL;
}

/* The buffers of a call of one size. */
struct ccl_buffers {
    struct bp_tensor *src, *dst; /* dst is src for an in-place call; NULL for a barrier */
    void *src_data, *dst_data;   /* addresses of their memory; NULL if the host cannot access it */
    struct bp_tensor *from, *to; /* for the copies that set the limit; NULL: no limit */
    void *from_data, *to_data;
    /* Bytes that each rank must at least read, and write. 0: ranks do not do the same work. */
    uint64_t moved;
    int64_t count; /* elements of one rank's part */
    int64_t n_src, n_dst;
};

struct ccl_bench {
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_comm *comm;
    struct ccl_mpi *mpi; /* set if its mpirun started the ranks; or NULL */
    bool beside;         /* Open MPI's calls are measured too */
    uint32_t rank, size;
    int turns;
};

/* The variants of a turn: our call, Open MPI's, a plain copy, a copy with streaming stores. */
enum ccl_way { CCL_OURS, CCL_MPI, CCL_COPY, CCL_COPY_NT, CCL_WAYS };

/* Medians over turns of the slowest rank, in microseconds. NaN: not measured. */
struct ccl_times {
    double ours, mpi;
    double limit; /* the faster of both kinds of copy of the bytes that must move */
};

/* In ccl_bench_turns.c: measures a call on all ranks together. bytes: size of the larger buffer.
 * Returns false after printing an error. */
bool ccl_measure(const struct ccl_bench *bench, const struct ccl_call *call, uint64_t bytes,
                 struct ccl_times *out_times);

/* In ccl_bench_mpi.c: Open MPI, loaded at run time. */

/* Whether Open MPI's mpirun is installed. *out_reason: NULL, or why it cannot be used. */
bool ccl_mpi_is_there(const char **out_reason);

/* Replaces this process by mpirun, which starts bp as so many ranks. argv: as for the command.
 * Returns only if it fails, with an exit status. */
int ccl_mpi_launch(int ranks, int argc, char **argv);

/* Initializes Open MPI in a process that mpirun started. In other processes returns NULL, with the
 * reason in *out_reason. Called only once. */
struct ccl_mpi *ccl_mpi_create(const char **out_reason);

/* good: finalizes Open MPI, which waits for all ranks. Otherwise it does not wait, because other
 * ranks may have failed too. */
void ccl_mpi_destroy(struct ccl_mpi *mpi, bool good);
const char *ccl_mpi_version(const struct ccl_mpi *mpi); /* such as "Open MPI v4.1.4" */
void ccl_mpi_rank(const struct ccl_mpi *mpi, uint32_t *out_rank, uint32_t *out_size);
void ccl_mpi_share_id(const struct ccl_mpi *mpi, struct bp_comm_id *id); /* from rank 0 */
void ccl_mpi_barrier(const struct ccl_mpi *mpi);

/* Makes a call of ccl_calls. count must be at most INT_MAX. A failure ends the processes of all
 * ranks. */
void ccl_mpi_call(const struct ccl_mpi *mpi, const struct ccl_call *call,
                  const struct ccl_buffers *buffers);

#endif
