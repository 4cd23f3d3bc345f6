/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_mpi.c: our collectives beside those of an MPI library, on the same ranks and buffers, in
 * turns, and beside the limit that their bytes set. Run by `mpirun -n N ccl_mpi [CALL [BYTES...]]`;
 * rank 0 prints a line for each call and size: microseconds of both, medians of turns, and their
 * ratio; the limit, and which part of our time it is.
 *
 * The limit: each rank has to read and to write some bytes, whatever the algorithm, if the work is
 * shared out evenly. All ranks at once copy as many between buffers of their own, with stores that
 * go through the caches or past them, whichever is faster; nobody waits for anybody. Where ranks
 * share a processor it does theirs one after the other. */
#include <backplane/backplane.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { RUNS = 101 }; /* short, so that most are not interrupted by others on the machine */

static struct bp_comm *comm;
static struct bp_stream *stream;
static struct bp_device *device;
static uint32_t rank, size;

static void check(enum bp_status status)
{
    if (!status) return;
    fprintf(stderr, "rank %u: %s\n", rank, bp_error_message());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Tensors of ours, whose memory MPI uses too. count: elements of the part of one rank. */
struct buffers {
    struct bp_tensor *x, *y, *x_all, *y_all;
    float *px, *py, *px_all, *py_all;
    int count;
};

static struct bp_tensor *make(int64_t n, float **out_data)
{
    struct bp_tensor *t;

    check(bp_tensor_create(device, BP_F32, 1, &n, &t));
    check(bp_tensor_map(t, (void **)out_data));
    for (int64_t i = 0; i < n; i++) (*out_data)[i] = 1;
    return t;
}

static void ours(const char *call, const struct buffers *b)
{
    if (!strcmp(call, "all_reduce"))
        check(bp_comm_all_reduce(comm, stream, b->x, b->y, BP_REDUCE_SUM));
    else if (!strcmp(call, "all_gather")) check(bp_comm_all_gather(comm, stream, b->x, b->y_all));
    else if (!strcmp(call, "reduce_scatter"))
        check(bp_comm_reduce_scatter(comm, stream, b->x_all, b->y, BP_REDUCE_SUM));
    else if (!strcmp(call, "broadcast")) check(bp_comm_broadcast(comm, stream, b->x, b->x, 0));
    else if (!strcmp(call, "reduce"))
        check(bp_comm_reduce(comm, stream, b->x, b->y, BP_REDUCE_SUM, 0));
    else if (!strcmp(call, "gather")) check(bp_comm_gather(comm, stream, b->x, b->y_all, 0));
    else if (!strcmp(call, "scatter")) check(bp_comm_scatter(comm, stream, b->x_all, b->y, 0));
    else if (!strcmp(call, "send") && rank == 0) check(bp_comm_send(comm, stream, b->x, 1));
    else if (!strcmp(call, "send") && rank == 1) check(bp_comm_recv(comm, stream, b->y, 0));
    else if (!strcmp(call, "all_to_all"))
        check(bp_comm_all_to_all(comm, stream, b->x_all, b->y_all));
}

static void theirs(const char *call, const struct buffers *b)
{
    if (!strcmp(call, "all_reduce"))
        MPI_Allreduce(b->px, b->py, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(call, "all_gather"))
        MPI_Allgather(b->px, b->count, MPI_FLOAT, b->py_all, b->count, MPI_FLOAT, MPI_COMM_WORLD);
    else if (!strcmp(call, "reduce_scatter"))
        MPI_Reduce_scatter_block(b->px_all, b->py, b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (!strcmp(call, "broadcast")) MPI_Bcast(b->px, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (!strcmp(call, "reduce"))
        MPI_Reduce(b->px, b->py, b->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    else if (!strcmp(call, "gather"))
        MPI_Gather(b->px, b->count, MPI_FLOAT, b->py_all, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (!strcmp(call, "scatter"))
        MPI_Scatter(b->px_all, b->count, MPI_FLOAT, b->py, b->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
    else if (!strcmp(call, "send") && rank == 0)
        MPI_Send(b->px, b->count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
    else if (!strcmp(call, "send") && rank == 1)
        MPI_Recv(b->py, b->count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (!strcmp(call, "all_to_all"))
        MPI_Alltoall(b->px_all, b->count, MPI_FLOAT, b->py_all, b->count, MPI_FLOAT,
                     MPI_COMM_WORLD);
}

/* Bytes that a rank reads and writes in a call at least. 0: it reads more than it writes, or ranks
 * do not do alike. */
static size_t bytes_moved(const char *call, const struct buffers *b)
{
    size_t part = (size_t)b->count * sizeof *b->px;

    if (!strcmp(call, "all_reduce")) return part;
    if (!strcmp(call, "broadcast")) return part * (size - 1) / size;
    return !strcmp(call, "all_gather") || !strcmp(call, "all_to_all") ? part * size : 0;
}

static void copy(const char *call, const struct buffers *b)
{
    memcpy(b->py_all, b->px_all, bytes_moved(call, b));
}

static void copy_past_caches(const char *call, const struct buffers *b)
{
#ifdef __SSE2__
    const float *from = b->px_all;
    float *to = b->py_all;

    for (size_t n = bytes_moved(call, b) / 64; n; n--, from += 16, to += 16)
        for (int i = 0; i < 16; i += 4)
            _mm_stream_ps(to + i, _mm_loadu_ps(from + i)); /* tensors begin at whole lines */
    _mm_sfence();
#else
    copy(call, b);
#endif
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double run(void (*fn)(const char *, const struct buffers *), const char *call,
                  const struct buffers *b, int times)
{
    double begin, own, all;

    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    for (int i = 0; i < times; i++) fn(call, b);
    own = (MPI_Wtime() - begin) / times * 1e6;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static void measure(const char *call, long bytes)
{
    struct buffers b;
    bool parts = strcmp(call, "all_reduce") && strcmp(call, "broadcast") &&
                 strcmp(call, "reduce") && strcmp(call, "send");
    int times = bytes <= 4096 ? 20 : bytes <= 65536 ? 5 : 1;
    uint32_t processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    double limit, a[RUNS], c[RUNS], l[2][RUNS];

    b.count = (int)(bytes / 4 / (parts ? size : 1));
    if (!b.count) b.count = 1;
    b.x = make(b.count, &b.px);
    b.y = make(b.count, &b.py);
    b.x_all = make((int64_t)b.count * size, &b.px_all);
    b.y_all = make((int64_t)b.count * size, &b.py_all);
    for (int i = 0; i < 2; i++) {
        run(ours, call, &b, times);
        run(theirs, call, &b, times);
    }
    for (int i = 0; i < RUNS; i++) {
        a[i] = run(ours, call, &b, times);
        c[i] = run(theirs, call, &b, times);
    }
    for (int i = 0; i < RUNS; i++) {
        l[0][i] = run(copy, call, &b, times);
        l[1][i] = run(copy_past_caches, call, &b, times);
    }
    qsort(a, RUNS, sizeof *a, compare);
    qsort(c, RUNS, sizeof *c, compare);
    for (int i = 0; i < 2; i++) qsort(l[i], RUNS, sizeof *l[i], compare);
    limit = l[0][RUNS / 2] < l[1][RUNS / 2] ? l[0][RUNS / 2] : l[1][RUNS / 2];
    limit *= (double)((size + processors - 1) / processors);
    if (!rank)
        printf("%-15s %2u ranks %10ld B  ours %10.2f us  mpi %10.2f us  ratio %.3f  (least %.2f, "
               "%.2f)  limit %.2f us, %.2f of ours\n",
               call, size, bytes, a[RUNS / 2], c[RUNS / 2], a[RUNS / 2] / c[RUNS / 2], a[0], c[0],
               limit, limit / a[RUNS / 2]);
    fflush(stdout);
    bp_tensor_destroy(b.x);
    bp_tensor_destroy(b.y);
    bp_tensor_destroy(b.x_all);
    bp_tensor_destroy(b.y_all);
}

int main(int argc, char **argv)
{
    static const char *const calls[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                        "all_to_all", "reduce",     "gather",         "scatter",
                                        "send"};
    static const long sizes[] = {4, 1024, 16384, 65536, 1 << 20, 16 << 20};
    struct bp_comm_id id;
    struct bp_core *core;

    MPI_Init(&argc, &argv);
    check(bp_core_create(NULL, &core));
    check(bp_device_create(core, "cpu:0", &device));
    check(bp_stream_create_with(device, BP_STREAM_INLINE, &stream));
    MPI_Comm_rank(MPI_COMM_WORLD, (int *)&rank);
    MPI_Comm_size(MPI_COMM_WORLD, (int *)&size);
    if (!rank) check(bp_comm_id_create(&id)); /* BP_STORE_HOST: between hosts */
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    check(bp_comm_create(device, &id, rank, size, &comm));
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        if (argc > 1 && strcmp(argv[1], "all") && strcmp(argv[1], calls[c])) continue;
        for (int i = 2; i < argc; i++) measure(calls[c], atol(argv[i]));
        for (size_t i = 0; argc < 3 && i < sizeof sizes / sizeof *sizes; i++)
            measure(calls[c], sizes[i]);
    }
    bp_comm_destroy(comm);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    MPI_Finalize();
    return 0;
}
