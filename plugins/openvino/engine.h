/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: declares a compiled group, and the functions by which the plugin's engine makes, runs
 * and saves one. */
#ifndef OPENVINO_ENGINE_H
#define OPENVINO_ENGINE_H

#include "ops.h"

/* An input or output of the library's model. */
struct ov_tensor_type {
    uint32_t at;    /* in the inputs or outputs of the group */
    uint32_t dtype; /* of the model's tensor */
    bool widened;   /* an i64 input that the run converts to f32 */
    uint32_t rank;
    int64_t extent[OPENVINO_RANK];
    uint64_t count; /* elements */
};

/* An input whose values are indices, which a run checks: the library does not. */
struct ov_index {
    uint32_t in, dtype;
    int64_t extent;
};

/* An output that is an input with other extents: the library would not write the output. */
struct ov_copy {
    uint32_t in, out;
    uint64_t bytes;
};

struct ov_engine {
    size_t bytes; /* of this allocation, with the arrays */
    struct ov_compiled_model *model;
    struct ov_tensor_type *in, *out;
    struct ov_index *index;
    struct ov_copy *copy;
    uint32_t n_in, n_out, n_index, n_copy;
    uint32_t device, width, wide; /* wide: precision is the library's choice */
    bool fast;                    /* the app allows fast math */
    char note[256];
};

static inline const struct bp_data_node *openvino_node(const struct bp_graph_data *graph,
                                                       uint32_t i)
{
    return BP_ROW(struct bp_data_node, graph->node, graph->node_stride, i);
}

/* model.c: writes the model of a group; fills the inputs, outputs, indices and copies of engine,
 * which has room for them. */
enum bp_status openvino_write_model(struct openvino *self, const struct bp_graph_data *graph,
                                    struct ov_engine *engine, struct ir *ir);
/* Finds the library's numbers of types. */
enum bp_status openvino_find_types(struct openvino *self);

/* save.c: makes the library's compiled model from what openvino_save wrote. BP_ERR_STALE, without a
 * message: it is of another version, device or group. */
enum bp_status openvino_load(struct openvino *self, struct ov_engine *engine, const void *blob,
                             uint64_t size);
/* Sets the compiled model's properties: pairs of texts, ends with NULL; room for 16. */
void openvino_properties(const struct openvino *self, const struct ov_engine *engine,
                         char threads[16], const char *property[16]);

/* The callbacks of engine.h: claim.c, engine.c, run.c and save.c. */
#define OPENVINO_ENGINE_CALLBACKS(X) \
    X(claim) X(compile) X(run) X(engine_destroy) X(context_create) X(context_destroy) X(save)
#define X(name) __typeof__(*((struct bp_engines *)0)->name) openvino_##name;
OPENVINO_ENGINE_CALLBACKS(X)
#undef X

#endif
