/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: declares what the files of the Python extension backplane._backplane share: the state
 * of the module, the structs of its types, and the rules for locks.
 *
 * Locks. Two threads must not use one stream at the same time, so each stream has a lane, a lock
 * that a thread holds during a call. A thread that waits for a lane has released the GIL; a thread
 * that holds a lane may wait for the GIL. Calls that may wait or run long release the GIL. */
#ifndef BP_PYTHON_MODULE_H
#define BP_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <backplane/backplane.h>
#include <pthread.h>
#include <stdbool.h>

#define PY_STATUS_COUNT 32 /* more than there are status codes */
#define PY_DTYPE_NONE UINT32_MAX

struct py_ledger;

struct py_types {
    PyTypeObject *device, *stream, *event, *tensor, *graph, *program, *model, *comm, *generator,
        *profile, *operator_info;
};

/* The state of one module object; each interpreter has its own. */
struct py_state {
    struct py_types type;
    PyObject *error, *error_of[PY_STATUS_COUNT]; /* exception classes */
    PyObject *dtype_number, *dtype_name;         /* dict of names to numbers; tuple by number */
    PyObject *devices;                           /* dict of names to Device objects */
    struct py_ledger *ledger;
    PyObject *host; /* the module backplane._host, imported when it is first needed */
    struct bp_core *core;
    PyObject *plugin_path; /* a string for the core, or NULL */
    PyObject *operators;   /* dict of names to struct py_operator */
    PyObject *word_out, *word_outputs, *word_row;
};

/* The use of one stream, or of one graph while it records. */
struct py_lane {
    struct bp_stream *stream; /* NULL: of a graph */
    pthread_mutex_t lock;     /* recursive: a deleter may call Python code that uses the stream */
    unsigned forks;           /* of the process that the lane is of */
    bool may_wait;            /* calls may wait although they are small */
    bool queued;              /* calls return before they have read their inputs */
};

struct py_device {
    PyObject_HEAD struct py_state *state;
    struct bp_device *handle;
    struct py_lane lane; /* of the default stream */
    uint32_t flags, dlpack_type, dlpack_id;
};

struct py_stream {
    PyObject_HEAD struct py_state *state;
    PyObject *device;
    struct py_lane own, *lane; /* lane: own, or the one of the device's default stream */
    bool foreign;              /* the stream of own belongs to C code */
};

struct py_graph {
    PyObject_HEAD struct py_state *state;
    struct bp_graph *handle;
    PyObject *device; /* of the constants that numbers become */
    struct py_lane lane;
};

struct py_tensor {
    PyObject_HEAD struct py_state *state;
    struct bp_tensor *handle;
    PyObject *owner; /* the Device, or the Graph of a symbolic tensor */
    PyObject *weak;
    uint64_t bytes;
    uint32_t dtype, rank;
    bool symbolic;
};

/* The target of a call. */
struct py_target {
    struct bp_scope *scope;
    struct py_lane *lane;
    PyObject *owner; /* Device or Graph of the results, borrowed */
    bool records;
};

/* The locks that a thread holds during a call. */
struct py_hold {
    struct py_lane *lane;  /* NULL: of a process before a fork */
    PyThreadState *thread; /* NULL: the thread has kept the GIL */
};

/* ---- error.c ---- */
int py_errors_init(struct py_state *state, PyObject *module);
/* Raises the exception of a status with the thread's message; returns NULL. */
PyObject *py_fail(struct py_state *state, enum bp_status status);
/* With this message in place of the library's. */
PyObject *py_fail_with(struct py_state *state, enum bp_status status, const char *message);

/* ---- lane.c ---- */
int py_lane_init(struct py_lane *lane, struct bp_stream *stream);
void py_lane_finish(struct py_lane *lane);
/* Takes the lane for this thread. waits: the call may wait or run long, so the GIL is released. */
struct py_hold py_lane_take(struct py_lane *lane, bool waits);
void py_lane_leave(struct py_hold *hold);
/* Push and pop the Stream or Graph that later calls of this thread use. */
PyObject *py_scope_enter(struct py_state *state, PyObject *owner);
PyObject *py_scope_leave(struct py_state *state, PyObject *owner);
/* The Stream or Graph of the innermost `with` of this thread, borrowed; or NULL. */
PyObject *py_scope_current(const struct py_state *state);
/* Finds where calls on tensors of owner (a Device or a Graph) run, or are recorded. */
struct py_target py_target_of(struct py_state *state, PyObject *owner);
/* The lane that copies of tensors of a device use: of the current stream, or the default one. */
struct py_lane *py_lane_of(struct py_state *state, PyObject *device);

/* ---- dtype.c ---- */
int py_dtypes_init(struct py_state *state, PyObject *module);
/* Finds a dtype by its name, or by an object of numpy or of another package that has a name. */
int py_dtype_find(struct py_state *state, PyObject *what, uint32_t *out_dtype);
PyObject *py_dtype_name(struct py_state *state, uint32_t dtype);
/* The format of the buffer protocol; NULL: there is none. */
const char *py_dtype_format(uint32_t dtype);
/* The dtype of a format; PY_DTYPE_NONE: there is none. */
uint32_t py_dtype_of_format(const char *format, Py_ssize_t size);
size_t py_dtype_size(uint32_t dtype);

/* ---- device.c ---- */
extern PyType_Spec py_device_spec;
/* Returns the device that an argument names: a Device, a name, or NULL or None for the default. */
PyObject *py_device_of(struct py_state *state, PyObject *what);
/* Returns the Device object of a name, which is opened once. */
PyObject *py_device_open(struct py_state *state, const char *name);
/* Makes the Device object of a handle, which it takes over, also if it fails. */
PyObject *py_device_wrap(struct py_state *state, struct bp_device *handle);
PyObject *py_plugins(PyObject *module, PyObject *unused);
PyObject *py_device_names(PyObject *module, PyObject *unused);
PyObject *py_synchronize_all(PyObject *module, PyObject *arg);
int py_core_open(struct py_state *state);
/* Visits the type of an object: for the types whose objects the module itself holds (Device,
 * Operator), so that the collector finds the cycle. A user holds the objects of other types. */
int py_visit_type(PyObject *self, visitproc visit, void *arg);

/* ---- stream.c ---- */
extern PyType_Spec py_stream_spec, py_event_spec;
PyObject *py_stream_default(struct py_state *state, PyObject *device);
/* Makes a Stream of a handle that stays the caller's. */
PyObject *py_stream_over(struct py_state *state, PyObject *device, struct bp_stream *handle);

/* ---- generator.c ---- */
extern PyType_Spec py_generator_spec;
PyObject *py_stream_use_generator(PyObject *self, PyObject *what);

/* ---- profiler.c ---- */
extern PyType_Spec py_profile_spec;
PyObject *py_range_begin(PyObject *module, PyObject *name);
PyObject *py_range_end(PyObject *module, PyObject *unused);
PyObject *py_mark(PyObject *module, PyObject *name);

/* ---- wait.c ---- */
/* Waits without the GIL until wait(what, ...) returns another status than BP_ERR_TIMEOUT, but for
 * seconds at most, or as long as the library waits if they are below 0. Handlers of signals run
 * meanwhile, and their exceptions end the wait. Returns 0, or -1 with an exception. */
int py_wait(struct py_state *state, enum bp_status (*wait)(void *what, uint64_t timeout_ns),
            void *what, double seconds);

/* ---- foreign.c ---- */
PyObject *py_foreign_tensor(PyObject *module, PyObject *capsule);
PyObject *py_foreign_stream(PyObject *module, PyObject *capsule);
PyObject *py_foreign_handle(PyObject *module, PyObject *tensor);

/* ---- tensor.c, tensor_index.c, tensor_number.c, buffer.c ---- */
extern PyType_Spec py_tensor_spec;
/* Makes the object of a handle, which it takes over, also if it fails. */
PyObject *py_tensor_wrap(struct py_state *state, struct bp_tensor *handle, PyObject *owner);
/* Whether elements of a tensor share memory, as those of expand(): others may only read it. */
bool py_info_overlaps(const struct bp_tensor_info *info);
/* Reads the size anew, of a tensor whose extents an operator has set. */
void py_tensor_refresh(struct py_tensor *t);
bool py_tensor_is(const struct py_state *state, PyObject *object);
/* For slots: whether the object is a Tensor of any interpreter. */
bool py_tensor_any(PyObject *object);
PyObject *py_shape_tuple(const int64_t *shape, uint32_t rank);
/* Reads integers from an integer or a sequence. Returns their number, or -1. */
int py_integers(PyObject *what, int64_t *out, int room, const char *name);
PyObject *py_tensor_subscript(PyObject *self, PyObject *key);
int py_tensor_assign(PyObject *self, PyObject *key, PyObject *value);
/* Copies src to dst on the stream of dst's device. */
int py_tensor_copy_to(struct py_tensor *dst, struct py_tensor *src);
/* A dense copy, on a device. */
PyObject *py_tensor_copied(struct py_tensor *t, PyObject *device);
int py_tensor_get_buffer(PyObject *self, Py_buffer *view, int flags);
void py_tensor_release_buffer(PyObject *self, Py_buffer *view);
PyObject *py_tensor_bytes(struct py_tensor *t);
/* The number operators of Tensor: X(slot of the type, operator). */
#define PY_BINARY(X) \
    X(Py_nb_add, add) \
    X(Py_nb_subtract, sub) \
    X(Py_nb_multiply, mul) \
    X(Py_nb_true_divide, div) \
    X(Py_nb_floor_divide, floor_divide) \
    X(Py_nb_remainder, mod) \
    X(Py_nb_matrix_multiply, matmul) \
    X(Py_nb_and, bitwise_and) \
    X(Py_nb_or, bitwise_or) \
    X(Py_nb_xor, bitwise_xor) \
    X(Py_nb_lshift, left_shift) \
    X(Py_nb_rshift, right_shift)
#define PY_UNARY(X) \
    X(Py_nb_negative, neg) \
    X(Py_nb_absolute, abs) \
    X(Py_nb_invert, bitwise_not)
#define X(slot, op) PyObject *py_number_##op(PyObject *a, PyObject *b);
PY_BINARY(X)
#undef X
#define X(slot, op) PyObject *py_number_##op(PyObject *a);
PY_UNARY(X)
#undef X
PyObject *py_number_power(PyObject *a, PyObject *b, PyObject *modulus);
PyObject *py_number_positive(PyObject *a);
PyObject *py_number_compare(PyObject *a, PyObject *b, int how);

/* ---- create.c ---- */
enum py_share {
    PY_MAY_SHARE,
    PY_MUST_COPY,
    PY_MUST_SHARE
};
/* Makes a tensor of any object. like: the dtype of numbers and lists, or PY_DTYPE_NONE. */
PyObject *py_tensor_from(struct py_state *state, PyObject *what, uint32_t like, PyObject *device,
                         enum py_share share);
/* The same for an input of a call: memory of others is copied if the call returns before it has
 * read it. */
PyObject *py_tensor_input(struct py_state *state, PyObject *what, uint32_t like, PyObject *device);
/* A tensor of another dtype, also in a `with` block of a graph, which records no call for it unless
 * the tensor is symbolic. dtype: a name. The tensor itself if it has the dtype. */
PyObject *py_cast(struct py_state *state, PyObject *tensor, PyObject *dtype);
PyObject *py_cast_now(PyObject *module, PyObject *args);
PyObject *py_asarray(PyObject *module, PyObject *args, PyObject *kw);
PyObject *py_empty(PyObject *module, PyObject *args, PyObject *kw);

/* ---- list.c ---- */
/* Makes a tensor of a number or of nested sequences of numbers. */
PyObject *py_tensor_of_list(struct py_state *state, PyObject *what, uint32_t like,
                            PyObject *device);
/* The letter by which an array or a number of numpy states its kind, as 'f'; 0: it is neither. */
char py_kind_letter(PyObject *item);

/* ---- dlpack.c ---- */
PyObject *py_from_dlpack(PyObject *module, PyObject *args, PyObject *kw);
/* Imports an object that has __dlpack__. device NULL: the device of the memory. */
PyObject *py_dlpack_import(struct py_state *state, PyObject *what, PyObject *device);
PyObject *py_dlpack_export(PyObject *self, PyObject *args, PyObject *kw);
PyObject *py_dlpack_device(PyObject *self, PyObject *unused);

/* ---- shared_buffer.c ---- */
/* Makes a tensor over the memory of a buffer, which the tensor holds. */
PyObject *py_share_buffer(struct py_state *state, PyObject *what, PyObject *device);
struct py_ledger *py_ledger_create(void);
/* Releases the buffers that no tensor uses any more. Runs code of Python: no lane is held. */
void py_ledger_release(struct py_ledger *ledger);
/* Ends the use of the ledger by its interpreter. */
void py_ledger_close(struct py_ledger *ledger);

/* ---- call.c, signature.c ---- */
extern PyType_Spec py_operator_spec;
struct py_operator {
    PyObject_HEAD struct py_state *state;
    const struct bp_opinfo *info;
    PyMethodDef method;
    char *doc;
    PyObject **port, **attr; /* names, interned */
    int *port_attr;          /* for each input: the attribute that it supplies, or -1 */
};
PyObject *py_operator_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);
/* The text of a function's signature and documentation; the caller frees it. */
char *py_operator_doc(const struct py_operator *op);
int py_operators_init(struct py_state *state, PyObject *module);
PyObject *py_operator_find(PyObject *module, PyObject *name);
/* Calls an operator by name with Python arguments. */
PyObject *py_call_name(struct py_state *state, const char *name, PyObject *const *args,
                       Py_ssize_t n);

/* ---- operator_values.c ---- */
/* Sets an attribute in the struct of a call. dims: memory for lists of integers. */
struct py_dims_room {
    int64_t at[64];
    int used;
    void *large; /* of lists that do not fit, as the code of `fused` */
};
void py_dims_finish(struct py_dims_room *dims);
int py_attr_set(struct py_state *state, const struct bp_attr *attr, PyObject *value, char *attrs,
                struct py_dims_room *dims);

/* ---- graph.c, program.c, model.c, comm.c ---- */
extern PyType_Spec py_graph_spec, py_program_spec, py_model_spec, py_comm_spec;
/* Writes a Graph as an ONNX model. */
PyObject *py_export(PyObject *self, PyObject *path);
/* A list of real tensors as handles: one for each of n, taken from a sequence. The caller frees
 * *out_kept (a list that holds them). */
int py_tensors_of(struct py_state *state, PyObject *sequence, PyObject *device,
                  struct bp_tensor **out, Py_ssize_t room, PyObject **out_kept);
PyObject *py_comm_id(PyObject *module, PyObject *unused);

#endif
