/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: reads the environment variables of the compiler, and makes its streams. */
#include "schedule.h"

#include <string.h>

bool bp_setting_has(const char *list, const char *word, size_t n)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, word, n) && (!at[n] || at[n] == ',')) return true;
    }
    return false;
}

bool bp_compile_checks(const char *word)
{
    return bp_setting_has(bp_env_get("BP_VALIDATE"), word, strlen(word));
}

enum bp_status bp_compile_stream(struct bp_device *device, struct bp_stream **out_stream)
{
    return bp_stream_create_with(device, device->is_inline ? BP_STREAM_INLINE : 0, out_stream);
}
