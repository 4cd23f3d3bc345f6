/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: implements the descriptors of the stand-in for CANN: tensors, scalars, arrays and lists
 * of tensors. */
#include "op.h"
#include <stdlib.h>
#include <string.h>

const char cann_tensor_kind[] = "aclTensor", cann_scalar_kind[] = "aclScalar";
const char cann_ints_kind[] = "aclIntArray", cann_floats_kind[] = "aclFloatArray";
const char cann_bools_kind[] = "aclBoolArray", cann_list_kind[] = "aclTensorList";

void *aclCreateTensor(const int64_t *dims, uint64_t rank, int dtype, const int64_t *stride,
                      int64_t offset, int format, const int64_t *storage, uint64_t storage_rank,
                      void *data);
void *aclCreateScalar(void *value, int dtype);
void *aclCreateIntArray(const int64_t *at, uint64_t n);
void *aclCreateFloatArray(const float *at, uint64_t n);
void *aclCreateBoolArray(const bool *at, uint64_t n);
void *aclCreateTensorList(const void *const *at, uint64_t n);
int aclDestroyTensor(const void *tensor);
int aclDestroyScalar(const void *scalar);
int aclDestroyIntArray(const void *array);
int aclDestroyFloatArray(const void *array);
int aclDestroyBoolArray(const void *array);
int aclDestroyTensorList(const void *list);
int aclGetViewShape(const void *tensor, int64_t **dims, uint64_t *n);

static const struct {
    int bp;
    const char *name;
} dtypes[CANN_DTYPES] = {
    [CANN_F32] = {BP_F32, "FLOAT"},      [CANN_F16] = {BP_F16, "FLOAT16"},
    [CANN_I8] = {BP_I8, "INT8"},         [CANN_I32] = {BP_I32, "INT32"},
    [CANN_U8] = {BP_U8, "UINT8"},        [CANN_I16] = {BP_I16, "INT16"},
    [CANN_U16] = {BP_U16, "UINT16"},     [CANN_U32] = {BP_U32, "UINT32"},
    [CANN_I64] = {BP_I64, "INT64"},      [CANN_U64] = {BP_U64, "UINT64"},
    [CANN_F64] = {BP_F64, "DOUBLE"},     [CANN_BOOL] = {BP_BOOL, "BOOL"},
    [CANN_C64] = {BP_C64, "COMPLEX64"},  [CANN_C128] = {BP_C128, "COMPLEX128"},
    [CANN_BF16] = {BP_BF16, "BFLOAT16"},
};

int cann_bp_dtype(int dtype)
{
    return dtype >= 0 && dtype < CANN_DTYPES && dtypes[dtype].name ? dtypes[dtype].bp : -1;
}

const char *cann_dtype_name(int dtype)
{
    return cann_bp_dtype(dtype) < 0 ? "a dtype that is not known" : dtypes[dtype].name;
}

int64_t cann_tensor_count(const struct cann_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    return n;
}

/* Whether the arguments are refused: the function then returns NULL. */
static bool tensor_refuse(const int64_t *dims, uint64_t rank, int dtype, const int64_t *storage,
                          uint64_t storage_rank)
{
    if (rank > CANN_RANK || storage_rank > CANN_RANK || (rank && !dims) ||
        (storage_rank && !storage))
        return true;
    for (uint64_t i = 0; i < rank; i++)
        if (dims[i] < 0) return true;
    for (uint64_t i = 0; i < storage_rank; i++)
        if (storage[i] < 0) return true;
    return cann_bp_dtype(dtype) < 0;
}

CANN_API void *aclCreateTensor(const int64_t *dims, uint64_t rank, int dtype, const int64_t *stride,
                               int64_t offset, int format, const int64_t *storage,
                               uint64_t storage_rank, void *data)
{
    struct cann_tensor *t = NULL;
    int64_t dense = 1;

    if (base_leave(base_enter("aclCreateTensor"))) return NULL;
    if (tensor_refuse(dims, rank, dtype, storage, storage_rank)) return NULL;
    base_lock();
    t = base_handle_create(cann_tensor_kind, sizeof *t);
    base_unlock();
    if (!t) return NULL;
    t->rank = (int)rank;
    t->storage_rank = (int)storage_rank;
    t->offset = offset;
    t->dtype = dtype;
    t->format = format;
    t->data = data;
    for (int i = t->rank; i-- > 0;) {
        t->dims[i] = dims[i];
        t->strides[i] = stride ? stride[i] : dense;
        dense *= dims[i];
    }
    for (int i = 0; i < t->storage_rank; i++) t->storage[i] = storage[i];
    return t;
}

CANN_API void *aclCreateScalar(void *value, int dtype)
{
    struct cann_scalar *s;

    if (base_leave(base_enter("aclCreateScalar"))) return NULL;
    if (!value || cann_bp_dtype(dtype) < 0) return NULL;
    base_lock();
    s = base_handle_create(cann_scalar_kind, sizeof *s);
    base_unlock();
    if (!s) return NULL;
    s->dtype = dtype;
    memcpy(s->value, value, base_dtype_size((uint32_t)cann_bp_dtype(dtype)));
    return s;
}

static void *array_create(const char *name, const char *kind, const void *at, uint64_t n,
                          size_t size)
{
    struct cann_array *a;

    if (base_leave(base_enter(name)) || (n && !at)) return NULL;
    base_lock();
    a = base_handle_create(kind, sizeof *a + n * size);
    base_unlock();
    if (!a) return NULL;
    a->n = n;
    if (n) memcpy(a->at, at, n * size);
    return a;
}

CANN_API void *aclCreateIntArray(const int64_t *at, uint64_t n)
{
    return array_create("aclCreateIntArray", cann_ints_kind, at, n, sizeof *at);
}

CANN_API void *aclCreateFloatArray(const float *at, uint64_t n)
{
    return array_create("aclCreateFloatArray", cann_floats_kind, at, n, sizeof *at);
}

CANN_API void *aclCreateBoolArray(const bool *at, uint64_t n)
{
    return array_create("aclCreateBoolArray", cann_bools_kind, at, n, sizeof *at);
}

/* The list then owns its tensors. */
CANN_API void *aclCreateTensorList(const void *const *at, uint64_t n)
{
    struct cann_list *list;

    if (base_leave(base_enter("aclCreateTensorList")) || (n && !at)) return NULL;
    base_lock();
    for (uint64_t i = 0; i < n; i++)
        if (!base_handle_is(at[i], cann_tensor_kind)) {
            base_misuse(0, "tensor %llu of a list is none", (unsigned long long)i);
            base_unlock();
            return NULL;
        }
    list = base_handle_create(cann_list_kind, sizeof *list + n * sizeof *at);
    if (list) {
        list->n = n;
        if (n) memcpy(list->tensor, at, n * sizeof *at);
    }
    base_unlock();
    return list;
}

static int descriptor_destroy(const char *name, const void *handle, const char *kind)
{
    int code = base_enter(name);

    if (code || !handle) return base_leave(code);
    if (!base_handle_is(handle, kind))
        return base_leave(base_misuse(NN_INVALID, "%p is no %s%s", handle, kind,
                                      base_handle_was(handle) ? ": it was destroyed before" : ""));
    if (kind == cann_list_kind) {
        const struct cann_list *list = handle;
        for (uint64_t i = 0; i < list->n; i++) base_handle_destroy(list->tensor[i]);
    }
    base_handle_destroy((void *)(uintptr_t)handle);
    return base_leave(0);
}

CANN_API int aclDestroyTensor(const void *tensor)
{
    return descriptor_destroy("aclDestroyTensor", tensor, cann_tensor_kind);
}

CANN_API int aclDestroyScalar(const void *scalar)
{
    return descriptor_destroy("aclDestroyScalar", scalar, cann_scalar_kind);
}

CANN_API int aclDestroyIntArray(const void *array)
{
    return descriptor_destroy("aclDestroyIntArray", array, cann_ints_kind);
}

CANN_API int aclDestroyFloatArray(const void *array)
{
    return descriptor_destroy("aclDestroyFloatArray", array, cann_floats_kind);
}

CANN_API int aclDestroyBoolArray(const void *array)
{
    return descriptor_destroy("aclDestroyBoolArray", array, cann_bools_kind);
}

CANN_API int aclDestroyTensorList(const void *list)
{
    return descriptor_destroy("aclDestroyTensorList", list, cann_list_kind);
}

/* The extents, in memory that the caller frees. */
CANN_API int aclGetViewShape(const void *tensor, int64_t **dims, uint64_t *n)
{
    const struct cann_tensor *t = tensor;
    int code = base_enter("aclGetViewShape");
    int64_t *copy;

    if (!code && (!tensor || !dims || !n)) code = NN_NULL;
    if (!code && !base_handle_is(tensor, cann_tensor_kind))
        code = base_misuse(NN_INVALID, "the tensor was destroyed, or is none");
    if (code) return base_leave(code);
    copy = malloc(sizeof t->dims);
    if (!copy) return base_leave(NN_INTERNAL);
    memcpy(copy, t->dims, sizeof t->dims);
    *dims = copy;
    *n = (uint64_t)t->rank;
    return base_leave(0);
}

/* The number that a scalar of any real dtype is. */
static void scalar_read(const struct cann_scalar *s, double *number, int64_t *integer)
{
    uint32_t type = (uint32_t)cann_bp_dtype(s->dtype);
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = BP_F64};
    struct base_tensor from = {.data = (void *)(uintptr_t)s->value, .dtype = type};
    struct base_tensor to = {.data = number, .dtype = BP_F64},
                       whole = {.data = integer, .dtype = BP_I64};
    struct base_call call = {.op = "cast",
                             .attrs = &attrs,
                             .type = {type, BP_F64, BASE_ABSENT, BASE_ABSENT},
                             .n_in = 1,
                             .n_out = 1,
                             .in = {&from},
                             .out = {&to}};

    *number = 0;
    *integer = 0;
    base_compute(&call);
    attrs.to = BP_I64;
    call.type[1] = BP_I64;
    call.out[0] = &whole;
    base_compute(&call);
}

double cann_scalar_number(const struct cann_scalar *s)
{
    int64_t integer;
    double number;

    scalar_read(s, &number, &integer);
    return number;
}

int64_t cann_scalar_integer(const struct cann_scalar *s)
{
    int64_t integer;
    double number;

    scalar_read(s, &number, &integer);
    return integer;
}
