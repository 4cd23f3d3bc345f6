/* SPDX-License-Identifier: Apache-2.0 */
/* bind_grow.c: compares recordings of a model behind pasts of several lengths: which extents and
 * constants grow with the past. */
#include "bind_graph.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

enum {
    GROW_BYTES = 1 << 20
}; /* of constants that differ between recordings */

static enum bp_status grow_refuse(const struct bp_value_info *info, const char *why)
{
    return onnx_error(BP_ERR_UNSUPPORTED, "%.80s %s", info->name, why);
}

/* Finds the one axis whose extent is a number plus the length of the past. */
static enum bp_status grow_axis(struct build *b, uint32_t v, const struct bp_value_info *info)
{
    uint32_t found = BUILD_NONE;

    for (uint32_t k = 0; k < info[0].rank; k++) {
        int64_t more = info[1].shape[k] - info[0].shape[k];
        for (int i = 2; i < BUILD_RECORDINGS; i++)
            if (info[i].shape[k] - info[0].shape[k] != more * b->step[i])
                return grow_refuse(info, "has an extent that is no sum with the past");
        if (!more) continue;
        if (more != 1 || found != BUILD_NONE ||
            (info[0].shape[k] != b->past && info[0].shape[k] != b->past + b->added))
            return grow_refuse(info, "has extents that are not those of a cache");
        found = k;
    }
    b->value[v].axis = found;
    return BP_OK;
}

/* Reads a constant of a recording. The caller frees it. */
static enum bp_status grow_read(const struct build *b, struct bp_tensor *t, void **out)
{
    struct bp_tensor_info info = onnx_info(t);

    if (info.bytes > GROW_BYTES)
        return onnx_error(BP_ERR_UNSUPPORTED, "a large constant depends on the past");
    *out = malloc(info.bytes + 1);
    if (!*out) return onnx_no_memory();
    return info.bytes ? bp_tensor_read(b->stream, t, *out, info.bytes) : BP_OK;
}

/* Computes first + rate (position - past), for integers. */
static enum bp_status grow_add(struct build *b, uint32_t v, struct bp_tensor *first,
                               struct bp_tensor *rate)
{
    struct bp_cast_attrs cast = bp_cast_defaults();
    struct bp_tensor *past, *t;

    cast.to = onnx_info(first).dtype;
    TRY(onnx_build_number(b, b->past, &past));
    TRY(onnx_build_call(b, "sub", NULL, 2, (struct bp_tensor *[]){b->position, past}, &t));
    if (cast.to != BP_I64) TRY(onnx_build_call(b, "cast", &cast, 1, &t, &t));
    TRY(onnx_build_call(b, "mul", NULL, 2, (struct bp_tensor *[]){rate, t}, &t));
    return onnx_build_call(b, "add", NULL, 2, (struct bp_tensor *[]){first, t}, &b->value[v].t);
}

/* Makes a constant of integers that are sums with multiples of the past. */
static enum bp_status grow_numbers(struct build *b, uint32_t v, const struct bp_value_info *info,
                                   void *const *data)
{
    struct bp_tensor_info type = onnx_info(info[0].constant);
    bool wide = type.dtype == BP_I64, fits = wide || type.dtype == BP_I32;
    struct bp_tensor *rate;
    void *rates = calloc(1, type.bytes + 1);
    enum bp_status status;

    if (!rates) return onnx_no_memory();
    for (int64_t i = 0; fits && i < type.count; i++) {
        int64_t n[BUILD_RECORDINGS];
        for (int k = 0; k < BUILD_RECORDINGS; k++)
            n[k] = wide ? ((const int64_t *)data[k])[i] : ((const int32_t *)data[k])[i];
        for (int k = 2; k < BUILD_RECORDINGS; k++)
            fits = fits && n[k] - n[0] == (n[1] - n[0]) * b->step[k];
        if (wide) ((int64_t *)rates)[i] = n[1] - n[0];
        else ((int32_t *)rates)[i] = (int32_t)(n[1] - n[0]);
    }
    status = fits ? onnx_put(b->stream, type.dtype, type.rank, type.shape, rates, &rate)
                  : grow_refuse(info, "is a constant that depends on the past");
    free(rates);
    TRY(status);
    rate = onnx_build_keep(b, rate);
    return rate ? grow_add(b, v, info[0].constant, rate) : onnx_no_memory();
}

/* Makes a constant with a growing axis whose elements are all equal. */
static enum bp_status grow_uniform(struct build *b, uint32_t v, const struct bp_value_info *info,
                                   void *const *data)
{
    struct bp_tensor_info type = onnx_info(info[0].constant);
    size_t size = type.count ? type.bytes / (size_t)type.count : 0;
    int64_t shape[ONNX_RANK_MAX], count = 1;
    struct bp_tensor *t;
    char *all;
    enum bp_status status;

    for (int k = 0; k < BUILD_RECORDINGS; k++) {
        type = onnx_info(info[k].constant);
        if (!type.count) return grow_refuse(info, "is a constant that grows");
        for (int64_t i = 0; i < type.count; i++)
            if (memcmp((const char *)data[k] + (size_t)i * size, data[0], size) != 0)
                return grow_refuse(info, "is a constant that grows");
    }
    memcpy(shape, type.shape, type.rank * sizeof *shape);
    shape[b->value[v].axis] = b->model->bind->capacity;
    for (uint32_t k = 0; k < type.rank; k++) count *= shape[k];
    if (count > GROW_BYTES) return grow_refuse(info, "is a large constant that grows");
    all = malloc((size_t)count * size);
    if (!all) return onnx_no_memory();
    for (int64_t i = 0; i < count; i++) memcpy(all + (size_t)i * size, data[0], size);
    status = onnx_put(b->stream, type.dtype, type.rank, shape, all, &t);
    free(all);
    TRY(status);
    b->value[v].t = onnx_build_keep(b, t);
    return b->value[v].t ? BP_OK : onnx_no_memory();
}

/* Compares a constant of the recordings. */
static enum bp_status grow_constant(struct build *b, uint32_t v, const struct bp_value_info *info)
{
    void *data[BUILD_RECORDINGS] = {NULL};
    enum bp_status status = BP_OK;
    bool same = true, one = true;

    for (int k = 1; k < BUILD_RECORDINGS; k++) one = one && info[k].constant == info[0].constant;
    if (one) return BP_OK;
    for (int k = 0; k < BUILD_RECORDINGS && status == BP_OK; k++)
        status = grow_read(b, info[k].constant, &data[k]);
    for (int k = 1; k < BUILD_RECORDINGS && status == BP_OK && b->value[v].axis == BUILD_NONE; k++)
        same = same && !memcmp(data[0], data[k], onnx_info(info[0].constant).bytes);
    if (status == BP_OK && b->value[v].axis != BUILD_NONE) status = grow_uniform(b, v, info, data);
    else if (status == BP_OK && !same) status = grow_numbers(b, v, info, data);
    for (int k = 0; k < BUILD_RECORDINGS; k++) free(data[k]);
    return status;
}

enum bp_status onnx_grow_value(struct build *b, uint32_t v)
{
    struct bp_value_info info[BUILD_RECORDINGS];

    for (int k = 0; k < BUILD_RECORDINGS; k++) {
        info[k] = onnx_build_value(b, k, v);
        if (info[k].kind != info[0].kind || info[k].dtype != info[0].dtype ||
            info[k].rank != info[0].rank || info[k].output != info[0].output)
            return grow_refuse(info, "depends on the length of the past");
    }
    TRY(grow_axis(b, v, info));
    return info[0].kind == 1 ? grow_constant(b, v, info) : BP_OK;
}

/* Whether an attribute has the same value in two structs. */
static bool grow_same_attr(const struct bp_attr *a, const void *x, const void *y)
{
    const char *p = (const char *)x + a->offset, *q = (const char *)y + a->offset;
    const struct bp_dims *m = (const void *)p, *n = (const void *)q;

    if (a->kind != BP_ATTR_DIMS) return !memcmp(p, q, 8 * (size_t)a->count);
    return m->n == n->n && (!m->n || !memcmp(m->at, n->at, (size_t)m->n * sizeof *m->at));
}

enum bp_status onnx_grow_node(const struct build *b, uint32_t n, bool *out_same)
{
    struct bp_node_info first = onnx_build_node(b, 0, n);
    const struct bp_opinfo *op = bp_opinfo_find(first.op);

    *out_same = op != NULL;
    for (int k = 1; op && k < BUILD_RECORDINGS; k++) {
        struct bp_node_info node = onnx_build_node(b, k, n);
        if (strcmp(node.op, first.op) || node.n_in != first.n_in || node.n_out != first.n_out ||
            memcmp(node.in, first.in, node.n_in * sizeof *node.in) ||
            memcmp(node.out, first.out, node.n_out * sizeof *node.out))
            return onnx_error(BP_ERR_UNSUPPORTED, "%.80s depends on the length of the past",
                              first.name);
        for (uint32_t i = 0; i < op->n_attr && first.attrs; i++)
            *out_same = *out_same && grow_same_attr(&op->attr[i], first.attrs, node.attrs);
    }
    return BP_OK;
}
