/* SPDX-License-Identifier: Apache-2.0 */
/* core.c: creates a core for a command, opens its device, and maps states and statuses to names and
 * exit statuses. */
#include "tools.h"

#include <stdlib.h>

/* Errors are not logged: they concern plugins, and each command prints a plugin's reason itself. */
static void log_warnings(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    if (level == BP_LOG_WARN) bp_complain("", "warning: %s", text);
}

struct bp_core *bp_tool_core(const char *command, const struct bp_core_options *options)
{
    struct bp_core_options o = {.size = sizeof o};
    struct bp_core *core;

    if (options) o = *options;
    if (!o.log && !getenv("BP_LOG")) o.log = log_warnings;
    if (bp_core_create(&o, &core) == BP_OK) return core;
    bp_complain(command, "%s", bp_error_message());
    return NULL;
}

enum bp_status bp_tool_device(struct bp_core *core, const char *word, struct bp_device **out_device)
{
    char *absolute;
    enum bp_status status;
    uint32_t plugin;

    if (!bp_word_is_path(word)) return bp_device_create(core, word, out_device);
    /* If the file does not exist, the core reports this with the path as it was given. */
    absolute = realpath(word, NULL);
    status = bp_core_load_path(core, absolute ? absolute : word, &plugin);
    if (!status) status = bp_device_create_at(core, plugin, 0, out_device);
    free(absolute);
    return status;
}

enum bp_exit bp_exit_of_device(enum bp_status status)
{
    bool none = status == BP_ERR_NOT_FOUND || status == BP_ERR_ABSENT || status == BP_ERR_INVALID ||
                status == BP_ERR_PLUGIN;

    return none ? BP_EXIT_NO_DEVICE : BP_EXIT_FAILED;
}

const char *bp_state_name(uint32_t state)
{
    switch (state) {
    case BP_PLUGIN_UNPROBED: return "unprobed";
    case BP_PLUGIN_READY: return "ready";
    case BP_PLUGIN_ABSENT: return "absent";
    default: return "broken";
    }
}
