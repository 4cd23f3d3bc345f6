/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: declares descriptors, executors and operators of the stand-in for CANN.
 *
 * An operator is a line of ops.txt, from which generate.py makes the two functions that the vendor
 * has for it: phase 1 checks the arguments and makes an executor (cann_prepare), phase 2 submits
 * the work (cann_launch). Each operator names a family, which is a pair of functions: one that
 * checks dtypes and shapes, one that computes on the stream's thread, later.
 *
 * The rules of descriptors and executors, as far as they are known of the vendor:
 *
 *   - An executor serves one phase 2; aclSetAclOpExecutorRepeatable, called before, makes it
 *     serve any number, with the addresses that aclSetInputTensorAddr and aclSetOutputTensorAddr
 *     gave, until aclDestroyAclOpExecutor.
 *   - Tensors must live until phase 2 has returned, or, with a repeatable executor, as long as
 *     this is used. Scalars and arrays are read by phase 1 only.
 *   - The workspace is device memory of at least the size that phase 1 returned. The work writes
 *     into all of it.
 *   - The storage of a tensor contains its view; at most 8 axes; ND or a format of the rank. Only
 *     products take FRACTAL_NZ: a matrix of M by N has the storage (N/c, M/16, 16, c), rounded up,
 *     with c = 32 bytes of elements. aclnnTransMatmulWeight and aclnnCalculateMatmulWeightSizeV2,
 *     of which only the names are known, change a matrix to it in place.
 *
 * Refused with 161001: an argument that is NULL and must not be; with 161002: all else that the
 * operator does not take; with 561003: bf16 on a product without it. */
#ifndef STANDINS_CANN_OP_H
#define STANDINS_CANN_OP_H

#include "cann.h"
#include "rows.h"

enum {
    CANN_RANK = 8,
    CANN_ARGS = 32,
    CANN_SLOTS = 96,
    CANN_INTS = 64
};

enum cann_dtype {
    CANN_F32 = 0,
    CANN_F16 = 1,
    CANN_I8 = 2,
    CANN_I32 = 3,
    CANN_U8 = 4,
    CANN_I16 = 6,
    CANN_U16 = 7,
    CANN_U32 = 8,
    CANN_I64 = 9,
    CANN_U64 = 10,
    CANN_F64 = 11,
    CANN_BOOL = 12,
    CANN_C64 = 16,
    CANN_C128 = 17,
    CANN_BF16 = 27,
    CANN_DTYPES = 34
};
enum cann_format {
    CANN_NCHW = 0,
    CANN_NHWC = 1,
    CANN_ND = 2,
    CANN_NZ = 29,
    CANN_NCDHW = 30,
    CANN_NC = 35,
    CANN_NCL = 47
};

/* Sets of dtypes, by the numbers of enum bp_dtype. */
#define CANN_FLOATS (BP_M(F32) | BP_M(F16) | BP_M(BF16))
#define CANN_FLOATS_F64 (CANN_FLOATS | BP_M(F64))
#define CANN_SIGNED (BP_M(I8) | BP_M(I16) | BP_M(I32) | BP_M(I64))
#define CANN_INTS_U8 (CANN_SIGNED | BP_M(U8))
#define CANN_NUMBERS (CANN_FLOATS_F64 | CANN_INTS_U8)
#define CANN_ANY BP_MASK_ANY
#define CANN_INDEX (BP_M(I32) | BP_M(I64))

struct cann_tensor {
    int rank, storage_rank;
    int64_t dims[CANN_RANK], strides[CANN_RANK], storage[CANN_RANK];
    int64_t offset;
    int dtype, format;
    void *data;
};
struct cann_scalar {
    int dtype;
    _Alignas(16) unsigned char value[16];
};
struct cann_array { /* of int64_t, float or bool */
    uint64_t n;
    _Alignas(16) unsigned char at[];
};
struct cann_list {
    uint64_t n;
    struct cann_tensor *tensor[];
};
extern CANN_API const char cann_tensor_kind[], cann_scalar_kind[], cann_ints_kind[],
    cann_floats_kind[], cann_bools_kind[], cann_list_kind[], cann_executor_kind[];

/* An argument as the vendor's function received it, by the letters of ops.txt:
 *   T O R   input, output, input that is updated     L M   lists of inputs, of outputs
 *   S A B   scalar, array of integers, of bools       i n u b c t   integers    d f   numbers
 *   s       text */
union cann_value {
    const void *p;
    int64_t i;
    double d;
};

/* A copy of an argument in an executor. */
struct cann_arg {
    int first, n; /* tensors: the slots, n 0 if the argument is absent */
    bool is_null;
    int64_t i;
    double d;
    int64_t at[CANN_INTS]; /* n_at integers of an array */
    int n_at;
    char text[32];
};

struct cann_slot {
    struct cann_tensor *tensor; /* the app's, which must live */
    struct cann_tensor type;    /* what it was in phase 1 */
    bool is_out, is_in;
    int arg;    /* the argument that it belongs to */
    void *data; /* its address */
};

/* A call, in one piece of memory with its arguments and tensors: as many as it has. */
struct cann_call {
    const struct cann_op *op;
    struct base_device *device;
    struct cann_arg *arg; /* one for each letter of op->letters */
    struct cann_slot *slot;
    struct base_tensor *host; /* by slot, while the work runs: where the tensors are */
    int n_slot;
    bool saturates;
    uint64_t workspace; /* bytes that phase 1 returned */
    struct {
        void *at;
        uint64_t size;
    } work; /* the workspace */
};

struct cann_op {
    const char *name;     /* "aclnnAdd" */
    const char *first;    /* "aclnnAddGetWorkspaceSize" */
    const char *letters;  /* one for each argument */
    const char *optional; /* '?' for each argument that may be NULL, else ' ' */
    const char *const *port;
    int (*check)(struct cann_call *call);
    int (*run)(struct cann_call *call); /* 0, or a code of the base */
    const char *bp;                     /* the operator of the portable kernels, if there is one */
    uint64_t dtypes;                    /* what the family takes it for */
    bool takes_nz;                      /* inputs may have the format FRACTAL_NZ */
};

/* For the checks of families: refuses an argument with 161002 and a message. */
CANN_API int cann_refuse(const struct cann_call *call, int arg, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The type of an argument's tensor; NULL: absent. `i` counts in lists. */
CANN_API const struct cann_tensor *cann_type(const struct cann_call *call, int arg);
CANN_API const struct cann_tensor *cann_type_at(const struct cann_call *call, int arg, int i);
/* While the work runs: the tensor on the host; NULL: absent. */
CANN_API const struct base_tensor *cann_host(const struct cann_call *call, int arg);

/* executor.c: the two phases. */
CANN_API int cann_prepare(const struct cann_op *op, const union cann_value *value,
                          uint64_t *out_workspace, void **out_executor);
CANN_API int cann_launch(const struct cann_op *op, void *workspace, uint64_t size, void *executor,
                         void *stream);

/* executor.c: fills the storage that FRACTAL_NZ has for a tensor; false: none. */
bool cann_nz_shape(const struct cann_tensor *t, struct cann_tensor *out);

/* tensor.c */
CANN_API int cann_bp_dtype(int dtype); /* enum bp_dtype; -1: none */
CANN_API const char *cann_dtype_name(int dtype);
CANN_API int64_t cann_tensor_count(const struct cann_tensor *t);
CANN_API double cann_scalar_number(const struct cann_scalar *s);
CANN_API int64_t cann_scalar_integer(const struct cann_scalar *s);

#endif
