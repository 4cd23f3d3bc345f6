/* SPDX-License-Identifier: Apache-2.0 */
/* saved_write.c: writes the representation of a compiled graph (saved.h). */
#include "saved.h"

#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* A name of a recorded node, by its address. */
struct saving_name {
    const char *name;
    uint32_t node;
};

struct saving {
    const struct bp_schedule *schedule;
    const struct bp_ir *ir;
    const struct bp_graph *graph;
    struct bp_kept_writer *w;
    uint32_t *id; /* of each value of the IR, in the file: recorded inputs and constants keep
                        their numbers, results are counted from there; BP_NO_VALUE: none yet */
    uint32_t n_id, n_node;
    uint32_t *first;          /* of each node that runs a group: the group's first node in the
                                 file */
    bool *contents;           /* of each value: its contents have decided what passes did */
    const char **row;         /* of each node: the kernel row that it runs on, or NULL */
    struct saving_name *name; /* of the recorded nodes, sorted by address */
    uint32_t *stack;          /* of values */
    uint32_t n_stack, room_stack;
};

static enum bp_status saving_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to save a program");
}

/* Whether bp_ir_create makes the value under this number: an input, a recorded constant, or a value
 * that has a type only. */
static bool is_recorded(const struct saving *s, uint32_t v)
{
    return v < s->graph->n_value ? s->graph->value[v].kind != BP_VALUE_RESULT
                                 : s->ir->value[v].kind == BP_VALUE_SHAPE;
}

/* The node that computed a constant, which is dead; NULL: the compiler did not compute it. */
static const struct bp_node *saving_producer(const struct saving *s, uint32_t v)
{
    const struct bp_ir_value *value = &s->ir->value[v];
    const struct bp_ir_node *node = &s->ir->node[value->node];

    if (value->kind != BP_VALUE_CONSTANT || is_recorded(s, v) || value->node >= s->ir->n_node)
        return NULL;
    return node->dead && value->output < node->call.n_out && node->call.out[value->output] == v
               ? &node->call
               : NULL;
}

/* Whether a value is a recorded constant whose contents never change. */
static bool saving_is_frozen(const struct saving *s, uint32_t v)
{
    const struct bp_tensor *t = v < s->graph->n_value ? s->graph->value[v].constant : NULL;

    return t && t->view.flags & BP_VIEW_CONSTANT;
}

static enum bp_status saving_push(struct saving *s, uint32_t v)
{
    if (s->n_stack == s->room_stack) {
        uint32_t room = 2 * s->room_stack + 64;
        uint32_t *grown = realloc(s->stack, room * sizeof *grown);
        if (!grown) return saving_no_memory();
        s->stack = grown;
        s->room_stack = room;
    }
    s->stack[s->n_stack++] = v;
    return BP_OK;
}

/* ---- contents of constants ---- */

/* Notes the recorded constants from which a constant that passes have read was computed. */
static enum bp_status note_contents(struct saving *s, uint32_t v)
{
    TRY(saving_push(s, v));
    while (s->n_stack) {
        uint32_t top = s->stack[--s->n_stack];
        const struct bp_node *node;
        if (s->contents[top]) continue;
        s->contents[top] = true;
        node = saving_producer(s, top);
        for (uint32_t i = 0; node && i < node->n_in; i++)
            if (node->in[i] != BP_NO_VALUE) TRY(saving_push(s, bp_ir_same(s->ir, node->in[i])));
    }
    return BP_OK;
}

/* Notes the frozen constants of a group: the engine has seen their contents. */
static enum bp_status note_group(struct saving *s, const struct bp_engine_group *group)
{
    for (uint32_t k = 0; k < group->n_node; k++) {
        const struct bp_node *node = &s->ir->node[group->replaced[k]].call;
        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t v = node->in[i];
            if (v == BP_NO_VALUE) continue;
            v = bp_ir_same(s->ir, v);
            if (saving_producer(s, v) || saving_is_frozen(s, v)) TRY(note_contents(s, v));
        }
    }
    return BP_OK;
}

static enum bp_status write_contents(struct saving *s)
{
    uint32_t n = 0;

    for (uint32_t v = 0; v < s->ir->n_value; v++)
        if (s->ir->value[v].read) TRY(note_contents(s, v));
    for (uint32_t k = s->ir->first; k != BP_NO_VALUE; k = s->ir->node[k].next)
        if (bp_saved_group_of(s->ir, k)) TRY(note_group(s, bp_saved_group_of(s->ir, k)));
    for (uint32_t v = 0; v < s->graph->n_value; v++)
        n += s->contents[v] && s->graph->value[v].constant;
    bp_kept_u32(s->w, n);
    for (uint32_t v = 0; v < s->graph->n_value; v++) {
        struct bp_digest d;
        if (!s->contents[v] || !s->graph->value[v].constant) continue;
        TRY(bp_saved_contents(s->graph->value[v].constant, &d));
        bp_kept_u32(s->w, v);
        bp_kept_bytes(s->w, &d, sizeof d);
    }
    return BP_OK;
}

/* ---- nodes ---- */

static void write_attr(struct bp_kept_writer *w, const struct bp_attr *a, const void *attrs)
{
    const char *field = (const char *)attrs + a->offset;
    struct bp_dims dims = {(const int64_t *)(const void *)field, a->count};

    if (a->kind == BP_ATTR_DIMS) memcpy(&dims, field, sizeof dims);
    bp_kept_text(w, a->name);
    bp_kept_u32(w, a->kind);
    bp_kept_u32(w, (uint32_t)dims.n);
    bp_kept_bytes(w, dims.at, (size_t)dims.n * sizeof *dims.at);
}

static void write_attrs(struct bp_kept_writer *w, const struct bp_node *node)
{
    uint32_t n = node->attrs ? node->row->info.n_attr : 0;

    bp_kept_u32(w, node->attrs != NULL);
    bp_kept_u32(w, n);
    for (uint32_t i = 0; i < n; i++) write_attr(w, &node->row->info.attr[i], node->attrs);
}

static int by_address(const void *a, const void *b)
{
    const struct saving_name *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

static void write_sources(struct saving *s, uint32_t n)
{
    const struct bp_ir_node *node = &s->ir->node[n];
    uint32_t count = node->made && !node->n_source ? 0 : 1, known = 0;
    const char *const *name = bp_ir_sources(s->ir, n, &count);
    size_t at = s->w->n;

    bp_kept_u32(s->w, 0);
    for (uint32_t i = 0; i < count; i++) {
        struct saving_name key = {name[i], 0};
        const struct saving_name *found = bsearch(&key, s->name, s->ir->recorded, sizeof *s->name,
                                                  by_address);
        if (!found) continue;
        bp_kept_u32(s->w, found->node);
        known++;
    }
    if (!s->w->failed) memcpy(s->w->bytes + at, &known, sizeof known);
}

/* Writes a node whose inputs have ids, and gives its outputs ids. Of each output the file has 0, or
 * 1 more than its layout. */
static enum bp_status write_node(struct saving *s, uint32_t n)
{
    const struct bp_ir_node *node = &s->ir->node[n];
    const struct bp_node *call = &node->call;
    struct bp_kept_writer *w = s->w;

    bp_kept_text(w, call->row->info.name);
    bp_kept_text(w, call->name);
    bp_kept_text(w, call->kernel);
    bp_kept_text(w, s->row[n]);
    bp_kept_u32(w, node->made);
    bp_kept_u64(w, node->random_at);
    bp_kept_u32(w, call->row->info.n_in);
    for (uint32_t p = 0; p < call->row->info.n_in; p++)
        bp_kept_u32(w, (uint32_t)(call->in_at[p + 1] - call->in_at[p]));
    for (uint32_t i = 0; i < call->n_in; i++) {
        uint32_t v = call->in[i] == BP_NO_VALUE ? BP_NO_VALUE : bp_ir_same(s->ir, call->in[i]);
        if (v != BP_NO_VALUE && s->id[v] == BP_NO_VALUE)
            return bp_error(BP_ERR_UNSUPPORTED, "node %s reads a value that is not computed before",
                            call->name);
        bp_kept_u32(w, v == BP_NO_VALUE ? v : s->id[v]);
    }
    bp_kept_u32(w, call->n_out);
    for (uint32_t i = 0; i < call->n_out; i++) {
        bp_kept_u32(w, call->out[i] == BP_NO_VALUE
                           ? 0
                           : 1u + s->ir->value[call->out[i]].type->view.layout);
        if (call->out[i] != BP_NO_VALUE) s->id[call->out[i]] = s->n_id++;
    }
    write_attrs(w, call);
    write_sources(s, n);
    s->n_node++;
    return BP_OK;
}

/* Writes the nodes that compute a constant, unless they have been written. */
static enum bp_status write_folded(struct saving *s, uint32_t v)
{
    TRY(saving_push(s, v));
    while (s->n_stack) {
        uint32_t top = s->stack[s->n_stack - 1], before = s->n_stack;
        const struct bp_node *node = saving_producer(s, top);
        if (s->id[top] != BP_NO_VALUE) {
            s->n_stack--;
            continue;
        }
        if (!node || s->n_stack > 16 * (s->ir->n_value + 1))
            return bp_error(BP_ERR_UNSUPPORTED, "a constant was not computed from recorded ones");
        for (uint32_t i = 0; i < node->n_in; i++) {
            uint32_t in = node->in[i] == BP_NO_VALUE ? top : bp_ir_same(s->ir, node->in[i]);
            if (in != top && s->id[in] == BP_NO_VALUE) TRY(saving_push(s, in));
        }
        if (s->n_stack == before) TRY(write_node(s, s->ir->value[top].node));
    }
    return BP_OK;
}

/* Writes the nodes that compute constants which a node reads. */
static enum bp_status write_folded_of(struct saving *s, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE &&
            s->ir->value[bp_ir_same(s->ir, node->in[i])].kind == BP_VALUE_CONSTANT)
            TRY(write_folded(s, bp_ir_same(s->ir, node->in[i])));
    return BP_OK;
}

/* Returns after the folded constants, whose nodes come first. */
static enum bp_status write_all_folded(struct saving *s)
{
    for (uint32_t n = s->ir->first; n != BP_NO_VALUE; n = s->ir->node[n].next) {
        const struct bp_engine_group *group = bp_saved_group_of(s->ir, n);
        TRY(write_folded_of(s, &s->ir->node[n].call));
        for (uint32_t k = 0; group && k < group->n_node; k++)
            TRY(write_folded_of(s, &s->ir->node[group->replaced[k]].call));
    }
    for (uint32_t o = 0; o < s->ir->n_output; o++)
        if (s->ir->value[s->ir->output[o]].kind == BP_VALUE_CONSTANT)
            TRY(write_folded(s, s->ir->output[o]));
    return BP_OK;
}

static void set_at(struct bp_kept_writer *w, size_t at, uint32_t number)
{
    if (!w->failed) memcpy(w->bytes + at, &number, sizeof number);
}

/* Writes a node, or the nodes of the group that it runs. A pass may have let the node read other
 * values than those that the group's nodes still name. */
static enum bp_status write_node_or_group(struct saving *s, uint32_t n)
{
    const struct bp_engine_group *group = bp_saved_group_of(s->ir, n);
    const struct bp_node *call = &s->ir->node[n].call;

    if (!group) return write_node(s, n);
    s->first[n] = s->n_node;
    for (uint32_t i = 0; i < call->n_in; i++) {
        uint32_t before = bp_ir_same(s->ir, group->in[i]);
        if (s->id[before] == BP_NO_VALUE) s->id[before] = s->id[bp_ir_same(s->ir, call->in[i])];
    }
    for (uint32_t k = 0; k < group->n_node; k++) TRY(write_node(s, group->replaced[k]));
    return BP_OK;
}

/* Writes the groups, whose nodes were written. */
static enum bp_status write_groups(struct saving *s)
{
    size_t at = s->w->n;
    uint32_t count = 0;

    bp_kept_u32(s->w, 0);
    for (uint32_t n = s->ir->first; n != BP_NO_VALUE; n = s->ir->node[n].next) {
        const struct bp_engine_group *group = bp_saved_group_of(s->ir, n);
        if (!group) continue;
        TRY(bp_saved_write_group(s->ir, group, s->first[n], s->w));
        count++;
    }
    set_at(s->w, at, count);
    return BP_OK;
}

static enum bp_status write_nodes(struct saving *s)
{
    size_t at = s->w->n;

    bp_kept_u32(s->w, 0);
    bp_kept_u32(s->w, 0);
    TRY(write_all_folded(s));
    set_at(s->w, at, s->n_node);
    for (uint32_t n = s->ir->first; n != BP_NO_VALUE; n = s->ir->node[n].next)
        TRY(write_node_or_group(s, n));
    set_at(s->w, at + 4, s->n_node);
    return write_groups(s);
}

static enum bp_status write_ends(struct saving *s)
{
    bp_kept_u32(s->w, s->ir->dense != NULL);
    for (uint32_t o = 0; o < s->ir->n_output; o++) {
        uint32_t id = s->id[s->ir->output[o]];
        if (id == BP_NO_VALUE)
            return bp_error(BP_ERR_UNSUPPORTED, "output %u of the graph is not computed", o);
        bp_kept_u32(s->w, id);
        bp_kept_u32(s->w, s->ir->dense && s->ir->dense[o]);
    }
    for (uint32_t i = 0; i < BP_IR_PASSES; i++) {
        bp_kept_u32(s->w, s->ir->pass[i].changes);
        bp_kept_u32(s->w, s->ir->pass[i].nodes);
        bp_kept_u32(s->w, s->ir->pass[i].ran);
    }
    bp_kept_u32(s->w, s->ir->shaped);
    return BP_OK;
}

static void find_rows(struct saving *s)
{
    for (uint32_t i = 0; i < s->schedule->n_launch; i++) {
        const struct bp_scheduled_launch *l = &s->schedule->launch[i];
        const struct bp_opdef *row = s->ir->node[l->node].call.row;
        if (l->prepared->row == row && l->step->row == row && l->step->kernel)
            s->row[l->node] = l->step->kernel->name;
    }
}

static enum bp_status saving_init(struct saving *s)
{
    s->id = malloc((s->ir->n_value + 1) * sizeof *s->id);
    s->contents = calloc(s->ir->n_value + 1, sizeof *s->contents);
    s->row = calloc(s->ir->n_node + 1, sizeof *s->row);
    s->first = calloc(s->ir->n_node + 1, sizeof *s->first);
    s->name = malloc((s->ir->recorded + 1) * sizeof *s->name);
    if (!s->id || !s->contents || !s->row || !s->first || !s->name) return saving_no_memory();
    for (uint32_t v = 0; v < s->ir->n_value; v++) s->id[v] = is_recorded(s, v) ? v : BP_NO_VALUE;
    for (uint32_t n = 0; n < s->ir->recorded; n++)
        s->name[n] = (struct saving_name){s->ir->node[n].call.name, n};
    qsort(s->name, s->ir->recorded, sizeof *s->name, by_address);
    for (s->n_id = s->graph->n_value;
         s->n_id < s->ir->n_value && s->ir->value[s->n_id].kind == BP_VALUE_SHAPE;)
        s->n_id++;
    find_rows(s);
    return BP_OK;
}

enum bp_status bp_saved_write(const struct bp_schedule *schedule, const struct bp_graph *graph,
                              struct bp_kept_writer *w)
{
    struct saving s = {.schedule = schedule, .ir = schedule->ir, .graph = graph, .w = w};
    enum bp_status status = bp_saved_check_groups(schedule->ir);

    if (status == BP_OK) status = saving_init(&s);
    if (status == BP_OK) status = write_contents(&s);
    if (status == BP_OK) status = write_nodes(&s);
    if (status == BP_OK) status = write_ends(&s);
    free(s.id);
    free(s.contents);
    free(s.row);
    free(s.first);
    free(s.name);
    free(s.stack);
    return status;
}
