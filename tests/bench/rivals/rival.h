/* SPDX-License-Identifier: Apache-2.0 */
/* rival.h: declares the measurement of one task, done by the cpu device and by another library,
 * alternately. */
#ifndef BP_RIVAL_H
#define BP_RIVAL_H

#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

/* The objects that all measurements share: the device, a stream, oneDNN's engine and stream. */
struct ring {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
    dnnl_engine_t engine;
    dnnl_stream_t dnnl;
    int threads;
    const char *only; /* only names that contain this are measured; NULL: all */
};

typedef void work_fn(void *ctx);

/* MUST and DNNL end the program with a message if a call fails. */
#define MUST(call) ring_must((call), #call)
void ring_must(enum bp_status status, const char *call);
#define DNNL(call) ring_dnnl((call), #call)
void ring_dnnl(dnnl_status_t status, const char *call);

/* Whether the user wants the measurement with this name. */
bool ring_wants(const struct ring *ring, const char *name);

/* Measures both sides alternately, in rounds, and prints a line. Returns the median of theirs /
 * ours, which must be at least `target`, or, if `less`, of ours / theirs, which must be at most
 * that. */
struct duel {
    const char *name;
    work_fn *ours, *theirs;
    void *ours_ctx, *theirs_ctx;
    double target;
    bool less;      /* the ratio is ours / theirs, and must be at most target */
    double scale;   /* the work of theirs is this many times that of ours; 0: 1 */
    const char *rival; /* names theirs */
};
double duel(const struct ring *ring, const struct duel *d);

/* Returns seconds per call: the median of several rounds. */
double ring_time(work_fn *work, void *ctx);

/* Creates a tensor of f32 (or dtype) with numbers in [-1, 1). */
struct bp_tensor *ring_tensor(const struct ring *ring, uint32_t dtype, uint32_t rank,
                              const int64_t *shape);
/* As ring_tensor, with channels innermost. */
struct bp_tensor *ring_channels_last(const struct ring *ring, uint32_t dtype, const int64_t *shape);
void *ring_data(struct bp_tensor *tensor);

/* A prepared call; its first output has the inferred shape. Optional ports without a tensor are
 * absent. ready_run runs the call once and waits. */
enum { READY_PORTS = 8 };
struct ready {
    const struct ring *ring;
    struct bp_prepared *call;
    struct bp_tensor *in[READY_PORTS], *out[READY_PORTS];
    size_t n_in, n_out; /* numbers of declared ports */
};
/* Returns false if the device has no such operator or kernel. Takes the references of in. */
bool ready_init(const struct ring *ring, struct ready *r, const char *op, const void *attrs,
                struct bp_tensor *const *in, size_t n_in);
void ready_finish(struct ready *r);
work_fn ready_run;

/* The groups of measurements. */
void rival_matmul(const struct ring *ring);
void rival_conv(const struct ring *ring);
void rival_memory(const struct ring *ring);
void rival_rows(const struct ring *ring);
void rival_planes(const struct ring *ring);
void rival_mixed(const struct ring *ring);
void rival_attention(const struct ring *ring);
void rival_fused(const struct ring *ring);

#endif
