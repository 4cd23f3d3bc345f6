/* SPDX-License-Identifier: Apache-2.0 */
/* run_model.h: `bp run`: a model with its inputs, and what is done with it. */
#ifndef BP_TOOLS_RUN_MODEL_H
#define BP_TOOLS_RUN_MODEL_H

#include "bench.h"
#include "tools.h"
#include <backplane/model.h>

struct run_model {
    const char *path, *device_name;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_model *model;
    struct bp_model_value *in, *out;
    uint32_t n_in, n_out;
    FILE *told; /* where tables and verdicts go */
    double load_s, rtol;
};

/* "bp run: what: the message of the last failure"; answers false. */
bool run_failed(const char *what);

/* run_weights.c: a bp_model_weights: numbers as He et al. start with (normal, variance 2 / fan in),
 * from *ctx (uint64_t), the seed; statistics of normalisations positive. The Delving Deep into
 * Rectifiers paper, 2015, eq. 10. */
void run_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape, int64_t fan_in,
                 float *data, int64_t count);

/* run_walk.c: a model that is gone through operator call by operator call, each waited for: by its
 * graph, or, where it depends on data and has none, by a run that is watched. */
struct run_walk {
    struct run_model *r;
    void (*before)(struct run_walk *walk, const struct bp_watched *call); /* or NULL */
    void (*after)(struct run_walk *walk, const struct bp_watched *call);
    void *ctx;
    /* Set for both. */
    const char *name;      /* of the node that makes the call */
    double begin, seconds; /* of the call; seconds: after it, until its results were there */
    uint32_t calls, nodes; /* before this one; of the graph, 0 where there is none */
    bool failed;
};
/* false: it could not be gone through; said on standard error. */
bool run_walk(struct run_walk *walk);

/* run_profile.c: a table by operator, and in path the trace as Chrome reads it. The exit status. */
int run_profile(struct run_model *r, const char *path);

/* run_verify.c: each call on the device and by the reference, from the same inputs. The exit
 * status; BP_EXIT_FAILED: one is wrong, constant or not finite, or none has a reference; said in
 * told. */
int run_verify(struct run_model *r);

/* Whether an output is what it should be, with ONNX's tolerance; said in told. */
bool run_same(struct run_model *r, const char *name, const struct bp_model_value *got,
              const struct bp_model_value *expected);

#endif
