/* SPDX-License-Identifier: Apache-2.0 */
/* guards.c: finds kernels that write behind the end of a result or of their workspace in the arena,
 * for BP_VALIDATE=arena. The bytes that a value has in a layout of the plugin are those that the
 * plugin states. */
#include "../call/kernel_layout.h"
#include "schedule.h"

#include <string.h>

enum {
    GUARD_BYTE = 0xff
}; /* NaN in every float dtype */

/* The guard of value v, or NULL: it has none. */
static unsigned char *guard_of(const struct bp_schedule *s, const struct bp_schedule_context *c,
                               uint32_t v)
{
    const struct bp_scheduled_value *root;

    if (v == BP_NO_VALUE) return NULL;
    root = s->value[s->value[v]->root];
    if (root->source != BP_SOURCE_ARENA || !root->guard) return NULL;
    return (unsigned char *)c->view[s->value[v]->root].data + (root->bytes - root->guard);
}

bool bp_guards_wanted(const struct bp_device *device)
{
    return device->is_inline && device->host_visible && bp_compile_checks("arena");
}

void bp_guards_fill(const struct bp_schedule *s, const struct bp_schedule_context *c, uint32_t n)
{
    const struct bp_scheduled_launch *l = &s->launch[n];
    uint32_t n_in = l->step->launch.n_in, n_out = l->step->launch.n_out;

    for (uint32_t i = 0; i <= n_out; i++) {
        uint32_t v = i < n_out ? l->value[n_in + i] : l->workspace;
        unsigned char *guard = guard_of(s, c, v);
        if (guard) memset(guard, GUARD_BYTE, s->value[s->value[v]->root]->guard);
    }
}

/* Returns the first byte that was written behind value v; -1: none. */
static int64_t guard_find(const struct bp_schedule *s, const struct bp_schedule_context *c,
                          uint32_t v)
{
    const unsigned char *guard = guard_of(s, c, v);

    for (uint64_t i = 0; guard && i < s->value[s->value[v]->root]->guard; i++)
        if (guard[i] != GUARD_BYTE) return (int64_t)i;
    return -1;
}

enum bp_status bp_guards_check(const struct bp_schedule *s, const struct bp_schedule_context *c,
                               uint32_t n)
{
    const struct bp_scheduled_launch *l = &s->launch[n];
    uint32_t n_in = l->step->launch.n_in, n_out = l->step->launch.n_out;
    const char *kernel = l->step->kernel ? l->step->kernel->name : "a copy";

    for (uint32_t i = 0; i <= n_out; i++) {
        uint32_t v = i < n_out ? l->value[n_in + i] : l->workspace, layout;
        int64_t at = guard_find(s, c, v);
        const struct bp_scheduled_value *root;
        if (at < 0) continue;
        root = s->value[s->value[v]->root];
        layout = i < n_out ? s->value[v]->type.view.layout : 0;
        return bp_error(
            BP_ERR_PLUGIN,
            "node %s: %s wrote behind %s %u, which has %llu bytes%s%s: byte %lld "
            "behind its end has changed",
            s->ir->node[l->node].call.name, kernel, i < n_out ? "output" : "the workspace, number",
            i < n_out ? i : 0, (unsigned long long)(root->bytes - root->guard),
            layout ? " in layout " : "", bp_layout_name(s->device, layout), (long long)at);
    }
    return BP_OK;
}
