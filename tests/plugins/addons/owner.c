/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: wraps the cpu plugin as a plugin of the kind OWNER_KIND, which logs when its instance is
 * created and destroyed. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <dlfcn.h>

static struct bp_plugin plugin;
static const struct bp_plugin *cpu;
static const struct bp_host *owner_host;

static enum bp_status owner_create(const struct bp_host *host, void **out_self)
{
    owner_host = host;
    bp_log(host, BP_LOG_INFO, "created");
    return cpu->create(host, out_self);
}

static void owner_destroy(void *self)
{
    bp_log(owner_host, BP_LOG_INFO, "destroyed");
    cpu->destroy(self);
}

BP_EXPORT const struct bp_plugin *bp_plugin_get(void)
{
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    cpu = get();
    plugin = *cpu;
    plugin.name = plugin.kind = OWNER_KIND;
    plugin.create = owner_create;
    plugin.destroy = owner_destroy;
    plugin.stream_type = OWNER_STREAM;
    return &plugin;
}
