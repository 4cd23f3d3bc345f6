/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h: tensors from and to other libraries, without copies, by the DLPack exchange format.
 *
 * The structs have the layout of the format's own header, which an app may include as well: a
 * pointer to one may be cast to a pointer to the other. The format has two forms: the current one,
 * which carries a version and flags, and the older one without ("legacy"), which some libraries
 * still speak only.
 *
 * What crosses is memory of a device's DLPack type (struct bp_device_properties), of dtypes bool,
 * i8 to u64, f16, bf16, f32, f64, c64 and c128; the f8 types do not. Whoever has the memory later
 * does not know what work is pending on it: wait for that (bp_stream_synchronize) before a tensor
 * is exported, and before another library looks at what was written to an imported one. */
#ifndef BP_DLPACK_H
#define BP_DLPACK_H

#include <backplane/api.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version that exports carry. An import takes any minor of this major. */
#define BP_DLPACK_MAJOR 1
#define BP_DLPACK_MINOR 0

struct bp_dlpack_version {
    uint32_t major, minor;
};

struct bp_dlpack_device {
    int32_t type; /* DLDeviceType */
    int32_t id;
};

/* Codes of element types: DLDataTypeCode. */
enum bp_dlpack_code {
    BP_DLPACK_INT = 0,
    BP_DLPACK_UINT = 1,
    BP_DLPACK_FLOAT = 2,
    BP_DLPACK_BFLOAT = 4,
    BP_DLPACK_COMPLEX = 5,
    BP_DLPACK_BOOL = 6,
};

struct bp_dlpack_dtype {
    uint8_t code, bits; /* bits of one lane */
    uint16_t lanes;     /* 1 */
};

struct bp_dlpack_tensor {
    void *data;
    struct bp_dlpack_device device;
    int32_t ndim;
    struct bp_dlpack_dtype dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL: row-major */
    uint64_t byte_offset; /* of the first element from data */
};

enum bp_dlpack_flags {
    BP_DLPACK_READ_ONLY = 1,
    BP_DLPACK_IS_COPIED = 2,
};

/* A tensor that is lent: who takes it calls deleter(self) once, when it is done with the memory;
 * NULL: there is nothing to call. */
struct bp_dlpack_managed {
    struct bp_dlpack_version version;
    void *manager_ctx;
    void (*deleter)(struct bp_dlpack_managed *self);
    uint64_t flags; /* enum bp_dlpack_flags */
    struct bp_dlpack_tensor tensor;
};

/* The older form. */
struct bp_dlpack_legacy {
    struct bp_dlpack_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct bp_dlpack_legacy *self);
};

/* Lends a tensor. The memory lives until the deleter is called, on any thread, also when the
 * tensor, its device and its core have been destroyed. Strides are always there; a frozen tensor is
 * BP_DLPACK_READ_ONLY, unless it was exported before it was frozen. What others write to the memory
 * does not count in info.version. In a forked child the deleter of an export that the parent made
 * does nothing, as destroy functions do.
 *
 * BP_ERR_UNSUPPORTED: the dtype or the device's memory has no DLPack type, or the tensor is in
 * another space than BP_SPACE_DEVICE; in the older form, also if the tensor is read only, which
 * that form cannot say. */
BP_API enum bp_status bp_tensor_to_dlpack(struct bp_tensor *tensor,
                                          struct bp_dlpack_managed **out_managed);
BP_API enum bp_status bp_tensor_to_dlpack_legacy(struct bp_tensor *tensor,
                                                 struct bp_dlpack_legacy **out_managed);

/* Makes a tensor over memory that another library lends. On success the tensor owns managed, whose
 * deleter is called once, when no tensor shares the memory and the work that uses it has ended. On
 * failure managed stays the caller's. What is BP_DLPACK_READ_ONLY cannot be written. Nothing is
 * known of other tensors over the same memory: not their freezing, nor the order of their work.
 *
 * The deleter is called without locks of this library, on a thread that is in a call of this API:
 * in the one that lets the last tensor go, if the work is known to have ended by then; else in a
 * later one on the same device that looks whether it has: bp_stream_synchronize,
 * bp_device_synchronize and bp_device_trim at all that is pending; bp_event_wait, bp_event_query
 * (where it answers that the work is done), bp_tensor_read, bp_tensor_write, bp_tensor_copy,
 * bp_device_memory and imports in passing, at a few each time; at last when the device ends.
 * Calls inside a function of bp_stream_callback do not look. Not in a forked child.
 *
 * Elements must lie at multiples of their size, or of 8 bytes if that is less. Memory that is less
 * aligned than the device's own is taken; kernels may be slower on it.
 *
 * BP_ERR_INVALID: memory of another device, negative strides, a misaligned address, a byte_offset
 * past the end of all memory, or what no tensor can be. BP_ERR_UNSUPPORTED: another major version,
 * a dtype that the device does not hold, several lanes, a device of handles or without a DLPack
 * type. */
BP_API enum bp_status bp_tensor_from_dlpack(struct bp_device *device,
                                            struct bp_dlpack_managed *managed,
                                            struct bp_tensor **out_tensor);
BP_API enum bp_status bp_tensor_from_dlpack_legacy(struct bp_device *device,
                                                   struct bp_dlpack_legacy *managed,
                                                   struct bp_tensor **out_tensor);

#ifdef __cplusplus
}
#endif

#endif
