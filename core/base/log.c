/* SPDX-License-Identifier: Apache-2.0 */
/* log.c: passes messages of the core to the app's log function, or writes them to standard
 * error. */
#include "base.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>

void bp_log_to_stderr(void *ctx, uint32_t level, const char *text)
{
    static const char *const word[] = {"error", "warning", "info", "debug"};

    (void)ctx;
    fprintf(stderr, "backplane: %s: %s\n", word[level <= BP_LOG_DEBUG ? level : BP_LOG_DEBUG],
            text);
}

void bp_core_log(struct bp_core *core, enum bp_log_level level, const char *format, ...)
{
    char text[2048];
    va_list args;

    if (level > core->log_level) return;
    if (core->magic != bp_magic(BP_MAGIC_CORE)) return; /* a plugin logs in a forked child */
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&core->log_lock);
    core->log(core->log_ctx, level, text);
    pthread_mutex_unlock(&core->log_lock);
}

void bp_core_read_log_level(struct bp_core *core)
{
    static const char *const word[] = {"error", "warn", "info", "debug"};
    const char *wanted = bp_env_get("BP_LOG");

    core->log_level = BP_LOG_WARN;
    for (uint32_t i = 0; wanted && i <= BP_LOG_DEBUG; i++)
        if (!strcasecmp(wanted, word[i])) {
            core->log_level = i;
            return;
        }
    if (wanted && *wanted)
        bp_core_log(core, BP_LOG_WARN, "BP_LOG=%.40s: expected error, warn, info or debug", wanted);
}
