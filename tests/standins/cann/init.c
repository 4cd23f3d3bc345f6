/* SPDX-License-Identifier: Apache-2.0 */
/* init.c: implements initialisation, errors and texts of the stand-in for CANN, and the beginning
 * and the end of its calls. */
#include "cann.h"
#include <stdlib.h>
#include <string.h>

/* The sources of CANN's runtime, which Huawei publishes, give a stream of Ascend 910B a queue of
 * 4,096 entries, or 2,048 if the driver keeps queues in the device's memory, and reserve 35 of
 * them; a stream of the first 910 has 2,042. A thread that submits to a full stream waits until a
 * task has ended. The smallest number is taken here. */
enum {
    STREAM_DEPTH = 2048 - 35
};

struct base_vendor cann_vendor = {.name = "cann", .illegal = RT_AICORE, .depth = STREAM_DEPTH};
static bool initialised;
static _Thread_local int last_error;

int aclInit(const char *config);
int aclFinalize(void);
int aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch);
const char *aclrtGetSocName(void);
const char *aclGetRecentErrMsg(void);
int aclrtPeekAtLastError(int level);
int aclrtGetLastError(int level);

int cann_enter(const char *name)
{
    int code = base_enter(name);

    if (!code && !initialised) code = base_refuse(ACL_UNINITIALISED, "aclInit was not called");
    return code;
}

static int enter_context(const char *name, struct cann_context **out)
{
    int code = cann_enter(name);

    *out = cann_current();
    if (code || *out) return code;
    return base_refuse(RT_CONTEXT_NULL, "this thread has no current context");
}

int cann_enter_context(const char *name, struct cann_context **out)
{
    int code = enter_context(name, out);

    if (code || !(*out)->device->sticky) return code;
    return base_refuse((*out)->device->sticky, "the device has failed before");
}

int cann_enter_release(const char *name, struct cann_context **out)
{
    return enter_context(name, out);
}

int cann_leave(int code)
{
    if (code) last_error = code;
    return base_leave(code);
}

int cann_code(int code)
{
    switch (code) {
    case BASE_NO_MEMORY: return RT_MEMORY;
    case BASE_BAD: return RT_PARAM;
    case BASE_ILLEGAL: return RT_PARAM;
    case BASE_TIMEOUT: return RT_STREAM_TIMEOUT;
    case BASE_CAPTURED: return RT_CAPTURED;
    case BASE_INVALIDATED: return RT_CAPTURE_INVALIDATED;
    case BASE_UNJOINED: return RT_CAPTURE_UNJOINED;
    case BASE_ISOLATION: return RT_CAPTURE_DEPENDENCY;
    case BASE_NOT_CAPTURED: return RT_CAPTURE_UNMATCHED;
    default: return code;
    }
}

int cann_stream(struct cann_context *context, void *handle, struct base_stream **out)
{
    if (!handle) {
        if (!context->stream) context->stream = base_stream_create(context->device, context);
        *out = context->stream;
        return *out ? 0 : RT_MEMORY;
    }
    if (!base_stream_is(handle))
        return base_handle_was(handle) ? base_misuse(RT_HANDLE, "the stream was destroyed before")
                                       : base_refuse(RT_HANDLE, "%p is not a stream", handle);
    if (base_stream_owner(handle) != context)
        return base_refuse(RT_STREAM_CONTEXT, "the stream belongs to another context");
    *out = handle;
    return 0;
}

const char *cann_soc(void)
{
    const char *name = secure_getenv("BP_CANN_SOC");

    return name ? name : "Ascend910B3";
}

bool cann_is_910a(void)
{
    return !strcmp(cann_soc(), "Ascend910A");
}

bool cann_has_bf16(void)
{
    return !cann_is_910a() && strncmp(cann_soc(), "Ascend310P", 10) != 0;
}

CANN_API int aclInit(const char *config)
{
    int code = base_enter("aclInit");

    (void)config;
    if (code) return cann_leave(code);
    if (initialised)
        return cann_leave(base_refuse(ACL_REPEAT_INITIALISE, "aclInit was called before"));
    base_vendor_open(&cann_vendor);
    initialised = true;
    return cann_leave(0);
}

/* However often aclInit was called. */
CANN_API int aclFinalize(void)
{
    int code = cann_enter("aclFinalize");

    if (code) return cann_leave(code);
    initialised = false;
    base_guards_check();
    return cann_leave(0);
}

/* The numbers are invented. */
CANN_API int aclrtGetVersion(int32_t *major, int32_t *minor, int32_t *patch)
{
    int code = base_enter("aclrtGetVersion");

    if (!code && (!major || !minor || !patch)) code = ACL_INVALID_PARAM;
    if (code) return cann_leave(code);
    *major = 1;
    *minor = cann_version == CANN_7 ? 8 : cann_version == CANN_8 ? 14 : 16;
    *patch = 0;
    return cann_leave(0);
}

CANN_API const char *aclrtGetSocName(void)
{
    return cann_soc();
}

/* The thread's last text, once: afterwards NULL. */
CANN_API const char *aclGetRecentErrMsg(void)
{
    const char *text = base_message_take();

    return *text ? text : NULL;
}

CANN_API int aclrtPeekAtLastError(int level)
{
    return level ? ACL_INVALID_PARAM : last_error;
}

CANN_API int aclrtGetLastError(int level)
{
    int code = aclrtPeekAtLastError(level);

    last_error = 0;
    return code;
}
