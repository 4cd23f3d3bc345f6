/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: declares a compiled group, and the functions by which the plugin's engine makes, runs
 * and saves one. */
#ifndef IPU_ENGINE_H
#define IPU_ENGINE_H

#include "ops.h"

/* How a run prepares an input: Poplar computes no i64. */
enum ipu_conversion {
    IPU_AS_IS,
    IPU_INDEX, /* i64 to i32, at the ends of the type if it is beyond them: never a valid index */
    IPU_WRAP,  /* i64 to i32, as cast does */
    IPU_FLOAT  /* i64 to f32 */
};

/* An input of the shim's graph. */
struct ipu_input {
    uint32_t at; /* in the inputs of the group */
    enum ipu_conversion conversion;
    uint64_t count; /* elements */
    uint32_t value; /* in the group's graph */
};

/* The shim's graph of a group, with the contents of its constants. */
struct ipu_model {
    const struct bp_host *host;
    struct bp_ipu_graph graph;
    struct bp_ipu_tensor *tensor;
    struct bp_ipu_node *node;
    int32_t *operand; /* of all nodes, one after the other: the inputs, then the results */
    int32_t *in, *after, *out;
    uint32_t *output; /* of each output of the graph: its number in the outputs of the group */
    struct ipu_input *input; /* of each input of the graph */
    char **constant;         /* the contents that the model owns, n_constant of them */
    uint32_t n_constant, n_operand;
    uint64_t constant_bytes;
};

struct ipu_engine {
    struct ipu_model model;
    struct bp_ipu_program *program;
    uint32_t device;
    char note[160];
};

/* model.c: writes the shim's graph of a group; ipu_model_finish frees it, also after a failure. */
enum bp_status ipu_model_init(struct ipu *self, const struct bp_graph_data *graph, bool fast,
                              struct ipu_model *model);
void ipu_model_finish(struct ipu_model *model);

/* save.c: makes the program from what ipu_save wrote. BP_ERR_STALE, without a message: it is of
 * another version, device or group. */
enum bp_status ipu_load(struct ipu *self, struct ipu_engine *engine, const void *blob,
                        uint64_t size);

/* run.c: bytes of the workspace of a run. */
uint64_t ipu_workspace(const struct ipu_engine *engine);

/* The callbacks of engine.h: claim.c, engine.c, run.c and save.c. */
#define IPU_ENGINE_CALLBACKS(X) \
    X(claim) X(compile) X(run) X(engine_destroy) X(save) X(refit) X(state)
#define X(name) __typeof__(*((struct bp_engines *)0)->name) ipu_##name;
IPU_ENGINE_CALLBACKS(X)
#undef X

#endif
