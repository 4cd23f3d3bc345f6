/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: implements devices, attributes, versions and errors of CNRT. */
#include "cnrt.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct base_vendor cnrt_vendor = {.name = "cnrt", .illegal = CNRT_KERNEL_TRAP};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local struct base_device *current;
static _Thread_local int last;

static void device_open(void)
{
    base_vendor_open(&cnrt_vendor);
}

int cnrt_enter(const char *name)
{
    pthread_once(&once, device_open);
    return base_enter(name);
}

int cnrt_enter_release(const char *name, struct base_device **out)
{
    int code = cnrt_enter(name);

    *out = current;
    if (code || current) return code;
    return base_misuse(CNRT_DEVICE_INVALID, "%s: the thread has not called cnrtSetDevice", name);
}

int cnrt_enter_device(const char *name, struct base_device **out)
{
    int code = cnrt_enter_release(name, out);

    return code ? code : current->sticky;
}

int cnrt_code(int code)
{
    switch (code) {
    case BASE_NO_MEMORY: return CNRT_NO_MEMORY;
    case BASE_PENDING: return CNRT_NOT_READY;
    case BASE_CAPTURED: return CNRT_CAPTURE_UNSUPPORTED;
    case BASE_INVALIDATED: return CNRT_CAPTURE_INVALIDATED;
    case BASE_UNJOINED: return CNRT_CAPTURE_UNJOINED;
    case BASE_ISOLATION: return CNRT_CAPTURE_ISOLATION;
    case BASE_NOT_CAPTURED: return CNRT_CAPTURE_UNMATCHED;
    default: return code < 0 ? CNRT_ARGS : code;
    }
}

int cnrt_leave(int code)
{
    code = cnrt_code(code);
    if (code && code != CNRT_NOT_READY) last = code;
    return base_leave(code);
}

struct base_device *cnrt_device(void)
{
    return current;
}

static const char *device_model(void)
{
    const char *text = secure_getenv("BP_STANDIN_MLU");

    return text ? text : "MLU590";
}

bool cnrt_has_bf16(void)
{
    return strncmp(device_model(), "MLU370", 6) != 0;
}

int cnrtGetLibVersion(int *major, int *minor, int *patch)
{
    int code = cnrt_enter("cnrtGetLibVersion"), n[3] = {6, 14, 1};
    const char *text = secure_getenv("BP_STANDIN_CNRT");

    if (code) return cnrt_leave(code);
    if (!major || !minor || !patch) return cnrt_leave(base_refuse(CNRT_ARGS, "NULL"));
    if (text && sscanf(text, "%d.%d.%d", &n[0], &n[1], &n[2]) < 1) n[0] = 0;
    *major = n[0];
    *minor = n[1];
    *patch = n[2];
    return cnrt_leave(0);
}

static const struct {
    int code;
    const char *name, *text;
} codes[] = {
    {CNRT_OK, "cnrtSuccess", "no error"},
    {CNRT_NOT_READY, "cnrtErrorNotReady", "the work is not done yet"},
    {CNRT_INIT, "cnrtErrorInit", "initialisation failed"},
    {CNRT_NO_DEVICE, "cnrtErrorNoDevice", "there is no device"},
    {CNRT_DEVICE_INVALID, "cnrtErrorDeviceInvalid", "the device is not valid"},
    {CNRT_ARGS, "cnrtErrorArgsInvalid", "an argument is not valid"},
    {CNRT_SYS, "cnrtErrorSys", "the system failed"},
    {CNRT_SYS_NO_MEMORY, "cnrtErrorSysNoMem", "the host has no memory left"},
    {CNRT_HANDLE, "cnrtErrorInvalidResourceHandle", "a handle is not valid"},
    {CNRT_STATE, "cnrtErrorIllegalState", "the state does not allow the call"},
    {CNRT_NOT_SUPPORTED, "cnrtErrorNotSupport", "not supported"},
    {CNRT_NOT_PERMITTED, "cnrtErrorNotPermitted", "not permitted"},
    {CNRT_QUEUE, "cnrtErrorQueue", "the queue failed"},
    {CNRT_NO_MEMORY, "cnrtErrorNoMem", "the device has no memory left"},
    {CNRT_KERNEL_TRAP, "cnrtErrorKernelTrap", "a kernel failed on the device"},
    {CNRT_NOT_FOUND, "cnrtErrorNotFound", "not found"},
    {CNRT_CAPTURE_UNSUPPORTED, "cnrtErrorQueueCaptureUnsupported", "not allowed in a capture"},
    {CNRT_CAPTURE_INVALIDATED, "cnrtErrorQueueCaptureInvalidated", "the capture is invalid"},
    {CNRT_CAPTURE_THREAD, "cnrtErrorQueueCaptureWrongThread", "another thread began the capture"},
    {CNRT_CAPTURE_UNJOINED, "cnrtErrorQueueCaptureUnjoined", "a queue has not joined again"},
    {CNRT_CAPTURE_ISOLATION, "cnrtErrorQueueCaptureIsolation", "a wait crosses the capture"},
    {CNRT_CAPTURE_UNMATCHED, "cnrtErrorQueueCaptureUnmatched", "the capture began elsewhere"},
};

const char *cnrtGetErrorStr(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code) return codes[i].text;
    return "unknown";
}

const char *cnrtGetErrorName(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code) return codes[i].name;
    return "cnrtErrorUnknown";
}

int cnrtPeekAtLastError(void)
{
    return last;
}

int cnrtGetLastError(void)
{
    int code = last;

    last = 0;
    return code;
}

int cnrtGetDeviceCount(unsigned *out)
{
    int code = cnrt_enter("cnrtGetDeviceCount");

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code) *out = (unsigned)cnrt_vendor.n_device;
    if (!code && !*out) code = CNRT_NO_DEVICE;
    return cnrt_leave(code);
}

int cnrtSetDevice(int device)
{
    int code = cnrt_enter("cnrtSetDevice");

    if (code) return cnrt_leave(code);
    if (device < 0 || device >= cnrt_vendor.n_device)
        return cnrt_leave(base_refuse(CNRT_DEVICE_INVALID, "there is no device %d", device));
    current = &cnrt_vendor.device[device];
    return cnrt_leave(0);
}

int cnrtGetDevice(int *out)
{
    int code = cnrt_enter("cnrtGetDevice");
    const struct base_device *device = cnrt_device();

    if (!code && device) code = device->sticky;
    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code) *out = device ? device->number : 0;
    return cnrt_leave(code);
}

int cnrtSyncDevice(void)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtSyncDevice", &device);

    if (!code && base_capture_forbids()) code = CNRT_CAPTURE_UNSUPPORTED;
    if (!code) code = base_device_wait(device, -1);
    return cnrt_leave(code);
}

int cnrtDeviceGetAttribute(int *out, int attribute, int device)
{
    int code = cnrt_enter("cnrtDeviceGetAttribute"), value = 0;

    if (code) return cnrt_leave(code);
    if (!out || device < 0 || device >= cnrt_vendor.n_device)
        return cnrt_leave(base_refuse(out ? CNRT_DEVICE_INVALID : CNRT_ARGS, "device %d", device));
    switch (attribute) {
    case CNRT_MAJOR: value = cnrt_has_bf16() ? 5 : 3; break;
    case CNRT_MINOR: value = cnrt_has_bf16() ? 9 : 7; break;
    case CNRT_BF16: value = cnrt_has_bf16(); break;
    case CNRT_CLUSTERS: value = 2; break;
    case CNRT_CORES: value = 4; break;
    case CNRT_ISA: value = cnrt_has_bf16() ? 592 : 372; break;
    case CNRT_AVAILABLE_MEMORY:
    case CNRT_TOTAL_MEMORY: value = (int)(cnrt_vendor.device[device].total >> 20); break;
    default: return cnrt_leave(base_refuse(CNRT_ARGS, "attribute 0x%x is not known", attribute));
    }
    *out = value;
    return cnrt_leave(0);
}

int cnrtGetDeviceProperties_V3(void *out, int device)
{
    int code = cnrt_enter("cnrtGetDeviceProperties_V3"), total;

    if (code) return cnrt_leave(code);
    if (!out || device < 0 || device >= cnrt_vendor.n_device)
        return cnrt_leave(base_refuse(out ? CNRT_DEVICE_INVALID : CNRT_ARGS, "device %d", device));
    total = (int)(cnrt_vendor.device[device].total >> 20);
    memset(out, 0, CNRT_PROPERTIES);
    snprintf(out, CNRT_NAME, "%s", device_model());
    memcpy((char *)out + CNRT_NAME, &total, sizeof total);
    return cnrt_leave(0);
}

int cnrtGetPeerAccessibility(unsigned *out, int device, int peer)
{
    int code = cnrt_enter("cnrtGetPeerAccessibility"), n = cnrt_vendor.n_device;

    if (code) return cnrt_leave(code);
    if (!out || device < 0 || device >= n || peer < 0 || peer >= n)
        return cnrt_leave(base_refuse(CNRT_ARGS, "devices %d and %d", device, peer));
    *out = device != peer;
    return cnrt_leave(0);
}
