/* SPDX-License-Identifier: Apache-2.0 */
/* standin.h: declares the models of the stand-in for OpenVINO's C library. */
#ifndef BP_TEST_STANDIN_H
#define BP_TEST_STANDIN_H

#include "../../plugins/openvino/library.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, result, parameters) result name parameters;
#define MAYBE(name, result, parameters) CALL(name, result, parameters)
#include "../../plugins/openvino/calls.def"

struct ov_core {
    int unused;
};
struct ov_output_const_port {
    unsigned type;
    uint32_t rank;
    int64_t extent[8];
};
struct ov_tensor {
    unsigned type;
    uint32_t rank;
    int64_t extent[8];
    uint64_t bytes;
    void *data, *owned;
};

enum {
    LAYER_INPUTS = 8
};

struct layer {
    char name[32]; /* "Add" */
    uint32_t opset;
    unsigned type; /* of the output */
    uint32_t rank, n_in, in[LAYER_INPUTS];
    int64_t extent[8];
    const char *data; /* of a constant */
    uint64_t bytes;
};

struct ov_model {
    char *text, *weights;
    uint64_t n_weights;
    struct layer *layer;
    uint32_t n_layer, *in, *out, n_in, n_out; /* out: the layers that results read */
    _Atomic int references;
};
struct ov_compiled_model {
    struct ov_model *model;
};
struct ov_infer_request {
    struct ov_model *model;
    void **in, **out;
};

/* standin_model.c: reads a model, or returns NULL and why. */
struct ov_model *model_read(const char *text, const char *weights, uint64_t n_weights,
                            const char **out_why);
void model_release(struct ov_model *m);
/* Infers the types of all layers; returns why that is impossible, or NULL. */
const char *model_infer(struct ov_model *m);
void model_run(const struct ov_model *m, void *const *in, void *const *out);

/* Bytes of an element; 0: no such type. */
uint64_t type_bytes(unsigned type);

EXPORT int standin_live(void);

#endif
