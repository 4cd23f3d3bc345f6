/* SPDX-License-Identifier: Apache-2.0 */
/* value.c: creates, retains and releases the values of slots while a model runs. */
#include "onnx.h"
#include <stdlib.h>

enum bp_status onnx_value_tensor(struct onnx_run *run, struct bp_tensor *tensor, bool symbolic,
                                 struct onnx_value **out_value)
{
    struct onnx_value *v = calloc(1, sizeof *v);

    if (!v) {
        bp_tensor_destroy(tensor);
        return onnx_no_memory();
    }
    atomic_init(&v->refs, 1);
    v->kind = BP_MODEL_TENSOR;
    v->tensor = tensor;
    v->symbolic = symbolic;
    onnx_count_value(run->use, v);
    *out_value = v;
    return BP_OK;
}

enum bp_status onnx_value_list(uint32_t kind, size_t n, struct onnx_value **out_value)
{
    struct onnx_value *v = calloc(1, sizeof *v);

    if (!v || !(v->item = calloc(n + 1, sizeof *v->item))) {
        free(v);
        return onnx_no_memory();
    }
    atomic_init(&v->refs, 1);
    v->kind = kind;
    v->n_item = n;
    *out_value = v;
    return BP_OK;
}

struct onnx_value *onnx_value_retain(struct onnx_value *value)
{
    if (value) atomic_fetch_add(&value->refs, 1);
    return value;
}

void onnx_value_release(struct onnx_value *value)
{
    if (!value || atomic_fetch_sub(&value->refs, 1) > 1) return;
    for (size_t i = 0; i < value->n_item; i++) onnx_value_release(value->item[i]);
    free(value->item);
    free(value->number);
    if (value->use) value->use->alive -= value->bytes;
    bp_tensor_destroy(value->tensor);
    free(value);
}

void onnx_value_settle(struct onnx_value *value, const struct onnx_use *use)
{
    if (!value) return;
    for (size_t i = 0; i < value->n_item; i++) onnx_value_settle(value->item[i], use);
    if (value->use == use) value->use = NULL; /* not a constant, which the model counts */
}
