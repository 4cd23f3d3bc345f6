/* SPDX-License-Identifier: Apache-2.0 */
/* share.c: lets models share the memory of equal weights. A model that is loaded beside an earlier
 * one takes the earlier one's tensor for each constant of the same type and bytes; packed copies
 * belong to the tensor, so they are shared too. */
#include "row.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

/* Smaller constants are not compared: reading them back costs more than their memory. */
enum { SHARE_MIN = 1024 };

/* Mixes the bytes eight at a time. Equal hashes are confirmed by comparing all bytes. */
static uint64_t share_hash(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t hash = size, word;

    for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; size; size--) hash = (hash ^ *at++) * UINT64_C(0x100000001b3);
    return hash;
}

static struct bp_tensor *share_tensor(const struct bp_model *model, uint32_t slot)
{
    const struct onnx_value *v = model->constant[slot];
    struct bp_tensor_info info;

    if (!v || !v->tensor) return NULL;
    info = onnx_info(v->tensor);
    return info.contiguous && info.bytes >= SHARE_MIN ? v->tensor : NULL;
}

/* Reads the elements of a tensor into new memory. */
static enum bp_status share_read(struct bp_stream *stream, struct bp_tensor *t, void **out_data)
{
    size_t bytes = onnx_info(t).bytes;
    enum bp_status status;

    *out_data = malloc(bytes + 1);
    if (!*out_data) return onnx_no_memory();
    status = bp_tensor_read(stream, t, *out_data, bytes);
    if (status) free(*out_data);
    return status;
}

/* Computes the hashes of a model's constants when another model first shares them. Called with
 * planning held. */
static enum bp_status share_list(struct bp_model *of)
{
    uint64_t *hash;
    void *data;

    if (of->hash) return BP_OK;
    hash = calloc(of->n_slot + 1, sizeof *hash);
    if (!hash) return onnx_no_memory();
    for (uint32_t slot = 0; slot < of->n_slot; slot++) {
        struct bp_tensor *t = share_tensor(of, slot);
        enum bp_status status = t ? share_read(of->stream, t, &data) : BP_OK;
        if (status) {
            free(hash);
            return status;
        }
        if (!t) continue;
        hash[slot] = share_hash(data, onnx_info(t).bytes);
        free(data);
    }
    of->hash = hash;
    return BP_OK;
}

/* Whether t has this type and these elements. */
static enum bp_status share_equal(struct bp_model *of, struct bp_tensor *t, uint32_t dtype,
                                  uint32_t rank, const int64_t *shape, const void *data,
                                  bool *out_equal)
{
    struct bp_tensor_info info = onnx_info(t);
    void *held;

    *out_equal = false;
    if (info.dtype != dtype || info.rank != rank ||
        memcmp(info.shape, shape, rank * sizeof *shape))
        return BP_OK;
    TRY(share_read(of->stream, t, &held));
    *out_equal = !memcmp(held, data, info.bytes);
    free(held);
    return BP_OK;
}

static enum bp_status share_search(struct bp_model *of, uint32_t dtype, uint32_t rank,
                                   const int64_t *shape, const void *data, size_t bytes,
                                   struct bp_tensor **out_tensor)
{
    uint64_t hash = share_hash(data, bytes);

    TRY(share_list(of));
    for (uint32_t slot = 0; slot < of->n_slot; slot++) {
        struct bp_tensor *t = of->hash[slot] == hash ? share_tensor(of, slot) : NULL;
        bool equal = false;
        if (t) TRY(share_equal(of, t, dtype, rank, shape, data, &equal));
        if (equal) return bp_tensor_view(t, 0, rank, shape, onnx_info(t).stride, out_tensor);
    }
    return BP_OK;
}

enum bp_status onnx_share_find(struct bp_model *model, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, const void *data, size_t bytes,
                               struct bp_tensor **out_tensor)
{
    struct bp_model *of = model->options.share;
    enum bp_status status;

    *out_tensor = NULL;
    if (!of || bytes < SHARE_MIN) return BP_OK;
    pthread_mutex_lock(&of->planning); /* of its stream and its hashes */
    status = share_search(of, dtype, rank, shape, data, bytes, out_tensor);
    pthread_mutex_unlock(&of->planning);
    if (*out_tensor) model->shared_bytes += bytes;
    return status;
}

/* Whether an earlier slot has the same value. */
static bool is_repeated(const struct bp_model *model, uint32_t slot)
{
    uint32_t first = 0;

    while (model->constant[first] != model->constant[slot]) first++;
    return first < slot;
}

enum bp_status onnx_share_folded(struct bp_model *model)
{
    for (uint32_t slot = 0; slot < model->n_slot && model->options.share; slot++) {
        bool is_weight = model->weight[slot].tensor || model->weight[slot].sparse;
        struct bp_tensor *t = is_weight ? NULL : share_tensor(model, slot), *same;
        struct bp_tensor_info info;
        enum bp_status status;
        void *data;
        if (!t || is_repeated(model, slot)) continue;
        info = onnx_info(t);
        TRY(share_read(model->stream, t, &data));
        status = onnx_share_find(model, info.dtype, info.rank, info.shape, data, info.bytes, &same);
        free(data);
        TRY(status);
        if (!same) continue;
        bp_tensor_destroy(t);
        model->constant[slot]->tensor = same;
    }
    return BP_OK;
}

enum bp_status bp_model_weight(struct bp_model *model, const char *name,
                               struct bp_tensor **out_tensor)
{
    TRY(onnx_check_model("bp_model_weight", model));
    if (!name || !out_tensor)
        return onnx_error(BP_ERR_INVALID, "bp_model_weight: %s is NULL",
                          name ? "out_tensor" : "name");
    for (uint32_t slot = 0; slot < model->n_slot; slot++) {
        const struct onnx_weight *w = &model->weight[slot];
        const char *has = w->tensor ? w->tensor->name : w->sparse ? w->sparse->values->name : NULL;
        struct bp_tensor_info info;
        if (!has || strcmp(has, name)) continue;
        TRY(bp_tensor_restore(model->constant[slot]->tensor));
        info = onnx_info(model->constant[slot]->tensor);
        return bp_tensor_view(model->constant[slot]->tensor, 0, info.rank, info.shape, info.stride,
                              out_tensor);
    }
    return onnx_error(BP_ERR_NOT_FOUND, "bp_model_weight: the model has no initialiser %.80s",
                      name);
}
