/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c: compares products of matrices with OpenBLAS or oneDNN, whichever is faster. */
#include "rival.h"
#include <dlfcn.h>
#include <stdio.h>

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);

struct direct {
    sgemm_fn *sgemm;
    int m, n, k;
    float *a, *b, *c;
    dnnl_primitive_t product;
    dnnl_memory_t memory[3];
    dnnl_stream_t stream;
};

static void by_blas(void *ctx)
{
    struct direct *d = ctx;

    d->sgemm(101, 111, 111, d->m, d->n, d->k, 1, d->a, d->k, d->b, d->n, 0, d->c, d->n);
}

static void by_dnnl(void *ctx)
{
    struct direct *d = ctx;
    dnnl_exec_arg_t arg[] = {{DNNL_ARG_SRC, d->memory[0]}, {DNNL_ARG_WEIGHTS, d->memory[1]},
                             {DNNL_ARG_DST, d->memory[2]}};

    DNNL(dnnl_primitive_execute(d->product, d->stream, 3, arg));
    DNNL(dnnl_stream_wait(d->stream));
}

static void dnnl_init(const struct ring *ring, struct direct *d, dnnl_data_type_t type,
                      struct ready *ours)
{
    dnnl_memory_desc_t a, b, c;
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t desc;

    DNNL(dnnl_memory_desc_init_by_tag(&a, 2, (dnnl_dims_t){d->m, d->k}, type, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&b, 2, (dnnl_dims_t){d->k, d->n}, type, dnnl_ab));
    DNNL(dnnl_memory_desc_init_by_tag(&c, 2, (dnnl_dims_t){d->m, d->n}, type, dnnl_ab));
    DNNL(dnnl_matmul_desc_init(&op, &a, &b, NULL, &c));
    DNNL(dnnl_primitive_desc_create(&desc, &op, NULL, ring->engine, NULL));
    DNNL(dnnl_primitive_create(&d->product, desc));
    DNNL(dnnl_primitive_desc_destroy(desc));
    DNNL(dnnl_memory_create(&d->memory[0], &a, ring->engine, ring_data(ours->in[0])));
    DNNL(dnnl_memory_create(&d->memory[1], &b, ring->engine, ring_data(ours->in[1])));
    DNNL(dnnl_memory_create(&d->memory[2], &c, ring->engine, ring_data(ours->out[0])));
    d->stream = ring->dnnl;
}

static void dnnl_finish(struct direct *d)
{
    dnnl_primitive_destroy(d->product);
    for (int i = 0; i < 3; i++) dnnl_memory_destroy(d->memory[i]);
}

static void matmul_product(const struct ring *ring, sgemm_fn *sgemm, uint32_t dtype, int m, int k,
                           int n)
{
    struct direct d = {.sgemm = sgemm, .m = m, .n = n, .k = k};
    int64_t a[] = {m, k}, b[] = {k, n};
    struct ready ours;
    char name[64];
    double blas = 0, dnnl;

    snprintf(name, sizeof name, "matmul %s %dx%dx%d", dtype == BP_F32 ? "f32" : "bf16", m, k, n);
    if (!ring_wants(ring, name)) return;
    if (!ready_init(ring, &ours, "matmul", NULL,
                    (struct bp_tensor *[]){ring_tensor(ring, dtype, 2, a),
                                           ring_tensor(ring, dtype, 2, b)},
                    2))
        return;
    d.a = ring_data(ours.in[0]);
    d.b = ring_data(ours.in[1]);
    d.c = ring_data(ours.out[0]);
    dnnl_init(ring, &d, dtype == BP_F32 ? dnnl_f32 : dnnl_bf16, &ours);
    if (dtype == BP_F32 && sgemm) blas = ring_time(by_blas, &d);
    dnnl = ring_time(by_dnnl, &d);
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                              .theirs = blas > 0 && blas < dnnl ? by_blas : by_dnnl,
                              .theirs_ctx = &d, .target = 0.97,
                              .rival = blas > 0 && blas < dnnl ? "OpenBLAS" : "oneDNN"});
    dnnl_finish(&d);
    ready_finish(&ours);
}

void rival_matmul(const struct ring *ring)
{
    void *library = dlopen("/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0",
                           RTLD_NOW | RTLD_LOCAL);
    sgemm_fn *sgemm = NULL;

    if (library) *(void **)&sgemm = dlsym(library, "cblas_sgemm");
    matmul_product(ring, sgemm, BP_F32, 256, 256, 256);
    matmul_product(ring, sgemm, BP_F32, 1024, 1024, 1024);
    matmul_product(ring, sgemm, BP_F32, 2048, 2048, 2048);
    matmul_product(ring, sgemm, BP_F32, 1, 4096, 4096);
    matmul_product(ring, sgemm, BP_F32, 4096, 64, 64);
    matmul_product(ring, sgemm, BP_BF16, 1024, 1024, 1024);
}
