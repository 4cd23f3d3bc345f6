/* SPDX-License-Identifier: Apache-2.0 */
/* open.c: finds devices by name and opens them. */
#include "../base/activity.h"
#include "../memory/memory.h"
#include "../call/cache.h"
#include "../device/profiled.h"
#include "../tensor/tensor.h"
#include "runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t device_emulated(const struct bp_device *device)
{
    const struct bp_runtime *runtime = &device->entry->runtime;
    bool records = device->entry->captures.capture_begin || device->is_inline;
    bool joins = device->entry->ccl.comm_create || device->is_inline;

    return (runtime->stream_create ? 0 : BP_EMULATED_STREAMS) |
           (runtime->event_create ? 0 : BP_EMULATED_EVENTS) |
           (runtime->stream_wait ? 0 : BP_EMULATED_STREAM_WAIT) |
           (runtime->memory_info ? 0 : BP_EMULATED_MEMORY_INFO) |
           (records ? 0 : BP_EMULATED_RECORDING) | (joins ? 0 : BP_EMULATED_COLLECTIVES);
}

static enum bp_status read_properties(struct bp_device *device)
{
    struct bp_device_properties *p = &device->properties;
    struct bp_plugin_entry *entry = device->entry;

    uint32_t note = bp_activity_begin(BP_ACTIVITY_DEVICE, entry->plugin.name, device->name);
    enum bp_status status;

    p->size = sizeof *p;
    bp_error_enter();
    status = entry->runtime.device_properties(entry->self, device->index, p);
    bp_activity_end(note);
    TRY(bp_error_leave(status, entry->plugin.name,
                       "device_properties")); /* the device is not open yet, so it cannot be lost */
    if (p->size != sizeof *p)
        return bp_error(BP_ERR_PLUGIN,
                        "%s: device_properties changed size from %zu, which the core had set, to "
                        "%zu: write the other fields alone, with BP_SET",
                        device->name, sizeof *p, p->size);
    if (!memchr(p->name, 0, sizeof p->name) || !memchr(p->driver, 0, sizeof p->driver))
        return bp_error(BP_ERR_PLUGIN,
                        "%s: name or driver in its properties has no end within %zu bytes; the "
                        "plugin's device_properties is at fault",
                        device->name, sizeof p->name);
    if (!memchr(p->pci, 0, sizeof p->pci) || !memchr(p->arch, 0, sizeof p->arch))
        return bp_error(BP_ERR_PLUGIN,
                        "%s: pci or arch in its properties has no end within %zu or %zu bytes; the "
                        "plugin's device_properties is at fault",
                        device->name, sizeof p->pci, sizeof p->arch);
    if (p->images > BP_IMAGES_CHANNELS_LAST) p->images = BP_IMAGES_UNKNOWN;
    if (!p->alignment) p->alignment = 256;
    if (p->alignment & (p->alignment - 1) || p->alignment > 1 << 20)
        return bp_error(BP_ERR_PLUGIN,
                        "%s: alignment is %llu: expected a power of two up to 1 MiB; the plugin's "
                        "device_properties is at fault",
                        device->name, (unsigned long long)p->alignment);
    device->alignment = p->alignment;
    if (p->flags & BP_DEVICE_HANDLES && p->flags & BP_DEVICE_HOST_VISIBLE)
        return bp_error(BP_ERR_PLUGIN,
                        "%s: device_properties says both HANDLES and HOST_VISIBLE: memory of "
                        "handles has no address that the host could use",
                        device->name);
    if (!(p->flags & BP_DEVICE_GRAPH_ONLY) != !entry->graph_only)
        return bp_error(BP_ERR_PLUGIN,
                        "%s: device_properties says%s GRAPH_ONLY: expected a plugin with engines "
                        "whose devices all say so, or none",
                        device->name, entry->graph_only ? " nothing of" : "");
    device->is_inline = p->flags & BP_DEVICE_INLINE;
    device->host_visible = p->flags & BP_DEVICE_HOST_VISIBLE;
    device->emulated = device_emulated(device);
    return BP_OK;
}

/* Called with core->lock held. Returns a device that is already open, with a new reference; NULL if
 * it is not. */
static struct bp_device *find_open(struct bp_core *core, struct bp_plugin_entry *entry,
                                   uint32_t index)
{
    for (struct bp_device *d = core->devices; d; d = d->next)
        if (d->entry == entry && d->index == index) {
            bp_device_retain(d);
            return d;
        }
    return NULL;
}

/* Allocates a device; device_open fills properties, the host's timeline and memory. */
static struct bp_device *device_alloc(struct bp_plugin_entry *entry, uint32_t index)
{
    struct bp_device *device = calloc(1, sizeof *device);

    if (!device) return NULL;
    device->magic = bp_magic(BP_MAGIC_DEVICE);
    atomic_init(&device->refs, 1);
    device->core = entry->core;
    device->entry = entry;
    device->index = index;
    device->close = bp_device_close;
    device->signature = bp_signature_of_device();
    snprintf(device->name, sizeof device->name, "%.63s:%u", entry->plugin.kind, index);
    pthread_mutex_init(&device->lock, NULL);
    return device;
}

/* Two threads may open the same device at the same time: the plugin is called without a lock, and
 * the device that is added to the core first is used. */
static enum bp_status device_open(struct bp_plugin_entry *entry, uint32_t index,
                                  struct bp_device **out)
{
    struct bp_core *core = entry->core;
    struct bp_device *device = device_alloc(entry, index), *found;
    enum bp_status status = device ? read_properties(device)
                                   : bp_error(BP_ERR_MEMORY, "no memory for a device");

    if (status == BP_OK) status = bp_timeline_create_host(device);
    if (status == BP_OK) status = bp_memory_init(device);
    if (status == BP_OK) status = bp_device_profile_init(device);
    if (status == BP_OK) bp_cache_open(device);
    if (status == BP_OK) {
        pthread_mutex_lock(&core->lock);
        found = find_open(core, entry, index);
        if (!found) {
            device->next = core->devices;
            core->devices = device;
            bp_core_retain(core);
        }
        pthread_mutex_unlock(&core->lock);
        if (!found) bp_device_profile_open(device);
        *out = found ? found : device;
        if (!found) return BP_OK;
    }
    if (device) {
        bp_device_profile_finish(device);
        bp_memory_finish(device);
        bp_timelines_finish(device);
        pthread_mutex_destroy(&device->lock);
    }
    free(device);
    return status;
}

static enum bp_status no_such_device(const struct bp_plugin_entry *entry, uint32_t index)
{
    return bp_error(BP_ERR_NOT_FOUND, "%s:%u: there is no such device: plugin %s has %u",
                    entry->plugin.kind, index, entry->plugin.name, entry->n_device);
}

enum bp_status bp_device_create_at(struct bp_core *core, uint32_t plugin, uint32_t index,
                                   struct bp_device **out_device)
{
    struct bp_plugin_entry *entry = NULL;

    if (!bp_core_is(core)) return bp_not_a("core");
    if (!out_device) return bp_error(BP_ERR_INVALID, "bp_device_create_at: out_device is NULL");
    pthread_mutex_lock(&core->lock);
    if (plugin < core->n_entry) entry = core->entry[plugin];
    pthread_mutex_unlock(&core->lock);
    if (!entry)
        return bp_error(BP_ERR_INVALID, "bp_device_create_at: there is no plugin %u, only %u",
                        plugin, bp_core_plugins(core));
    TRY(bp_plugin_load(entry));
    if (index >= entry->n_device) return no_such_device(entry, index);
    return device_open(entry, index, out_device);
}

/* Refuses the path of a file, which is given for a name by mistake. Names of kinds have neither
 * slashes nor dots. */
static enum bp_status refuse_path(const char *name)
{
    const char *dot = strrchr(name, '.');

    if (!strchr(name, '/') && (!dot || (strcmp(dot, ".so") && strcmp(dot, ".json")))) return BP_OK;
    return bp_error(BP_ERR_NOT_FOUND,
                    "device name '%.200s': this is the path of a file, no plugin serves it as a "
                    "kind; set BP_PLUGIN_PATH to the directory of the plugin's manifest and name "
                    "the device by its kind, or load the library with bp_core_load_path (`bp "
                    "doctor` and `bp conform` take the path of a library)",
                    name);
}

/* Parses "kind" or "kind:index". */
static enum bp_status parse_name(const char *name, char *kind, size_t size, uint32_t *out_index)
{
    size_t n = strcspn(name, ":");
    char *end = "";
    unsigned long index = 0;

    if (name[n] == ':') index = strtoul(name + n + 1, &end, 10);
    if (!n || n >= size || *end || (name[n] == ':' && (name[n + 1] < '0' || name[n + 1] > '9')) ||
        index > UINT32_MAX)
        return bp_error(BP_ERR_INVALID, "device name '%.80s': expected kind or kind:index", name);
    memcpy(kind, name, n);
    kind[n] = 0;
    *out_index = (uint32_t)index;
    return BP_OK;
}

/* Lists up to max entries of one kind, best priority first, and returns their number; if there are
 * more, the worst are left out. */
static uint32_t entries_of_kind(struct bp_core *core, const char *kind,
                                struct bp_plugin_entry **list, uint32_t max)
{
    uint32_t n = 0;

    pthread_mutex_lock(&core->lock);
    for (uint32_t i = 0; i < core->n_entry; i++) {
        struct bp_plugin_entry *e = core->entry[i];
        uint32_t at;
        if (!e->manifest.kind || strcmp(e->manifest.kind, kind)) continue;
        if (n == max && list[n - 1]->manifest.priority >= e->manifest.priority) continue;
        at = n == max ? max - 1 : n++;
        for (; at > 0 && list[at - 1]->manifest.priority < e->manifest.priority; at--)
            list[at] = list[at - 1];
        list[at] = e;
    }
    pthread_mutex_unlock(&core->lock);
    return n;
}

/* Writes a note about the first entry of a search path that does not exist, or "". */
static void note_missing_entry(const char *list, char *note, size_t size)
{
    *note = 0;
    for (; list && *list && !*note; list += *list == ':') {
        size_t length = strcspn(list, ":");
        char *entry = strndup(list, length);
        if (entry && *entry == '/' && access(entry, F_OK) && errno == ENOENT)
            snprintf(note, size, "; the search path has %.200s, which does not exist", entry);
        free(entry);
        list += length;
    }
}

/* Returns BP_ERR_NOT_FOUND. The message names possible causes: refused plugins, a selection, and a
 * search path with a spelling error. */
static enum bp_status no_such_kind(struct bp_core *core, const char *kind)
{
    const char *selection = core->plugins ? core->plugins : bp_env_get("BP_PLUGINS");
    char kinds[512] = "", refused[64] = "", missing[256];
    uint32_t broken = 0;
    size_t used = 0;

    pthread_mutex_lock(&core->lock);
    for (uint32_t i = 0; i < core->n_entry; i++) {
        struct bp_plugin_entry *e = core->entry[i];
        broken += e->state == BP_PLUGIN_BROKEN;
        if (e->manifest.kind && *e->manifest.kind && used < sizeof kinds - 64)
            used += (size_t)snprintf(kinds + used, sizeof kinds - used, " %.63s", e->manifest.kind);
    }
    pthread_mutex_unlock(&core->lock);
    if (broken) snprintf(refused, sizeof refused, "; %u plugins were refused", broken);
    note_missing_entry(core->plugin_path, missing, sizeof missing);
    if (!*missing) note_missing_entry(bp_env_get("BP_PLUGIN_PATH"), missing, sizeof missing);
    return bp_error(
        BP_ERR_NOT_FOUND,
        "device kind '%s': no plugin serves it; there are:%s%s%s%s%s (`bp list` says more)",
        kind, *kinds ? kinds : " none", refused, missing,
        selection && *selection ? "; only these are selected: " : "", selection ? selection : "");
}

enum bp_status bp_device_create(struct bp_core *core, const char *name,
                                struct bp_device **out_device)
{
    enum { MAX = 32 };
    struct bp_plugin_entry *list[MAX];
    char kind[64];
    uint32_t index, n;
    enum bp_status status = BP_OK, first = BP_OK;
    char why[1024] = "";

    if (!bp_core_is(core)) return bp_not_a("core");
    if (!name || !out_device)
        return bp_error(BP_ERR_INVALID, "bp_device_create: name or out_device is NULL");
    TRY(refuse_path(name));
    TRY(parse_name(name, kind, sizeof kind, &index));
    n = entries_of_kind(core, kind, list, MAX);
    if (!n) return no_such_kind(core, kind);
    for (uint32_t i = 0; i < n; i++) {
        status = bp_plugin_load(list[i]);
        if (status == BP_OK)
            return index < list[i]->n_device ? device_open(list[i], index, out_device)
                                             : no_such_device(list[i], index);
        if (status == BP_ERR_MEMORY) return status; /* no other plugin is tried */
        if (i > 0) continue;
        first = status;
        snprintf(why, sizeof why, "%s", bp_error_message());
    }
    return bp_error(first, "%s", why);
}
