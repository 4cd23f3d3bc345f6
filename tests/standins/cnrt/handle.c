/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: implements handles and descriptors of CNNL. */
#include "cnnl.h"
#include <stdlib.h>
#include <string.h>

const char cnnl_handle_kind[] = "handle of operators", cnnl_tensor_kind[] = "tensor descriptor";
const char cnnl_transpose_kind[] = "transpose descriptor", cnnl_pool_kind[] = "pooling descriptor";

static const struct {
    uint32_t dtype;
    int bytes;
} dtypes[CNNL_DTYPES] = {
    [CNNL_HALF] = {BP_F16, 2},
    [CNNL_FLOAT] = {BP_F32, 4},
    [CNNL_INT8] = {BP_I8, 1},
    [CNNL_INT16] = {BP_I16, 2},
    [CNNL_INT31] = {255, 4},
    [CNNL_INT32] = {BP_I32, 4},
    [CNNL_UINT8] = {BP_U8, 1},
    [CNNL_BOOL] = {BP_BOOL, 1},
    [CNNL_INT64] = {BP_I64, 8},
    [CNNL_UINT32] = {BP_U32, 4},
    [CNNL_UINT64] = {BP_U64, 8},
    [CNNL_UINT16] = {BP_U16, 2},
    [CNNL_DOUBLE] = {BP_F64, 8},
    [CNNL_COMPLEX_HALF] = {255, 4},
    [CNNL_COMPLEX_FLOAT] = {BP_C64, 8},
    [CNNL_BFLOAT16] = {BP_BF16, 2},
};

int cnnl_bytes(int dtype)
{
    return dtype > 0 && dtype < CNNL_DTYPES ? dtypes[dtype].bytes : 0;
}

uint32_t cnnl_dtype(int dtype)
{
    return cnnl_bytes(dtype) ? dtypes[dtype].dtype : 255;
}

const char *cnnlGetErrorString(int code)
{
    static const char *const text[] = {
        "CNNL_STATUS_SUCCESS",
        "CNNL_STATUS_NOT_INITIALIZED",
        "CNNL_STATUS_ALLOC_FAILED",
        "CNNL_STATUS_BAD_PARAM",
        "CNNL_STATUS_INTERNAL_ERROR",
        "CNNL_STATUS_ARCH_MISMATCH",
        "CNNL_STATUS_EXECUTION_FAILED",
        "CNNL_STATUS_NOT_SUPPORTED",
        "CNNL_STATUS_NUMERICAL_OVERFLOW",
    };

    return code >= 0 && code <= CNNL_OVERFLOW ? text[code] : "CNNL_STATUS_UNKNOWN";
}

int cnnlCreate(void **out)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnnlCreate", &device);
    struct cnnl_handle *handle;

    if (code) return base_leave(code < CNRT_INIT ? code : CNNL_NOT_INITIALIZED);
    if (!out) return base_leave(base_refuse(CNNL_BAD_PARAM, "NULL"));
    handle = base_handle_create(cnnl_handle_kind, sizeof *handle);
    if (!handle) return base_leave(CNNL_ALLOC_FAILED);
    handle->device = device;
    *out = handle;
    return base_leave(0);
}

/* Destroys an object of this kind. */
int cnnl_desc_destroy(const char *name, void *handle, const char *kind)
{
    int code = cnrt_enter(name);

    if (code) return base_leave(code);
    if (!base_handle_is(handle, kind))
        return base_leave(base_misuse(CNNL_BAD_PARAM, "%s: %p is no %s", name, handle, kind));
    base_handle_destroy(handle);
    return base_leave(0);
}

int cnnlDestroy(void *handle)
{
    return cnnl_desc_destroy("cnnlDestroy", handle, cnnl_handle_kind);
}

int cnnlSetQueue(void *handle, void *queue)
{
    int code = cnrt_enter("cnnlSetQueue");
    struct cnnl_handle *h = handle;

    if (code) return base_leave(code);
    if (!base_handle_is(handle, cnnl_handle_kind) || !base_stream_is(queue))
        return base_leave(base_misuse(CNNL_BAD_PARAM, "cnnlSetQueue: no handle, or no queue"));
    if (base_stream_device(queue) != h->device)
        return base_leave(base_misuse(CNNL_BAD_PARAM, "cnnlSetQueue: the queue is of device %d",
                                      base_stream_device(queue)->number));
    h->queue = queue;
    return base_leave(0);
}

/* Creates a descriptor of this kind. */
int cnnl_desc_create(const char *name, void **out, const char *kind, size_t size)
{
    int code = cnrt_enter(name);

    if (code) return base_leave(code);
    if (!out) return base_leave(base_refuse(CNNL_BAD_PARAM, "NULL"));
    *out = base_handle_create(kind, size);
    return base_leave(*out ? CNNL_OK : CNNL_ALLOC_FAILED);
}

int cnnlCreateTensorDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateTensorDescriptor", out, cnnl_tensor_kind,
                            sizeof(struct cnnl_tensor));
}

int cnnlDestroyTensorDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyTensorDescriptor", desc, cnnl_tensor_kind);
}

int cnnlResetTensorDescriptor(void *desc)
{
    int code = cnrt_enter("cnnlResetTensorDescriptor");

    if (code) return base_leave(code);
    if (!base_handle_is(desc, cnnl_tensor_kind))
        return base_leave(base_misuse(CNNL_BAD_PARAM, "%p is no tensor descriptor", desc));
    *(struct cnnl_tensor *)desc = (struct cnnl_tensor){0};
    return base_leave(0);
}

const struct cnnl_tensor *cnnl_tensor_of(const void *desc)
{
    const struct cnnl_tensor *t = desc;

    return base_handle_is(desc, cnnl_tensor_kind) && t->set ? t : NULL;
}

size_t cnnl_size(const void *desc)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(desc);
    size_t n = t ? (size_t)cnnl_bytes(t->dtype) : 0;

    for (int a = 0; t && a < t->rank; a++) n *= (size_t)t->shape[a];
    return n;
}

/* The axes that a layout demands; 0: any number. */
static int layout_rank(int layout)
{
    static const int rank[] = {4, 4, 4, 5, 0, 5, 3, 3, 2, 3, 3};

    return rank[layout];
}

static int tensor_check(const struct cnnl_tensor *t)
{
    if (t->layout < 0 || t->layout >= CNNL_LAYOUTS)
        return base_refuse(CNNL_BAD_PARAM, "no layout %d", t->layout);
    if (!cnnl_bytes(t->dtype)) return base_refuse(CNNL_BAD_PARAM, "no dtype %d", t->dtype);
    if (layout_rank(t->layout) && layout_rank(t->layout) != t->rank)
        return base_refuse(CNNL_BAD_PARAM, "layout %d has %d axes, the tensor %d", t->layout,
                           layout_rank(t->layout), t->rank);
    for (int a = 0; a < t->rank; a++)
        if (t->shape[a] < 0 || t->stride[a] < 0)
            return base_refuse(CNNL_BAD_PARAM, "an extent or a stride is negative");
    return 0;
}

/* Sets a descriptor; strides NULL: contiguous. Under the lock. */
static int tensor_set(void *desc, struct cnnl_tensor *new, const int64_t *strides)
{
    struct cnnl_tensor *t = desc;
    int64_t step = 1;
    int code;

    for (int a = new->rank; a-- > 0; step *= new->shape[a])
        new->stride[a] = strides ? strides[a] : step;
    code = tensor_check(new);
    if (code) return code;
    if (t->set)
        return base_misuse(CNNL_BAD_PARAM,
                           "a tensor descriptor is set twice without a reset, which "
                           "leaks memory in the real library");
    new->set = true;
    *t = *new;
    return 0;
}

static int tensor_set_wide(const char *name, void *desc, struct cnnl_tensor new,
                           const int64_t *dims, const int64_t *strides)
{
    int code = cnrt_enter(name);

    if (code) return base_leave(code);
    if (!base_handle_is(desc, cnnl_tensor_kind))
        return base_leave(base_misuse(CNNL_BAD_PARAM, "%s: %p is no descriptor", name, desc));
    if (new.rank < 0 || new.rank > BASE_RANK || (new.rank && !dims))
        return base_leave(base_refuse(CNNL_BAD_PARAM, "%s: %d axes", name, new.rank));
    if (new.rank) memcpy(new.shape, dims, (size_t) new.rank * sizeof *dims);
    return base_leave(tensor_set(desc, &new, strides));
}

/* The same for ints. */
static int tensor_set_narrow(const char *name, void *desc, struct cnnl_tensor new, const int *dims,
                             const int *strides)
{
    int64_t d[BASE_RANK] = {0}, s[BASE_RANK] = {0};

    for (int a = 0; a < new.rank &&a < BASE_RANK &&dims; a++) d[a] = dims[a];
    for (int a = 0; a < new.rank &&a < BASE_RANK &&strides; a++) s[a] = strides[a];
    return tensor_set_wide(name, desc, new, dims ? d : NULL, strides ? s : NULL);
}

int cnnlSetTensorDescriptor(void *desc, int layout, int dtype, int n, const int *dims)
{
    struct cnnl_tensor t = {.layout = layout, .dtype = dtype, .rank = n};

    return tensor_set_narrow("cnnlSetTensorDescriptor", desc, t, dims, NULL);
}

int cnnlSetTensorDescriptor_v2(void *desc, int layout, int dtype, int n, const int64_t *dims)
{
    struct cnnl_tensor t = {.layout = layout, .dtype = dtype, .rank = n};

    return tensor_set_wide("cnnlSetTensorDescriptor_v2", desc, t, dims, NULL);
}

int cnnlSetTensorDescriptorEx(void *desc, int layout, int dtype, int n, const int *dims,
                              const int *strides)
{
    struct cnnl_tensor t = {.layout = layout, .dtype = dtype, .rank = n};

    return tensor_set_narrow("cnnlSetTensorDescriptorEx", desc, t, dims, strides);
}

int cnnlSetTensorDescriptorEx_v2(void *desc, int layout, int dtype, int n, const int64_t *dims,
                                 const int64_t *strides)
{
    struct cnnl_tensor t = {.layout = layout, .dtype = dtype, .rank = n};

    return tensor_set_wide("cnnlSetTensorDescriptorEx_v2", desc, t, dims, strides);
}

int cnnlSetTensorDescriptorOnchipDataType(void *desc, int dtype)
{
    int code = cnrt_enter("cnnlSetTensorDescriptorOnchipDataType");

    if (!code && (!cnnl_tensor_of(desc) || !cnnl_bytes(dtype)))
        code = base_refuse(CNNL_BAD_PARAM, "no descriptor that is set, or no dtype %d", dtype);
    return base_leave(code);
}

int cnnlSetTensorDescriptorPointerMode(void *desc, int mode)
{
    int code = cnrt_enter("cnnlSetTensorDescriptorPointerMode");

    if (!code && (!base_handle_is(desc, cnnl_tensor_kind) || mode < CNNL_POINTER_HOST ||
                  mode > CNNL_POINTER_DEVICE))
        code = base_refuse(CNNL_BAD_PARAM, "no descriptor, or no mode %d", mode);
    if (!code) ((struct cnnl_tensor *)desc)->mode = mode;
    return base_leave(code);
}

int cnnlCreateTransposeDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateTransposeDescriptor", out, cnnl_transpose_kind,
                            sizeof(struct cnnl_transpose));
}

int cnnlDestroyTransposeDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyTransposeDescriptor", desc, cnnl_transpose_kind);
}

int cnnlSetTransposeDescriptor(void *desc, int n, const int *perm)
{
    int code = cnrt_enter("cnnlSetTransposeDescriptor");
    struct cnnl_transpose t = {.n = n};
    unsigned seen = 0;

    if (code) return base_leave(code);
    if (!base_handle_is(desc, cnnl_transpose_kind) || n < 1 || n > BASE_RANK || !perm)
        return base_leave(base_refuse(CNNL_BAD_PARAM, "no descriptor, or %d axes", n));
    for (int a = 0; a < n; a++) {
        if (perm[a] >= 0 && perm[a] < n) seen |= 1u << perm[a];
        t.perm[a] = perm[a];
    }
    if (seen != (1u << n) - 1) return base_leave(base_refuse(CNNL_BAD_PARAM, "no permutation"));
    *(struct cnnl_transpose *)desc = t;
    return base_leave(0);
}

int cnnlCreatePoolingDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreatePoolingDescriptor", out, cnnl_pool_kind,
                            sizeof(struct cnnl_pool));
}

int cnnlDestroyPoolingDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyPoolingDescriptor", desc, cnnl_pool_kind);
}

int cnnlSetPooling2dDescriptor_v2(void *desc, int mode, int nan, int rows, int columns, int up,
                                  int down, int left, int right, int row_stride, int column_stride,
                                  int row_dilation, int column_dilation, bool ceil_mode)
{
    struct cnnl_pool pool = {true,
                             mode,
                             nan,
                             {rows, columns},
                             {up, down, left, right},
                             {row_stride, column_stride},
                             {row_dilation, column_dilation},
                             ceil_mode};
    int code = cnrt_enter("cnnlSetPooling2dDescriptor_v2");

    if (code) return base_leave(code);
    if (!base_handle_is(desc, cnnl_pool_kind))
        return base_leave(base_misuse(CNNL_BAD_PARAM, "%p is no pooling descriptor", desc));
    if (mode < CNNL_MAX || mode > CNNL_FIXED || nan < 0 || nan > CNNL_PROPAGATE_NAN)
        return base_leave(
            base_refuse(CNNL_BAD_PARAM, "no mode %d, or no mode %d of NaN", mode, nan));
    for (int a = 0; a < 2; a++)
        if (pool.window[a] < 1 || pool.stride[a] < 1 || pool.dilation[a] < 1)
            return base_leave(base_refuse(CNNL_BAD_PARAM, "window, stride or dilation below 1"));
    for (int side = 0; side < 4; side++)
        if (pool.pad[side] < 0) return base_leave(base_refuse(CNNL_BAD_PARAM, "negative padding"));
    *(struct cnnl_pool *)desc = pool;
    return base_leave(0);
}
