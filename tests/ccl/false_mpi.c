/* SPDX-License-Identifier: Apache-2.0 */
/* false_mpi.c: imitates Open MPI's library for a job of one rank, with calls that do nothing. Their
 * results are wrong, which bp ccl-bench must notice. With FALSE_MPI_OTHER it is an MPI library
 * without Open MPI's handles. */
#include <string.h>

#ifndef FALSE_MPI_OTHER
char ompi_mpi_comm_world, ompi_mpi_float, ompi_mpi_byte, ompi_mpi_op_sum;
#endif

static int false_mpi_nothing(void)
{
    return 0;
}

#define CALLS(X) \
    X(Init) X(Finalize) X(Barrier) X(Bcast) X(Allreduce) X(Reduce) X(Allgather) X(Gather) \
    X(Scatter) X(Reduce_scatter_block) X(Alltoall) X(Send) X(Recv)
#define X(name) int MPI_##name(void) __attribute__((alias("false_mpi_nothing")));
CALLS(X)
#undef X

int MPI_Comm_rank(void *comm, int *out_rank);
int MPI_Comm_rank(void *comm, int *out_rank)
{
    (void)comm;
    *out_rank = 0;
    return 0;
}

int MPI_Comm_size(void *comm, int *out_size);
int MPI_Comm_size(void *comm, int *out_size)
{
    (void)comm;
    *out_size = 1;
    return 0;
}

int MPI_Get_library_version(char *out_text, int *out_length);
int MPI_Get_library_version(char *out_text, int *out_length)
{
    strcpy(out_text, "No MPI v0, made by nobody");
    *out_length = (int)strlen(out_text);
    return 0;
}
