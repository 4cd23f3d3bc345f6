/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.c: reads small integer inputs whose values a plan depends on, such as the condition of an
 * If, and follows which inputs of a model a recorded value depends on. */
#include "row.h"
#include <string.h>

enum {
    FIXED_COUNT = 16
}; /* a larger input is no condition, trip count, axis or shape */

static bool input_is_fixable(const struct bp_model_value *in)
{
    struct bp_tensor_info info;

    if (in->kind != BP_MODEL_TENSOR) return false;
    info = onnx_info(in->at[0]);
    return info.count > 0 && info.count <= FIXED_COUNT && info.bytes <= ONNX_FIXED_BYTES &&
           info.dtype < 64 && ((BP_MASK_INT | BP_M(BOOL)) >> info.dtype & 1);
}

uint64_t onnx_fixable(const struct bp_model_value *in, size_t n_in)
{
    uint64_t inputs = 0;

    for (size_t i = 0; i < n_in && i < ONNX_FIXED_MAX; i++)
        if (input_is_fixable(&in[i])) inputs |= 1ull << i;
    return inputs;
}

enum bp_status onnx_fixed_read(struct bp_stream *stream, const struct bp_model_value *in,
                               size_t n_in, uint64_t inputs, struct onnx_fixed *fixed)
{
    inputs &= ~fixed->inputs;
    for (size_t i = 0; inputs >> i && i < n_in && i < ONNX_FIXED_MAX; i++) {
        if (!(inputs >> i & 1)) continue;
        TRY(bp_tensor_read(stream, in[i].at[0], fixed->value[i], onnx_info(in[i].at[0]).bytes));
        fixed->inputs |= 1ull << i;
    }
    return BP_OK;
}

bool onnx_fixed_fits(const struct onnx_fixed *plan, const struct onnx_fixed *given,
                     const struct bp_model_value *in)
{
    if (plan->inputs & ~given->inputs) return false;
    for (uint32_t i = 0; plan->inputs >> i && i < ONNX_FIXED_MAX; i++)
        if (plan->inputs >> i & 1 &&
            memcmp(plan->value[i], given->value[i], onnx_info(in[i].at[0]).bytes) != 0)
            return false;
    return true;
}

uint64_t onnx_origin(const struct onnx_value *v)
{
    uint64_t inputs = v && v->symbolic ? v->origin : 0;

    for (size_t i = 0; v && i < v->n_item; i++) inputs |= onnx_origin(v->item[i]);
    return inputs;
}

/* Values that are not symbolic may be constants, which several threads share. */
void onnx_add_origin(struct onnx_value *v, uint64_t inputs)
{
    if (!v) return;
    if (v->symbolic) v->origin |= inputs;
    for (size_t i = 0; i < v->n_item; i++) onnx_add_origin(v->item[i], inputs);
}
