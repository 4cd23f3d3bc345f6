/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h: a model inside the library: values, nodes with resolved names, and a walk over them. */
#ifndef BP_ONNX_H
#define BP_ONNX_H

#include <backplane/model.h>
#include <backplane/ops.h>
#include <stdbool.h>

#include "onnx/onnx-ml.pb-c.h"

#define TRY(expression) \
    do { \
        enum bp_status try_status = (expression); \
        if (try_status) return try_status; \
    } while (0)

/* error.c: keeps a message for bp_error_message, and returns status. */
enum bp_status onnx_error(enum bp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum bp_status onnx_no_memory(void);
struct onnx_node;
/* The same behind "node NAME (OP): ", or "OP: " where the node has no name. */
enum bp_status onnx_node_error(enum bp_status status, const struct onnx_node *node,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));

enum {
    ONNX_NO_SLOT = UINT32_MAX,
    ONNX_NO_DTYPE = UINT32_MAX,
    ONNX_DEPTH_MAX = 32, /* sub-graphs and functions in each other */
    ONNX_RANK_MAX = 8,
    ONNX_OPSET_MAX = 23,
};

/* A value while a model runs. Counted; the count is not atomic: one thread at a time. */
struct onnx_value {
    uint32_t refs;
    uint32_t kind;             /* enum bp_model_kind */
    bool symbolic;             /* its tensor is one of a graph */
    struct bp_tensor *tensor;  /* of a TENSOR: a reference */
    struct onnx_value **item;  /* of a SEQUENCE: n_item; of an OPTIONAL: one or none */
    size_t n_item;
    int64_t *number;           /* a TENSOR of integers that the host has read, or NULL */
    struct onnx_use *use;      /* of a TENSOR: where its bytes are counted as alive */
    uint64_t bytes;
};

/* value.c. The makers take the references that they are given, also when they fail. A tensor is
 * counted among those of its model that are alive. */
enum bp_status onnx_value_tensor(struct bp_model *model, struct bp_tensor *tensor, bool symbolic,
                                 struct onnx_value **out_value);
enum bp_status onnx_value_list(uint32_t kind, size_t n, struct onnx_value **out_value);
struct onnx_value *onnx_value_retain(struct onnx_value *value);
void onnx_value_release(struct onnx_value *value);

struct onnx_row;

/* A list of nodes with its own inputs and outputs: the model's graph, or a sub-graph. Slots are
 * numbered through a whole model. */
struct onnx_body {
    struct onnx_node *node;
    uint32_t *input, *output;
    const Onnx__ValueInfoProto **declared; /* of each input */
    uint32_t n_node, n_input, n_output;
};

/* What attributes of a function of the model are where a call does not give them. */
struct onnx_function {
    Onnx__AttributeProto **attr;
    size_t n;
    bool is_own; /* unpacked here */
};

struct onnx_node {
    const Onnx__NodeProto *proto;
    const struct onnx_function *function; /* of a call of one, or NULL */
    const struct onnx_node *caller; /* of a function: who gives its attributes; or NULL */
    const struct onnx_row *row;
    const char *name;               /* for messages: its own, or that of its first output; NULL:
                                       messages do not name it */
    uint32_t *in, *out;             /* slots; ONNX_NO_SLOT: absent */
    uint32_t n_in, n_out;
    int64_t opset;                  /* of its domain */
    struct onnx_body *body;         /* one for each attribute that is a graph, in their order */
    uint32_t n_body;
    uint32_t *dead;                 /* slots that nobody reads after it */
    uint32_t n_dead;
    bool is_folded;                 /* its outputs are constants */
};

/* Where the value of a slot is written in the model; both NULL: it is no weight. */
struct onnx_weight {
    const Onnx__TensorProto *tensor;
    const Onnx__SparseTensorProto *sparse;
};

/* A set of input types and what is run for it. */
struct onnx_plan {
    struct bp_model_port *type;  /* of each input; shape is own */
    uint32_t n_type;
    struct bp_graph *graph;      /* NULL: node by node */
    struct bp_program *program;  /* of it */
    struct onnx_value **output;  /* of each output of the model: with symbolic tensors in it */
    uint64_t used;               /* when last */
};

/* What is held against the limits of bp_model_options. */
struct onnx_use {
    uint64_t given, folded; /* bytes: of weights in the model's files; that loading made beside */
    uint64_t alive, base;   /* bytes of values; of those from before this run */
    uint64_t rounds;        /* of loops, of this run */
    uint64_t begun;         /* this run, or the load: ms */
};

enum { ONNX_PLANS = 8, ONNX_MAGIC = 0x4f4e4e58 };

struct bp_model {
    uint32_t magic;              /* first, as in other handles: they are told apart by it */
    struct bp_device *device;
    struct bp_core *core;
    struct bp_stream *stream;    /* for what is computed once */
    Onnx__ModelProto *proto;
    struct onnx_body body;
    struct onnx_node **call;      /* n_call calls of functions: who gives attributes */
    struct onnx_function *function; /* of each of the model's */
    struct onnx_weight *weight;   /* by slot */
    struct onnx_value **constant; /* by slot: weights; NULL: none */
    struct bp_model_port *input, *output;
    uint32_t n_slot, n_node, n_call, n_weight;
    uint64_t weight_bytes, runs;
    bool is_failed;              /* the last run */
    const struct onnx_node *at;  /* the node that a walk is at, or NULL */
    const struct onnx_node *host; /* of n_host that the host did in the last run, the first */
    uint32_t n_host;
    struct bp_model_options options;
    struct onnx_use use;
    struct onnx_plan plan[ONNX_PLANS];
};

static inline bool onnx_is_model(const struct bp_model *model)
{
    return model && model->magic == ONNX_MAGIC;
}
/* model.c: the same; the message names the call. */
enum bp_status onnx_check_model(const char *call, const struct bp_model *model);

/* wire.c: whether bytes are a well-formed message, of bounded depth: what unpacking relies on. */
enum bp_status onnx_wire_check(const ProtobufCMessageDescriptor *message, const void *data,
                               size_t size);

/* wire.c: checks bytes as above and unpacks them. what: names them in messages. BP_ERR_MEMORY: the
 * host has none for it. The message is freed by its type's free_unpacked, with allocator NULL. */
enum bp_status onnx_unpack(const ProtobufCMessageDescriptor *message, const void *data, size_t size,
                           const char *what, void *out_message);

/* file.c: a file's bytes, for reading; size is not 0. */
enum bp_status onnx_file_map(const char *path, void **out_data, size_t *out_size);
void onnx_file_unmap(void *data, size_t size);

/* resolve.c: names become slots, functions are inlined. Fills body, input, output, n_slot. */
enum bp_status onnx_resolve(struct bp_model *model);
void onnx_body_finish(struct onnx_body *body);

/* weights.c: initialisers become constants. */
enum bp_status onnx_weights(struct bp_model *model);
/* The fan_in of a bp_model_weights for the weight of a slot. */
int64_t onnx_fan_in(const struct bp_model *model, uint32_t slot, uint32_t rank,
                    const int64_t *shape);
/* What a value holds is written no more. */
enum bp_status onnx_freeze(const struct onnx_value *value);

/* tensor.c: the elements of a TensorProto, as a tensor, written in a stream; or as a value, of
 * which the host keeps a short list of integers, a shape mostly, that it need not read back.
 * is_weight: the caller of the model may replace them. */
enum bp_status onnx_tensor(struct bp_model *model, struct bp_stream *stream,
                           const Onnx__TensorProto *proto, struct bp_tensor **out_tensor);
enum bp_status onnx_tensor_value(struct bp_model *model, const Onnx__TensorProto *proto,
                                 bool is_weight, struct onnx_value **out_value);
enum bp_status onnx_sparse_tensor(struct bp_model *model, const Onnx__SparseTensorProto *proto,
                                  struct bp_tensor **out_tensor);
/* Numbers of the host as a new tensor, on the stream's device. */
enum bp_status onnx_put(struct bp_stream *stream, uint32_t dtype, uint32_t rank,
                        const int64_t *shape, const void *data, struct bp_tensor **out_tensor);

/* The dtype of an ONNX element type, or ONNX_NO_DTYPE; and back, 0: there is none. */
uint32_t onnx_dtype(int32_t elem_type);
int32_t onnx_elem_type(uint32_t dtype);

/* external.c: size bytes at an offset of a file below a folder, in new memory. */
enum bp_status onnx_external(const char *folder, const Onnx__TensorProto *proto, uint64_t size,
                             void **out_data);

/* One walk over the nodes of a model. */
struct onnx_run {
    struct bp_model *model;
    struct bp_stream *stream;   /* where nodes are run */
    struct bp_graph *graph;     /* where they are recorded; NULL: all are run */
    struct onnx_value **slot;   /* n_slot references, or NULL */
};

/* walk.c: all nodes of a body, in their order. */
enum bp_status onnx_walk(struct onnx_run *run, const struct onnx_body *body);
enum bp_status onnx_walk_node(struct onnx_run *run, const struct onnx_node *node);
void onnx_set(struct onnx_run *run, uint32_t slot, struct onnx_value *value); /* takes it */
/* The value is read no more in this round. What is known before all runs stays: a body that is
 * walked again reads it again. */
void onnx_forget(struct onnx_run *run, uint32_t slot);

/* limits.c. begin: of a load or a run. Each check fails with a message that names the option. */
void onnx_limits_begin(struct bp_model *model);
enum bp_status onnx_check_time(const struct bp_model *model);
enum bp_status onnx_check_round(struct bp_model *model);
/* bytes that loading is about to make. */
enum bp_status onnx_check_fold(struct bp_model *model, uint64_t bytes);
/* Bytes of values that are alive, and of some that are about to be made. */
enum bp_status onnx_check_alive(const struct bp_model *model, uint64_t more);
uint64_t onnx_tensor_bytes(struct bp_tensor *t);
void onnx_count_value(struct bp_model *model, struct onnx_value *value);
/* Bytes that a node makes when it runs: its results and what lies between, but for views. 0: not
 * known: it has sub-graphs, or extents that depend on data, and then no more than its inputs. */
uint64_t onnx_node_bytes(const struct onnx_run *run, const struct onnx_node *node);

/* run.c: whether a value may stand for an input. */
enum bp_status onnx_check_value(const struct bp_model *model, const struct bp_model_port *port,
                                const struct bp_model_value *in);

/* plan.c */
enum bp_status onnx_plan_find(struct bp_model *model, const struct bp_model_value *in, size_t n_in,
                              struct onnx_plan **out_plan);
void onnx_plan_finish(struct bp_model *model, struct onnx_plan *plan);

#endif
