/* SPDX-License-Identifier: Apache-2.0 */
/* runner.h: declares how the stand-in for CANN runs models: by Backplane's own ONNX runner on the
 * cpu, in a library that libascendcl.so opens when the first model is loaded. */
#ifndef STANDINS_CANN_RUNNER_H
#define STANDINS_CANN_RUNNER_H

#include <stddef.h>
#include <stdint.h>

enum {
    RUNNER_PORTS = 32,
    RUNNER_RANK = 8,
    RUNNER_NAME = 128,
    RUNNER_TEXT = 256
};

struct runner_port {
    char name[RUNNER_NAME];
    uint32_t rank;
    int64_t dims[RUNNER_RANK]; /* of an input before the load: given; -1: those of the model */
    uint32_t dtype;            /* enum bp_dtype */
    uint64_t bytes;
};

struct runner {
    uint32_t n_in, n_out;
    struct runner_port in[RUNNER_PORTS], out[RUNNER_PORTS];
    void *core, *device, *model, *stream;
};

/* Loads a model of ONNX. in, n_in: names and extents that the model leaves open. 0; or -1 with a
 * text. Runs the model once, with zeros, to find the extents of its outputs. */
int cann_runner_load(struct runner *runner, const void *onnx, size_t size, char *text);
/* Runs on dense host memory. 0, or -1 with a text. Not on two threads at the same time. */
int cann_runner_run(struct runner *runner, void *const *in, void *const *out, char *text);
void cann_runner_finish(struct runner *runner);

#endif
