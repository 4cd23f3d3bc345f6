/* SPDX-License-Identifier: Apache-2.0 */
/* api.c: the functions of CUPTI. Each fails if BP_SIM_FAIL says so. */
#include "cupti.h"
#include <stdio.h>

#define EXPORT __attribute__((visibility("default")))

static int api_begin(enum sim_call call)
{
    int code;

    pthread_mutex_lock(&sim.lock);
    code = sim_doomed(call);
    pthread_mutex_unlock(&sim.lock);
    return code;
}

EXPORT int cuptiGetVersion(uint32_t *out)
{
    int code = api_begin(SIM_CALL_cuptiGetVersion);

    if (!code) *out = standin_version();
    return code;
}

EXPORT int cuptiGetResultString(int code, const char **out)
{
    static char text[64];
    int failed = api_begin(SIM_CALL_cuptiGetResultString);

    if (failed) return failed;
    snprintf(text, sizeof text, "CUPTI_ERROR_%d", code);
    *out = text;
    return 0;
}

EXPORT int cuptiGetTimestamp(uint64_t *out)
{
    int code = api_begin(SIM_CALL_cuptiGetTimestamp);

    if (!code) *out = sim_now() + STANDIN_CUPTI_AHEAD;
    return code;
}

EXPORT int cuptiGetContextId(void *context, uint32_t *out)
{
    int code = api_begin(SIM_CALL_cuptiGetContextId);

    if (!code && !context) code = 3;
    if (!code) *out = (uint32_t)((struct sim_device *)context - sim.device) + 1;
    return code;
}

EXPORT int cuptiGetStreamIdEx(void *context, void *stream, uint8_t per_thread, uint32_t *out)
{
    int code = api_begin(SIM_CALL_cuptiGetStreamIdEx);
    uint32_t number;

    if (code || context || per_thread) return code ? code : 1;
    pthread_mutex_lock(&sim.lock);
    number = sim_stream_number(stream);
    pthread_mutex_unlock(&sim.lock);
    if (!number) return 20;
    *out = number + 12;
    return 0;
}

EXPORT int cuptiActivityRegisterCallbacks(standin_requested *requested,
                                          standin_completed *completed)
{
    int code = api_begin(SIM_CALL_cuptiActivityRegisterCallbacks);

    return code ? code : standin_register(requested, completed);
}

EXPORT int cuptiActivityEnable(int kind)
{
    int code = api_begin(SIM_CALL_cuptiActivityEnable);

    return code ? code : standin_enable(kind, true);
}

/* A call that is set to fail disables the kind even so. */
EXPORT int cuptiActivityDisable(int kind)
{
    int code = api_begin(SIM_CALL_cuptiActivityDisable), own = standin_enable(kind, false);

    return code ? code : own;
}

EXPORT int cuptiActivityFlushAll(uint32_t flag)
{
    int code = api_begin(SIM_CALL_cuptiActivityFlushAll);

    if (flag > 1) return 1;
    return code ? code : standin_flush(flag);
}

EXPORT int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **record)
{
    int code = api_begin(SIM_CALL_cuptiActivityGetNextRecord);

    return code ? code : standin_next(buffer, valid, record);
}

EXPORT int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *out)
{
    int code = api_begin(SIM_CALL_cuptiActivityGetNumDroppedRecords);

    if (context || stream) return 3;
    if (!code) *out = standin_dropped();
    return code;
}

EXPORT int cuptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
    int code = api_begin(SIM_CALL_cuptiActivityPushExternalCorrelationId);

    if (kind < 1 || kind > 5) return 1;
    return code ? code : standin_push(id);
}

EXPORT int cuptiActivityPopExternalCorrelationId(int kind, uint64_t *out)
{
    int code = api_begin(SIM_CALL_cuptiActivityPopExternalCorrelationId);
    uint64_t id;

    if (kind < 1 || kind > 5) return 1;
    return code ? code : standin_pop(out ? out : &id);
}
