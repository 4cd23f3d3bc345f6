/* SPDX-License-Identifier: Apache-2.0 */
/* engined_rows.c: finds the kernels of the cpu plugin that run nodes. */
#include "engined.h"

#include <string.h>

enum {
    PORTS = 256,
    KNOWN = 400
};

static const struct bp_kernel *row_at(size_t i)
{
    const struct bp_kernels *k = engined_cpu.plugin->kernels;

    return BP_ROW(struct bp_kernel, k->first, k->stride, i);
}

size_t engined_known(const struct bp_engine_op **out_known)
{
    static struct bp_engine_op known[KNOWN];
    static size_t n;

    known[0] = (struct bp_engine_op){"reshape", 1 << 12, 16, 16, {0}};
    for (size_t i = n ? engined_cpu.plugin->kernels->count : 0;
         i < engined_cpu.plugin->kernels->count; i++) {
        const struct bp_kernel *row = row_at(i);
        size_t k = 0;
        if (!n) n = 1;
        while (k < n && strcmp(known[k].op, row->op)) k++;
        if (k == n && n < KNOWN)
            known[n++] = (struct bp_engine_op){row->op, row->attrs_size, row->in_known,
                                               row->out_known, {0}};
        for (int v = 0; k < n && v < 4; v++) known[k].types[v] |= row->types[v];
    }
    *out_known = known;
    return n;
}

static uint32_t known_port(const uint16_t *at, uint32_t n_port, uint32_t i)
{
    uint32_t port = 0;

    while (port + 1 < n_port && at[port + 1] <= i) port++;
    return port;
}

uint32_t engined_updated(const struct bp_data_node *node, uint32_t o)
{
    const struct bp_port *port = &node->info->out[known_port(node->out_at, node->info->n_out, o)];

    return port->kind == BP_PORT_UPDATE ? node->in[node->in_at[port->share]] : BP_DATA_NONE;
}

static bool same_shape(const struct bp_view *a, const struct bp_view *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

/* Whether a row takes the dtypes of these views, their shapes and their strides. */
static bool row_takes(const struct bp_kernel *row, const struct bp_data_node *node,
                      const struct bp_view *const *in, const struct bp_view *const *out)
{
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) {
        bool is_out = i >= node->n_in;
        uint32_t k = is_out ? i - node->n_in : i;
        const struct bp_view *v = is_out ? out[k] : in[k];
        const struct bp_port *port =
            is_out ? &node->info->out[known_port(node->out_at, node->info->n_out, k)]
                   : &node->info->in[known_port(node->in_at, node->info->n_in, k)];
        if (!v) continue;
        if (v->dtype >= 64 || !(row->types[port->var] >> v->dtype & 1)) return false;
        if (v->flags & BP_VIEW_STRIDED && !(row->flags & BP_KERNEL_STRIDED)) return false;
        if (row->flags & BP_KERNEL_SAME_SHAPE && !same_shape(v, out[0])) return false;
    }
    return true;
}

static bool row_knows(const struct bp_kernel *row, const struct bp_data_node *node)
{
    const char *attrs = node->attrs;

    for (uint32_t i = row->attrs_size; attrs && i < node->info->attrs_size; i++)
        if (attrs[i]) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_DATA_NONE &&
            known_port(node->in_at, node->info->n_in, i) >= row->in_known)
            return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_DATA_NONE &&
            known_port(node->out_at, node->info->n_out, i) >= row->out_known)
            return false;
    return true;
}

/* Prepares the row. plan NULL: the plan is destroyed. */
static bool row_prepares(const struct bp_kernel *row, const struct bp_prep *prep,
                         struct bp_plan *plan)
{
    struct bp_plan made = {.size = sizeof made};
    void *self = engined_cpu.self;

    if (!row->prepare) {
        if (plan) *plan = made;
        return !row->accepts || row->accepts(self, prep) == BP_OK;
    }
    if (row->prepare(self, prep, &made) != BP_OK) return false;
    if (plan) *plan = made;
    else if (made.plan && row->plan_destroy) row->plan_destroy(self, row, made.plan);
    return true;
}

bool engined_find(const struct bp_graph_data *graph, uint32_t n, const struct bp_view *view,
                  uint32_t device, uint32_t width, const struct bp_kernel **out_row,
                  struct bp_plan *plan)
{
    const struct bp_data_node *node = BP_ROW(struct bp_data_node, graph->node, graph->node_stride,
                                             n);
    const struct bp_kernels *k = engined_cpu.plugin->kernels;
    const struct bp_view *in[PORTS], *out[PORTS];
    const struct bp_kernel *tried = NULL;
    struct bp_prep prep = {.size = sizeof prep, .in = in, .out = out, .in_at = node->in_at,
                           .out_at = node->out_at, .n_in = node->n_in, .n_out = node->n_out,
                           .attrs = node->attrs, .device = device, .width = width};

    *out_row = NULL;
    if (node->n_in > PORTS || node->n_out > PORTS) return false;
    for (uint32_t i = 0; i < node->n_in; i++)
        in[i] = node->in[i] == BP_DATA_NONE ? NULL : &view[node->in[i]];
    for (uint32_t i = 0; i < node->n_out; i++) {
        uint32_t v = engined_updated(node, i);
        if (v == BP_DATA_NONE) v = node->out[i];
        out[i] = v == BP_DATA_NONE ? NULL : &view[v];
    }
    if (!strcmp(node->op, "reshape")) return !((in[0]->flags | out[0]->flags) & BP_VIEW_STRIDED);
    for (uint64_t failed = 0; failed < k->count; failed++) { /* rows by falling priority */
        const struct bp_kernel *best = NULL;
        for (size_t i = 0; i < k->count; i++) {
            const struct bp_kernel *row = row_at(i);
            bool later = !tried || row->priority < tried->priority ||
                         (row->priority == tried->priority && row > tried);
            if (strcmp(row->op, node->op) || !later) continue;
            if (!best || row->priority > best->priority) best = row;
        }
        if (!best) return false;
        tried = prep.kernel = best;
        if (!row_knows(best, node) || !row_takes(best, node, in, out) ||
            (k->usable && k->usable(engined_cpu.self, best) != BP_OK) ||
            !row_prepares(best, &prep, plan))
            continue;
        *out_row = best;
        return true;
    }
    return false;
}
