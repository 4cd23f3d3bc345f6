/* SPDX-License-Identifier: Apache-2.0 */
/* cnrt.h: declares the stand-in for Cambricon's runtime, libcnrt.so, for tests of it, and what the
 * stand-ins for its libraries of operators (libcnnl.so) and collectives (libcncl.so) need of it.
 * Names, numbers and orders of arguments are facts of the vendor's interface; all text is ours.
 *
 * Where the behaviour of the real library is not known, the stand-in behaves in the way with which
 * a careless caller fails. README.md beside this file lists these cases.
 *
 * The environment, beside that of the base:
 *
 *   BP_STANDIN_CNRT=6.14.1  the version that libcnrt.so reports
 *   BP_STANDIN_MLU=MLU590   the name of the devices; MLU370: they have no bfloat16 */
#ifndef STANDINS_CNRT_H
#define STANDINS_CNRT_H

#include "../base/base.h"

enum cnrt_code {
    CNRT_OK = 0,
    CNRT_NOT_READY = 1,
    CNRT_INIT = 100002,
    CNRT_NO_DEVICE = 100004,
    CNRT_DEVICE_INVALID = 100005,
    CNRT_ARGS = 100006,
    CNRT_SYS = 100007,
    CNRT_SYS_NO_MEMORY = 100010,
    CNRT_HANDLE = 100014,
    CNRT_STATE = 100015,
    CNRT_NOT_SUPPORTED = 100050,
    CNRT_NOT_PERMITTED = 100051,
    CNRT_QUEUE = 100060,
    CNRT_NO_MEMORY = 100100,
    CNRT_ASSERT = 100128,
    CNRT_KERNEL_TRAP = 100132,
    CNRT_USER_TRAP = 100133,
    CNRT_NOT_FOUND = 100301,
    CNRT_INVALID_KERNEL = 100302,
    CNRT_CAPTURE_UNSUPPORTED = 100360,
    CNRT_CAPTURE_INVALIDATED = 100361,
    CNRT_CAPTURE_THREAD = 100362,
    CNRT_CAPTURE_MERGED = 100363,
    CNRT_CAPTURE_UNJOINED = 100364,
    CNRT_CAPTURE_ISOLATION = 100365,
    CNRT_CAPTURE_UNMATCHED = 100366,
    CNRT_OTHER_DEVICE = 632006,
    CNRT_DIRECTION = 632013,
    CNRT_BUSY = 632014,
    CNRT_DRIVER = 632015,
    CNRT_UNKNOWN = 999991
};

enum cnrt_attribute {
    CNRT_MAJOR = 1,
    CNRT_MINOR = 2,
    CNRT_BF16 = 7,
    CNRT_CLUSTERS = 0x205,
    CNRT_CORES = 0x206,
    CNRT_ISA = 0x20a,
    CNRT_AVAILABLE_MEMORY = 0x312,
    CNRT_TOTAL_MEMORY = 0x405 /* MiB */
};

enum cnrt_direction {
    CNRT_HOST_TO_DEVICE,
    CNRT_DEVICE_TO_DEVICE,
    CNRT_DEVICE_TO_HOST,
    CNRT_HOST_TO_HOST,
    CNRT_PEER_TO_PEER,
    CNRT_NO_DIRECTION
};

enum cnrt_notifier_flags {
    CNRT_NOTIFIER_DEFAULT = 0,
    CNRT_NOTIFIER_NO_SOFTWARE_TIME = 2,
    CNRT_NOTIFIER_NO_TIME = 4,
    CNRT_NOTIFIER_INTERPROCESS = 8
};

/* The modes of captures are not confirmed: the stand-in takes these. */
enum cnrt_capture_mode {
    CNRT_CAPTURE_GLOBAL,
    CNRT_CAPTURE_THREAD_LOCAL,
    CNRT_CAPTURE_RELAXED
};

/* cnrtGetDeviceProperties_V3 writes a struct whose exact size is not confirmed: its first member is
 * the name, of 256 bytes, then the memory in MiB and three dimensions. The stand-in writes so many
 * bytes. */
enum {
    CNRT_PROPERTIES = 1024,
    CNRT_NAME = 256
};

#define CALL(result, name, parameters) BASE_API result name parameters;
#include "cnrt.def"

/* device.c, for the other stand-ins of this vendor: */
BASE_API extern struct base_vendor cnrt_vendor;
/* Begin a call and lock the base, as base_enter does, which the first call of all opens. The second
 * one is for calls that need a current device, the third for those that release something, which a
 * lost device does not refuse. Returns the code that the call must return without any effect,
 * or 0. */
BASE_API int cnrt_enter(const char *name);
BASE_API int cnrt_enter_device(const char *name, struct base_device **out);
BASE_API int cnrt_enter_release(const char *name, struct base_device **out);
/* Unlocks, and returns a code of the base as one of CNRT; others remain. */
BASE_API int cnrt_leave(int code);
BASE_API int cnrt_code(int code);
/* The calling thread's device; NULL: none is set. */
BASE_API struct base_device *cnrt_device(void);
BASE_API bool cnrt_has_bf16(void);

/* Shared by the files of libcnrt.so only. cnrt_queue returns a queue's stream, or NULL with *code
 * set: the handle is no queue, or is not of the current device. */
struct base_stream *cnrt_queue(void *queue, const struct base_device *device, int *code);

#endif
