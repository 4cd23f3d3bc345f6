/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.h: exchanges tensors with other libraries, without copies, in the DLPack format.
 *
 * The structs have the layout of the format's own header, which an app may include as well: a
 * pointer to one struct may be cast to a pointer to the other. The format has two forms: the
 * current one, which carries a version and flags, and the older one without them ("legacy"), which
 * is the only form that some libraries support.
 *
 * A tensor can be exchanged if it lies in memory of a device with a DLPack type (struct
 * bp_device_properties); its dtype may be any. The f8 types have codes since version 1.1: an older
 * library refuses them. The library that receives the memory does not know of unfinished work
 * on it: wait for that work (bp_stream_synchronize) before you export a tensor, and before another
 * library reads data that was written to an imported tensor. */
#ifndef BP_DLPACK_H
#define BP_DLPACK_H

#include <backplane/api.h>
#include <backplane/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version that exported tensors carry. An import accepts any minor version of this major
 * version. */
#define BP_DLPACK_MAJOR 1
#define BP_DLPACK_MINOR 1

struct bp_dlpack_version {
    uint32_t major, minor;
};

struct bp_dlpack_device {
    int32_t type; /* DLDeviceType */
    int32_t id;
};

/* Codes of element types, as in DLDataTypeCode. */
enum bp_dlpack_code {
    BP_DLPACK_INT = 0,
    BP_DLPACK_UINT = 1,
    BP_DLPACK_FLOAT = 2,
    BP_DLPACK_BFLOAT = 4,
    BP_DLPACK_COMPLEX = 5,
    BP_DLPACK_BOOL = 6,
    BP_DLPACK_F8E4M3 = 10, /* e4m3fn: BP_F8E4M3. Code 8 is another format, with infinities */
    BP_DLPACK_F8E4M3FNUZ = 11,
    BP_DLPACK_F8E5M2 = 12,
    BP_DLPACK_F8E5M2FNUZ = 13,
    BP_DLPACK_F8E8M0 = 14, /* e8m0fnu */
};

struct bp_dlpack_dtype {
    uint8_t code, bits; /* enum bp_dlpack_code; bits of one lane */
    uint16_t lanes;     /* elements per vector: 1 */
};

struct bp_dlpack_tensor {
    void *data;
    struct bp_dlpack_device device;
    int32_t ndim;
    struct bp_dlpack_dtype dtype;
    int64_t *shape;
    int64_t *strides;     /* in elements; NULL: row-major */
    uint64_t byte_offset; /* offset of the first element from data */
};

enum bp_dlpack_flags {
    BP_DLPACK_READ_ONLY = 1,
    BP_DLPACK_IS_COPIED = 2,
};

/* A tensor that its owner lends. The library that receives the tensor calls deleter(self) once,
 * when it no longer uses the memory; deleter NULL: there is no function to call. */
struct bp_dlpack_managed {
    struct bp_dlpack_version version;
    void *manager_ctx;
    void (*deleter)(struct bp_dlpack_managed *self);
    uint64_t flags; /* enum bp_dlpack_flags */
    struct bp_dlpack_tensor tensor;
};

/* The older form of a lent tensor. */
struct bp_dlpack_legacy {
    struct bp_dlpack_tensor tensor;
    void *manager_ctx;
    void (*deleter)(struct bp_dlpack_legacy *self);
};

/* Lends a tensor to another library. The memory lives until the deleter is called, on any thread,
 * even if the tensor, its device and its core have been destroyed. The field strides is always set.
 * A frozen tensor is BP_DLPACK_READ_ONLY, unless it was exported before it was frozen. Writes of
 * other libraries to the memory do not count in info.version. In a forked child the deleter of an
 * export that the parent made does nothing, like destroy functions.
 *
 * BP_ERR_UNSUPPORTED: the dtype or the device's memory has no DLPack type, or the tensor is in
 * another space than BP_SPACE_DEVICE; in the older form also if the tensor is read only, because
 * that form cannot express it. */
BP_API enum bp_status bp_tensor_to_dlpack(struct bp_tensor *tensor,
                                          struct bp_dlpack_managed **out_managed);
BP_API enum bp_status bp_tensor_to_dlpack_legacy(struct bp_tensor *tensor,
                                                 struct bp_dlpack_legacy **out_managed);

/* Makes a tensor over memory that another library lends. On success the tensor owns managed, and
 * the library calls its deleter once, when no tensor shares the memory and the work that uses the
 * memory has ended. On failure managed stays the caller's. A BP_DLPACK_READ_ONLY tensor cannot be
 * written. The library knows nothing of other tensors over the same memory: neither whether they
 * are frozen, nor the order of their work.
 *
 * The library calls the deleter without holding its locks, on a thread that is in a call of this
 * API. If the work is known to have ended by then, that is the call that releases the last tensor.
 * Otherwise it is a later call on the same device that checks whether the work has ended:
 * bp_stream_synchronize, bp_device_synchronize and bp_device_trim check all deferred releases;
 * bp_event_wait, bp_event_query (if it reports that the work is done), bp_tensor_read,
 * bp_tensor_write, bp_tensor_copy, bp_device_memory and imports check a few each time; at the
 * latest, the deleter is called when the device is closed. Calls inside a function of
 * bp_stream_callback do not check. The deleter is not called in a forked child.
 *
 * Elements must be aligned to their size, or to 8 bytes if that is less. Memory with less alignment
 * than the device's own is accepted; kernels may be slower on it.
 *
 * BP_ERR_INVALID: memory of another device, negative strides, a misaligned address, a byte_offset
 * past the end of all memory, or a description that no tensor can have. BP_ERR_UNSUPPORTED: another
 * major version, a dtype that the device does not hold, several lanes, a device whose memory has
 * handles (BP_DEVICE_HANDLES) or that has no DLPack type. */
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
