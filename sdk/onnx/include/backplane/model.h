/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: loads ONNX models onto a device and runs them. It belongs to a separate library,
 * libbackplane-onnx, on top of the app API.
 *
 * A model is loaded onto one device. Loading writes the weights to the device once, freezes them,
 * and computes once each value that depends on weights alone. For each set of input types the model
 * is then planned once. If all shapes follow from the input shapes, the plan is a graph (graph.h).
 * Otherwise (an extent or the end of a loop depends on data) each run executes the nodes one by
 * one. */
#ifndef BP_MODEL_H
#define BP_MODEL_H

#include <backplane/backplane.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_model;

/* Replaces weights while a model is loaded. The library calls it for each initialiser of floats
 * (BP_F32) and rank 1 or more, and for each tensor of that kind that a ConstantOfShape node of the
 * model creates. data: count elements with the model's own values, which the callback may
 * overwrite. fan_in: how many products with this weight are summed for one result of its node. For
 * a weight that is no matrix of MatMul or Gemm, it is the number of elements behind the first axis.
 * Threads: the thread that loads the model. */
typedef void bp_model_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape,
                              int64_t fan_in, float *data, int64_t count);

/* A tensor of the app that a model uses in place of an initialiser of its file. */
struct bp_model_constant {
    const char *name; /* of the initialiser */
    struct bp_tensor *tensor;
};

struct bp_model_options { /* parameters: set size, zero the rest */
    size_t size;
    const char *folder;        /* of external data; NULL: the folder of the model file. Files
                                  outside the folder are refused */
    bp_model_weights *weights; /* or NULL */
    void *weights_ctx;
    uint32_t any_shape;        /* 1: inputs may have other shapes than the model declares */
    uint32_t keep_weights;     /* 1: weights stay in memory, and the model's files are not read
                                  after the load (bp_model_load) */

    /* Limits, because a model file of a few bytes can request terabytes of memory and years of
     * computation (docs/security.md). 0: the default; UINT64_MAX: no limit. */
    uint64_t fold_bytes; /* bytes that loading may create beside the weights in the model's files:
                            values that depend on weights alone, intermediate values of the nodes
                            that compute them, sparse weights. Default: 1 GiB plus 8 bytes for each
                            byte of weights in the files. More: BP_ERR_MEMORY of bp_model_load */
    uint64_t run_bytes;  /* bytes of all values that a run holds at one time, with the inputs and
                            without the weights; a view counts as one more value. More: bp_model_run
                            and bp_model_planned fail before the value is created, BP_ERR_MEMORY.
                            Default: no limit, because the inputs decide how much memory a run
                            needs; BP_MEM_LIMIT bounds the whole process */
    uint64_t rounds;     /* iterations of all loops of a run that is not a graph. More:
                            BP_ERR_UNSUPPORTED. Default: 2^20 */
    uint64_t time_ms;    /* time of a load, and of each run. The library reads the clock before each
                            node and each iteration, so the current node finishes first, and time
                            that the device spends by itself does not count. More: BP_ERR_TIMEOUT.
                            Default: no limit, because devices differ in speed */

    struct bp_model *share; /* a model on the same device, or NULL. Constants of the new model
                               (weights and values that depend on weights alone) with the dtype,
                               shape and bytes of a constant of that model use its memory and its
                               packed copies, if they have 1 KiB or more. The models may be
                               destroyed in any order. Another thread may run that model meanwhile.
                               The first such load reads that model's constants back once */
    const char *cache;       /* of the programs that run the model, as in bp_program_options: a
                                folder for what their compilation found, "" none, NULL that of
                                BP_PROGRAM_CACHE. The load copies the text */
    uint32_t program_flags;  /* enum bp_program_flags, of these programs */
    uint32_t program_zero;   /* 0 */

    /* Tensors on the model's device in place of initialisers, without a copy: n_constant entries.
     * dtype and shape are those of the initialiser in the model's bytes, whose data is not read and
     * may be absent. The load freezes the tensors (bp_tensor_freeze); the model keeps their memory,
     * and the app may destroy the handles after the load. Entries that name no initialiser are
     * ignored. `weights` is not called for these. BP_ERR_INVALID: an entry is no tensor of the
     * device, or has another type. */
    const struct bp_model_constant *constant;
    size_t n_constant;
};

/* Reads a model file and loads the model onto a device. The device may be destroyed before the
 * model.
 *
 * On a device that can free parts of its memory (cpu), weights of 64 KiB or more lose their memory
 * while kernels read packed copies of them only. The model keeps its file and up to 15 files of
 * external data open, to read such weights again when something needs them: the first run with
 * another set of shapes may, if its kernels pack weights in another way, and nodes that are run one
 * by one do. The files may be moved, deleted or replaced by other files. If a file is overwritten
 * in place, its size or time of modification changes, and a call that needs weights of it fails
 * with BP_ERR_INVALID; options.keep_weights avoids that.
 *
 * BP_ERR_MEMORY: no memory, or a limit of the options is exceeded. BP_ERR_TIMEOUT: a limit of the
 * options is exceeded. The message names the limit. BP_ERR_NOT_FOUND: the file does not exist.
 * BP_ERR_INVALID: the file is no model, or the model contradicts itself; the message states the
 * error and its location. BP_ERR_UNSUPPORTED: the model has an operator, a version of an operator
 * or a type that is not in the table (docs/onnx.md). */
BP_API enum bp_status bp_model_load(struct bp_device *device, const char *path,
                                    const struct bp_model_options *options,
                                    struct bp_model **out_model);

/* Loads a model from memory, as bp_model_load does from a file. The caller may free data after the
 * call. External data is refused unless options names a folder. */
BP_API enum bp_status bp_model_load_memory(struct bp_device *device, const void *data, size_t size,
                                           const struct bp_model_options *options,
                                           struct bp_model **out_model);
BP_API void bp_model_destroy(struct bp_model *model);

/* The kind of a model's input or output. An optional holds one value or none. */
enum bp_model_kind {
    BP_MODEL_NONE = 0,     /* an optional without a value */
    BP_MODEL_TENSOR = 1,
    BP_MODEL_SEQUENCE = 2, /* of tensors */
    BP_MODEL_OPTIONAL = 3, /* of a tensor or a sequence */
};

/* Returns the frozen tensor of an initialiser of the model, for example for a graph that uses the
 * same weight: calls that read it use the model's memory and packed copies. The caller destroys the
 * handle, which may outlive the model. BP_ERR_NOT_FOUND: the model has no initialiser of this
 * name. */
BP_API enum bp_status bp_model_weight(struct bp_model *model, const char *name,
                                      struct bp_tensor **out_tensor);

/* A description of an input or output, as the model declares it. bp_model_input and bp_model_output
 * describe number index, and return BP_ERR_NOT_FOUND for an index past the last one. The pointers
 * are valid as long as the model. */
struct bp_model_port { /* output struct: set size before the call */
    size_t size;
    const char *name;
    const int64_t *shape; /* rank extents; -1: any extent */
    uint32_t dtype;       /* of the tensor or its elements; UINT32_MAX: not declared */
    uint32_t rank;        /* UINT32_MAX: not declared */
    uint32_t kind;        /* enum bp_model_kind */
    uint32_t zero;        /* 0 */
    const char *const *extent_name; /* rank names: of an extent that the model leaves open and names
                                       (ONNX's dim_param), as "batch"; "" for other extents. Extents
                                       of one name are meant to be equal. NULL if the rank is not
                                       declared */
};
BP_API uint32_t bp_model_inputs(struct bp_model *model);
BP_API uint32_t bp_model_outputs(struct bp_model *model);
BP_API enum bp_status bp_model_input(struct bp_model *model, uint32_t index,
                                     struct bp_model_port *out);
BP_API enum bp_status bp_model_output(struct bp_model *model, uint32_t index,
                                      struct bp_model_port *out);

/* Runs the model on a stream of the model's device. in: for each input a tensor of that device,
 * with the declared dtype and a shape that the declaration admits; NULL only for an optional. out:
 * n_out entries (any contents on entry), which the call sets to tensors in row-major order; the
 * caller destroys them. The call returns when the work has been submitted to the stream, unless the
 * model depends on data (bp_model_planned). The first run with a set of input types plans the
 * model. If a node needs the values of small inputs of integers (at most 16 elements: the condition
 * of an If, a trip count, an axis, a shape), a plan is for these values too, and each run reads
 * them, which waits for the stream's earlier work. The plans of the last 8 sets are kept, each as a
 * program (program.h): on a device that can record work, the second run of a plan on a stream is
 * recorded and later runs are replays. A plan keeps recordings for up to 8 streams.
 *
 * Threads: several threads may run one model at the same time, each on its own stream; two threads
 * must not use one stream at the same time. A run waits for another thread only while that thread
 * plans the model. Each run has its own values, its own limits (bp_model_options) and its own
 * random numbers (those of its stream). bp_model_destroy must come after all runs.
 *
 * A failure names the node. */
BP_API enum bp_status bp_model_run(struct bp_model *model, struct bp_stream *stream,
                                   struct bp_tensor *const *in, size_t n_in,
                                   struct bp_tensor **out, size_t n_out);

/* Runs the model as bp_model_run does, with tensors of the caller as outputs, and with a part of
 * the outputs. out: n_out entries, each NULL, and the call sets it to a new tensor, or a tensor of
 * the model's device and of the dtype and shape of the output, which the call writes. want: n_out
 * numbers; 0: output i is not returned, and out[i] is neither read nor set. NULL: all are wanted.
 * Nodes on which no wanted output depends are not run.
 *
 * A given tensor may have any strides. The last node writes it directly, without a copy, if the
 * plan is a graph (bp_model_planned) and the output is not a view, an input, a constant or an
 * output given before; it must not overlap another output, and it may overlap an input, which is
 * then read first. BP_ERR_INVALID: a given tensor has another type; the message names the output,
 * its type and the given type. A failed call does not set entries of out, but may have written
 * given tensors. */
BP_API enum bp_status bp_model_run_into(struct bp_model *model, struct bp_stream *stream,
                                        struct bp_tensor *const *in, size_t n_in,
                                        struct bp_tensor **out, const uint8_t *want,
                                        size_t n_out);

/* Binds outputs of a run to inputs of the next run: the caches of a decoder, whose output (present
 * keys) is an input (past keys) with more places along one axis. output, input: names; one '*' in
 * both stands for the same text, as "present.*" and "past_key_values.*", and all pairs of the model
 * are bound. Another call binds more pairs. All pairs have one length at a time.
 *
 * Each pair becomes a buffer of the model with `capacity` places along the axis. A run returns the
 * output as a view of the buffer. If the app passes this view (or another handle of it, or its
 * first places) as the input of the next run, nothing is copied, and where the model appends to
 * the input, the run writes the new places in place. If the model attends to the cache and computes
 * nothing else from its length, one plan serves every length: the library compares the graphs of
 * four lengths, the shortest and the longest among them, so what holds for others only (an If of
 * one length in the middle) stays unseen. Any other tensor is copied to the
 * buffer, whose contents it replaces; pass an input of extent 0 for a new sequence. If the
 * places do not suffice, the capacity is doubled, and the buffer is copied once. Results are those
 * of a model without bindings, apart from roundings, and of queries whose mask hides all keys by
 * -infinity, which give 0 and not NaN.
 *
 * A run writes behind the places of its input, so it overwrites those of earlier outputs that are
 * longer. The runs of a bound model are of one sequence, or of one batch of them: runs of several
 * threads wait for each other, and all runs have to use one stream, or wait for the earlier run.
 * The functions that plan a model (bp_model_planned, bp_model_program) know no bindings.
 *
 * BP_ERR_NOT_FOUND: no pair has these names. BP_ERR_INVALID: a port is bound, the ports of a pair
 * differ in more than one axis, or the model has run with its bindings. */
BP_API enum bp_status bp_model_bind(struct bp_model *model, const char *output, const char *input,
                                    int64_t capacity);

/* Sets the length of all caches to 0. The next run may pass any input; views of the caches stay
 * valid until a run overwrites them. BP_ERR_INVALID: the model has no bindings. */
BP_API enum bp_status bp_model_reset(struct bp_model *model);

struct bp_model_bind_info { /* output struct: set size before the call */
    size_t size;
    int64_t capacity, length; /* places of the buffers, and those that the last run left */
    uint64_t runs;     /* of the bound model, that did not fail */
    uint64_t in_place; /* runs that wrote only the new places */
    uint64_t copies;   /* inputs that were not the bound view and had a place: they were copied */
    uint64_t grown;    /* how often the capacity was doubled */
    uint64_t plans;    /* plans that were made */
    uint32_t pairs;    /* bound pairs; 0: the model has no bindings */
    uint32_t zero;     /* 0 */
};
BP_API enum bp_status bp_model_get_bind_info(struct bp_model *model,
                                             struct bp_model_bind_info *out);

/* A value of any kind. TENSOR: n is 1; SEQUENCE: n tensors; NONE: n is 0. */
struct bp_model_value {
    struct bp_tensor **at;
    size_t n;
    uint32_t kind; /* enum bp_model_kind: the kind of the value held, or NONE; not OPTIONAL */
    uint32_t zero; /* 0 */
};

/* Runs a model with sequences and optionals, otherwise as bp_model_run. out: n_out values; the
 * caller finishes each with bp_model_value_finish. */
BP_API enum bp_status bp_model_run_values(struct bp_model *model, struct bp_stream *stream,
                                          const struct bp_model_value *in, size_t n_in,
                                          struct bp_model_value *out, size_t n_out);
BP_API void bp_model_value_finish(struct bp_model_value *value);

/* Reads a value for a port from a file in the format of ONNX's test data: a TensorProto, a
 * SequenceProto of tensors or an OptionalProto of one of these. The value is written to the model's
 * device. If the port declares bf16, a tensor of u16 is read as the bits of bf16 numbers. */
BP_API enum bp_status bp_model_value_load(struct bp_model *model, const struct bp_model_port *port,
                                          const char *path, struct bp_model_value *out_value);

/* Plans the model for inputs of these types. out_graph: the graph that runs with these types. The
 * model owns it. Its inputs are the model's inputs. Its outputs are the model's outputs in their
 * order, without those that do not depend on the inputs. NULL: each run executes the nodes one by
 * one, or its graph depends on the values of small inputs (bp_model_run). The graph is valid until
 * a call of any thread has replaced its plan by that of another set of types. */
BP_API enum bp_status bp_model_planned(struct bp_model *model, struct bp_tensor *const *in,
                                       size_t n_in, struct bp_graph **out_graph);

/* The type of an output in a run. is_known 0: its extents depend on data, or it is no tensor. */
struct bp_model_type {
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
    uint32_t is_known;
    uint32_t zero; /* 0 */
};

/* Finds the types of all outputs that bp_model_run would return with these inputs, so that the
 * caller can allocate the memory for bp_model_run_into. Plans the model as the run would. out:
 * n_out entries. out_by_values: NULL, or set to 1 if the types may be others for inputs of the same
 * types with other values. A failed call may have written out. */
BP_API enum bp_status bp_model_output_types(struct bp_model *model, struct bp_stream *stream,
                                            struct bp_tensor *const *in, size_t n_in,
                                            struct bp_model_type *out, size_t n_out,
                                            uint32_t *out_by_values);

/* Plans the model for inputs of these types, and for the values of small inputs that a plan depends
 * on (bp_model_run), which are read after all work of the device. out_program: the program that
 * runs with these inputs on inline streams launch from, to describe or watch it (program.h). The
 * model owns it, and it is valid until a call of any thread has replaced its plan by that of other
 * types or values. BP_ERR_UNSUPPORTED: each run executes the nodes one by one; the message states
 * why. */
BP_API enum bp_status bp_model_program(struct bp_model *model, struct bp_tensor *const *in,
                                       size_t n_in, struct bp_program **out_program);

/* Writes a recorded graph as a model of opset 17. output: the numbers of n_output values of the
 * graph (bp_graph_value), which become the model's outputs. Constants are read through stream. The
 * operators of convolutional and transformer networks can be written: operators that ONNX has and
 * that have no attributes, and addmm, batch_norm, conv, layer_norm, matmul, max_pool, reshape,
 * softmax, transpose. BP_ERR_UNSUPPORTED: the graph has another operator; the message names the
 * node. */
BP_API enum bp_status bp_model_export(struct bp_graph *graph, const uint32_t *output,
                                      uint32_t n_output, struct bp_stream *stream,
                                      const char *path);

/* The name of the node that a run of the calling thread currently executes, or the name of its
 * first output; "" outside a run. It is meant for an app that watches the stream of a model that
 * depends on data (bp_stream_watch). For nested nodes it is the innermost one. The pointer is valid
 * as long as the model. */
BP_API const char *bp_model_node(struct bp_model *model);

struct bp_model_info { /* output struct: set size before the call */
    size_t size;
    int64_t opset;         /* of the standard operators; 1 if the model imports none */
    const char *producer;  /* "" if the model names none */
    uint32_t nodes;        /* with the nodes of sub-graphs and of inlined functions */
    uint32_t weights;      /* initialisers */
    uint64_t weight_bytes;
    uint64_t runs, replays; /* with the input types of the last run (the one that ended last): the
                               number of runs that did not fail, and how many of them replayed
                               recorded device work (program.h) */
    const char *reason;     /* why the last run was no replay ("it failed" if it failed), "" if it
                               was one; valid until the thread calls this function again */
    const char *host_node;  /* the name of the first node that the last run computed on the host,
                               because no operator exists for it (TfIdfVectorizer), or "" */
    uint32_t host_nodes;    /* the number of these nodes */
    uint32_t zero;          /* 0 */

    /* As the file states them; texts are "" if it does not. They are valid as long as the model. */
    const char *producer_version, *domain, *doc; /* doc: a description of the model */
    const char *graph_name, *graph_doc;
    int64_t model_version, ir_version;
    uint64_t shared_bytes; /* bytes of constants whose memory is that of options.share */
    uint32_t opsets, metadata; /* entries of bp_model_get_opset and bp_model_get_metadata */
    uint64_t recorded, derived; /* plans for sets of input types: those for which the nodes were
                                   gone through, and those made from plans for other extents
                                   (bp_template_create) */
    uint64_t dropped_bytes; /* bytes of weights whose memory is free at the moment, because only
                               packed copies are read (bp_model_load) */
    uint64_t restores;      /* how often such weights were read again from the model's files */
};
BP_API enum bp_status bp_model_get_info(struct bp_model *model, struct bp_model_info *out);

/* Entry number index of the model's metadata (metadata_props of the file), in the order of the
 * file, and of its opset imports; BP_ERR_NOT_FOUND past the end. The pointers are valid as long as
 * the model. */
struct bp_model_metadata { /* output struct: set size before the call */
    size_t size;
    const char *key, *value;
};
struct bp_model_opset { /* output struct: set size before the call */
    size_t size;
    const char *domain; /* "": the standard operators */
    int64_t version;
};
BP_API enum bp_status bp_model_get_metadata(struct bp_model *model, uint32_t index,
                                            struct bp_model_metadata *out);
BP_API enum bp_status bp_model_get_opset(struct bp_model *model, uint32_t index,
                                         struct bp_model_opset *out);

/* Returns the value of the first metadata entry with this key; NULL if there is none. */
BP_API const char *bp_model_find_metadata(struct bp_model *model, const char *key);

/* Lists everything that a model file needs and that the library lacks, as far as the file declares
 * it. The text has one line for each operator that is not in the table, each unknown opset, each
 * element type and each attribute that is not supported. Each line occurs once; '\n' separates
 * lines; "" if nothing is missing. Lines that do not fit into size bytes are left out, and the last
 * line is then "...". A line begins with "operator NAME of opset N", "opset N", "element type N" or
 * the ONNX operator and ": ". Names of other domains than ONNX's are DOMAIN.NAME. A line may end
 * with square brackets: the first place of use, the number of uses, or both: "[x, 3 times]".
 * BP_ERR_NOT_FOUND, BP_ERR_INVALID: as bp_model_load. */
BP_API enum bp_status bp_model_missing(const char *path, char *out_text, size_t size);

/* Finds the nodes of a model in memory that need something that the library lacks, for importers
 * that choose the nodes that Backplane runs. Initialisers need no data here. For each such node of
 * the model's graph the function calls lack(ctx, node, text), in the order of the nodes. node: its
 * place in the list. text: one of the things that it needs, as a line of bp_model_missing. The
 * nodes of a node's sub-graphs count as part of the node. The ports of the graph are not looked at.
 * BP_ERR_INVALID: the bytes are no model. */
typedef void bp_model_lack(void *ctx, size_t node, const char *text);
BP_API enum bp_status bp_model_missing_nodes(const void *data, size_t size, bp_model_lack *lack,
                                             void *ctx);

/* Reads row number index of the table of operators; BP_ERR_NOT_FOUND past the end. op: the operator
 * of Backplane that the row calls, the first of several. The pointers are to constant data. */
struct bp_model_row {
    const char *name, *op; /* the names in ONNX and in Backplane */
    int64_t since;         /* the first opset of the row */
    uint32_t exact;        /* 1: the row only maps names; 0: it has code */
    uint32_t zero;         /* 0 */
};
BP_API enum bp_status bp_model_get_row(uint32_t index, struct bp_model_row *out);

/* Tests whether the library has an operator, without a model: for importers that choose the nodes
 * that Backplane runs. domain: of ONNX; NULL, "" or "ai.onnx": the standard operators. opset: the
 * version of the domain that the model imports, or the version since which ONNX has the node's
 * definition. out_row: NULL, or gets the row of the table; for an operator that a loaded plugin
 * defines (DOMAIN.NAME), a row with since 1 and the plugin's name as op. Attributes and types of a
 * node are not looked at: loading a model does that, as does bp_model_missing.
 *
 * BP_ERR_UNSUPPORTED: it has not; the message states the opset from which on it has, if there is
 * one. */
BP_API enum bp_status bp_model_supports(const char *domain, const char *op_type, int64_t opset,
                                        struct bp_model_row *out_row);

#ifdef __cplusplus
}
#endif

#endif
