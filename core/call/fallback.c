/* SPDX-License-Identifier: Apache-2.0 */
/* fallback.c: counts and logs calls that ran by a fallback, and finds the device that can run all
 * calls. */
#include "fallback.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The counter of an operator and kind; or, in the list of reasons, the reasons of an operator. */
struct bp_fallback {
    struct bp_fallback *next;
    struct bp_fallback_info info;
    char where[64]; /* reasons: the device that runs the calls instead, or "" */
    char *why;      /* reasons: owned; or NULL */
};

static _Thread_local uint32_t thread_policy; /* enum bp_core_fallback */

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

/* Called with the device locked. Finds the reasons of an operator, or NULL. */
static const struct bp_fallback *find_reasons(const struct bp_device *device, const char *op)
{
    const struct bp_fallback *f = device->fallback_why;

    while (f && f->info.op != op) f = f->next;
    return f;
}

/* Called with the device locked. Adds the device that runs it and the reason to a counter's facts.
 * */
static void add_reasons(const struct bp_device *device, struct bp_fallback_info *info)
{
    const struct bp_fallback *f = find_reasons(device, info->op);
    bool is_other = info->kind == BP_FALLBACK_DEVICE && f && *f->where;

    info->where = is_other ? f->where : device->name;
    info->why = f && f->why ? f->why : "";
}

void bp_fallback_explain(struct bp_device *device, const struct bp_opdef *row, const char *where,
                         const char *why)
{
    struct bp_fallback *f;

    pthread_mutex_lock(&device->lock);
    f = (struct bp_fallback *)find_reasons(device, row->info.name);
    if (!f && (f = calloc(1, sizeof *f))) {
        f->info.op = row->info.name;
        f->next = device->fallback_why;
        device->fallback_why = f;
    }
    if (f && !f->why && why) f->why = strdup(why);
    if (f && where && !*f->where) snprintf(f->where, sizeof f->where, "%s", where);
    pthread_mutex_unlock(&device->lock);
}

enum bp_status bp_thread_set_fallback(uint32_t fallback, uint32_t *out_before)
{
    if (fallback > BP_CORE_FALLBACK_DENY)
        return bp_error(BP_ERR_INVALID, "bp_thread_set_fallback: fallback is %u, expected 0 to %d",
                        (unsigned)fallback, BP_CORE_FALLBACK_DENY);
    if (out_before) *out_before = thread_policy;
    thread_policy = fallback;
    return BP_OK;
}

uint32_t bp_fallback_policy(const struct bp_core *core)
{
    return thread_policy ? thread_policy - BP_CORE_FALLBACK_ALLOW : core->fallback;
}

/* Whether a fallback computes the result in another dtype or on another device. */
static bool may_be_denied(uint32_t kind)
{
    return kind == BP_FALLBACK_DTYPE || kind == BP_FALLBACK_DEVICE;
}

enum bp_status bp_fallback_check(struct bp_device *device, const struct bp_opdef *row,
                                 uint32_t kind)
{
    struct bp_fallback_info info = {.where = "", .why = ""};

    if (!may_be_denied(kind) || bp_fallback_policy(device->core) != BP_POLICY_DENY) return BP_OK;
    info.op = row->info.name;
    pthread_mutex_lock(&device->lock);
    add_reasons(device, &info);
    pthread_mutex_unlock(&device->lock);
    return bp_error(BP_ERR_NO_KERNEL, "%s: %s has no kernel for it, and the policy of this thread "
                    "denies that %s: %s", info.op, device->name, word[kind],
                    *info.why ? info.why : "no reason is known");
}

void bp_fallback_count(struct bp_device *device, const struct bp_opdef *row, uint32_t kind,
                       uint64_t bytes, uint64_t nanoseconds)
{
    struct bp_fallback_info info = {.where = "", .why = ""};
    struct bp_fallback *f;
    bool first = false, refused = may_be_denied(kind);

    pthread_mutex_lock(&device->lock);
    f = fallback_entry(device, row->info.name, kind, &first);
    if (f) {
        f->info.calls++;
        f->info.bytes += bytes;
        f->info.nanoseconds += nanoseconds;
        info = f->info;
        add_reasons(device, &info);
    }
    pthread_mutex_unlock(&device->lock);
    if (first && bp_fallback_policy(device->core) == BP_POLICY_WARN && kind >= BP_FALLBACK_DTYPE)
        bp_core_log(device->core, BP_LOG_WARN,
                    "%s: %s has no kernel for %s: %s (on %s, %" PRIu64 " bytes, %" PRIu64
                    " us this time; said once%s). Reason: %s",
                    row->info.name, device->name, refused ? "it" : "the tensors as they are",
                    word[kind], info.where, bytes, nanoseconds / 1000,
                    refused ? "; BP_FALLBACK=deny makes it an error" : "",
                    *info.why ? info.why : "unknown");
}

static void finish_list(struct bp_fallback *list)
{
    struct bp_fallback *next;

    for (struct bp_fallback *f = list; f; f = next) {
        next = f->next;
        free(f->why);
        free(f);
    }
}

void bp_fallback_finish(struct bp_device *device)
{
    finish_list(device->fallback);
    finish_list(device->fallback_why);
    device->fallback = device->fallback_why = NULL;
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
    if (f) {
        info = f->info;
        add_reasons(device, &info);
    }
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
