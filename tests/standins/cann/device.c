/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: implements devices, contexts and options of the stand-in for CANN. Each thread has a
 * current context; all threads that set a device share its default context. */
#include "cann.h"

const char cann_context_kind[] = "context";
static struct cann_context *defaults[BASE_DEVICES];
static int set[BASE_DEVICES]; /* calls of aclrtSetDevice that were not reset */
static _Thread_local struct cann_context *current;
static int64_t options[2], saturation;

int aclrtGetDeviceCount(uint32_t *out);
int aclrtSetDevice(int32_t device);
int aclrtResetDevice(int32_t device);
int aclrtResetDeviceForce(int32_t device);
int aclrtGetDevice(int32_t *out);
int aclrtSynchronizeDevice(void);
int aclrtDeviceCanAccessPeer(int32_t *out, int32_t device, int32_t peer);
int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags);
int aclGetDeviceCapability(uint32_t device, int what, int64_t *out);
int aclrtGetDeviceInfo(uint32_t device, int what, int64_t *out);
int aclrtCreateContext(void **out, int32_t device);
int aclrtDestroyContext(void *context);
int aclrtSetCurrentContext(void *context);
int aclrtGetCurrentContext(void **out);
int aclrtSetSysParamOpt(int option, int64_t value);
int aclrtCtxSetSysParamOpt(int option, int64_t value);
int aclrtSetDeviceSatMode(int mode);
int aclrtGetDeviceSatMode(int *mode);

struct cann_context *cann_current(void)
{
    return base_handle_is(current, cann_context_kind) ? current : NULL;
}

static bool device_is(int64_t device)
{
    return device >= 0 && device < cann_vendor.n_device;
}

CANN_API int aclrtGetDeviceCount(uint32_t *out)
{
    int code = cann_enter("aclrtGetDeviceCount");

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code && !cann_vendor.n_device) code = base_refuse(RT_NO_DEVICE, "there is no device");
    if (!code) *out = (uint32_t)cann_vendor.n_device;
    return cann_leave(code);
}

static struct cann_context *device_context_create(int32_t device, bool is_default)
{
    struct cann_context *context = base_handle_create(cann_context_kind, sizeof *context);

    if (!context) return NULL;
    context->device = &cann_vendor.device[device];
    context->is_default = is_default;
    return context;
}

static void context_destroy(struct cann_context *context)
{
    base_owner_end(context);
    base_handle_destroy(context);
}

CANN_API int aclrtSetDevice(int32_t device)
{
    int code = cann_enter("aclrtSetDevice");

    if (!code && !device_is(device))
        code = base_refuse(RT_DEVICE_ID, "device %d of %d", device, cann_vendor.n_device);
    if (code) return cann_leave(code);
    if (!defaults[device]) defaults[device] = device_context_create(device, true);
    if (!defaults[device]) return cann_leave(RT_MEMORY);
    set[device]++;
    current = defaults[device];
    return cann_leave(0);
}

/* Ends the default context, with all that belongs to it. */
static void device_reset(int32_t device)
{
    struct cann_context *context = defaults[device];

    set[device] = 0;
    defaults[device] = NULL;
    if (context) context_destroy(context);
    cann_vendor.device[device].sticky = 0;
}

/* The last of as many calls as aclrtSetDevice had resets the device. */
CANN_API int aclrtResetDevice(int32_t device)
{
    int code = cann_enter("aclrtResetDevice");

    if (!code && !device_is(device)) code = RT_DEVICE_ID;
    if (!code && set[device] && !--set[device]) device_reset(device);
    return cann_leave(code);
}

CANN_API int aclrtResetDeviceForce(int32_t device)
{
    int code = cann_enter("aclrtResetDeviceForce");

    if (!code && !device_is(device)) code = RT_DEVICE_ID;
    if (!code) device_reset(device);
    return cann_leave(code);
}

CANN_API int aclrtGetDevice(int32_t *out)
{
    struct cann_context *context;
    int code = cann_enter_release("aclrtGetDevice", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code) *out = context->device->number;
    return cann_leave(code);
}

CANN_API int aclrtSynchronizeDevice(void)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSynchronizeDevice", &context);

    if (!code) code = cann_code(base_device_wait(context->device, -1));
    return cann_leave(code);
}

CANN_API int aclrtDeviceCanAccessPeer(int32_t *out, int32_t device, int32_t peer)
{
    int code = cann_enter("aclrtDeviceCanAccessPeer");

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code && (!device_is(device) || !device_is(peer) || device == peer)) code = RT_DEVICE_ID;
    if (!code) *out = 1;
    return cann_leave(code);
}

CANN_API int aclrtDeviceEnablePeerAccess(int32_t peer, uint32_t flags)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtDeviceEnablePeerAccess", &context);

    if (!code && flags) code = ACL_INVALID_PARAM;
    if (!code && (!device_is(peer) || peer == context->device->number)) code = RT_DEVICE_ID;
    if (!code) context->device->peers |= 1u << peer;
    return cann_leave(code);
}

CANN_API int aclGetDeviceCapability(uint32_t device, int what, int64_t *out)
{
    static const int64_t values[] = {24, 48, 192 << 20};
    int code = cann_enter("aclGetDeviceCapability");

    if (!code && (!out || what < 0 || what > 2)) code = ACL_INVALID_PARAM;
    if (!code && !device_is(device)) code = RT_DEVICE_ID;
    if (!code) *out = values[what];
    return cann_leave(code);
}

/* The numbers of the attributes are not known here: each one is refused. */
CANN_API int aclrtGetDeviceInfo(uint32_t device, int what, int64_t *out)
{
    int code = cann_enter("aclrtGetDeviceInfo");

    (void)device, (void)out;
    if (!code) code = base_refuse(RT_NOT_SUPPORTED, "attribute %d", what);
    return cann_leave(code);
}

CANN_API int aclrtCreateContext(void **out, int32_t device)
{
    int code = cann_enter("aclrtCreateContext");
    struct cann_context *context;

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code && !device_is(device)) code = RT_DEVICE_ID;
    if (code) return cann_leave(code);
    context = device_context_create(device, false);
    if (!context) return cann_leave(RT_MEMORY);
    *out = current = context;
    return cann_leave(0);
}

CANN_API int aclrtDestroyContext(void *handle)
{
    int code = cann_enter("aclrtDestroyContext");
    struct cann_context *context = handle;

    if (code) return cann_leave(code);
    if (!base_handle_is(handle, cann_context_kind)) return cann_leave(RT_HANDLE);
    if (context->is_default)
        return cann_leave(base_refuse(RT_PARAM, "the default context ends by aclrtResetDevice"));
    context_destroy(context);
    return cann_leave(0);
}

CANN_API int aclrtSetCurrentContext(void *handle)
{
    int code = cann_enter("aclrtSetCurrentContext");

    if (code) return cann_leave(code);
    if (!handle) return cann_leave(ACL_INVALID_PARAM);
    if (!base_handle_is(handle, cann_context_kind))
        return cann_leave(base_misuse(RT_HANDLE, "the context was destroyed, or is none"));
    current = handle;
    return cann_leave(0);
}

CANN_API int aclrtGetCurrentContext(void **out)
{
    struct cann_context *context;
    int code = cann_enter_release("aclrtGetCurrentContext", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code) *out = context;
    return cann_leave(code);
}

static int option_set(int code, int option, int64_t value)
{
    if (!code && (option < 0 || option > 1)) code = RT_PARAM;
    if (!code) options[option] = value;
    return cann_leave(code);
}

CANN_API int aclrtSetSysParamOpt(int option, int64_t value)
{
    return option_set(cann_enter("aclrtSetSysParamOpt"), option, value);
}

CANN_API int aclrtCtxSetSysParamOpt(int option, int64_t value)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCtxSetSysParamOpt", &context);

    return option_set(code, option, value);
}

CANN_API int aclrtSetDeviceSatMode(int mode)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSetDeviceSatMode", &context);

    if (!code && mode != 0 && mode != 1) code = RT_PARAM;
    if (!code && !mode && !cann_is_910a())
        code = base_refuse(RT_NOT_SUPPORTED, "this product has no saturation mode");
    if (!code) saturation = mode;
    return cann_leave(code);
}

bool cann_saturates(void)
{
    return cann_is_910a() && !saturation;
}

CANN_API int aclrtGetDeviceSatMode(int *mode)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtGetDeviceSatMode", &context);

    if (!code) *mode = (int)saturation;
    return cann_leave(code);
}
