/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.c: counts and logs calls that ran by a fallback, and finds the device that can run all
 * calls. */
#include "fallback.h"

#include <inttypes.h>
#include <stdlib.h>

struct bp_fallback {
    struct bp_fallback *next;
    struct bp_fallback_info info;
};

static const char *const word[BP_FALLBACK_COUNT] = {
#define X(NAME, number, word, text) [number] = text,
    BP_FALLBACKS(X)
#undef X
};

/* Called with the device locked. Returns the counter of an operator and kind, creating it if
 * necessary; NULL: out of memory. */
static struct bp_fallback *fallback_entry(struct bp_device *device, const char *op, uint32_t kind,
                                          bool *out_new)
{
    struct bp_fallback **at = &device->fallback;

    for (; *at; at = &(*at)->next)
        if ((*at)->info.op == op && (*at)->info.kind == kind) return *at;
    *at = calloc(1, sizeof **at);
    if (!*at) return NULL;
    (*at)->info.size = sizeof (*at)->info;
    (*at)->info.op = op;
    (*at)->info.kind = kind;
    *out_new = true;
    return *at;
}

void bp_fallback_count(struct bp_device *device, const struct bp_opdef *row, uint32_t kind,
                       uint64_t bytes, uint64_t nanoseconds)
{
    struct bp_fallback *f;
    bool first = false, refused = kind == BP_FALLBACK_DTYPE || kind == BP_FALLBACK_DEVICE;

    pthread_mutex_lock(&device->lock);
    f = fallback_entry(device, row->info.name, kind, &first);
    if (f) {
        f->info.calls++;
        f->info.bytes += bytes;
        f->info.nanoseconds += nanoseconds;
    }
    pthread_mutex_unlock(&device->lock);
    if (first && device->core->fallback == BP_POLICY_WARN && kind >= BP_FALLBACK_DTYPE)
        bp_core_log(device->core, BP_LOG_WARN,
                    "%s: %s has no kernel for %s: %s (%" PRIu64 " bytes, %" PRIu64
                    " us this time; said once%s)",
                    row->info.name, device->name, refused ? "it" : "the tensors as they are",
                    word[kind], bytes, nanoseconds / 1000,
                    refused ? "; BP_FALLBACK=deny makes it an error" : "");
}

void bp_fallback_finish(struct bp_device *device)
{
    struct bp_fallback *next;

    for (struct bp_fallback *f = device->fallback; f; f = next) {
        next = f->next;
        free(f);
    }
    device->fallback = NULL;
}

uint32_t bp_device_fallbacks(struct bp_device *device)
{
    uint32_t n = 0;

    if (!bp_device_is(device)) return 0;
    pthread_mutex_lock(&device->lock);
    for (struct bp_fallback *f = device->fallback; f; f = f->next) n++;
    pthread_mutex_unlock(&device->lock);
    return n;
}

enum bp_status bp_device_fallback(struct bp_device *device, uint32_t index,
                                  struct bp_fallback_info *out)
{
    struct bp_fallback_info info = {0};
    struct bp_fallback *f;

    if (!bp_device_is(device)) return bp_not_a("device");
    pthread_mutex_lock(&device->lock);
    for (f = device->fallback; f && index; f = f->next) index--;
    if (f) info = f->info;
    pthread_mutex_unlock(&device->lock);
    if (!f)
        return bp_error(BP_ERR_INVALID, "bp_device_fallback: there are only %u entries",
                        bp_device_fallbacks(device));
    return bp_info_fill(out, &info, sizeof info);
}

/* Searches the other plugins, in the order of the plugin search, for one whose first device is
 * inline and has memory that the host can access. */
enum bp_status bp_fallback_find(struct bp_device *device, struct bp_device **out_host)
{
    struct bp_core *core = device->core;

    for (uint32_t i = 0; i < bp_core_plugins(core); i++) {
        struct bp_device *host;
        if (core->entry[i] == device->entry || core->open(core, i, 0, &host)) continue;
        if (host->is_inline && host->host_visible) {
            *out_host = host;
            return BP_OK;
        }
        bp_device_release(host);
    }
    return bp_error(BP_ERR_UNSUPPORTED, "no other device could run it");
}
