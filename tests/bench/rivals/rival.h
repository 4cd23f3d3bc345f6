/* SPDX-License-Identifier: Apache-2.0 */
/* rival.h: one work done by the cpu device and by the library called directly, in turns. */
#ifndef BP_RIVAL_H
#define BP_RIVAL_H

#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

/* What all measurements share: the device, a stream, oneDNN's engine and stream. */
struct ring {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
    dnnl_engine_t engine;
    dnnl_stream_t dnnl;
    int threads;
    const char *only; /* a part of names that are measured; NULL: all */
};

typedef void work_fn(void *ctx);

/* A program cannot go on without it. */
#define MUST(call) ring_must((call), #call)
void ring_must(enum bp_status status, const char *call);
#define DNNL(call) ring_dnnl((call), #call)
void ring_dnnl(dnnl_status_t status, const char *call);

/* Whether a name is asked for. */
bool ring_wants(const struct ring *ring, const char *name);

/* Seconds of one of each, done in turns for rounds: the median of theirs / ours, or of ours /
 * theirs where less is asked (target below it). Prints a line. */
struct duel {
    const char *name;
    work_fn *ours, *theirs;
    void *ours_ctx, *theirs_ctx;
    double target;
    bool less;      /* the ratio is ours / theirs, and should be at most target */
    double scale;   /* theirs takes this many times the work of ours; 0: 1 */
    const char *rival; /* what theirs is */
};
double duel(const struct ring *ring, const struct duel *d);

/* Seconds of one call, the median of some. */
double ring_time(work_fn *work, void *ctx);

/* A tensor of f32 (or dtype) with numbers in [-1, 1). */
struct bp_tensor *ring_tensor(const struct ring *ring, uint32_t dtype, uint32_t rank,
                              const int64_t *shape);
/* The same with channels innermost. */
struct bp_tensor *ring_channels_last(const struct ring *ring, uint32_t dtype, const int64_t *shape);
void *ring_data(struct bp_tensor *tensor);

/* A call made ready, with its first output as it says; optional ports that are not given are
 * absent. run: runs it once and waits. */
enum { READY_PORTS = 8 };
struct ready {
    const struct ring *ring;
    struct bp_prepared *call;
    struct bp_tensor *in[READY_PORTS], *out[READY_PORTS];
    size_t n_in, n_out; /* declared */
};
/* false: the device has no such operator or kernel. Takes the references of in. */
bool ready_init(const struct ring *ring, struct ready *r, const char *op, const void *attrs,
                struct bp_tensor *const *in, size_t n_in);
void ready_finish(struct ready *r);
work_fn ready_run;

/* The groups. */
void rival_matmul(const struct ring *ring);
void rival_conv(const struct ring *ring);
void rival_memory(const struct ring *ring);
void rival_rows(const struct ring *ring);
void rival_planes(const struct ring *ring);
void rival_mixed(const struct ring *ring);
void rival_attention(const struct ring *ring);

#endif
