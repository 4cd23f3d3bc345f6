/* SPDX-License-Identifier: Apache-2.0 */
/* cnnl.h: declares the stand-in for Cambricon's library of operators, libcnnl.so. It has the
 * functions whose every number is confirmed (cnnl.def), and, as in the real library,
 *
 *   - a handle is of one device and has a queue; work runs in this queue;
 *   - a tensor is a descriptor and an address; the descriptor may change once the call has
 *     returned. A descriptor that is set twice without a reset in between is a misuse (a leak);
 *   - tensors are contiguous, pools want the layout NHWC;
 *   - a workspace has at least the size that the library reports, and is memory of the device.
 *
 * It computes with the portable kernels. A bad index is a misuse and makes the device fail.
 *
 * The environment: BP_STANDIN_CNNL_ASSUMED=1 allows the functions that are ASSUMED in cnnl.def. */
#ifndef STANDINS_CNNL_H
#define STANDINS_CNNL_H

#include "../base/rows.h"
#include "cnrt.h"

enum cnnl_status {
    CNNL_OK,
    CNNL_NOT_INITIALIZED,
    CNNL_ALLOC_FAILED,
    CNNL_BAD_PARAM,
    CNNL_INTERNAL,
    CNNL_ARCH_MISMATCH,
    CNNL_EXECUTION_FAILED,
    CNNL_NOT_SUPPORTED,
    CNNL_OVERFLOW
};

enum cnnl_dtype {
    CNNL_HALF = 1,
    CNNL_FLOAT = 2,
    CNNL_INT8 = 3,
    CNNL_INT16 = 4,
    CNNL_INT31 = 5,
    CNNL_INT32 = 6,
    CNNL_UINT8 = 7,
    CNNL_BOOL = 8,
    CNNL_INT64 = 9,
    CNNL_UINT32 = 11,
    CNNL_UINT64 = 12,
    CNNL_UINT16 = 13,
    CNNL_DOUBLE = 14,
    CNNL_COMPLEX_HALF = 15,
    CNNL_COMPLEX_FLOAT = 16,
    CNNL_BFLOAT16 = 17,
    CNNL_DTYPES
};

enum cnnl_layout {
    CNNL_NCHW,
    CNNL_NHWC,
    CNNL_HWCN,
    CNNL_NDHWC,
    CNNL_ARRAY,
    CNNL_NCDHW,
    CNNL_TNC,
    CNNL_NTC,
    CNNL_NC,
    CNNL_NLC,
    CNNL_NCL,
    CNNL_LAYOUTS
};

enum cnnl_pooling {
    CNNL_MAX,
    CNNL_AVERAGE_WITH_PADDING,
    CNNL_AVERAGE,
    CNNL_FIXED
};
enum cnnl_nan {
    CNNL_NOT_PROPAGATE_NAN,
    CNNL_PROPAGATE_NAN
};
enum cnnl_pointer_mode {
    CNNL_POINTER_HOST,
    CNNL_POINTER_DEVICE
};

/* Assumed. */
enum cnnl_preference {
    CNNL_FAST,
    CNNL_HIGH_PRECISION,
    CNNL_ULTRAHIGH
};
enum cnnl_log_base {
    CNNL_LOG_E,
    CNNL_LOG_2,
    CNNL_LOG_10
};
enum cnnl_logic {
    CNNL_EQ,
    CNNL_NE,
    CNNL_GT,
    CNNL_GE,
    CNNL_LT,
    CNNL_LE,
    CNNL_AND,
    CNNL_OR,
    CNNL_XOR,
    CNNL_LOGIC_OPS
};

/* Invented: no sister library has numbers of these names. They begin at different places, so that a
 * caller who guesses them, or exchanges two, is refused. */
enum cnnl_arithmetic {
    CNNL_ADD = 11,
    CNNL_SUB,
    CNNL_MUL
};
enum cnnl_activation {
    CNNL_ACTIVATION_PRECISE = 21,
    CNNL_RELU = 31,
    CNNL_RELU6,
    CNNL_SIGMOID,
    CNNL_TANH,
    CNNL_ELU,
    CNNL_LEAKY_RELU,
    CNNL_SELU,
    CNNL_HARD_SWISH,
    CNNL_GELU,
    CNNL_LOG_SIGMOID,
    CNNL_SWISH,
    CNNL_IDENTITY,
    CNNL_ACTIVATIONS_END
};
enum cnnl_batch_norm {
    CNNL_SPATIAL = 251,
    CNNL_OPS_BN = 261
};
enum cnnl_trigon {
    CNNL_TRIGON_TAN = 291,
    CNNL_TRIGON_ASIN,
    CNNL_TRIGON_ACOS,
    CNNL_TRIGON_ATAN,
    CNNL_TRIGON_SINH,
    CNNL_TRIGON_COSH,
    CNNL_TRIGON_ASINH,
    CNNL_TRIGON_ACOSH,
    CNNL_TRIGON_ATANH,
    CNNL_TRIGON_END
};
enum cnnl_bits {
    CNNL_BIT_AND = 311,
    CNNL_BIT_OR,
    CNNL_BIT_XOR,
    CNNL_BIT_NOT
};
/* Each with the mean and the sum behind it. */
enum cnnl_loss {
    CNNL_MSE_NONE = 321,
    CNNL_MSE_MEAN,
    CNNL_SMOOTH_L1_NONE = 331,
    CNNL_SMOOTH_L1_MEAN,
    CNNL_SMOOTH_L1_SUM,
    CNNL_BCE_NONE = 341,
    CNNL_BCE_MEAN,
    CNNL_BCE_SUM,
    CNNL_NLL_NONE = 351,
    CNNL_NLL_MEAN,
    CNNL_NLL_SUM
};
enum cnnl_scatter {
    CNNL_SCATTER = 271,
    CNNL_SCATTER_ADD,
    CNNL_SCATTERND_ADD = 281,
    CNNL_SCATTERND_UPDATE
};
enum cnnl_softmax {
    CNNL_MEDIUM_DIMENSION = 51,
    CNNL_ACCURATE = 61,
    CNNL_LOG
};
enum cnnl_reduction {
    CNNL_REDUCE_ADD = 71,
    CNNL_REDUCE_AVG,
    CNNL_REDUCE_MAX,
    CNNL_REDUCE_MIN,
    CNNL_REDUCE_MUL,
    CNNL_NO_INDICES = 81,
    CNNL_32BIT = 85
};
enum cnnl_cast {
    CNNL_CASTS = 101 /* described.c has the pairs, in this order */
};
enum cnnl_product {
    CNNL_MATMUL_TRANSA = 201,
    CNNL_MATMUL_TRANSB,
    CNNL_MATMUL_COMPUTE,
    CNNL_MATMUL_TF32,
    CNNL_BMM_TRANSA = 211,
    CNNL_BMM_TRANSB,
    CNNL_BMM_COMPUTE
};
enum cnnl_convolution {
    CNNL_FORWARD_FASTEST = 221,
    CNNL_BACKWARD_DATA_FASTEST = 231,
    CNNL_BACKWARD_FILTER_FASTEST = 241,
    CNNL_ALGORITHM = 7 /* the only algorithm that the library chooses */
};

#define CALL(result, name, parameters) BASE_API result name parameters;
#include "cnnl.def"

/* The rest is shared by the files of libcnnl.so. */

/* Sets of dtypes: bit n is dtype n. FLOATS has bfloat16 only on a device that has it. */
#define CNNL_M(dtype) (1u << (dtype))
#define CNNL_FLOATS (CNNL_M(CNNL_HALF) | CNNL_M(CNNL_FLOAT) | CNNL_M(CNNL_BFLOAT16))
#define CNNL_NUMBERS (CNNL_FLOATS | CNNL_M(CNNL_INT32))
#define CNNL_MOVED \
    (CNNL_NUMBERS | CNNL_M(CNNL_INT8) | CNNL_M(CNNL_INT16) | CNNL_M(CNNL_UINT8) | CNNL_M(CNNL_BOOL))

struct cnnl_tensor {
    bool set;
    int layout, dtype, rank, mode;
    int64_t shape[BASE_RANK], stride[BASE_RANK];
};

struct cnnl_transpose {
    int n;
    int perm[BASE_RANK];
};

struct cnnl_pool {
    bool set;
    int mode, nan, window[2], pad[4], stride[2], dilation[2]; /* pad: up, down, left, right */
    bool ceil_mode;
};

enum {
    CNNL_TENSORS = 12,
    CNNL_NUMBERS_MAX = 3 * BASE_RANK,
    CNNL_ATTRS = 256
};

/* The work of a call. `run` computes on a copy in which the data of tensors are addresses of the
 * host; it returns a code of base_compute. */
struct cnnl_work {
    const char *name;
    int (*run)(struct cnnl_work *work);
    struct base_device *device;
    void *workspace;
    size_t workspace_size;
    int n_in, n_out;
    struct base_tensor in[CNNL_TENSORS], out[CNNL_TENSORS]; /* rank -1: absent */
    struct base_tensor *many;                               /* owned; of concat and split */
    int n_many;
    const char *op; /* for the default run */
    uint32_t type[4];
    _Alignas(16) unsigned char attrs[CNNL_ATTRS];
    int64_t number[CNNL_NUMBERS_MAX];
    unsigned char value[16];
};

/* A call that is checked step by step; the first refusal stays. cnnl_begin locks the base, and
 * cnnl_submit or cnnl_end unlock it. */
struct cnnl_call {
    void *queue;
    int code;
    uint32_t masks; /* the dtypes that the device has */
    struct cnnl_work work;
};

void cnnl_begin(struct cnnl_call *call, const char *name, void *handle);
/* The same for a function that is ASSUMED, and takes a preference. */
void cnnl_begin_assumed(struct cnnl_call *call, const char *name, void *handle, int preference);
bool cnnl_is_assumed(void);
/* Append a tensor whose dtype is in the set. */
void cnnl_in(struct cnnl_call *call, const void *desc, const void *data, unsigned dtypes);
void cnnl_out(struct cnnl_call *call, const void *desc, void *data, unsigned dtypes);
/* The same, but absent if the address is NULL. */
void cnnl_in_maybe(struct cnnl_call *call, const void *desc, const void *data, unsigned dtypes);
void cnnl_out_maybe(struct cnnl_call *call, const void *desc, void *data, unsigned dtypes);
/* Refuses the call unless the condition holds. */
void cnnl_check(struct cnnl_call *call, bool good, const char *text);
bool cnnl_failed(const struct cnnl_call *call);
void cnnl_workspace(struct cnnl_call *call, void *workspace, size_t size, size_t needed);
/* The factors of an operator: NULL, which the callers pass, or 1 and 0. */
void cnnl_factors(struct cnnl_call *call, const void *alpha, const void *beta);
/* Sets the operator and attributes of the default run. T is the dtype of the first input, or of the
 * first result if there is none. attrs NULL: none. */
void cnnl_operator(struct cnnl_call *call, const char *op, const void *attrs, size_t size);
int cnnl_submit(struct cnnl_call *call);
int cnnl_end(struct cnnl_call *call);
/* A call that reports the size of a workspace. */
int cnnl_report_size(const char *name, void *handle, size_t size, size_t *out);

/* Checks of shapes; all return false if the call has failed already. Inputs and results are counted
 * from 0. */
bool cnnl_same_shape(const struct base_tensor *a, const struct base_tensor *b);
/* The shape to which a number of inputs broadcast is that of result 0. */
void cnnl_broadcasts(struct cnnl_call *call, int first, int n);
/* An axis, counted from the last if below 0; refuses the call if there is none. */
int cnnl_axis(struct cnnl_call *call, int axis, int rank);

/* index.c: whether all indices of a tensor of the host are in a range; every `step`-th one from
 * `first`. */
bool cnnl_index_fits(const struct base_tensor *index, int64_t first, int64_t step, int64_t limit);

/* Computes an operator in a run. Tensors NULL: absent. */
int cnnl_compute(const char *op, const void *attrs, uint32_t type,
                 const struct base_tensor *const *in, int n_in,
                 const struct base_tensor *const *out, int n_out);
int cnnl_assign(const struct base_tensor *from, const struct base_tensor *to);

/* described.c: copies elements into a tensor of another dtype; returns a code of base_compute. */
int cnnl_convert(const struct base_tensor *from, const struct base_tensor *to);
/* Whether this is the descriptor of an activation, set to this mode. */
bool cnnl_activation_is(const void *desc, int mode);

/* handle.c */
int cnnl_desc_create(const char *name, void **out, const char *kind, size_t size);
int cnnl_desc_destroy(const char *name, void *desc, const char *kind);
struct cnnl_handle {
    struct base_device *device;
    void *queue;
};
extern const char cnnl_handle_kind[], cnnl_tensor_kind[], cnnl_transpose_kind[], cnnl_pool_kind[];
const struct cnnl_tensor *cnnl_tensor_of(const void *desc); /* NULL: none, or not set */
uint32_t cnnl_dtype(int dtype);                             /* enum bp_dtype; 255: none */
int cnnl_bytes(int dtype);
/* The bytes of a tensor, 0 if it is none: what workspaces are counted in. */
size_t cnnl_size(const void *desc);

#endif
