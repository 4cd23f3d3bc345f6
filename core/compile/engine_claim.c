/* SPDX-License-Identifier: Apache-2.0 */
/* engine_claim.c: requests from engines the nodes of a graph that they claim, and checks the
 * claims. */
#include "engine.h"

#include "../device/device.h"
#include "../plugin/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char unclaimed[] = "the engine does not claim it";

static enum bp_status claim_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to divide a graph among engines");
}

static const struct bp_data_node *claim_node(const struct bp_graph_copy *graph, uint32_t n)
{
    return BP_ROW(struct bp_data_node, graph->data.node, graph->data.node_stride, n);
}

/* ---- nodes that cannot be claimed ---- */

static const struct bp_engine_op *known_find(const struct bp_engines *engines, const char *op)
{
    for (size_t i = 0; i < engines->n_known; i++) {
        const struct bp_engine_op *known =
            BP_ROW(struct bp_engine_op, engines->known, engines->known_stride, i);
        if (!strcmp(known->op, op)) return known;
    }
    return NULL;
}

/* Whether a node uses ports or attributes that the engine does not know. */
static bool exceeds_known(const struct bp_data_node *node, const struct bp_engine_op *known)
{
    const char *attrs = node->attrs;
    uint32_t n_in = known->in_known < node->info->n_in ? known->in_known : node->info->n_in;
    uint32_t n_out = known->out_known < node->info->n_out ? known->out_known : node->info->n_out;

    for (uint32_t i = node->in_at[n_in]; i < node->n_in; i++)
        if (node->in[i] != BP_DATA_NONE) return true;
    for (uint32_t i = node->out_at[n_out]; i < node->n_out; i++)
        if (node->out[i] != BP_DATA_NONE) return true;
    for (uint32_t i = known->attrs_size; attrs && i < node->info->attrs_size; i++)
        if (attrs[i]) return true;
    return false;
}

static bool has_no_result(const struct bp_data_node *node)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_DATA_NONE) return false;
    return true;
}

/* The graph that a claim is of. */
struct claim_place {
    const struct bp_ir *ir; /* NULL: the graph is that of a call */
    const struct bp_graph_copy *graph;
    const struct bp_updates *updates; /* with ir */
    const struct bp_plugin_entry *entry; /* of the engine */
};

/* Returns why node n cannot be in a group, or NULL. known: the engine's row of its operator. */
static const char *claim_obstacle(const struct claim_place *p, uint32_t n,
                                  const struct bp_engine_op *known)
{
    const struct bp_data_node *node = claim_node(p->graph, n);
    const char *why;

    if (node->flags & BP_DATA_FIXED) return "another engine runs it";
    if (!known) return "the engine does not know the operator";
    if (exceeds_known(node, known))
        return "it has attributes, inputs or outputs that the engine does not know";
    if (node->flags & BP_DATA_RANDOM) return "it draws random numbers";
    if (node->flags & BP_DATA_UPDATE && !p->ir && !(p->entry->engines.flags & BP_ENGINE_UPDATES))
        return "it updates an input";
    if (node->flags & BP_DATA_BOUND) return "extents of its results depend on data";
    if (node->flags & BP_DATA_PINNED) return "the app names its kernel";
    why = p->ir ? bp_updates_refuse(p->updates, p->ir, p->entry, p->graph->node_of[n]) : NULL;
    if (why || node->flags & BP_DATA_UPDATE) return why;
    return has_no_result(node) ? "nothing reads its results" : NULL;
}

const char *bp_claim_refusal(const struct bp_ir *ir, const struct bp_graph_copy *graph, uint32_t n,
                             const struct bp_updates *updates, const struct bp_plugin_entry *entry)
{
    const struct claim_place place = {ir, graph, updates, entry};

    return claim_obstacle(&place, n, known_find(&entry->engines, claim_node(graph, n)->op));
}

/* ---- one engine ---- */

/* The claim of one engine: arrays for each node. */
struct claim {
    struct bp_plugin_entry *entry;
    uint32_t *group;
    const char **reason;
    double *score;
    uint32_t n_group;
};

static enum bp_status check_groups(const struct bp_graph_copy *graph, const struct claim *c)
{
    const char *plugin = c->entry->plugin.name;

    if (c->n_group > graph->n_node)
        return bp_error(BP_ERR_PLUGIN, "engine of %s: n_group is %u: expected at most %u, the "
                        "number of nodes", plugin, c->n_group, graph->n_node);
    for (uint32_t n = 0; n < graph->n_node; n++)
        if (c->group[n] > c->n_group)
            return bp_error(BP_ERR_PLUGIN, "engine of %s: node %s is in group %u: expected 0 to %u",
                            plugin, claim_node(graph, n)->name, c->group[n], c->n_group);
    for (uint32_t g = 0; g < c->n_group; g++)
        if (!(c->score[g] >= 0) || c->score[g] > 1e9)
            return bp_error(BP_ERR_PLUGIN, "engine of %s: the score of group %u is %g: expected 0 "
                            "to 1e9", plugin, g + 1, c->score[g]);
    return BP_OK;
}

/* Takes the nodes that cannot be claimed out of the groups, and says why. */
static void drop_obstacles(const struct claim_place *p, struct claim *c)
{
    const struct bp_engine_op *known = NULL;
    const struct bp_opinfo *of = NULL;

    for (uint32_t n = 0; n < p->graph->n_node; n++) {
        const struct bp_data_node *node = claim_node(p->graph, n);
        const char *why;
        if (node->info != of) known = known_find(&c->entry->engines, node->op);
        of = node->info;
        why = claim_obstacle(p, n, known);
        if (why) c->group[n] = 0;
        if (why) c->reason[n] = why;
        else if (!c->group[n] && !c->reason[n]) c->reason[n] = unclaimed;
    }
}

static void claim_free(struct claim *c)
{
    free(c->group);
    free(c->reason);
    free(c->score);
}

/* Drops the claim of an engine that has failed, and adds the message to the others. */
static enum bp_status claim_drop(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                 struct claim *c, char **failure)
{
    const char *before = *failure ? *failure : "";
    size_t n = strlen(before) + strlen(bp_error_message()) + 3;
    char *text = malloc(n);

    if (!text) return claim_no_memory();
    snprintf(text, n, "%s%s%s", before, *before ? "; " : "", bp_error_message());
    free(*failure);
    *failure = text;
    bp_core_log(ir->device->core, BP_LOG_WARN, "%s: the engine of %s claims nothing: %s",
                ir->device->name, c->entry->plugin.name, bp_error_message());
    memset(c->group, 0, graph->n_node * sizeof *c->group);
    memset(c->reason, 0, graph->n_node * sizeof *c->reason);
    c->n_group = 0;
    return BP_OK;
}

/* flags: enum bp_engine_flags. A failure is that of the engine, or of the host's memory. */
static enum bp_status claim_make(struct bp_device *device, const struct claim_place *place,
                                 struct bp_plugin_entry *entry, uint32_t flags, uint32_t allow,
                                 struct claim *c)
{
    const struct bp_graph_copy *graph = place->graph;
    struct bp_claim returned = {.size = sizeof returned, .flags = flags, .allow = allow};

    *c = (struct claim){.entry = entry,
                        .group = calloc(graph->n_node + 1u, sizeof *c->group),
                        .reason = calloc(graph->n_node + 1u, sizeof *c->reason),
                        .score = calloc(graph->n_node + 1u, sizeof *c->score)};
    if (!c->group || !c->reason || !c->score) return claim_no_memory();
    returned.group = c->group;
    returned.reason = c->reason;
    returned.score = c->score;
    bp_error_enter();
    TRY(bp_addon_leave(device, entry, entry->engines.claim(entry->self, &graph->data, &returned),
                       "claim"));
    c->n_group = returned.n_group;
    TRY(check_groups(graph, c));
    drop_obstacles(place, c);
    return BP_OK;
}

/* The claim on the graph of a program: an engine that fails claims nothing. */
static enum bp_status claim_of_program(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                       const struct bp_updates *updates,
                                       struct bp_plugin_entry *entry, struct claim *c,
                                       char **failure)
{
    const struct claim_place place = {ir, graph, updates, entry};
    enum bp_status status =
        claim_make(ir->device, &place, entry, bp_engine_flags_of(ir), ir->allow, c);

    if (status == BP_OK || !c->group || !c->reason || !c->score) return status;
    return claim_drop(ir, graph, c, failure);
}

/* ---- several engines ---- */

/* engine: the number of the engine. */
static enum bp_status list_add(struct bp_claimed *to, const struct claim *c, uint32_t group,
                               uint32_t engine)
{
    double score = c->score[group] > 0 ? c->score[group] : 1;

    if (to->n_list == to->room_list) {
        uint32_t room = 2 * to->room_list + 16;
        struct bp_claimed_group *grown = realloc(to->list, room * sizeof *grown);
        if (!grown) return claim_no_memory();
        to->list = grown;
        to->room_list = room;
    }
    to->list[to->n_list++] = (struct bp_claimed_group){c->entry, score, group + 1, engine};
    return BP_OK;
}

/* Higher scores first, then in the order of the engines. */
static int by_score(const void *a, const void *b)
{
    const struct bp_claimed_group *x = a, *y = b;

    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Gives each node to the best group that claims it. Until here, `first` is a group's number in its
 * claim, and `n` the number of the engine. */
static void list_take(struct bp_claimed *to, const struct claim *claim, uint32_t n_claim)
{
    for (uint32_t g = 0; g < to->n_list; g++) {
        const struct claim *c = &claim[to->list[g].n];
        for (uint32_t n = 0; n < to->graph->n_node; n++)
            if (c->group[n] == to->list[g].first && !to->group[n]) to->group[n] = g + 1;
    }
    for (uint32_t n = 0; n < to->graph->n_node; n++) {
        for (uint32_t i = 0; i < n_claim && !to->group[n] && !to->reason[n]; i++)
            to->reason[n] = claim[i].reason[n];
        if (!to->group[n] && !to->reason[n]) to->reason[n] = unclaimed;
    }
}

enum bp_status bp_engine_entries(const struct bp_ir *ir, struct bp_plugin_entry ***out_list,
                                 uint32_t *out_n)
{
    struct bp_plugin_entry *owner = ir->device->entry;
    struct bp_plugin_entry **list = malloc((owner->n_addon + 1u) * sizeof *list);
    uint32_t n = 0;

    if (!list) return claim_no_memory();
    for (uint32_t i = 0; i <= owner->n_addon; i++) {
        struct bp_plugin_entry *entry = i ? owner->addon[i - 1] : owner;
        uint32_t at = n;
        if (!entry->engines.claim) continue;
        for (; at > 0 && list[at - 1]->manifest.priority < entry->manifest.priority; at--)
            list[at] = list[at - 1];
        list[at] = entry;
        n++;
    }
    *out_list = list;
    *out_n = n;
    return BP_OK;
}

static enum bp_status claimed_init(const struct bp_graph_copy *graph, struct bp_claimed *to)
{
    *to = (struct bp_claimed){.graph = graph,
                              .group = calloc(graph->n_node + 1u, sizeof *to->group),
                              .reason = calloc(graph->n_node + 1u, sizeof *to->reason),
                              .order = calloc(graph->n_node + 1u, sizeof *to->order)};
    if (!to->group || !to->reason || !to->order) return claim_no_memory();
    for (uint32_t n = 0; n < graph->n_node; n++) to->order[n] = n;
    return BP_OK;
}

/* Divides the groups, and takes nodes out of them that use updated memory with nodes outside; then
 * the rest may have to be divided again. */
static enum bp_status claimed_divide(const struct bp_ir *ir, struct bp_claimed *made)
{
    bool dropped;

    TRY(bp_updates_drop(ir, made, &dropped));
    do {
        TRY(bp_claimed_partition(ir, made));
        TRY(bp_updates_drop(ir, made, &dropped));
    } while (dropped);
    return BP_OK;
}

enum bp_status bp_claimed_create(const struct bp_ir *ir, const struct bp_graph_copy *graph,
                                 struct bp_plugin_entry *const *entry, uint32_t n_entry,
                                 struct bp_claimed *out_claimed)
{
    struct claim *claim = calloc(n_entry + 1u, sizeof *claim);
    struct bp_updates updates = {NULL};
    struct bp_claimed made;
    enum bp_status status = claimed_init(graph, &made);

    if (!claim) status = claim_no_memory();
    if (status == BP_OK) status = bp_updates_create(ir, &updates);
    for (uint32_t i = 0; i < n_entry && status == BP_OK; i++)
        status = claim_of_program(ir, graph, &updates, entry[i], &claim[i], &made.failure);
    for (uint32_t i = 0; i < n_entry && status == BP_OK; i++)
        for (uint32_t g = 0; g < claim[i].n_group && status == BP_OK; g++)
            status = list_add(&made, &claim[i], g, i);
    if (status == BP_OK) {
        if (made.n_list) qsort(made.list, made.n_list, sizeof *made.list, by_score);
        list_take(&made, claim, n_entry);
        status = claimed_divide(ir, &made);
    }
    bp_updates_finish(&updates);
    for (uint32_t i = 0; claim && i < n_entry; i++) claim_free(&claim[i]);
    free(claim);
    if (status) bp_claimed_finish(&made);
    else *out_claimed = made;
    return status;
}

void bp_claimed_finish(struct bp_claimed *c)
{
    free(c->group);
    free(c->reason);
    free(c->order);
    free(c->list);
    free(c->failure);
    *c = (struct bp_claimed){0};
}

enum bp_status bp_engine_claims_call(struct bp_device *device, uint32_t allow,
                                     const struct bp_graph_copy *graph)
{
    struct bp_plugin_entry *entry = device->entry;
    const struct claim_place place = {NULL, graph, NULL, entry};
    struct claim c;
    enum bp_status status =
        claim_make(device, &place, entry, bp_engine_flags_of_call(allow), allow, &c);

    if (status == BP_OK && !c.group[0])
        status = bp_error(BP_ERR_UNSUPPORTED, "the engine of %s does not compile it: %s",
                          entry->plugin.name, c.reason[0]);
    claim_free(&c);
    return status;
}
