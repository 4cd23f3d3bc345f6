/* SPDX-License-Identifier: Apache-2.0 */
/* cann.h: declares what the files of the stand-in for Huawei's CANN share. The libraries have the
 * vendor's names and functions; all declarations are our own, written from a description of the
 * interface. Each version has a folder of its own, in which only its functions are exported:
 *
 *   v7/    libascendcl.so libnnopbase.so libhccl.so, operators in libaclnn_math.so,
 *          libaclnn_ops_infer.so, libaclnn_ops_train.so and libaclnn_rand.so
 *   v8/    the same, operators in libopapi.so
 *   v9/    the same, with the functions that 9 adds
 *
 * A plugin finds them if LD_LIBRARY_PATH names a folder; ASCEND_OPP_PATH must be set, to any text.
 * `atc` is a program beside this file. The stand-in computes late, by the portable kernels; a line
 * in BP_STANDIN_LOG is a misuse, of which the vendor leaves the effect undefined: a test of a
 * plugin fails if there is one.
 *
 * base.h describes the devices and the environment BP_STANDIN_...; in addition:
 *
 *   BP_CANN_SOC=name      the product: Ascend910B3 (without the variable), Ascend310P3 or
 *                         Ascend910A; the latter two have no bf16
 *   ASCEND_OPP_PATH       if it is not set, phase 1 of each operator returns 561107
 *
 * What is not known of the vendor's library, and how the stand-in decides it:
 *
 *   - A stream or an event of another context is refused with 107003.
 *   - The codes of a capture are known by their range only (107024 to 107031, 507903): see
 *     cann_code. The version that aclrtGetVersion returns is invented.
 *   - Synchronous copies do not wait for streams.
 *   - aclrtResetDevice counts: it resets the device when it was called as often as aclrtSetDevice;
 *     aclrtResetDeviceForce, not in version 7, resets it at once.
 *   - Only Ascend910A saturates f16, until aclrtSetDeviceSatMode(1).
 *   - After a failure of work, each call that needs the device returns its code until
 *     aclrtResetDevice. */
#ifndef STANDINS_CANN_H
#define STANDINS_CANN_H

#include "base.h"

#define CANN_API __attribute__((visibility("default")))

enum {
    CANN_VERSIONS = 3,
    CANN_7 = 7,
    CANN_8 = 8,
    CANN_9 = 9
};
extern CANN_API const int cann_version; /* of the folder */

/* Codes: of acl, of the runtime, of operators. */
enum {
    ACL_INVALID_PARAM = 100000,
    ACL_UNINITIALISED = 100001,
    ACL_REPEAT_INITIALISE = 100002,
    ACL_BAD_ALLOC = 200000,
    ACL_UNSUPPORTED = 200006,
    RT_PARAM = 107000,
    RT_DEVICE_ID = 107001,
    RT_CONTEXT_NULL = 107002,
    RT_STREAM_CONTEXT = 107003,
    RT_NOT_RECORDED = 107006,
    RT_NO_TIMESTAMP = 107007,
    RT_HANDLE = 107017,
    RT_MALLOC_TYPE = 107018,
    RT_WAIT_TIMEOUT = 107019,
    RT_CAPTURE_DEPENDENCY = 107024,
    RT_CAPTURE_UNJOINED = 107025,
    RT_CAPTURE_UNMATCHED = 107026,
    RT_CAPTURED = 107027,
    RT_CAPTURE_MODE = 107030,
    RT_CAPTURE_IMPLICIT = 107031,
    RT_NOT_SUPPORTED = 207000,
    RT_MEMORY = 207001,
    RT_NO_DEVICE = 207004,
    RT_AICORE = 507015, /* the sticky code of work that accesses wrong memory */
    RT_STREAM_TIMEOUT = 507046,
    RT_EVENT_TIMEOUT = 507047,
    RT_CAPTURE_INVALIDATED = 507903,
    NN_NULL = 161001,
    NN_INVALID = 161002,
    NN_RUNTIME = 361001,
    NN_INTERNAL = 561000,
    NN_NO_KERNEL = 561003,
    NN_OPP_PATH = 561107
};

enum {
    EVENT_SYNC = 1,
    EVENT_CAPTURE = 2,
    EVENT_TIME = 8,
    EVENT_EX = 1 << 16,
    EVENT_PLAIN = 1 << 17
};

struct cann_context {
    struct base_device *device;
    struct base_stream *stream; /* the default stream: NULL in calls */
    bool is_default;
};
extern CANN_API const char cann_context_kind[];
extern CANN_API struct base_vendor cann_vendor;

/* init.c: begin a call, as base_enter: the second one is for calls that need a context. A code
 * other than 0 is to be returned at once. */
CANN_API int cann_enter(const char *name);
CANN_API int cann_enter_context(const char *name, struct cann_context **out);
/* The same for calls that release something: they go on although the device has failed. */
int cann_enter_release(const char *name, struct cann_context **out);
/* Ends a call: stores the code as the thread's last error. */
CANN_API int cann_leave(int code);
/* The code of the vendor for one of enum base_code; other codes stay. */
CANN_API int cann_code(int code);
/* Finds the stream of a handle (NULL: the default one): 0, RT_HANDLE or RT_STREAM_CONTEXT. */
CANN_API int cann_stream(struct cann_context *context, void *handle, struct base_stream **out);
const char *cann_soc(void);        /* the name of the product */
CANN_API bool cann_has_bf16(void); /* whether the product has bf16 */
CANN_API bool cann_is_910a(void);
CANN_API bool cann_saturates(void); /* f16 results beyond the largest number become that number */

/* device.c */
struct cann_context *cann_current(void); /* of this thread; NULL: none, or a destroyed one */

/* copy.c: checks the places of a copy or of memory that work uses. Returns 0 or a code. */
struct cann_copy {
    struct base_device *device;
    void *to;
    const void *from;
    size_t count;
    int kind;
};
int cann_copy_run(const struct cann_copy *copy); /* without the lock */

#endif
