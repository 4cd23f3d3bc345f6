/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.h: what the two files that stand in for cuDNN share: what the library makes, and products
 * on their way. */
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

/* All that the library makes, but for descriptors of graphs. Axes of tensors: batch, channels,
 * three of space; filters are tensors too, whose strides their format says. */
struct thing {
    enum kind kind;
    void *stream;
    enum sim_type type;
    int64_t shape[AXES], stride[AXES];
    int64_t pad[3], behind[3], step[3], dilation[3], groups;
    int math;
    enum sim_type sums;
};

/* One product on its way; place 0 x, 1 w, 2 y, of which number `result` is computed; 3 the bias, an
 * element for each channel of y, or no address: there is none. */
enum { BIAS = 3, PARTS };
struct run {
    struct thing part[3], conv;
    int result;
    double alpha, beta;
    void *at[PARTS];
};

/* SIM_TYPES: there is no such type. */
enum sim_type cudnn_type_of(int type);
/* Whether the parts of a product fit each other. */
bool cudnn_fits(const struct thing *x, const struct thing *w, const struct thing *conv,
                const struct thing *y);
/* Whether a tensor is a bias for y. */
bool cudnn_is_bias(const struct thing *bias, const struct thing *y);
/* The work of a struct run, for sim_submit. */
int cudnn_run_conv(void *run, int code);

#endif
