/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench_mpi.c: calls Open MPI for comparison, if it is installed. Its library is opened at run
 * time, so that bp needs no Open MPI to be built or to run. Names and types are those of its
 * <mpi.h>, whose handles have been addresses of objects of the library since version 1.3. The
 * library of all versions from 3.0 on has this name. */
#include "ccl_bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char library_name[] = "libmpi.so.40";
enum { VERSION_MAX = 256 + 1 }; /* MPI_MAX_LIBRARY_VERSION_STRING */

struct ccl_mpi {
    void *world, *f32, *bytes, *sum; /* MPI_COMM_WORLD, MPI_FLOAT, MPI_BYTE, MPI_SUM */
    char version[VERSION_MAX];
    int rank, size;
    int (*init)(int *, char ***);
    int (*finalize)(void);
    int (*get_library_version)(char *, int *);
    int (*comm_rank)(void *, int *);
    int (*comm_size)(void *, int *);
    int (*barrier)(void *);
    int (*bcast)(void *, int, void *, int, void *);
    int (*allreduce)(const void *, void *, int, void *, void *, void *);
    int (*reduce)(const void *, void *, int, void *, void *, int, void *);
    int (*allgather)(const void *, int, void *, void *, int, void *, void *);
    int (*gather)(const void *, int, void *, void *, int, void *, int, void *);
    int (*scatter)(const void *, int, void *, void *, int, void *, int, void *);
    int (*reduce_scatter_block)(const void *, void *, int, void *, void *, void *);
    int (*alltoall)(const void *, int, void *, void *, int, void *, void *);
    int (*send)(const void *, int, void *, int, int, void *);
    int (*recv)(void *, int, void *, int, int, void *, void *);
};

static const struct symbol {
    const char *name;
    size_t offset;
} symbols[] = {
    {"ompi_mpi_comm_world", offsetof(struct ccl_mpi, world)},
    {"ompi_mpi_float", offsetof(struct ccl_mpi, f32)},
    {"ompi_mpi_byte", offsetof(struct ccl_mpi, bytes)},
    {"ompi_mpi_op_sum", offsetof(struct ccl_mpi, sum)},
    {"MPI_Init", offsetof(struct ccl_mpi, init)},
    {"MPI_Finalize", offsetof(struct ccl_mpi, finalize)},
    {"MPI_Get_library_version", offsetof(struct ccl_mpi, get_library_version)},
    {"MPI_Comm_rank", offsetof(struct ccl_mpi, comm_rank)},
    {"MPI_Comm_size", offsetof(struct ccl_mpi, comm_size)},
    {"MPI_Barrier", offsetof(struct ccl_mpi, barrier)},
    {"MPI_Bcast", offsetof(struct ccl_mpi, bcast)},
    {"MPI_Allreduce", offsetof(struct ccl_mpi, allreduce)},
    {"MPI_Reduce", offsetof(struct ccl_mpi, reduce)},
    {"MPI_Allgather", offsetof(struct ccl_mpi, allgather)},
    {"MPI_Gather", offsetof(struct ccl_mpi, gather)},
    {"MPI_Scatter", offsetof(struct ccl_mpi, scatter)},
    {"MPI_Reduce_scatter_block", offsetof(struct ccl_mpi, reduce_scatter_block)},
    {"MPI_Alltoall", offsetof(struct ccl_mpi, alltoall)},
    {"MPI_Send", offsetof(struct ccl_mpi, send)},
    {"MPI_Recv", offsetof(struct ccl_mpi, recv)},
};

/* --- mpirun ----------------------------------------------------------------------------------- */

bool ccl_mpi_is_there(const char **out_reason)
{
    char line[128] = "";
    FILE *output = popen("exec mpirun --version 2>/dev/null", "r");
    bool read = output && fgets(line, sizeof line, output);

    if (output) pclose(output);
    *out_reason = !read                       ? "there is no mpirun"
                  : !strstr(line, "Open MPI") ? "mpirun is not Open MPI's"
                                              : NULL;
    return !*out_reason;
}

int ccl_mpi_launch(int ranks, int argc, char **argv)
{
    static char root[] = "--allow-run-as-root"; /* the user has already decided to run bp as root */
    static char name[] = "ccl-bench";
    static const char *const first[] = {"mpirun", "--bind-to", "none", "--oversubscribe", "-n"};
    enum { FIRST = sizeof first / sizeof *first, MORE = FIRST + 4 };
    char **words = calloc((size_t)argc + MORE + 1, sizeof *words), count[16];
    char self[PATH_MAX] = "";
    int n = 0;

    if (!words || readlink("/proc/self/exe", self, sizeof self - 1) < 0) {
        bp_complain("ccl-bench", "/proc is not mounted: bp cannot start itself");
        free(words);
        return BP_EXIT_BROKEN;
    }
    snprintf(count, sizeof count, "%d", ranks);
    for (int i = 0; i < FIRST; i++) words[n++] = (char *)first[i];
    words[n++] = count;
    if (!geteuid()) words[n++] = root;
    words[n++] = self;
    words[n++] = name;
    for (int i = 1; i < argc; i++) words[n++] = argv[i];
    setenv("OMPI_MCA_plm_rsh_agent", "sh", 0); /* mpirun ends without ssh, which is not used here */
    execvp(words[0], words);
    bp_complain("ccl-bench", "mpirun cannot be started");
    free(words);
    return BP_EXIT_BROKEN;
}

/* --- its library ------------------------------------------------------------------------------ */

/* The library's components look up its symbols in the global namespace, hence RTLD_GLOBAL. */
static struct ccl_mpi *ccl_bench_mpi_open_library(const char **out_reason)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
    struct ccl_mpi *mpi = library ? calloc(1, sizeof *mpi) : NULL;

    *out_reason = library ? NULL : "libmpi.so.40 cannot be opened";
    for (size_t i = 0; mpi && i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol) {
            memcpy((char *)mpi + symbols[i].offset, &symbol, sizeof symbol);
        } else {
            *out_reason = "libmpi.so.40 is not Open MPI's";
            free(mpi);
            mpi = NULL;
        }
    }
    return mpi;
}

struct ccl_mpi *ccl_mpi_create(const char **out_reason)
{
    struct ccl_mpi *mpi = NULL;
    int length;

    if (getenv("OMPI_COMM_WORLD_SIZE")) mpi = ccl_bench_mpi_open_library(out_reason);
    else if (ccl_mpi_is_there(out_reason)) *out_reason = "its mpirun did not start the ranks";
    if (!mpi) return NULL;
    mpi->init(NULL, NULL); /* ends the process if it fails, as all calls do */
    mpi->comm_rank(mpi->world, &mpi->rank);
    mpi->comm_size(mpi->world, &mpi->size);
    mpi->get_library_version(mpi->version, &length);
    mpi->version[strcspn(mpi->version, ",")] = 0; /* the rest is the builder and the date */
    return mpi;
}

void ccl_mpi_destroy(struct ccl_mpi *mpi, bool good)
{
    if (mpi && good) mpi->finalize();
    free(mpi);
}

const char *ccl_mpi_version(const struct ccl_mpi *mpi)
{
    return mpi->version;
}

void ccl_mpi_rank(const struct ccl_mpi *mpi, uint32_t *out_rank, uint32_t *out_size)
{
    *out_rank = (uint32_t)mpi->rank;
    *out_size = (uint32_t)mpi->size;
}

void ccl_mpi_share_id(const struct ccl_mpi *mpi, struct bp_comm_id *id)
{
    mpi->bcast(id, sizeof *id, mpi->bytes, 0, mpi->world);
}

void ccl_mpi_barrier(const struct ccl_mpi *mpi)
{
    mpi->barrier(mpi->world);
}

static void ccl_bench_mpi_pair(const struct ccl_mpi *mpi, const struct ccl_buffers *m, int n)
{
    if (mpi->rank == 0) mpi->send(m->src_data, n, mpi->f32, 1, 0, mpi->world);
    if (mpi->rank == 1) mpi->recv(m->dst_data, n, mpi->f32, 0, 0, mpi->world, NULL);
}

void ccl_mpi_call(const struct ccl_mpi *mpi, const struct ccl_call *call,
                  const struct ccl_buffers *m)
{
    void *x = m->src_data, *y = m->dst_data, *f32 = mpi->f32, *sum = mpi->sum, *all = mpi->world;
    int n = (int)m->count;

    switch (call->id) {
    case BP_COMM_ALL_REDUCE: mpi->allreduce(x, y, n, f32, sum, all); break;
    case BP_COMM_REDUCE: mpi->reduce(x, y, n, f32, sum, 0, all); break;
    case BP_COMM_BROADCAST: mpi->bcast(x, n, f32, 0, all); break;
    case BP_COMM_ALL_GATHER: mpi->allgather(x, n, f32, y, n, f32, all); break;
    case BP_COMM_GATHER: mpi->gather(x, n, f32, y, n, f32, 0, all); break;
    case BP_COMM_SCATTER: mpi->scatter(x, n, f32, y, n, f32, 0, all); break;
    case BP_COMM_REDUCE_SCATTER: mpi->reduce_scatter_block(x, y, n, f32, sum, all); break;
    case BP_COMM_ALL_TO_ALL: mpi->alltoall(x, n, f32, y, n, f32, all); break;
    case BP_COMM_SEND: ccl_bench_mpi_pair(mpi, m, n); break;
    default: mpi->barrier(all); break;
    }
}
