/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h: declares a loaded model inside the library (values, nodes with resolved names, plans) and
 * the functions of its files. */
#ifndef BP_ONNX_H
#define BP_ONNX_H

#include <backplane/model.h>
#include <backplane/ops.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "onnx/onnx-ml.pb-c.h"

#define TRY(expression) \
    do { \
        enum bp_status try_status = (expression); \
        if (try_status) return try_status; \
    } while (0)

/* error.c: stores a message for bp_error_message, and returns status. */
enum bp_status onnx_error(enum bp_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum bp_status onnx_no_memory(void);
struct onnx_node;
/* As onnx_error, with a message that begins with "node NAME (OP): ", or "OP: " ("DOMAIN.OP: " for
 * another domain than ONNX's) where the node has no name. */
enum bp_status onnx_node_error(enum bp_status status, const struct onnx_node *node,
                               const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Returns the status of a check of a node, or BP_OK if this fault is to be passed over
 * (node->skip); the checks then go on. */
enum bp_status onnx_fault(const struct onnx_node *node, enum bp_status status);

enum {
    ONNX_NO_SLOT = UINT32_MAX,
    ONNX_NO_DTYPE = UINT32_MAX,
    ONNX_DEPTH_MAX = 32, /* levels of nested sub-graphs and functions */
    ONNX_RANK_MAX = 8,
    ONNX_OPSET_MAX = 28,
    ONNX_FIXED_MAX = 63,    /* inputs from this one on are never fixed */
    ONNX_FIXED_BYTES = 128, /* of a fixed input, at most */
};

/* A value while a model runs. It is reference-counted. Constants of a model and outputs of a plan
 * are shared by runs of several threads; other values belong to one run. */
struct onnx_value {
    _Atomic uint32_t refs;
    uint32_t kind;             /* enum bp_model_kind */
    bool symbolic;             /* its tensor belongs to a graph that is being recorded */
    bool of_data;              /* symbolic, and its extents are only upper bounds */
    uint64_t origin;           /* of a symbolic value: bit i: input i of the model may affect it;
                                  bit ONNX_FIXED_MAX: an input from that one on */
    struct bp_tensor *tensor;  /* of a TENSOR: an owned reference */
    struct onnx_value **item;  /* of a SEQUENCE: n_item; of an OPTIONAL: one or none */
    size_t n_item;
    int64_t *_Atomic number;   /* of a TENSOR: its integers, if the host has read them, or NULL */
    struct onnx_use *use;      /* of a TENSOR: the counter of live bytes that includes bytes; NULL:
                                  none */
    uint64_t bytes;
};

/* value.c. onnx_value_tensor takes over the caller's reference to the tensor, also when it fails,
 * and counts the tensor's bytes among the live bytes of the run. onnx_value_settle removes a value
 * that outlives its run from the run's counter. */
struct onnx_run;
struct onnx_use;
enum bp_status onnx_value_tensor(struct onnx_run *run, struct bp_tensor *tensor, bool symbolic,
                                 struct onnx_value **out_value);
void onnx_value_settle(struct onnx_value *value, const struct onnx_use *use);
enum bp_status onnx_value_list(uint32_t kind, size_t n, struct onnx_value **out_value);
struct onnx_value *onnx_value_retain(struct onnx_value *value);
void onnx_value_release(struct onnx_value *value);

struct onnx_row;
struct onnx_line;

/* A list of nodes with its own inputs and outputs: the model's graph, or a sub-graph. Slot numbers
 * are unique in a whole model. */
struct onnx_body {
    struct onnx_node *node;
    uint32_t *input, *output;
    const Onnx__ValueInfoProto **declared; /* of each input */
    uint32_t n_node, n_input, n_output;
};

/* The default attributes of a function of the model, for calls that do not set them. */
struct onnx_function {
    Onnx__AttributeProto **attr;
    size_t n;
    bool is_own; /* attr was unpacked by this library, which frees it */
};

struct onnx_node {
    const Onnx__NodeProto *proto;
    const struct onnx_function *function; /* for a call of a function: its defaults; or NULL */
    const struct onnx_node *caller; /* for a node of a function: the call, whose attributes the
                                       node may refer to; or NULL */
    const struct onnx_row *row;
    const char *name;               /* for messages: its own name, or its first output's; NULL:
                                       messages do not name the node */
    uint32_t *in, *out;             /* slots; ONNX_NO_SLOT: absent */
    uint32_t n_in, n_out;
    int64_t opset;                  /* the version of its domain */
    struct onnx_body *body;         /* one for each attribute that is a graph, in their order */
    uint32_t n_body;
    uint32_t *dead;                 /* slots that no node reads after this one */
    uint32_t n_dead;
    bool is_folded;                 /* its outputs were computed at load and are constants */
    size_t *skip;                   /* in a search for all faults: the number of faults that checks
                                       pass over before they report one; otherwise NULL */
};

/* The data of a slot in the model's message; both members are NULL if the slot is no weight. */
struct onnx_weight {
    const Onnx__TensorProto *tensor;
    const Onnx__SparseTensorProto *sparse;
};

/* Where the elements of a weight lie in a file, as they are in memory; file NULL: nowhere. */
struct onnx_place {
    struct onnx_file *file; /* the model's reference */
    uint64_t offset;
};

enum {
    ONNX_PLANS = 8,    /* that a model keeps, and has recorded */
    ONNX_DERIVED = 64, /* that a model keeps, and has made from templates */
    ONNX_DERIVED_BYTES = 64 << 20, /* of all of these, if they are more than ONNX_PLANS */
    ONNX_LINES = 4,    /* templates of a model */
    ONNX_PROGRAMS = 8,
    ONNX_MAGIC = 0x4f4e4e58
};

/* A program of a plan for streams that are not inline. One run at a time uses it. */
struct onnx_program {
    struct bp_program *program; /* NULL: the run that uses the entry creates it */
    uint32_t stream;            /* bp_stream_number of its last run's stream; 0: none */
    bool is_used;               /* by a run */
    uint64_t last;              /* the number of its last use; 0: none */
    uint64_t replays;           /* runs that were replays */
};

/* The values of some inputs. */
struct onnx_fixed {
    uint64_t inputs; /* bit i: input i has a value here */
    uint8_t value[ONNX_FIXED_MAX][ONNX_FIXED_BYTES];
};

/* A set of input types and of wanted outputs, and the plan for running the model with these.
 * Several runs use a plan at a time. Members up to output do not change; the model's lock guards
 * the others. */
struct onnx_plan {
    struct bp_model_port *type;  /* of each input; the plan owns each shape */
    uint32_t n_type;
    struct bp_graph *graph;      /* NULL: nodes are run one by one */
    struct bp_program *shared;   /* of the graph: for inline streams */
    bool derived;                /* the graph was made from a template */
    uint64_t bytes;              /* of a derived plan: about the memory that it keeps */
    uint64_t hash;               /* of the types */
    struct onnx_fixed fixed;     /* the plan is for these values of inputs: the model reads them
                                    while it is recorded */
    bool is_unfixed;             /* a caller that admits no fixed inputs made the plan, which has no
                                    graph */
    char why[512];               /* why there is no graph */
    struct onnx_value **output;  /* of each output of the model; may hold symbolic tensors */
    uint8_t *want;               /* of each output: 0: it is not computed. NULL: all are */
    bool *skip;                  /* of each node of the model's graph: no wanted output needs it.
                                    NULL: all are needed */
    uint32_t refs;               /* the model's, and one of each run */
    uint64_t used;               /* the number of its last use */
    uint64_t runs;               /* that did not fail */
    uint64_t replays;
    struct onnx_program program[ONNX_PROGRAMS]; /* of the graph */
};

/* The use of resources by a load or a run, which is checked against the limits of
 * bp_model_options. */
struct onnx_use {
    uint64_t given, folded; /* bytes of weights in the model's files; bytes that loading added */
    uint64_t alive;         /* bytes of live values */
    uint64_t copied;        /* bytes of outputs that were copied into row-major order */
    uint64_t rounds;        /* loop iterations */
    uint64_t begun;         /* the start, in ms */
};

/* The run that ended last, for bp_model_get_info. */
struct onnx_last {
    uint64_t runs, replays;
    const char *host_node; /* the first of host_nodes nodes that ran on the host, or "" */
    uint32_t host_nodes;
    char reason[512];      /* why it was no replay */
};

struct bp_model {
    uint32_t magic;              /* first, as in other handles: functions check handles by it */
    struct bp_device *device;
    struct bp_core *core;
    struct bp_stream *stream;    /* for values that are computed once; planning guards it */
    Onnx__ModelProto *proto;
    const void *bytes;           /* during the load: the file's, which large weights point to */
    size_t n_bytes;
    bool is_mapped;              /* the bytes are a mapping of this library */
    struct onnx_file *file;      /* during the load: the files from which weights can be read again
                                    (reload.c) */
    struct onnx_file *mapped;    /* of these, that of the bytes, or NULL */
    struct onnx_place *place;    /* during the load, by slot; NULL: no file is open */
    struct onnx_place loaded;    /* of the weight that was loaded last */
    struct onnx_body body;
    struct onnx_node **call;      /* n_call calls of functions; inlined nodes use their values */
    struct onnx_function *function; /* one for each function of the model */
    struct onnx_weight *weight;   /* by slot */
    struct onnx_value **constant; /* by slot: the value of a weight, or NULL */
    struct bp_model_port *input, *output;
    uint32_t n_slot, n_node, n_call, n_weight;
    uint64_t weight_bytes;
    uint64_t shared_bytes;       /* constants whose memory is that of options.share */
    struct bp_model_options options; /* folder and share are NULL after the load; cache
                                       is owned */
    struct onnx_use use;         /* of the load */
    pthread_mutex_t planning;    /* held while a plan is made, before lock */
    struct onnx_line *line[ONNX_LINES]; /* templates; planning guards them */
    uint64_t line_uses;          /* planning guards it */
    uint32_t line_failures, line_wait; /* searches for templates that found none; plans until the
                                          next search; planning guards them */
    uint64_t *hash;              /* by slot: of the bytes of a constant, for models that share it;
                                    planning guards it; NULL: not computed */
    pthread_mutex_t lock;        /* guards all below; held for short times */
    uint64_t uses;               /* of plans */
    struct onnx_plan *plan[ONNX_PLANS + ONNX_DERIVED];
    uint64_t recorded, derived;  /* plans that were kept */
    _Atomic uint64_t fixed;      /* inputs that a plan has fixed */
    uint32_t unused;             /* plans with fixed inputs that were dropped after one run or
                                    none */
    struct onnx_last last;
    struct onnx_bind *bind;      /* caches that are bound, or NULL (bind.h) */
};

static inline bool onnx_is_model(const struct bp_model *model)
{
    return model && model->magic == ONNX_MAGIC;
}
/* model.c: fails for a handle that is no model; the message names the API function `call`. */
enum bp_status onnx_check_model(const char *call, const struct bp_model *model);

/* model.c: copies a struct of facts to the caller's, as far as that one's size admits. */
enum bp_status onnx_fill_info(const char *call, void *out, const void *from, size_t size);

/* describe.c: fills in what the file states about the model. */
void onnx_describe(const struct bp_model *model, struct bp_model_info *info);

/* wire.c: checks that bytes are a well-formed message of bounded depth; unpacking relies on this.
 * `what` names the bytes in messages. */
enum bp_status onnx_wire_check(const ProtobufCMessageDescriptor *message, const void *data,
                               size_t size, const char *what);

/* wire.c: checks bytes as onnx_wire_check does and unpacks them. `what` names the bytes in
 * messages. BP_ERR_MEMORY: the host has no memory for the message. The caller frees the message
 * with its type's free_unpacked and allocator NULL. */
enum bp_status onnx_unpack(const ProtobufCMessageDescriptor *message, const void *data, size_t size,
                           const char *what, void *out_message);

/* borrow.c. onnx_unpack_model checks and unpacks a model; raw_data of its large initialisers points
 * into `data`, and is no memory of protobuf-c. onnx_is_borrowed returns whether `at` points into
 * the bytes of the model that is being loaded. onnx_return_data ends the use of a tensor's
 * raw_data, and onnx_return_all that of all bytes, before the message or the bytes are freed. */
enum bp_status onnx_unpack_model(const void *data, size_t size, Onnx__ModelProto **out_proto);
bool onnx_is_borrowed(const struct bp_model *model, const void *at);
void onnx_return_data(struct bp_model *model, Onnx__TensorProto *t);
void onnx_return_all(struct bp_model *model);
/* Writes all elements of a new tensor, in parts, so that few pages of the file are in memory. */
enum bp_status onnx_write_data(struct bp_model *model, struct bp_stream *stream,
                               const uint8_t *data, struct bp_tensor *out);

/* reload.c: onnx_reload_file keeps a file of the model open, for weights that are read again; NULL:
 * they are not. onnx_reload_viewed registers those weights with places that only nodes read which
 * return views, before there are views. onnx_reload_weights registers the others, which are frozen.
 * onnx_reload_finish ends the load's part. onnx_reload_describe fills in the facts. */
struct onnx_file *onnx_reload_file(struct bp_model *model, int file, const char *name);
enum bp_status onnx_reload_viewed(struct bp_model *model);
enum bp_status onnx_reload_weights(struct bp_model *model);
void onnx_reload_finish(struct bp_model *model);
void onnx_reload_describe(const struct bp_model *model, struct bp_model_info *info);

/* share.c: onnx_share_find finds the tensor of an equal constant of options.share; NULL: there is
 * none. The caller destroys the handle. onnx_share_folded replaces values that were computed at
 * load. */
enum bp_status onnx_share_find(struct bp_model *model, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, const void *data, size_t bytes,
                               struct bp_tensor **out_tensor);
enum bp_status onnx_share_folded(struct bp_model *model);

/* constants.c: finds the tensor that options.constant has for an initialiser; NULL: there is none.
 * The caller destroys the handle. */
enum bp_status onnx_constant_find(const struct bp_model *model, const Onnx__TensorProto *proto,
                                  struct bp_tensor **out_tensor);

/* file.c: maps a file's bytes for reading; size is never 0. out_file: the open file, or NULL. */
enum bp_status onnx_file_map(const char *path, void **out_data, size_t *out_size, int *out_file);
void onnx_file_unmap(void *data, size_t size);

/* resolve.c: gives each name a slot and inlines functions. Fills body, input, output, n_slot. */
enum bp_status onnx_resolve(struct bp_model *model);
void onnx_body_finish(struct onnx_body *body);

/* weights.c: loads initialisers as constants. */
enum bp_status onnx_weights(struct bp_model *model);
/* The fan_in argument of a bp_model_weights callback for the weight of a slot. */
int64_t onnx_fan_in(const struct bp_model *model, uint32_t slot, uint32_t rank,
                    const int64_t *shape);
/* Freezes the tensors of a value, which are written no more from now on. */
enum bp_status onnx_freeze(const struct onnx_value *value);

/* tensor.c: onnx_tensor writes the elements of a TensorProto to a new tensor, in a stream.
 * onnx_tensor_value returns them as a value; for a short list of integers (mostly a shape) the
 * value keeps a host copy, so that the host need not read it back. is_weight: the callback of
 * bp_model_options may replace the elements. */
enum bp_status onnx_tensor(struct bp_model *model, struct bp_stream *stream,
                           const Onnx__TensorProto *proto, struct bp_tensor **out_tensor);
enum bp_status onnx_tensor_value(struct onnx_run *run, const Onnx__TensorProto *proto,
                                 bool is_weight, struct onnx_value **out_value);
enum bp_status onnx_sparse_tensor(struct onnx_run *run, const Onnx__SparseTensorProto *proto,
                                  struct bp_tensor **out_tensor);
/* Writes numbers of the host to a new tensor, on the stream's device. */
enum bp_status onnx_put(struct bp_stream *stream, uint32_t dtype, uint32_t rank,
                        const int64_t *shape, const void *data, struct bp_tensor **out_tensor);

/* Convert an ONNX element type to a dtype (ONNX_NO_DTYPE: none), and a dtype to an element type (0:
 * none). */
uint32_t onnx_dtype(int32_t elem_type);
int32_t onnx_elem_type(uint32_t dtype);
/* Returns the name of an element type that has no dtype for messages, as " (uint4)", or "". */
const char *onnx_type_words(int64_t elem_type);

/* external.c: reads size bytes at an offset of a file below the model's folder, into new memory of
 * the host. Sets model->loaded. */
enum bp_status onnx_external(struct bp_model *model, const Onnx__TensorProto *proto, uint64_t size,
                             void **out_data);

/* One walk over the nodes of a model. */
struct onnx_run {
    struct bp_model *model;
    struct bp_stream *stream;   /* executes nodes */
    struct bp_graph *graph;     /* records nodes; NULL: all nodes are executed */
    struct onnx_use *use;       /* of this walk */
    struct onnx_value **slot;   /* n_slot references, or NULL */
    const bool *skip;           /* of each node of the model's graph: it is not run; or NULL */
    const struct onnx_node *at; /* the node that the walk currently executes, or NULL */
    const struct onnx_run *outer; /* while at is set: the thread's walk around this one, or NULL */
    const struct onnx_node *host; /* the first of n_host nodes that the host computed */
    uint32_t n_host;
    bool keeps_ranges;          /* numbers of Range nodes are recorded as values of the graph, so
                                   that nodes that read them are recorded, too */
    uint64_t unknown;           /* the origin of the symbolic value that a node had to read */
};

/* walk.c: walks all nodes of a body, in their order. */
enum bp_status onnx_walk(struct onnx_run *run, const struct onnx_body *body);
enum bp_status onnx_walk_node(struct onnx_run *run, const struct onnx_node *node);
/* Stores value in a slot, and takes over the caller's reference. */
void onnx_set(struct onnx_run *run, uint32_t slot, struct onnx_value *value);
/* Releases the value of a slot that is not read again in this iteration. Values that are known
 * before all runs stay, because a body that is walked again reads them again. */
void onnx_forget(struct onnx_run *run, uint32_t slot);

/* limits.c. onnx_use_begin starts the counts of a load or a run. Each check fails with a message
 * that names the option; onnx_check_end also fails if the run is cancelled. */
struct onnx_use onnx_use_begin(const struct bp_model *model);
enum bp_status onnx_check_end(const struct onnx_run *run);
enum bp_status onnx_check_round(struct onnx_run *run);
/* Fails if loading must not create this many more bytes. */
enum bp_status onnx_check_fold(struct onnx_run *run, uint64_t bytes);
/* Fails if the bytes of live values and `more` bytes that are about to be created exceed
 * run_bytes. */
enum bp_status onnx_check_alive(const struct onnx_run *run, uint64_t more);
/* Fails likewise, or by fold_bytes while the model is loaded, for numbers that a node computes on
 * the host: count elements of size bytes, with all copies. */
struct onnx_call;
enum bp_status onnx_check_host(const struct onnx_call *c, uint64_t count, uint64_t size);
/* Fails likewise for an output's copy of these bytes, otherwise counts the copy. */
enum bp_status onnx_check_copy(const struct bp_model *model, struct onnx_use *use, uint64_t bytes);
uint64_t onnx_tensor_bytes(struct bp_tensor *t);
void onnx_count_value(struct onnx_use *use, struct onnx_value *value);
/* The bytes that a node creates when it runs: its results and intermediate values, without views.
 * 0: unknown, because the node has sub-graphs, or extents that depend on data (its results are then
 * bounded by its inputs). */
uint64_t onnx_node_bytes(const struct onnx_run *run, const struct onnx_node *node);

/* run_values.c: checks that a value may be passed as an input. */
enum bp_status onnx_check_value(const struct bp_model *model, const struct bp_model_port *port,
                                const struct bp_model_value *in);

/* need.c: finds the nodes of the model's graph on which no output with a want of 1 depends. The
 * caller frees the list. */
enum bp_status onnx_find_unneeded(const struct bp_model *model, const uint8_t *want,
                                  bool **out_skip);

/* fixed.c. onnx_fixable returns the inputs that a plan may fix: a bit for each small tensor of
 * integers. onnx_fixed_read reads the values of `inputs` that are not in `fixed` yet, and
 * onnx_fixed_fits returns whether the values that a plan fixes are the given ones. */
uint64_t onnx_fixable(const struct bp_model_value *in, size_t n_in);
enum bp_status onnx_fixed_read(struct bp_stream *stream, const struct bp_model_value *in,
                               size_t n_in, uint64_t inputs, struct onnx_fixed *fixed);
bool onnx_fixed_fits(const struct onnx_fixed *plan, const struct onnx_fixed *given,
                     const struct bp_model_value *in);
/* The origins of all symbolic tensors of a value; NULL: none. */
uint64_t onnx_origin(const struct onnx_value *v);
void onnx_add_origin(struct onnx_value *v, uint64_t inputs);

/* plan.c: find returns the plan for these input types and outputs, and makes one if none is kept.
 * want: one number for each output, 0: it is not computed; NULL: all are. use: of the run that
 * needs the plan. stream: reads inputs that plans fix; NULL: the model's own, after all work of the
 * device. fixes: whether the plan may fix inputs. The caller releases the plan. */
enum bp_status onnx_plan_find(struct bp_model *model, const struct onnx_use *use,
                              struct bp_stream *stream, bool fixes,
                              const struct bp_model_value *in, size_t n_in, const uint8_t *want,
                              struct onnx_plan **out_plan);
void onnx_plan_release(struct bp_model *model, struct onnx_plan *plan);
/* Removes the graph from a plan that no run uses. */
void onnx_plan_drop_graph(struct bp_model *model, struct onnx_plan *plan);
/* Makes a plan for these inputs and all outputs, which the model does not keep. keeps_ranges: as
 * the member of onnx_run. */
enum bp_status onnx_plan_record(struct bp_model *model, const struct onnx_use *use,
                                struct bp_stream *stream, bool keeps_ranges,
                                const struct bp_model_value *in, size_t n_in,
                                struct onnx_plan **out_plan);

/* program.c: creates a program with the options of the model. */
enum bp_status onnx_program_create(const struct bp_model *model, struct bp_graph *graph,
                                   struct bp_program **out_program);

/* program.c: runs the graph of a plan, by a program that no other run uses if there is one.
 * out_replayed: whether it was a replay; if not, reason gets the cause. */
enum bp_status onnx_plan_run(struct bp_model *model, struct onnx_plan *plan,
                             struct bp_stream *stream, struct bp_tensor *const *in, size_t n_in,
                             struct bp_tensor **out, size_t n_out, struct onnx_last *last);

#endif
