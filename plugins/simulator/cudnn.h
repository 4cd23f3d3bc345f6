/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.h: declares the objects and the products that the files of the stand-in for cuDNN
 * share. */
#ifndef SIM_CUDNN_H
#define SIM_CUDNN_H

#include "gpu/cudnn.h"
#include "number.h"
#include "sim.h"

#define CALL(result, name, parameters) result name parameters;
#include "gpu/cudnn.def"

enum { AXES = 5 };
enum {
    NOT_INITIALIZED = 1001,
    BAD_PARAM = 2000,
    MISALIGNED = 2003,
    NOT_FINALIZED = 2004,
    NOT_SUPPORTED = 3000,
};
enum kind { HANDLE = 0xd1, TENSOR, FILTER, CONV, ACTIVATION };

/* An object of the library, except descriptors of graphs. The axes of tensors are batch, channels
 * and three spatial axes. Filters are tensors too, whose strides follow from their format. */
struct thing {
    enum kind kind;
    void *stream;
    enum sim_type type;
    int64_t shape[AXES], stride[AXES];
    int64_t pad[3], behind[3], step[3], dilation[3], groups;
    int math;
    enum sim_type sums;
};

/* One enqueued product. Operand 0 is x, 1 is w, 2 is y; operand `result` is computed. Operand 3 is
 * the bias, one element for each channel of y, operand 4 a residual that lies as y; their addresses
 * are NULL if there are none. relu: applied at the end; loses_nan: makes NaN 0. */
enum { BIAS = 3, RESIDUAL, CONV_PARTS, PARTS = 6 }; /* PARTS: of any graph */
struct run {
    struct thing part[3], conv;
    int result;
    double alpha, beta;
    void *at[PARTS];
    bool relu, loses_nan;
};

/* One enqueued attention: q, k, v and the result, whose axes are 0, 1, 3 and 4 of a thing. */
struct attention {
    struct thing part[4];
    float scale;
    void *at[4];
};

/* One enqueued norm; absent operands have no kind and no address. */
enum { NORM_X, NORM_Y, NORM_SCALE, NORM_BIAS, NORM_MEAN, NORM_R, NORM_PARTS };
struct norm {
    struct thing part[NORM_PARTS];
    bool centres;
    float epsilon;
    void *at[NORM_PARTS];
};

/* Returns SIM_TYPES if there is no such type. */
enum sim_type cudnn_type_of(int type);
/* Whether the shapes and types of a product's operands fit each other. */
bool cudnn_fits(const struct thing *x, const struct thing *w, const struct thing *conv,
                const struct thing *y);
/* Whether a tensor is a bias for y. */
bool cudnn_is_bias(const struct thing *bias, const struct thing *y);
/* The number of elements from a tensor's first one to its last one. */
int64_t cudnn_extent_of(const struct thing *t);
/* Begins work on n operands: out[i] becomes the host memory of part[i], which the work has at
 * from[i]. Operands from number `needed` on may be absent, with no address. code: an earlier
 * failure. Returns it, or that of an operand that is not in memory. Under the lock. */
int cudnn_reach(const struct thing *part, void *const from[], int n, int needed, void *out[],
                int code);
/* The work of a struct run, for sim_submit. */
int cudnn_run_conv(void *run, int code);

/* cudnn_attention.c: whether the library supports these operands; and the work of a struct
 * attention. */
bool cudnn_attention_fits(const struct thing part[4]);
int cudnn_run_attention(void *attention, int code);

/* cudnn_norm.c: the same of a struct norm. */
bool cudnn_norm_fits(const struct norm *norm);
int cudnn_run_norm(void *norm, int code);

#endif
