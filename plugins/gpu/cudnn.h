/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.h: of cuDNN's interface what is called, in words of our own; tests/gpu compares it with the
 * library's header, where there is one. */
#ifndef GPU_CUDNN_H
#define GPU_CUDNN_H

#include <stddef.h>
#include <stdint.h>

/* What an algorithm is worth: alike for the forward and both gradients. */
struct cudnn_found {
    int algorithm, state;
    float time;
    size_t workspace;
    int deterministic, math, reserved[3];
};

enum { CUDNN_F32 = 0, CUDNN_F64 = 1, CUDNN_F16 = 2, CUDNN_BF16 = 9 };
enum { CUDNN_ROW_MAJOR = 0, CUDNN_CHANNELS_LAST = 1, CUDNN_CORRELATION = 1 };

/* How factors are multiplied: as the library likes (f32 perhaps as TF32), by tensor cores too, by
 * these with conversions, exactly. */
enum { CUDNN_ANY_MATH = 0, CUDNN_TENSOR_MATH = 1, CUDNN_LOOSE_MATH = 2, CUDNN_EXACT_MATH = 3 };

/* Algorithms, by enum conv_kind, as masks: those that add products as they are. Transforms (FFT,
 * Winograd) round otherwise, and spread what is not finite. */
enum { CUDNN_PLAIN_FORWARD = 0xf, CUDNN_PLAIN_DATA = 0x3, CUDNN_PLAIN_FILTER = 0xb };
enum { CUDNN_ALGORITHMS = 8 };

/* The only algorithm that adds a bias by itself, and the only activation that then leaves sums as
 * they are. NaN stays NaN. */
enum { CUDNN_BIAS_FORWARD = 1, CUDNN_IDENTITY = 5, CUDNN_KEEP_NAN = 1 };

/* Whether an answer says that there is nothing for such a convolution: in 8 and in 9. */
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
