/* SPDX-License-Identifier: Apache-2.0 */
/* host.c: implements the services that the core provides to a plugin; ctx is the plugin's entry. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include "loader.h"
#include <string.h>

/* Whether a message begins with the plugin's name ("cuda: ..." or "cuda:0: ..."), which then need
 * not be added. */
static bool names_itself(const struct bp_plugin_entry *entry, const char *text)
{
    size_t length = strlen(entry->plugin.name);

    return !strncmp(text, entry->plugin.name, length) && text[length] == ':';
}

static void host_log(void *ctx, uint32_t level, const char *text)
{
    struct bp_plugin_entry *entry = ctx;

    if (level > BP_LOG_DEBUG) level = BP_LOG_DEBUG;
    /* For a plugin that fails to load, the core logs one message at error level, which includes the
     * plugin's own reason. So the plugin's messages are lowered to warnings. */
    if (level == BP_LOG_ERROR && !atomic_load(&entry->finished)) level = BP_LOG_WARN;
    if (!text) text = "";
    if (names_itself(entry, text)) bp_core_log(entry->core, (enum bp_log_level)level, "%s", text);
    else
        bp_core_log(entry->core, (enum bp_log_level)level, "%s: %s", entry->plugin.name, text);
}

static enum bp_status host_fail(void *ctx, uint32_t status, const char *text)
{
    (void)ctx;
    /* A failure with the status BP_OK is a defect of the plugin, and must not look like success. */
    if (status == BP_OK) status = BP_ERR_PLUGIN;
    return bp_error((enum bp_status)status, "%s", text ? text : "");
}

static void *host_allocate(void *ctx, size_t size, size_t alignment)
{
    struct bp_plugin_entry *entry = ctx;

    if (!alignment || alignment & (alignment - 1)) return NULL;
    return bp_core_alloc(entry->core, size ? size : 1, alignment);
}

static void host_release(void *ctx, void *memory, size_t size)
{
    struct bp_plugin_entry *entry = ctx;

    if (memory) bp_core_free(entry->core, memory, size ? size : 1);
}

/* Of the memory above; NULL: no contents can be freed yet. */
static bp_host_reader *_Atomic host_reader;

void bp_host_set_reader(bp_host_reader *reader)
{
    atomic_store_explicit(&host_reader, reader, memory_order_relaxed);
}

static enum bp_status host_constant_read(void *ctx, uint64_t constant)
{
    bp_host_reader *reader = atomic_load_explicit(&host_reader, memory_order_relaxed);

    (void)ctx;
    return constant && reader ? reader(constant) : BP_OK;
}

void bp_host_init(struct bp_plugin_entry *entry)
{
    entry->host = (struct bp_host){
        .size = sizeof entry->host,
        .abi_major = BP_ABI_MAJOR,
        .abi_minor = BP_ABI_MINOR,
        .ctx = entry,
        .log = host_log,
        .fail = host_fail,
        .allocate = host_allocate,
        .release = host_release,
        .app_memory = entry->core->allocator.allocate != bp_allocator_default.allocate,
        .constant_read = host_constant_read,
    };
}
