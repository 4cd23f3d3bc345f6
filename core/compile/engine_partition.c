/* SPDX-License-Identifier: Apache-2.0 */
/* engine_partition.c: makes groups of nodes that can run as one node each: no group depends on its
 * own results by way of other nodes or groups.
 *
 * The groups are treated one after the other. All others are then items of an order of execution:
 * single nodes, and groups that were treated, whose nodes are contiguous. A node of the group gets
 * a level: how often the paths to it leave the group. Nodes of one level become a group. Sorted by
 * levels, each level before the items that depend on it, the new groups are contiguous too. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

struct partition {
    const struct bp_ir *ir;
    struct bp_claimed *claimed;
    const struct bp_graph_copy *graph;
    uint32_t n;        /* nodes */
    uint32_t *from;    /* of each node, and one more: the first of its entries in pred */
    uint32_t *pred;    /* the nodes on which a node depends directly */
    uint32_t *item;    /* of each node: the group that was treated, from 1; 0: the node itself */
    int64_t *level;    /* of each node, during a treatment; of an item outside: the highest level on
                          which it depends, or -1 */
    uint32_t *sorted, *count; /* during a treatment */
};

static enum bp_status partition_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to divide a graph among engines");
}

static const struct bp_data_node *node_at(const struct partition *p, uint32_t n)
{
    return BP_ROW(struct bp_data_node, p->graph->data.node, p->graph->data.node_stride, n);
}

static const struct bp_data_value *value_at(const struct partition *p, uint32_t v)
{
    return BP_ROW(struct bp_data_value, p->graph->data.value, p->graph->data.value_stride, v);
}

/* ---- dependences ---- */

/* Counts the entries of each node (fill false), or fills them. */
static void list_preds(struct partition *p, bool fill)
{
    const struct bp_graph_data *d = &p->graph->data;

    for (uint32_t n = 0; n < p->n; n++) {
        const struct bp_data_node *node = node_at(p, n);
        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t by = node->in[i] == BP_DATA_NONE ? BP_DATA_NONE
                                                      : value_at(p, node->in[i])->node;
            if (by == BP_DATA_NONE) continue;
            if (fill) p->pred[p->from[n]] = by;
            p->from[n]++;
        }
    }
    for (uint32_t i = 0; i < d->n_before; i++) {
        uint32_t n = d->before[2 * i + 1];
        if (fill) p->pred[p->from[n]] = d->before[2 * i];
        p->from[n]++;
    }
}

static enum bp_status find_preds(struct partition *p)
{
    uint32_t sum = 0;

    list_preds(p, false);
    for (uint32_t n = 0; n <= p->n; n++) {
        uint32_t count = p->from[n];
        p->from[n] = sum;
        sum += count;
    }
    p->pred = malloc((sum + 1u) * sizeof *p->pred);
    if (!p->pred) return partition_no_memory();
    list_preds(p, true); /* each `from` is now that of the next node */
    memmove(p->from + 1, p->from, p->n * sizeof *p->from);
    p->from[0] = 0;
    return BP_OK;
}

/* ---- views ---- */

static bool is_view(const struct partition *p, uint32_t n)
{
    return p->ir->node[p->graph->node_of[n]].call.row->is_view;
}

/* Whether value v is read by nodes outside group g, or is an output of the graph. */
static bool is_read_outside(const struct partition *p, const uint32_t *inside, uint32_t v)
{
    return inside[v] != p->ir->value[p->graph->value_of[v]].uses;
}

/* The group of the node that makes the memory of a view; 0: none. */
static uint32_t root_group(const struct partition *p, uint32_t v)
{
    const struct bp_ir_value *root =
        &p->ir->value[p->ir->value[p->graph->value_of[v]].root];

    for (uint32_t n = value_at(p, v)->node; root->kind == BP_VALUE_RESULT; n--) {
        if (p->graph->node_of[n] == root->node) return p->claimed->group[n];
        if (!n) break;
    }
    return 0;
}

/* Whether a node of a group is a view of memory outside the group that is read outside: as a node
 * of its own it costs nothing, and the group would copy. */
static bool is_outer_view(const struct partition *p, const uint32_t *inside, uint32_t n)
{
    const struct bp_data_node *node = node_at(p, n);

    if (!is_view(p, n)) return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_DATA_NONE && is_read_outside(p, inside, node->out[i]) &&
            root_group(p, node->out[i]) != p->claimed->group[n])
            return true;
    return false;
}

/* Takes such views out of the groups, the last one first: then the views before it are read
 * outside. inside: of each value, the reads by its own group. */
static enum bp_status drop_views(struct partition *p)
{
    uint32_t *inside = calloc(p->graph->n_value + 1u, sizeof *inside);
    uint32_t *group = p->claimed->group;

    if (!inside) return partition_no_memory();
    for (uint32_t n = 0; n < p->n; n++)
        for (uint32_t i = 0; i < node_at(p, n)->n_in; i++) {
            uint32_t v = node_at(p, n)->in[i];
            uint32_t by = v == BP_DATA_NONE ? BP_DATA_NONE : value_at(p, v)->node;
            if (by != BP_DATA_NONE && group[n] && group[by] == group[n]) inside[v]++;
        }
    for (uint32_t n = p->n; n-- > 0;) {
        const struct bp_data_node *node = node_at(p, n);
        if (!group[n] || !is_outer_view(p, inside, n)) continue;
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] != BP_DATA_NONE && inside[node->in[i]]) inside[node->in[i]]--;
        group[n] = 0;
        p->claimed->reason[n] = "it is a view of memory outside the group";
    }
    free(inside);
    return BP_OK;
}

/* ---- levels ---- */

/* The level of a node of group g, from those of the nodes before it. */
static int64_t inner_level(const struct partition *p, uint32_t g, uint32_t n)
{
    int64_t level = 0;

    for (uint32_t i = p->from[n]; i < p->from[n + 1]; i++) {
        uint32_t by = p->pred[i];
        int64_t least = p->claimed->group[by] == g && !p->item[by] ? p->level[by]
                                                                   : p->level[by] + 1;
        if (least > level) level = least;
    }
    return level;
}

/* The highest level on which the nodes at from..to of the order depend, which are one item. */
static int64_t outer_level(const struct partition *p, uint32_t from, uint32_t to)
{
    int64_t level = -1;

    for (uint32_t at = from; at < to; at++) {
        uint32_t n = p->claimed->order[at];
        for (uint32_t i = p->from[n]; i < p->from[n + 1]; i++) {
            uint32_t by = p->pred[i];
            if (p->item[n] && p->item[by] == p->item[n]) continue;
            if (p->level[by] > level) level = p->level[by];
        }
    }
    return level;
}

/* Finds the levels of all nodes for group g. Returns the highest one of the group. */
static int64_t find_levels(struct partition *p, uint32_t g)
{
    const uint32_t *order = p->claimed->order;
    int64_t most = 0;

    for (uint32_t at = 0, end; at < p->n; at = end) {
        uint32_t item = p->item[order[at]];
        int64_t outer;
        end = at + 1;
        if (!item && p->claimed->group[order[at]] == g) {
            p->level[order[at]] = inner_level(p, g, order[at]);
            if (p->level[order[at]] > most) most = p->level[order[at]];
            continue;
        }
        while (item && end < p->n && p->item[order[end]] == item) end++;
        outer = outer_level(p, at, end);
        for (uint32_t k = at; k < end; k++) p->level[order[k]] = outer;
    }
    return most;
}

/* The place of a node in the new order: items that depend on no level, level 0, items that depend
 * on level 0 only, level 1, and so on. */
static size_t place_of(const struct partition *p, uint32_t g, uint32_t n)
{
    bool inner = !p->item[n] && p->claimed->group[n] == g;

    return inner ? 2 * (size_t)p->level[n] + 1 : 2 * (size_t)(p->level[n] + 1);
}

/* Sorts the order by place; nodes of one place keep their order. */
static void sort_order(struct partition *p, uint32_t g, size_t places)
{
    uint32_t *order = p->claimed->order, sum = 0;

    memset(p->count, 0, places * sizeof *p->count);
    for (uint32_t n = 0; n < p->n; n++) p->count[place_of(p, g, n)]++;
    for (size_t i = 0; i < places; i++) {
        uint32_t count = p->count[i];
        p->count[i] = sum;
        sum += count;
    }
    for (uint32_t at = 0; at < p->n; at++)
        p->sorted[p->count[place_of(p, g, order[at])]++] = order[at];
    if (memcmp(order, p->sorted, p->n * sizeof *order)) p->claimed->reordered = true;
    memcpy(order, p->sorted, p->n * sizeof *order);
}

/* ---- groups ---- */

/* A group of views only is not worth a launch. */
static bool group_computes(const struct partition *p, uint32_t first, uint32_t n)
{
    for (uint32_t at = first; at < first + n; at++)
        if (!is_view(p, p->claimed->order[at])) return true;
    return false;
}

/* Adds the group of n nodes that begins at a place of the order, as item of the groups that are
 * treated later. */
static enum bp_status group_add(struct partition *p, const struct bp_claimed_group *of,
                                uint32_t first, uint32_t n, struct bp_claimed *to)
{
    if (to->n_list == to->room_list) {
        uint32_t room = 2 * to->room_list + 16;
        struct bp_claimed_group *grown = realloc(to->list, room * sizeof *grown);
        if (!grown) return partition_no_memory();
        to->list = grown;
        to->room_list = room;
    }
    to->list[to->n_list++] = (struct bp_claimed_group){of->entry, of->score, first, n};
    for (uint32_t at = first; at < first + n; at++) p->item[p->claimed->order[at]] = to->n_list;
    return BP_OK;
}

/* Whether the node at a place of the order is of group g, which is being treated. */
static bool is_inner(const struct partition *p, uint32_t g, uint32_t at)
{
    uint32_t n = p->claimed->order[at];

    return !p->item[n] && p->claimed->group[n] == g;
}

/* Finds the first place of group g in the order, and the number of its nodes from there on that are
 * contiguous. Returns whether they are all of it. */
static bool find_contiguous(const struct partition *p, uint32_t g, uint32_t *out_first,
                            uint32_t *out_n)
{
    uint32_t first = 0, end;

    while (first < p->n && !is_inner(p, g, first)) first++;
    for (end = first; end < p->n && is_inner(p, g, end);) end++;
    *out_first = first;
    *out_n = end - first;
    while (end < p->n && !is_inner(p, g, end)) end++;
    return end == p->n;
}

/* Treats group g. to: the list of the groups that were made. */
static enum bp_status group_treat(struct partition *p, uint32_t g, struct bp_claimed *to)
{
    const struct bp_claimed_group *of = &p->claimed->list[g - 1];
    uint32_t first, n;

    if (find_contiguous(p, g, &first, &n)) return n ? group_add(p, of, first, n, to) : BP_OK;
    sort_order(p, g, 2 * (size_t)find_levels(p, g) + 4);
    for (uint32_t at = 0, end; at < p->n; at = end) {
        end = at + 1;
        if (!is_inner(p, g, at)) continue;
        while (end < p->n && is_inner(p, g, end) &&
               p->level[p->claimed->order[end]] == p->level[p->claimed->order[at]])
            end++;
        TRY(group_add(p, of, at, end - at, to));
    }
    return BP_OK;
}

/* Fills the final numbers: `first` of each group, and the group of each node. Later treatments have
 * moved groups. */
static void number_groups(struct partition *p, struct bp_claimed *to)
{
    struct bp_claimed *c = p->claimed;
    uint32_t kept = 0;

    for (uint32_t at = p->n; at-- > 0;)
        if (p->item[c->order[at]]) to->list[p->item[c->order[at]] - 1].first = at;
    memset(c->group, 0, p->n * sizeof *c->group);
    for (uint32_t g = 0; g < to->n_list; g++) {
        struct bp_claimed_group group = to->list[g];
        bool good = group_computes(p, group.first, group.n);
        for (uint32_t at = group.first; at < group.first + group.n; at++) {
            c->group[c->order[at]] = good ? kept + 1 : 0;
            c->reason[c->order[at]] = good ? NULL : "views alone need no engine";
        }
        if (good) to->list[kept++] = group;
    }
    to->n_list = kept;
}

static enum bp_status partition_init(struct partition *p)
{
    size_t n = p->n;

    p->from = calloc(n + 2, sizeof *p->from);
    p->item = calloc(n + 1, sizeof *p->item);
    p->level = calloc(n + 1, sizeof *p->level);
    p->sorted = calloc(n + 1, sizeof *p->sorted);
    p->count = calloc(2 * n + 8, sizeof *p->count);
    if (!p->from || !p->item || !p->level || !p->sorted || !p->count) return partition_no_memory();
    TRY(find_preds(p));
    return drop_views(p);
}

enum bp_status bp_claimed_partition(const struct bp_ir *ir, struct bp_claimed *claimed)
{
    struct partition p = {.ir = ir, .claimed = claimed, .graph = claimed->graph,
                          .n = claimed->graph->n_node};
    struct bp_claimed made = {0};
    enum bp_status status = partition_init(&p);

    for (uint32_t g = 1; g <= claimed->n_list && status == BP_OK; g++)
        status = group_treat(&p, g, &made);
    if (status == BP_OK) {
        number_groups(&p, &made);
        free(claimed->list);
        claimed->list = made.list;
        claimed->n_list = made.n_list;
        claimed->room_list = made.room_list;
    } else {
        free(made.list);
    }
    free(p.from);
    free(p.pred);
    free(p.item);
    free(p.level);
    free(p.sorted);
    free(p.count);
    return status;
}
