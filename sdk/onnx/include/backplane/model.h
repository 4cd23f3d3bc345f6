/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: ONNX models by name of device. A library of its own, libbackplane-onnx, on top of the
 * app API.
 *
 * A model is loaded onto one device: its weights are written there once and frozen, what follows
 * from weights alone is computed once. For each set of input types it is then planned once: where
 * shapes follow from shapes it becomes a graph (graph.h), else (extents that depend on data, loops
 * whose end does) its nodes are run one by one in each run. */
#ifndef BP_MODEL_H
#define BP_MODEL_H

#include <backplane/backplane.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_model;

/* Weights from elsewhere: called for each initialiser, and for each weight that the model makes by
 * ConstantOfShape, of floats (BP_F32) and rank 1 or more. data: count elements, the model's own
 * values, which it may replace. fan_in: how many products with them one result of their node is the
 * sum of; of what is no matrix of MatMul or Gemm, the elements behind the first axis. Threads: the
 * one that loads. */
typedef void bp_model_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape,
                              int64_t fan_in, float *data, int64_t count);

struct bp_model_options { /* parameters: set size, zero the rest */
    size_t size;
    const char *folder;        /* where external data lies; NULL: the folder of the file. Files
                                  outside it are refused */
    bp_model_weights *weights; /* or NULL */
    void *weights_ctx;
    uint32_t any_shape;        /* 1: inputs may have other shapes than the model declares */
    uint32_t zero;             /* 0 */

    /* Limits, since a model of a few bytes can ask for terabytes and for years (docs/security.md).
     * 0: the default; UINT64_MAX: none. */
    uint64_t fold_bytes; /* that loading may make beside the weights that the model's files have:
                            values that follow from weights alone, those that their nodes make in
                            between, sparse weights. Default: 1 GiB, and 8 for each byte of these
                            weights. More is refused by bp_model_load: BP_ERR_MEMORY */
    uint64_t run_bytes;  /* of all values that a run has at a time, inputs among them, weights not;
                            a view counts as one more. More is refused by bp_model_run and
                            bp_model_planned, before it is made: BP_ERR_MEMORY. Default: none,
                            since a run takes what its inputs need; BP_MEM_LIMIT holds for all */
    uint64_t rounds;     /* of all loops of a run that is not a graph. More: BP_ERR_UNSUPPORTED.
                            Default: 2^20 */
    uint64_t time_ms;    /* that a load, and each run, may take; looked at before each node and
                            round, so that the one at work ends first, and not in what the device
                            does by itself. More: BP_ERR_TIMEOUT. Default: none, since how fast a
                            device is differs */
};

/* Reads a model file and puts it on a device. The device may be destroyed before the model.
 *
 * BP_ERR_MEMORY, BP_ERR_TIMEOUT: also where a limit of the options is passed; the message names it.
 * BP_ERR_NOT_FOUND: there is no such file. BP_ERR_INVALID: it is no model, or one that contradicts
 * itself; the message says what and where. BP_ERR_UNSUPPORTED: it has an operator, a version of one
 * or a type that is not in the table (docs/onnx.md). BP_ERR_MEMORY. */
BP_API enum bp_status bp_model_load(struct bp_device *device, const char *path,
                                    const struct bp_model_options *options,
                                    struct bp_model **out_model);

/* The same from memory, which is not needed after the call. Without a folder in options, external
 * data is refused. */
BP_API enum bp_status bp_model_load_memory(struct bp_device *device, const void *data, size_t size,
                                           const struct bp_model_options *options,
                                           struct bp_model **out_model);
BP_API void bp_model_destroy(struct bp_model *model);

/* What an input or output is. An optional holds one value or none. */
enum bp_model_kind {
    BP_MODEL_NONE = 0,     /* an optional without a value */
    BP_MODEL_TENSOR = 1,
    BP_MODEL_SEQUENCE = 2, /* of tensors */
    BP_MODEL_OPTIONAL = 3, /* of a tensor or a sequence */
};

/* Input or output number index, as the model declares it; BP_ERR_NOT_FOUND past the last. Pointers
 * live as long as the model. */
struct bp_model_port { /* answer: set size before the call */
    size_t size;
    const char *name;
    const int64_t *shape; /* rank extents; -1: any */
    uint32_t dtype;       /* of the tensor or the elements; UINT32_MAX: not declared */
    uint32_t rank;        /* UINT32_MAX: not declared */
    uint32_t kind;        /* enum bp_model_kind */
    uint32_t zero;        /* 0 */
};
BP_API uint32_t bp_model_inputs(struct bp_model *model);
BP_API uint32_t bp_model_outputs(struct bp_model *model);
BP_API enum bp_status bp_model_input(struct bp_model *model, uint32_t index,
                                     struct bp_model_port *out);
BP_API enum bp_status bp_model_output(struct bp_model *model, uint32_t index,
                                      struct bp_model_port *out);

/* Runs the model on stream, of its device. in: a tensor of that device for each input, of its dtype
 * and of a shape that it admits; NULL only for an optional. out: n_out entries, set to tensors in
 * row-major order, to be destroyed (on entry anything). It returns when the work has been given to
 * the stream, unless the model depends on data (bp_model_planned). The first run with a set of
 * input types plans; the plans of the last 8 sets are kept, each a program (program.h): where the
 * device records work, the second run of a plan on a stream is recorded and later ones are replays.
 * One thread at a time.
 *
 * A failure names the node. */
BP_API enum bp_status bp_model_run(struct bp_model *model, struct bp_stream *stream,
                                   struct bp_tensor *const *in, size_t n_in,
                                   struct bp_tensor **out, size_t n_out);

/* A value of any kind. TENSOR: n is 1; SEQUENCE: n tensors; NONE: n is 0. */
struct bp_model_value {
    struct bp_tensor **at;
    size_t n;
    uint32_t kind; /* enum bp_model_kind, not OPTIONAL: what it holds, or NONE */
    uint32_t zero; /* 0 */
};

/* The same for models with sequences and optionals. out: n_out values, to be finished. */
BP_API enum bp_status bp_model_run_values(struct bp_model *model, struct bp_stream *stream,
                                          const struct bp_model_value *in, size_t n_in,
                                          struct bp_model_value *out, size_t n_out);
BP_API void bp_model_value_finish(struct bp_model_value *value);

/* A value for a port from a file, as ONNX's test data has them: a TensorProto, a SequenceProto of
 * tensors or an OptionalProto of these, put on the model's device. Where the port says bf16, a
 * tensor of u16 has its bits. */
BP_API enum bp_status bp_model_value_load(struct bp_model *model, const struct bp_model_port *port,
                                          const char *path, struct bp_model_value *out_value);

/* Plans for inputs of these types. out_graph: the graph that is run for them, the model's, with the
 * model's inputs as inputs; its outputs are the model's in their order, but for those that do not
 * depend on the inputs. NULL: nodes are run one by one. It lives until another set of types takes
 * its place. */
BP_API enum bp_status bp_model_planned(struct bp_model *model, struct bp_tensor *const *in,
                                       size_t n_in, struct bp_graph **out_graph);

/* Writes a recorded graph as a model of opset 17: output has the numbers of n_output of its values
 * (bp_graph_value), which are the model's outputs; constants are read through stream. Operators of
 * convolutional and transformer networks can be written: those without attributes that ONNX has,
 * addmm, batch_norm, conv, layer_norm, matmul, max_pool, reshape, softmax, transpose.
 * BP_ERR_UNSUPPORTED: another; the message names the node. */
BP_API enum bp_status bp_model_export(struct bp_graph *graph, const uint32_t *output,
                                      uint32_t n_output, struct bp_stream *stream,
                                      const char *path);

/* The node that a run is at, for who watches the stream of a model that depends on data
 * (bp_stream_watch): its name, or its first output's; "" at none. Where nodes lie in each other the
 * innermost. Valid as long as the model. */
BP_API const char *bp_model_node(struct bp_model *model);

struct bp_model_info { /* answer: set size before the call */
    size_t size;
    int64_t opset;         /* of the standard operators; 1: none is imported */
    const char *producer;  /* "" if it says none */
    uint32_t nodes;        /* with those of sub-graphs and functions, inlined */
    uint32_t weights;      /* initialisers */
    uint64_t weight_bytes;
    uint64_t runs, replays; /* with the input types of the last run: how often, and how many of them
                               were replays of what the device has recorded (program.h) */
    const char *reason;     /* why the last run was none ("it failed", if that is why), "" if it
                               was; until the next run */
    const char *host_node;  /* of the nodes that the last run did on the host, since there is no
                               operator for them (TfIdfVectorizer), the first's name, or "" */
    uint32_t host_nodes;    /* how many */
    uint32_t zero;          /* 0 */
};
BP_API enum bp_status bp_model_get_info(struct bp_model *model, struct bp_model_info *out);

/* Everything that a model file needs and that is not there, as far as the file says it: writes a
 * line for each operator that is not in the table, opset that is not known, element type, and
 * attribute that is not supported, each once, with '\n' between them, "" where nothing is missing.
 * What does not fit into size bytes is left out, and "..." is the last line then. Lines begin with
 * "operator NAME of opset N", "opset N", "element type N" (which may end in the place of the first,
 * in square brackets) or the ONNX operator and ": ". BP_ERR_NOT_FOUND,
 * BP_ERR_INVALID: as bp_model_load. */
BP_API enum bp_status bp_model_missing(const char *path, char *out_text, size_t size);

/* The table of operators: row number index; BP_ERR_NOT_FOUND past the end. op is the operator that
 * it makes, the first of several. Pointers are to constant data. */
struct bp_model_row {
    const char *name, *op; /* of ONNX, of Backplane */
    int64_t since;         /* opset */
    uint32_t exact;        /* 1: a change of names; 0: code */
    uint32_t zero;         /* 0 */
};
BP_API enum bp_status bp_model_get_row(uint32_t index, struct bp_model_row *out);

#ifdef __cplusplus
}
#endif

#endif
