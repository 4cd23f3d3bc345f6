/* SPDX-License-Identifier: Apache-2.0 */
/* openblas.c: computes matmul of f32 and f64 by OpenBLAS, in the build whose threads are OpenMP's:
 * these are the thread team of the plugin's kernels and of oneDNN. The build with its own threads
 * is refused: two teams that run alternately are many times slower.
 *
 * OpenBLAS chooses its kernels when it is opened, by OPENBLAS_CORETYPE if that is set, otherwise by
 * the processor's model. For some newer models with AVX-512 it chooses AVX2 kernels (half the
 * speed), for others SSE3 kernels (a tenth). There is no function to choose them. Therefore, on
 * machines with AVX-512 and where BP_CPU_ISA caps the instruction level, create sets the variable
 * unless it is set already. Changing the environment while another thread reads it is a race. So
 * the plugin sets the variable only in create, once per process, and never if OPENBLAS_CORETYPE is
 * set or BP_CPU_OPENBLAS is "off" (in a set-uid process both count as unset, and OpenBLAS, which
 * reads its variable itself, finds the plugin's value). An app that opens devices while other
 * threads call getenv or setenv must set one of the two variables before the program starts. */
#include "kernels.h"
#include "library.h"
#include "matmul.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#define TRIPLET "x86_64-linux-gnu"
#elif defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#else
#define TRIPLET "none"
#endif

static const struct cpu_library library = {
    .name = "OpenBLAS for OpenMP",
    .variable = "BP_CPU_OPENBLAS",
    .package = "libopenblas0-openmp",
    .places = (const char *const[]){
        "/usr/lib/" TRIPLET "/openblas-openmp/libopenblas.so.0", /* Debian, Ubuntu */
        "/usr/lib64/libopenblaso.so.0",                          /* Fedora */
        NULL},
};

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, PARALLEL_OPENMP = 2 };

struct openblas {
    int (*get_parallel)(void);
    void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                  const double *a, int lda, const double *b, int ldb, double beta, double *c,
                  int ldc);
};

/* Opened once per process; constant once `tried` is set. */
static struct {
    pthread_mutex_t lock;
    int tried, opened;
    struct openblas call;
} blas = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum bp_status cpu_openblas_usable(struct cpu *self, const char *row)
{
    return cpu_library_usable(self, &library, row);
}

void cpu_openblas_check(struct cpu *self)
{
    cpu_library_check(self, &library);
}

bool cpu_openblas_present(void)
{
    return cpu_library_present(&library);
}

void cpu_openblas_choose_core(struct cpu *self)
{
#if defined(__x86_64__)
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool chosen;
    const char *off = secure_getenv(library.variable);

    static const char *const core[] = {"Nehalem", "Haswell", "SkylakeX"}; /* by enum cpu_isa */

    if (!self->isa_capped && self->isa < CPU_ISA_AVX512) return; /* OpenBLAS chooses well */
    if (off && !strcmp(off, "off")) return;
    pthread_mutex_lock(&lock);
    if (!chosen && !secure_getenv("OPENBLAS_CORETYPE"))
        setenv("OPENBLAS_CORETYPE", core[self->isa], 1);
    chosen = true;
    pthread_mutex_unlock(&lock);
#else
    (void)self;
#endif
}

static bool blas_open(struct cpu *self)
{
    static const char *const names[] = {"openblas_get_parallel", "cblas_sgemm", "cblas_dgemm"};
    void *symbol[3];

    pthread_mutex_lock(&blas.lock);
    if (!blas.tried) {
        blas.tried = 1;
        if (cpu_library_open(self, &library, names, 3, symbol)) {
            memcpy(&blas.call.get_parallel, &symbol[0], sizeof symbol[0]);
            memcpy(&blas.call.sgemm, &symbol[1], sizeof symbol[1]);
            memcpy(&blas.call.dgemm, &symbol[2], sizeof symbol[2]);
            blas.opened = blas.call.get_parallel() == PARALLEL_OPENMP;
            if (!blas.opened)
                bp_log(self->host, BP_LOG_WARN,
                       "cpu: the OpenBLAS found has threads of its own, its kernels are "
                       "passed over; install %s, or set %s to an OpenMP build",
                       library.package, library.variable);
        }
    }
    bool opened = blas.opened;
    pthread_mutex_unlock(&blas.lock);
    return opened;
}

/* A matrix as BLAS expects it, row-major: whether it is transposed, and the distance of its
 * rows. */
struct side {
    int trans, ld;
};

struct plan {
    struct matmul shape;
    struct side a, b;
    int ldc, swapped; /* swapped: c is column-major, so c' = b' a' is computed */
};

/* Whether the rows of a matrix are contiguous, at a distance *ld of at least their length. */
static bool rows_dense(int64_t rows, int64_t columns, int64_t row, int64_t column, int *ld)
{
    int64_t distance = rows == 1 ? columns : row;

    if ((columns != 1 && column != 1) || distance < columns || distance > INT_MAX) return false;
    *ld = (int)distance;
    return true;
}

static bool side_init(struct side *side, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    side->trans = PLAIN;
    if (rows_dense(rows, columns, row, column, &side->ld)) return true;
    side->trans = TRANSPOSED;
    return rows_dense(columns, rows, column, row, &side->ld);
}

static struct matmul openblas_transposed(const struct matmul *s)
{
    struct matmul out = *s;

    out.m = s->n, out.n = s->m;
    out.a_row = s->b_column, out.a_column = s->b_row;
    out.b_row = s->a_column, out.b_column = s->a_row;
    out.c_row = s->c_column, out.c_column = s->c_row;
    for (int a = 0; a < s->batch.rank; a++) {
        out.batch.stride[1][a] = s->batch.stride[2][a];
        out.batch.stride[2][a] = s->batch.stride[1][a];
    }
    return out;
}

static bool plan_init(struct plan *plan, const struct bp_prep *prep)
{
    struct matmul *s = &plan->shape;
    struct matmul_line line;

    if (prep->in[0]->rank > WALK_RANK || prep->in[1]->rank > WALK_RANK) return false;
    matmul_init(s, prep->in[0], prep->in[1], prep->out[0], prep->attrs);
    if (!s->batch.count || s->m > INT_MAX || s->n > INT_MAX || s->k > INT_MAX) return false;
    if ((double)s->m * (double)s->n * (double)s->k < 32768)
        return false; /* the plugin's kernels are as fast */
    if (matmul_is_line(s, &line)) return false;
    plan->swapped = !rows_dense(s->m, s->n, s->c_row, s->c_column, &plan->ldc);
    if (plan->swapped) *s = openblas_transposed(s);
    return rows_dense(s->m, s->n, s->c_row, s->c_column, &plan->ldc) &&
           side_init(&plan->a, s->m, s->k, s->a_row, s->a_column) &&
           side_init(&plan->b, s->k, s->n, s->b_row, s->b_column);
}

enum bp_status cpu_matmul_openblas_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    struct cpu *self = p;
    struct plan made = {.ldc = 0};

    if (!plan_init(&made, prep) || !blas_open(self)) return BP_ERR_UNSUPPORTED;
    struct plan *plan = self->host->allocate(self->host->ctx, sizeof *plan, _Alignof(struct plan));
    if (!plan) return bp_fail(self->host, BP_ERR_MEMORY, "cpu: no memory for a plan of matmul");
    *plan = made;
    out->plan = plan;
    return BP_OK;
}

void cpu_openblas_plan_destroy(void *p, const struct bp_kernel *kernel, void *plan)
{
    struct cpu *self = p;

    (void)kernel;
    self->host->release(self->host->ctx, plan, sizeof(struct plan));
}

struct run {
    const struct plan *plan;
    const void *a, *b;
    void *c;
    int width; /* threads of one product */
};

static void run_f32(void *arg, int64_t step)
{
    const struct run *run = arg;
    const struct plan *plan = run->plan;
    const struct matmul *s = &plan->shape;
    int64_t at[WALK_VIEWS];
    struct cpu_team_setting before = cpu_team_begin(run->width);

    walk_offset(&s->batch, step, at);
    blas.call.sgemm(ROW_MAJOR, plan->a.trans, plan->b.trans, (int)s->m, (int)s->n, (int)s->k, 1,
                    (const float *)run->a + at[1], plan->a.ld, (const float *)run->b + at[2],
                    plan->b.ld, 0, (float *)run->c + at[0], plan->ldc);
    cpu_team_end(before);
}

static void run_f64(void *arg, int64_t step)
{
    const struct run *run = arg;
    const struct plan *plan = run->plan;
    const struct matmul *s = &plan->shape;
    int64_t at[WALK_VIEWS];
    struct cpu_team_setting before = cpu_team_begin(run->width);

    walk_offset(&s->batch, step, at);
    blas.call.dgemm(ROW_MAJOR, plan->a.trans, plan->b.trans, (int)s->m, (int)s->n, (int)s->k, 1,
                    (const double *)run->a + at[1], plan->a.ld, (const double *)run->b + at[2],
                    plan->b.ld, 0, (double *)run->c + at[0], plan->ldc);
    cpu_team_end(before);
}

/* Many products: each thread computes one at a time. Few products: all threads compute each. */
static enum bp_status openblas_run_all(const struct bp_launch *launch,
                                       void (*task)(void *arg, int64_t step))
{
    const struct plan *plan = launch->plan;
    int64_t steps = plan->shape.batch.count;
    bool across = steps >= 2 * (int64_t)launch->width;
    struct run run = {.plan = plan, .a = launch->in[plan->swapped]->data,
                      .b = launch->in[!plan->swapped]->data, .c = launch->out[0]->data,
                      .width = across ? 1 : (int)launch->width};

    cpu_team_run(task, &run, steps, across ? launch->width : 1);
    return BP_OK;
}

enum bp_status cpu_matmul_f32_openblas(const struct bp_launch *launch)
{
    return openblas_run_all(launch, run_f32);
}

enum bp_status cpu_matmul_f64_openblas(const struct bp_launch *launch)
{
    return openblas_run_all(launch, run_f64);
}
