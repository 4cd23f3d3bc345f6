/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: reads tensors of a model's file and writes them to the device. */
#include "onnx.h"
#include <stdlib.h>
#include <string.h>

/* ONNX element types (TensorProto.DataType) that have a dtype of Backplane. */
static const struct {
    int32_t onnx;
    uint32_t dtype;
} element_type[] = {
    {1, BP_F32},  {2, BP_U8},   {3, BP_I8},   {4, BP_U16},  {5, BP_I16},
    {6, BP_I32},  {7, BP_I64},  {9, BP_BOOL}, {10, BP_F16}, {11, BP_F64},
    {12, BP_U32}, {13, BP_U64}, {14, BP_C64}, {15, BP_C128}, {16, BP_BF16},
    {17, BP_F8E4M3}, {18, BP_F8E4M3FNUZ}, {19, BP_F8E5M2}, {20, BP_F8E5M2FNUZ}, {24, BP_F8E8M0},
};

enum { N_TYPES = sizeof element_type / sizeof *element_type, SHORT_LIST = 64 };

uint32_t onnx_dtype(int32_t elem_type)
{
    for (int i = 0; i < N_TYPES; i++)
        if (element_type[i].onnx == elem_type) return element_type[i].dtype;
    return ONNX_NO_DTYPE;
}

int32_t onnx_elem_type(uint32_t dtype)
{
    for (int i = 0; i < N_TYPES; i++)
        if (element_type[i].dtype == dtype) return element_type[i].onnx;
    return 0;
}

const char *onnx_type_words(int64_t elem_type)
{
    static const struct {
        int64_t type;
        const char *words;
    } named[] = {{8, " (string)"},
                 {21, " (uint4)"},
                 {22, " (int4)"},
                 {23, " (float4e2m1)"},
                 {25, " (uint2)"},
                 {26, " (int2)"},
                 {27, " (float6e2m3)"},
                 {28, " (float6e3m2)"}};

    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].type == elem_type) return named[i].words;
    return "";
}

static const char *name_of(const Onnx__TensorProto *t)
{
    return t->name && *t->name ? t->name : "(unnamed)";
}

/* Checks the extents, and computes the number of elements and bytes. */
static enum bp_status check_shape(const Onnx__TensorProto *t, uint32_t dtype, uint64_t *out_count,
                                  uint64_t *out_bytes)
{
    uint64_t count = 1, width = bp_dtype_bits(dtype) / 8;

    if (t->n_dims > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "tensor %.80s: %zu axes, at most %d", name_of(t),
                          t->n_dims, ONNX_RANK_MAX);
    for (size_t i = 0; i < t->n_dims; i++) {
        if (t->dims[i] < 0)
            return onnx_error(BP_ERR_INVALID, "tensor %.80s: extent %zu is %lld", name_of(t), i,
                              (long long)t->dims[i]);
        if (__builtin_mul_overflow(count, (uint64_t)t->dims[i], &count) || count > INT64_MAX / 16)
            return onnx_error(BP_ERR_INVALID, "tensor %.80s: its extents overflow", name_of(t));
    }
    *out_count = count;
    *out_bytes = count * width;
    return BP_OK;
}

static enum bp_status wrong_count(const Onnx__TensorProto *t, uint64_t got, uint64_t expected)
{
    return onnx_error(BP_ERR_INVALID, "tensor %.80s: data for %llu elements, expected %llu",
                      name_of(t), (unsigned long long)got, (unsigned long long)expected);
}

/* Copies elements that the file stores as 32-bit numbers, in the width of their dtype. */
static void tensor_narrow(const int32_t *from, uint64_t n, size_t width, void *out)
{
    for (uint64_t i = 0; i < n; i++) {
        if (width == 1) ((uint8_t *)out)[i] = (uint8_t)from[i];
        else if (width == 2) ((uint16_t *)out)[i] = (uint16_t)from[i];
        else ((int32_t *)out)[i] = from[i];
    }
}

/* Finds the typed field for a dtype, and how many numbers it has. */
static const void *typed_field(const Onnx__TensorProto *t, uint32_t dtype, size_t *out_n)
{
    switch (dtype) {
    case BP_F32:
    case BP_C64: *out_n = t->n_float_data; return t->float_data;
    case BP_F64:
    case BP_C128: *out_n = t->n_double_data; return t->double_data;
    case BP_I64: *out_n = t->n_int64_data; return t->int64_data;
    case BP_U32:
    case BP_U64: *out_n = t->n_uint64_data; return t->uint64_data;
    default: *out_n = t->n_int32_data; return t->int32_data;
    }
}

static enum bp_status typed_data(const Onnx__TensorProto *t, uint32_t dtype, uint64_t count,
                                 void *out)
{
    uint64_t parts = dtype == BP_C64 || dtype == BP_C128 ? 2 : 1;
    size_t width = bp_dtype_bits(dtype) / 8, n;
    const void *from = typed_field(t, dtype, &n);

    if (n != count * parts) return wrong_count(t, n / parts, count);
    if (!n) return BP_OK;
    if (from == t->int32_data) tensor_narrow(from, n, width, out);
    else if (dtype == BP_U32)
        for (uint64_t i = 0; i < n; i++) ((uint32_t *)out)[i] = (uint32_t)t->uint64_data[i];
    else memcpy(out, from, count * width);
    return BP_OK;
}

static enum bp_status own_data(const Onnx__TensorProto *t, uint32_t dtype, uint64_t count,
                               uint64_t bytes, void *out)
{
    if (!t->has_raw_data) return typed_data(t, dtype, count, out);
    if (t->raw_data.len != bytes)
        return onnx_error(BP_ERR_INVALID, "tensor %.80s: %zu bytes of data, expected %llu",
                          name_of(t), t->raw_data.len, (unsigned long long)bytes);
    if (bytes) memcpy(out, t->raw_data.data, bytes);
    return BP_OK;
}

/* Copies elements that the message contains into new memory. */
static enum bp_status read_own(const Onnx__TensorProto *t, uint32_t dtype, uint64_t count,
                               uint64_t bytes, void **out)
{
    enum bp_status status;
    void *data;
    size_t n;

    typed_field(t, dtype, &n); /* checked before malloc: extents may be false */
    if (n && t->has_raw_data && t->raw_data.len)
        return onnx_error(BP_ERR_INVALID, "tensor %.80s: raw_data and another field have its data",
                          name_of(t));
    if (t->has_raw_data && t->raw_data.len < bytes) n = t->raw_data.len / (bytes / count);
    else if (t->has_raw_data) n = count;
    if (n < count) return wrong_count(t, n, count);
    data = malloc(bytes + 1);
    if (!data) return onnx_no_memory();
    status = own_data(t, dtype, count, bytes, data);
    if (status) free(data);
    else *out = data;
    return status;
}

/* Makes booleans 0 or 1; a file may have other bytes. */
static void make_boolean(uint8_t *at, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) at[i] = at[i] != 0;
}

/* Whether the elements can be read where the message has them: as raw data of the right size. Short
 * lists are copied, since values keep them. */
static bool data_is_ready(const Onnx__TensorProto *t, uint32_t dtype, uint64_t bytes)
{
    size_t n;

    typed_field(t, dtype, &n);
    if (n || dtype == BP_BOOL || !t->has_raw_data || t->raw_data.len != bytes) return false;
    return t->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL &&
           bytes > SHORT_LIST * sizeof(int64_t);
}

/* Reads the elements into memory of the host. */
static enum bp_status host_data(struct bp_model *model, const Onnx__TensorProto *t, uint32_t dtype,
                                void **out)
{
    uint64_t count, bytes;
    void *data;

    TRY(check_shape(t, dtype, &count, &bytes));
    TRY(t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL
            ? onnx_external(model, t, bytes, &data)
            : read_own(t, dtype, count, bytes, &data));
    if (dtype == BP_BOOL) make_boolean(data, count);
    *out = data;
    return BP_OK;
}

static enum bp_status dtype_of(const Onnx__TensorProto *t, uint32_t *out)
{
    *out = onnx_dtype(t->data_type);
    if (*out != ONNX_NO_DTYPE) return BP_OK;
    return onnx_error(BP_ERR_UNSUPPORTED, "tensor %.80s: element type %d%s is not supported",
                      name_of(t), t->data_type, onnx_type_words(t->data_type));
}

enum bp_status onnx_put(struct bp_stream *stream, uint32_t dtype, uint32_t rank,
                        const int64_t *shape, const void *data, struct bp_tensor **out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status;
    struct bp_tensor *t;

    TRY(bp_tensor_create(bp_stream_device(stream), dtype, rank, shape, &t));
    status = bp_tensor_get_info(t, &info);
    if (status == BP_OK && info.bytes) status = bp_tensor_write(stream, t, data, info.bytes);
    if (status) {
        bp_tensor_destroy(t);
        return status;
    }
    *out = t;
    return BP_OK;
}

static void tensor_replace(struct bp_model *model, const Onnx__TensorProto *t, float *data)
{
    uint32_t rank = (uint32_t)t->n_dims, slot = 0;
    int64_t count = 1;

    while (slot < model->n_slot && model->weight[slot].tensor != t) slot++;
    for (uint32_t i = 0; i < rank; i++) count *= t->dims[i];
    model->options.weights(model->options.weights_ctx, name_of(t), rank, t->dims,
                           onnx_fan_in(model, slot, rank, t->dims), data, count);
}

static enum bp_status tensor_write(struct bp_model *model, struct bp_stream *stream,
                                   const Onnx__TensorProto *proto, uint32_t dtype,
                                   const void *data, struct bp_tensor **out_tensor)
{
    struct bp_tensor *t;
    enum bp_status status;

    if (!onnx_is_borrowed(model, data))
        return onnx_put(stream, dtype, (uint32_t)proto->n_dims, proto->dims, data, out_tensor);
    TRY(bp_tensor_create(bp_stream_device(stream), dtype, (uint32_t)proto->n_dims, proto->dims,
                         &t));
    status = onnx_write_data(model, stream, data, t);
    if (status) bp_tensor_destroy(t);
    else *out_tensor = t;
    return status;
}

/* Writes the elements to the device. out_own: the host's copy of them, or NULL if there is none. */
static enum bp_status tensor_load(struct bp_model *model, struct bp_stream *stream,
                                  const Onnx__TensorProto *proto, bool is_weight, void **out_own,
                                  struct bp_tensor **out_tensor)
{
    bool is_replaced = is_weight && model->options.weights && proto->n_dims;
    struct bp_tensor *same = NULL;
    uint64_t count, bytes;
    enum bp_status status;
    const void *data;
    void *own = NULL;
    uint32_t dtype;

    TRY(dtype_of(proto, &dtype));
    TRY(check_shape(proto, dtype, &count, &bytes));
    model->loaded = (struct onnx_place){NULL, 0};
    if (!is_replaced && data_is_ready(proto, dtype, bytes)) {
        data = proto->raw_data.data;
        if (model->mapped && onnx_is_borrowed(model, data))
            model->loaded = (struct onnx_place){
                model->mapped, (uint64_t)((const char *)data - (const char *)model->bytes)};
    } else {
        TRY(host_data(model, proto, dtype, &own));
        if (is_replaced && dtype == BP_F32) tensor_replace(model, proto, own);
        data = own;
    }
    status = is_weight ? onnx_share_find(model, dtype, (uint32_t)proto->n_dims, proto->dims, data,
                                         bytes, &same)
                       : BP_OK;
    if (is_replaced || same || dtype == BP_BOOL) model->loaded = (struct onnx_place){NULL, 0};
    if (same) *out_tensor = same;
    else if (status == BP_OK)
        status = tensor_write(model, stream, proto, dtype, data, out_tensor);
    if (status) free(own);
    else *out_own = own;
    return status;
}

enum bp_status onnx_tensor(struct bp_model *model, struct bp_stream *stream,
                           const Onnx__TensorProto *proto, struct bp_tensor **out_tensor)
{
    void *data;

    TRY(tensor_load(model, stream, proto, false, &data, out_tensor));
    free(data);
    return BP_OK;
}

enum bp_status onnx_tensor_value(struct onnx_run *run, const Onnx__TensorProto *proto,
                                 bool is_weight, struct onnx_value **out_value)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *t;
    enum bp_status status;
    void *data;

    TRY(tensor_load(run->model, run->stream, proto, is_weight, &data, &t));
    (void)bp_tensor_get_info(t, &info);
    status = onnx_value_tensor(run, t, false, out_value);
    if (status == BP_OK && info.dtype == BP_I64 && info.count <= SHORT_LIST)
        (*out_value)->number = data;
    else free(data);
    return status;
}

/* Computes the linear position of element number i of the values. The file has a linear index, or
 * one index for each axis. */
static bool tensor_place_of(const Onnx__SparseTensorProto *s, const int64_t *index, uint64_t i,
                            uint64_t count, uint64_t *out)
{
    uint64_t at = 0;

    if (s->indices->n_dims == 1) {
        *out = (uint64_t)index[i];
        return index[i] >= 0 && *out < count;
    }
    for (size_t axis = 0; axis < s->n_dims; axis++) {
        int64_t k = index[i * s->n_dims + axis];
        if (k < 0 || k >= s->dims[axis]) return false;
        at = at * (uint64_t)s->dims[axis] + (uint64_t)k;
    }
    *out = at;
    return true;
}

static bool sparse_fits(const Onnx__SparseTensorProto *s)
{
    const Onnx__TensorProto *v = s->values, *k = s->indices;

    return v && k && v->n_dims == 1 && k->data_type == 7 &&
           (k->n_dims == 1 || (k->n_dims == 2 && k->dims[1] == (int64_t)s->n_dims)) &&
           k->dims[0] == v->dims[0];
}

static enum bp_status fill_sparse(const Onnx__SparseTensorProto *s, const int64_t *index,
                                  const char *value, size_t width, uint64_t count, char *out)
{
    for (uint64_t i = 0; i < (uint64_t)s->values->dims[0]; i++) {
        uint64_t at;
        if (!tensor_place_of(s, index, i, count, &at))
            return onnx_error(BP_ERR_INVALID, "sparse tensor %.80s: index %llu is outside",
                              name_of(s->values), (unsigned long long)i);
        memcpy(out + at * width, value + i * width, width);
    }
    return BP_OK;
}

/* Checks that loading may create a dense tensor, and a copy on the host while it is written. */
static enum bp_status check_sparse(struct onnx_run *run, const Onnx__TensorProto *t,
                                   uint64_t bytes)
{
    if (onnx_check_fold(run, bytes < UINT64_MAX / 2 ? 2 * bytes : bytes) == BP_OK) return BP_OK;
    return onnx_error(BP_ERR_MEMORY, "sparse tensor %.80s: %s", name_of(t), bp_error_message());
}

enum bp_status onnx_sparse_tensor(struct onnx_run *run, const Onnx__SparseTensorProto *proto,
                                  struct bp_tensor **out_tensor)
{
    Onnx__TensorProto dense = {.n_dims = proto->n_dims, .dims = proto->dims};
    void *index = NULL, *value = NULL, *all = NULL;
    uint64_t count, bytes;
    enum bp_status status;
    uint32_t dtype;

    if (!sparse_fits(proto))
        return onnx_error(BP_ERR_INVALID, "a sparse tensor's values and indices do not fit");
    TRY(dtype_of(proto->values, &dtype));
    dense.name = proto->values->name;
    TRY(check_shape(&dense, dtype, &count, &bytes));
    TRY(check_sparse(run, &dense, bytes));
    status = host_data(run->model, proto->values, dtype, &value);
    if (status == BP_OK) status = host_data(run->model, proto->indices, BP_I64, &index);
    if (status == BP_OK && !(all = calloc(1, bytes + 1))) status = onnx_no_memory();
    if (status == BP_OK)
        status = fill_sparse(proto, index, value, bp_dtype_bits(dtype) / 8, count, all);
    if (status == BP_OK)
        status = onnx_put(run->stream, dtype, (uint32_t)proto->n_dims, proto->dims, all,
                          out_tensor);
    free(all);
    free(index);
    free(value);
    return status;
}
