/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c: exchanges tensors with other libraries by DLPack, without copies. */
#include "tensor.h"
#include "../memory/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The memory layout of the format, whose only specification is its C header. */
_Static_assert(sizeof(struct bp_dlpack_tensor) == 48, "DLTensor");
_Static_assert(offsetof(struct bp_dlpack_tensor, data) == 0, "data");
_Static_assert(offsetof(struct bp_dlpack_tensor, device.type) == 8, "device.device_type");
_Static_assert(offsetof(struct bp_dlpack_tensor, device.id) == 12, "device.device_id");
_Static_assert(offsetof(struct bp_dlpack_tensor, ndim) == 16, "ndim");
_Static_assert(offsetof(struct bp_dlpack_tensor, dtype.code) == 20, "dtype.code");
_Static_assert(offsetof(struct bp_dlpack_tensor, dtype.bits) == 21, "dtype.bits");
_Static_assert(offsetof(struct bp_dlpack_tensor, dtype.lanes) == 22, "dtype.lanes");
_Static_assert(offsetof(struct bp_dlpack_tensor, shape) == 24, "shape");
_Static_assert(offsetof(struct bp_dlpack_tensor, strides) == 32, "strides");
_Static_assert(offsetof(struct bp_dlpack_tensor, byte_offset) == 40, "byte_offset");
_Static_assert(sizeof(struct bp_dlpack_managed) == 80, "DLManagedTensorVersioned");
_Static_assert(offsetof(struct bp_dlpack_managed, version.major) == 0, "version.major");
_Static_assert(offsetof(struct bp_dlpack_managed, version.minor) == 4, "version.minor");
_Static_assert(offsetof(struct bp_dlpack_managed, manager_ctx) == 8, "manager_ctx");
_Static_assert(offsetof(struct bp_dlpack_managed, deleter) == 16, "deleter");
_Static_assert(offsetof(struct bp_dlpack_managed, flags) == 24, "flags");
_Static_assert(offsetof(struct bp_dlpack_managed, tensor) == 32, "dl_tensor");
_Static_assert(sizeof(struct bp_dlpack_legacy) == 64, "DLManagedTensor");
_Static_assert(offsetof(struct bp_dlpack_legacy, tensor) == 0, "dl_tensor");
_Static_assert(offsetof(struct bp_dlpack_legacy, manager_ctx) == 48, "manager_ctx");
_Static_assert(offsetof(struct bp_dlpack_legacy, deleter) == 56, "deleter");

static const struct {
    uint8_t dtype, code;
} codes[] = {
    {BP_BOOL, BP_DLPACK_BOOL}, {BP_I8, BP_DLPACK_INT},      {BP_I16, BP_DLPACK_INT},
    {BP_I32, BP_DLPACK_INT},   {BP_I64, BP_DLPACK_INT},     {BP_U8, BP_DLPACK_UINT},
    {BP_U16, BP_DLPACK_UINT},  {BP_U32, BP_DLPACK_UINT},    {BP_U64, BP_DLPACK_UINT},
    {BP_F16, BP_DLPACK_FLOAT}, {BP_BF16, BP_DLPACK_BFLOAT}, {BP_F32, BP_DLPACK_FLOAT},
    {BP_F64, BP_DLPACK_FLOAT}, {BP_C64, BP_DLPACK_COMPLEX}, {BP_C128, BP_DLPACK_COMPLEX},
    {BP_F8E4M3, BP_DLPACK_F8E4M3},         {BP_F8E5M2, BP_DLPACK_F8E5M2},
    {BP_F8E4M3FNUZ, BP_DLPACK_F8E4M3FNUZ}, {BP_F8E5M2FNUZ, BP_DLPACK_F8E5M2FNUZ},
    {BP_F8E8M0, BP_DLPACK_F8E8M0},
};
enum {
    CODES = sizeof codes / sizeof *codes
};

static enum bp_status check_device(const char *call, const struct bp_device *device)
{
    if (device->properties.flags & BP_DEVICE_HANDLES)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: memory of %s is known by handles, not by addresses; go through host "
                        "memory (bp_tensor_read)",
                        call, device->name);
    if (!device->properties.dlpack_type)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: memory of %s has no DLPack type; go through host memory "
                        "(bp_tensor_read)",
                        call, device->name);
    return BP_OK;
}

/* --- out --- */

/* An exported tensor, in the versioned or the legacy form. */
struct exported {
    union {
        struct bp_dlpack_managed managed;
        struct bp_dlpack_legacy legacy;
    } form;                     /* first */
    struct bp_buffer *buffer; /* a reference */
    uint32_t generation;        /* the process generation that made it: see bp_generation_made */
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
};

/* In a forked child nothing is freed: the memory belongs to the parent, and a lock of the allocator
 * may be held by a thread that does not exist in the child. Handles behave in the same way. */
static void exported_destroy(struct exported *exported)
{
    if (exported->generation != bp_generation_made()) return;
    bp_buffer_release(exported->buffer);
    free(exported);
}

static void managed_deleter(struct bp_dlpack_managed *managed)
{
    if (managed) exported_destroy(managed->manager_ctx);
}

static void legacy_deleter(struct bp_dlpack_legacy *legacy)
{
    if (legacy) exported_destroy(legacy->manager_ctx);
}

static enum bp_status find_code(const char *call, uint32_t dtype, uint8_t *out_code)
{
    for (uint32_t i = 0; i < CODES; i++)
        if (codes[i].dtype == dtype) {
            *out_code = codes[i].code;
            return BP_OK;
        }
    return bp_error(BP_ERR_UNSUPPORTED,
                    "%s: %s does not go through DLPack; go through host memory (bp_tensor_read)",
                    call, bp_dtype_name(dtype));
}

static enum bp_status dlpack_check_export(const char *call, const struct bp_tensor *t,
                                          const void *out_managed, uint8_t *out_code)
{
    if (!bp_tensor_is(t)) return bp_not_a_tensor(call, t);
    if (!out_managed) return bp_error(BP_ERR_INVALID, "%s: out_managed is NULL", call);
    TRY(check_device(call, t->device));
    if (t->buffer->space != BP_SPACE_DEVICE)
        return bp_error(BP_ERR_UNSUPPORTED,
                        "%s: the tensor is in memory space %u, expected %s's own (%d); copy it",
                        call, t->buffer->space, t->device->name, BP_SPACE_DEVICE);
    TRY(find_code(call, t->view.dtype, out_code));
    TRY(bp_buffer_expose(t->buffer));
    return bp_buffer_keep_contents(t->buffer);
}

static bool is_read_only(const struct bp_tensor *t)
{
    return atomic_load(&t->buffer->access) != BP_ACCESS_WRITE;
}

/* The tensor's extents are copied, because the tensor may be destroyed before the deleter is
 * called. */
static struct exported *dlpack_export(const struct bp_tensor *t, uint8_t code,
                                      struct bp_dlpack_tensor *out)
{
    struct exported *exported = calloc(1, sizeof *exported);

    if (!exported) return NULL;
    bp_buffer_retain(t->buffer);
    exported->buffer = t->buffer;
    exported->generation = bp_generation_made();
    memcpy(exported->shape, t->shape, sizeof exported->shape);
    memcpy(exported->stride, t->stride, sizeof exported->stride);
    *out = (struct bp_dlpack_tensor){
        .data = t->view.count ? t->buffer->memory.data : NULL,
        .device = {(int32_t)t->device->properties.dlpack_type, (int32_t)t->device->index},
        .ndim = t->view.rank,
        .dtype = {code, (uint8_t)bp_dtype_bits(t->view.dtype), 1},
        .shape = exported->shape,
        .strides = exported->stride,
        .byte_offset = t->view.count ? t->offset : 0,
    };
    return exported;
}

enum bp_status bp_tensor_to_dlpack(struct bp_tensor *tensor, struct bp_dlpack_managed **out_managed)
{
    struct bp_dlpack_tensor t;
    struct exported *exported;
    uint8_t code = 0;

    TRY(dlpack_check_export("bp_tensor_to_dlpack", tensor, out_managed, &code));
    exported = dlpack_export(tensor, code, &t);
    if (!exported) return bp_error(BP_ERR_MEMORY, "bp_tensor_to_dlpack: no host memory");
    exported->form.managed = (struct bp_dlpack_managed){
        .version = {BP_DLPACK_MAJOR, BP_DLPACK_MINOR},
        .manager_ctx = exported,
        .deleter = managed_deleter,
        .flags = is_read_only(tensor) ? BP_DLPACK_READ_ONLY : 0,
        .tensor = t,
    };
    *out_managed = &exported->form.managed;
    return BP_OK;
}

enum bp_status bp_tensor_to_dlpack_legacy(struct bp_tensor *tensor,
                                          struct bp_dlpack_legacy **out_managed)
{
    struct bp_dlpack_tensor t;
    struct exported *exported;
    uint8_t code = 0;

    TRY(dlpack_check_export("bp_tensor_to_dlpack_legacy", tensor, out_managed, &code));
    if (is_read_only(tensor))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "bp_tensor_to_dlpack_legacy: the tensor is read only, and this form of "
                        "DLPack cannot say so; use bp_tensor_to_dlpack, or export a copy");
    exported = dlpack_export(tensor, code, &t);
    if (!exported) return bp_error(BP_ERR_MEMORY, "bp_tensor_to_dlpack_legacy: no host memory");
    exported->form.legacy = (struct bp_dlpack_legacy){
        .tensor = t,
        .manager_ctx = exported,
        .deleter = legacy_deleter,
    };
    *out_managed = &exported->form.legacy;
    return BP_OK;
}

/* --- in --- */

static enum bp_status dlpack_check_device(const char *call, const struct bp_device *device,
                                          const struct bp_dlpack_tensor *t)
{
    TRY(check_device(call, device));
    if (t->device.type != (int32_t)device->properties.dlpack_type ||
        t->device.id != (int32_t)device->index)
        return bp_error(BP_ERR_INVALID,
                        "%s: the memory is of DLPack device %" PRId32 ":%" PRId32 ", that of %s is "
                        "%u:%u",
                        call, t->device.type, t->device.id, device->name,
                        device->properties.dlpack_type, device->index);
    return BP_OK;
}

static enum bp_status dlpack_dtype_of(const char *call, const struct bp_device *device,
                                      struct bp_dlpack_dtype type, uint32_t *out_dtype)
{
    for (uint32_t i = 0; i < CODES && type.lanes == 1; i++)
        if (codes[i].code == type.code && bp_dtype_bits(codes[i].dtype) == type.bits &&
            device->properties.dtypes >> codes[i].dtype & 1) {
            *out_dtype = codes[i].dtype;
            return BP_OK;
        }
    return bp_error(BP_ERR_UNSUPPORTED,
                    "%s: elements of DLPack code %u with %u bits and %u lanes: %s holds none such",
                    call, type.code, type.bits, type.lanes, device->name);
}

/* Reads and checks extents, strides and the bytes that they span. */
static enum bp_status dlpack_read_extents(const char *call, const struct bp_dlpack_tensor *t,
                                          uint32_t dtype, struct bp_extents *out,
                                          uint64_t *out_bytes)
{
    struct bp_type type = {.dtype = dtype, .rank = (uint32_t)t->ndim};
    int64_t count, last, bytes, width = bp_dtype_bits(dtype) / 8;

    if (t->ndim < 0 || t->ndim > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "%s: ndim is %" PRId32 ", expected 0 to %d", call, t->ndim,
                        BP_RANK_MAX);
    if (t->ndim && !t->shape) return bp_error(BP_ERR_INVALID, "%s: shape is NULL", call);
    if (t->ndim) memcpy(type.shape, t->shape, type.rank * sizeof *type.shape);
    TRY(bp_type_check(call, "", &type, &count, out_bytes));
    out->rank = type.rank;
    memcpy(out->shape, type.shape, sizeof type.shape);
    if (t->strides && count) memcpy(out->stride, t->strides, type.rank * sizeof *out->stride);
    else bp_type_strides(type.rank, out->shape, out->stride);
    TRY(bp_strides_last_element(call, out->rank, out->shape, out->stride, &last));
    if (last == INT64_MAX || __builtin_mul_overflow(last + 1, width, &bytes))
        return bp_error(BP_ERR_INVALID, "%s: shape and strides reach past 63 bits", call);
    *out_bytes = count ? (uint64_t)bytes : 0;
    return BP_OK;
}

static enum bp_status check_address(const char *call, const struct bp_dlpack_tensor *t,
                                    uint32_t dtype, uint64_t bytes, void **out_data)
{
    uint64_t width = bp_dtype_bits(dtype) / 8, alignment = width < 8 ? width : 8;
    uint64_t limit; /* bytes from data to the end of the last element */
    uintptr_t address = (uintptr_t)t->data + (uintptr_t)t->byte_offset, end;

    if (bytes && !t->data) return bp_error(BP_ERR_INVALID, "%s: data is NULL", call);
    if (bytes && (__builtin_add_overflow(t->byte_offset, bytes, &limit) || limit > INT64_MAX ||
                  __builtin_add_overflow((uintptr_t)t->data, limit, &end)))
        return bp_error(BP_ERR_INVALID,
                        "%s: byte_offset is %" PRIu64 ": with %" PRIu64 " bytes of elements that "
                        "is past the end of all memory",
                        call, t->byte_offset, bytes);
    if (bytes && address % alignment)
        return bp_error(BP_ERR_INVALID,
                        "%s: the first element, %s, is at address %p: expected a multiple of "
                        "%" PRIu64 "; copy it",
                        call, bp_dtype_name(dtype), (void *)address, alignment);
    *out_data = bytes ? (void *)address : NULL;
    return BP_OK;
}

static void release_managed(void *ctx)
{
    struct bp_dlpack_managed *managed = ctx;

    if (managed->deleter) managed->deleter(managed);
}

static void release_legacy(void *ctx)
{
    struct bp_dlpack_legacy *managed = ctx;

    if (managed->deleter) managed->deleter(managed);
}

static enum bp_status dlpack_import(const char *call, struct bp_device *device,
                                    const struct bp_dlpack_tensor *t, uint32_t access,
                                    void (*release)(void *ctx), void *ctx,
                                    struct bp_tensor **out_tensor)
{
    struct bp_extents extents = {.rank = 0};
    struct bp_memory memory = {0};
    struct bp_buffer *buffer;
    enum bp_status status;
    uint32_t dtype;
    uint64_t bytes;

    TRY(dlpack_check_device(call, device, t));
    TRY(dlpack_dtype_of(call, device, t->dtype, &dtype));
    TRY(dlpack_read_extents(call, t, dtype, &extents, &bytes));
    TRY(check_address(call, t, dtype, bytes, &memory.data));
    bp_deferred_check(device, true);
    TRY(bp_buffer_import(device, &memory, bytes, BP_SPACE_DEVICE, release, ctx, &buffer));
    atomic_init(&buffer->access, access);
    status = bp_tensor_create_inside(buffer, dtype, &extents, 0, out_tensor);
    if (status) bp_buffer_disown(buffer);
    return status;
}

enum bp_status bp_tensor_from_dlpack(struct bp_device *device, struct bp_dlpack_managed *managed,
                                     struct bp_tensor **out_tensor)
{
    static const char call[] = "bp_tensor_from_dlpack";

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!managed || !out_tensor)
        return bp_error(BP_ERR_INVALID, "%s: managed or out_tensor is NULL", call);
    if (managed->version.major != BP_DLPACK_MAJOR)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: DLPack version is %u.%u, expected %d.x", call,
                        managed->version.major, managed->version.minor, BP_DLPACK_MAJOR);
    return dlpack_import(call, device, &managed->tensor,
                         managed->flags & BP_DLPACK_READ_ONLY ? BP_ACCESS_READ : BP_ACCESS_WRITE,
                         release_managed, managed, out_tensor);
}

enum bp_status bp_tensor_from_dlpack_legacy(struct bp_device *device,
                                            struct bp_dlpack_legacy *managed,
                                            struct bp_tensor **out_tensor)
{
    static const char call[] = "bp_tensor_from_dlpack_legacy";

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!managed || !out_tensor)
        return bp_error(BP_ERR_INVALID, "%s: managed or out_tensor is NULL", call);
    return dlpack_import(call, device, &managed->tensor, BP_ACCESS_WRITE, release_legacy, managed,
                         out_tensor);
}
