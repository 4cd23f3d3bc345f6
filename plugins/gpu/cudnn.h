/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.h: declares the part of cuDNN's interface that the plugin calls, in Backplane's own words.
 * tests/gpu compares it with the library's header if that is installed. */
#ifndef GPU_CUDNN_H
#define GPU_CUDNN_H

#include <stddef.h>
#include <stdint.h>

/* The library's estimate for one algorithm: one layout for the forward and both gradients. */
struct cudnn_found {
    int algorithm, state;
    float time;
    size_t workspace;
    int deterministic, math, reserved[3];
};

enum { CUDNN_F32 = 0, CUDNN_F64 = 1, CUDNN_F16 = 2, CUDNN_BF16 = 9 };
enum { CUDNN_ROW_MAJOR = 0, CUDNN_CHANNELS_LAST = 1, CUDNN_CORRELATION = 1 };

/* The math modes: the library's choice (f32 perhaps as TF32); also tensor cores; tensor cores with
 * conversions of inputs; exact products only. */
enum { CUDNN_ANY_MATH = 0, CUDNN_TENSOR_MATH = 1, CUDNN_LOOSE_MATH = 2, CUDNN_EXACT_MATH = 3 };

/* Masks of algorithms, by enum conv_kind: those that add the products themselves. Transforms (FFT,
 * Winograd) have other rounding errors, and spread values that are not finite. */
enum { CUDNN_PLAIN_FORWARD = 0xf, CUDNN_PLAIN_DATA = 0x3, CUDNN_PLAIN_FILTER = 0xb };
enum { CUDNN_ALGORITHMS = 8 };

/* The only algorithm that can add a bias, and the only activation that leaves its sums unchanged.
 * NaN stays NaN. */
enum { CUDNN_BIAS_FORWARD = 1, CUDNN_IDENTITY = 5, CUDNN_KEEP_NAN = 1 };

/* Whether a status code means that the library does not support the convolution: cuDNN 8 has one
 * such code, cuDNN 9 a range. */
static inline int cudnn_is_unsupported(int code)
{
    return code == 9 || code / 1000 == 3;
}

/* The graph interface. */
enum {
#define NUMBER(name, theirs, number) name = number,
#include "cudnn_graph.def"
};

#define CALL(result, name, parameters) typedef result cudnn_##name parameters;
#include "cudnn.def"

struct cudnn_calls {
#define CALL(result, name, parameters) cudnn_##name *name;
#include "cudnn.def"
};

#endif
