/* SPDX-License-Identifier: Apache-2.0 */
/* engine_refit.c: finds among the groups that engines compiled for another program those that have
 * the same nodes as a group of this program. */
#include "engine.h"
#include "schedule.h"

#include "../plugin/entry.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bp_engine_donors_create(const struct bp_schedule *s,
                                       struct bp_engine_donors **out_donors)
{
    struct bp_engine_donors *d = calloc(1, sizeof *d);

    if (d) d->group = calloc(s->n_engine + 1u, sizeof(struct bp_prepared *));
    if (!d || !d->group) {
        free(d);
        return bp_error(BP_ERR_MEMORY, "no host memory for a program");
    }
    for (uint32_t n = 0; n < s->n_launch; n++) {
        if (!bp_engine_code_of(s->launch[n].prepared)) continue;
        bp_prepared_retain(s->launch[n].prepared);
        d->group[d->n++] = s->launch[n].prepared;
    }
    *out_donors = d;
    return BP_OK;
}

void bp_engine_donors_destroy(struct bp_engine_donors *d)
{
    if (!d) return;
    for (uint32_t i = 0; i < d->n; i++) bp_prepared_release(d->group[i]);
    free(d->group);
    free(d);
}

uint32_t bp_engine_changed(const struct bp_engine_code *code, const struct bp_graph_copy *graph,
                           uint32_t *list)
{
    const struct bp_graph_data *d = &graph->data;
    uint32_t n = 0;

    for (uint32_t v = 0; v < graph->n_value; v++) {
        const struct bp_data_value *row = BP_ROW(struct bp_data_value, d->value, d->value_stride,
                                                 v);
        if (!(row->flags & BP_DATA_FROZEN) || (row->id && row->id == code->id[v])) continue;
        if (list) list[n] = v;
        n++;
    }
    return n;
}

/* Equal hashes: the graphs have equal values and nodes, and their numbers agree. */
static bool is_similar(const struct bp_engine_code *code, const struct bp_ir *ir,
                       const struct bp_plugin_entry *entry, const struct bp_graph_copy *graph)
{
    return code->entry == entry && code->device == ir->device && code->allow == ir->allow &&
           code->flags == bp_engine_flags_of(ir) &&
           !memcmp(code->hash, graph->data.hash, sizeof code->hash);
}

struct bp_prepared *bp_engine_donor_find(const struct bp_ir *ir,
                                         const struct bp_plugin_entry *entry,
                                         const struct bp_graph_copy *graph)
{
    struct bp_prepared *found = NULL;
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; ir->donors && i < ir->donors->n; i++) {
        const struct bp_engine_code *code = bp_engine_code_of(ir->donors->group[i]);
        uint32_t changed;
        if (!is_similar(code, ir, entry, graph)) continue;
        changed = bp_engine_changed(code, graph, NULL);
        if (changed >= least) continue;
        least = changed;
        found = ir->donors->group[i];
    }
    return found;
}
