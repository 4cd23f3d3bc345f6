/* SPDX-License-Identifier: Apache-2.0 */
/* template_ir.c: copies a representation without what passes have removed from it, and makes that
 * of another parameter from it. */
#include "folded.h"
#include "passes.h"
#include "templates.h"

#include <stdlib.h>
#include <string.h>

struct compacting {
    const struct bp_compaction *c;
    const struct bp_ir *from;
    struct bp_ir *to;
    uint32_t *number; /* of each value: its number in the copy, or BP_NO_VALUE */
    bool *revived;    /* of each value: a node of the copy computes it */
};

/* The node that computed a folded constant, which is dead; BP_NO_VALUE: the value is none. */
static uint32_t folded_node(const struct compacting *c, uint32_t v)
{
    const struct bp_ir_value *value = &c->from->value[v];
    const struct bp_ir_node *node = &c->from->node[value->node];
    bool recorded = v < c->c->graph->n_value && c->c->graph->value[v].kind != BP_VALUE_RESULT;

    if (value->kind != BP_VALUE_CONSTANT || recorded || value->node >= c->from->n_node)
        return BP_NO_VALUE;
    return node->dead && value->output < node->call.n_out && node->call.out[value->output] == v
               ? value->node
               : BP_NO_VALUE;
}

/* Gives a value of the copy its constant. Passes drop recorded ones that only folded nodes read. */
static enum bp_status compact_constant(const struct compacting *c, uint32_t v,
                                       struct bp_ir_value *to)
{
    const struct bp_ir_value *from = &c->from->value[v];
    struct bp_tensor *constant = from->constant;

    if (!constant && v < c->c->graph->n_value) constant = c->c->graph->value[v].constant;
    if (from->folded && !bp_folded_add_user(constant))
        return bp_error(BP_ERR_UNSUPPORTED, "the contents of a folded constant were freed");
    to->folded = from->folded;
    if (constant) to->constant = bp_tensor_retain(constant);
    return BP_OK;
}

/* Copies a value at its first use. There is room. */
static enum bp_status compact_value(struct compacting *c, uint32_t v, uint32_t *out_number)
{
    struct bp_ir_value *to = &c->to->value[c->to->n_value];

    *out_number = BP_NO_VALUE;
    if (v == BP_NO_VALUE) return BP_OK;
    v = bp_ir_same(c->from, v);
    *out_number = c->number[v];
    if (*out_number != BP_NO_VALUE) return BP_OK;
    *to = c->from->value[v];
    to->constant = NULL;
    to->folded = to->unread = false;
    to->uses = 0;
    to->same = to->root = *out_number = c->number[v] = c->to->n_value;
    if (c->c->origin) c->c->origin[*out_number] = v;
    to->type = malloc(sizeof *to->type);
    if (!to->type) return bp_template_no_memory();
    c->to->n_value++;
    bp_typed_view_init(to->type, &c->from->value[v].type->view);
    if (!c->revived[v]) return compact_constant(c, v, to);
    to->kind = BP_VALUE_RESULT;
    return BP_OK;
}

static enum bp_status compact_call(struct compacting *c, uint32_t n, const struct bp_node *from,
                                   struct bp_node *to)
{
    *to = *from;
    to->attrs = NULL;
    to->name = strdup(from->name);
    to->kernel = from->kernel ? strdup(from->kernel) : NULL;
    to->in = malloc((from->n_in + from->n_out + 1) * sizeof *to->in);
    to->out = to->in ? to->in + to->n_in : NULL;
    if (!to->name || !to->in || (from->kernel && !to->kernel)) return bp_template_no_memory();
    for (uint32_t i = 0; i < from->n_in; i++) {
        TRY(compact_value(c, from->in[i], &to->in[i]));
        if (to->in[i] != BP_NO_VALUE) c->to->value[to->in[i]].uses++;
    }
    for (uint32_t i = 0; i < from->n_out; i++) {
        TRY(compact_value(c, from->out[i], &to->out[i]));
        if (to->out[i] == BP_NO_VALUE) continue;
        c->to->value[to->out[i]].node = n;
        c->to->value[to->out[i]].output = i;
    }
    return from->attrs ? bp_attrs_copy(&from->row->info, from->attrs, &to->attrs) : BP_OK;
}

/* Copies the names of the recorded nodes, which belong to nodes that are not copied. */
static enum bp_status compact_sources(const struct bp_ir_node *from, struct bp_ir_node *to)
{
    size_t size = 0;
    char *text;

    if (!from->n_source) return BP_OK;
    for (uint32_t i = 0; i < from->n_source; i++) size += strlen(from->source[i]) + 1;
    to->source = malloc(from->n_source * sizeof *to->source + size);
    if (!to->source) return bp_template_no_memory();
    text = (char *)(to->source + from->n_source);
    for (uint32_t i = 0; i < from->n_source; i++) {
        size_t n = strlen(from->source[i]) + 1;
        to->source[to->n_source++] = memcpy(text, from->source[i], n);
        text += n;
    }
    return BP_OK;
}

static enum bp_status compact_node(struct compacting *c, const struct bp_ir_node *from)
{
    struct bp_ir *ir = c->to;
    uint32_t n = ir->n_node;
    struct bp_ir_node *to = &ir->node[n];

    *to = (struct bp_ir_node){.previous = n ? n - 1 : BP_NO_VALUE,
                              .next = BP_NO_VALUE,
                              .made = from->made,
                              .random_at = from->random_at};
    ir->n_node++;
    if (n) ir->node[n - 1].next = n;
    TRY(compact_call(c, n, &from->call, &to->call));
    TRY(compact_sources(from, to));
    to->prefer = from->prefer ? strdup(from->prefer) : NULL;
    return from->prefer && !to->prefer ? bp_template_no_memory() : BP_OK;
}

/* Copies the node that computed a folded constant, behind those that computed its inputs. */
static enum bp_status compact_revived(struct compacting *c, uint32_t v)
{
    uint32_t n = v == BP_NO_VALUE ? BP_NO_VALUE : folded_node(c, bp_ir_same(c->from, v));
    const struct bp_node *node;

    if (n == BP_NO_VALUE || c->revived[bp_ir_same(c->from, v)]) return BP_OK;
    node = &c->from->node[n].call;
    for (uint32_t i = 0; i < node->n_in; i++) TRY(compact_revived(c, node->in[i]));
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE) c->revived[node->out[i]] = true;
    return compact_node(c, &c->from->node[n]);
}

static enum bp_status compact_all(struct compacting *c)
{
    const struct bp_ir *from = c->from;
    struct bp_ir *to = c->to;

    for (uint32_t i = 0; i < from->n_input; i++)
        TRY(compact_value(c, from->input[i], &to->input[i]));
    for (uint32_t v = 0; c->c->revive && v < from->n_value; v++)
        if (c->c->revive[v]) TRY(compact_revived(c, v));
    for (uint32_t n = from->first; n != BP_NO_VALUE; n = from->node[n].next)
        TRY(compact_node(c, &from->node[n]));
    for (uint32_t o = 0; o < from->n_output; o++) {
        TRY(compact_value(c, from->output[o], &to->output[o]));
        to->value[to->output[o]].uses++;
    }
    to->first = to->n_node ? 0 : BP_NO_VALUE;
    to->last = to->n_node ? to->n_node - 1 : BP_NO_VALUE;
    to->living = to->n_node;
    bp_ir_find_roots(to);
    return BP_OK;
}

static enum bp_status compact_room(struct compacting *c)
{
    const struct bp_ir *from = c->from;
    struct bp_ir *to = c->to;

    *to = *from;
    to->value = calloc(from->n_value + 1, sizeof *to->value);
    to->node = calloc(from->n_node + 1, sizeof *to->node);
    to->input = malloc((from->n_input + from->n_output + 1) * sizeof *to->input);
    to->dense = from->dense ? malloc(from->n_output + 1) : NULL;
    to->room_value = from->n_value + 1;
    to->room_node = from->n_node + 1;
    to->n_value = to->n_node = 0;
    to->of = NULL;
    to->lent = NULL;
    to->engines = NULL; /* the report of the first program */
    c->number = malloc((from->n_value + 1) * sizeof *c->number);
    c->revived = calloc(from->n_value + 1, sizeof *c->revived);
    if (!to->value || !to->node || !to->input || !c->number || !c->revived ||
        (from->dense && !to->dense))
        return bp_template_no_memory();
    to->output = to->input + to->n_input;
    if (from->dense) memcpy(to->dense, from->dense, from->n_output);
    for (uint32_t v = 0; v < from->n_value; v++) c->number[v] = BP_NO_VALUE;
    return BP_OK;
}

/* A compiled group is for one set of extents. */
static enum bp_status check_engines(const struct bp_ir *ir)
{
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        if (ir->node[n].prepared)
            return bp_error(BP_ERR_UNSUPPORTED, "node %s: an engine has compiled it",
                            ir->node[n].call.name);
    return BP_OK;
}

enum bp_status bp_ir_compact(const struct bp_compaction *compaction, struct bp_ir **out_ir)
{
    struct compacting c = {
        .c = compaction, .from = compaction->from, .to = calloc(1, sizeof *c.to)};
    enum bp_status status;

    if (!c.to) return bp_template_no_memory();
    status = check_engines(c.from);
    if (!status) status = compact_room(&c);
    if (!status) status = compact_all(&c);
    free(c.number);
    free(c.revived);
    if (status) bp_ir_destroy(c.to);
    else *out_ir = c.to;
    return status;
}

/* ---- another parameter ---- */

static enum bp_status derive_copy(const struct bp_ir *from, struct bp_ir *to)
{
    uint32_t n = from->n_input + from->n_output;

    *to = *from;
    to->value = malloc((from->n_value + 1) * sizeof *to->value);
    to->node = malloc((from->n_node + 1) * sizeof *to->node);
    to->input = malloc((n + 1) * sizeof *to->input);
    to->dense = from->dense ? malloc(from->n_output + 1) : NULL;
    to->n_value = to->n_node = 0;
    to->room_value = from->n_value;
    to->room_node = from->n_node;
    if (!to->value || !to->node || !to->input || (from->dense && !to->dense))
        return bp_template_no_memory();
    to->output = to->input + to->n_input;
    memcpy(to->input, from->input, n * sizeof *to->input);
    memcpy(to->node, from->node, from->n_node * sizeof *to->node);
    memcpy(to->value, from->value, from->n_value * sizeof *to->value);
    if (from->dense) memcpy(to->dense, from->dense, from->n_output);
    to->n_node = from->n_node;
    to->n_value = from->n_value;
    for (uint32_t v = 0; v < to->n_value; v++) {
        struct bp_ir_value *value = &to->value[v];
        if (value->folded) value->folded = bp_folded_add_user(value->constant);
        if (value->constant) bp_tensor_retain(value->constant);
    }
    return BP_OK;
}

enum bp_status bp_ir_derive(struct bp_template *t, int64_t at, struct bp_tensor *const *made,
                            struct bp_ir **out_ir)
{
    struct bp_ir *ir = calloc(1, sizeof *ir);
    struct bp_parts parts;
    enum bp_status status;

    if (!ir) return bp_template_no_memory();
    status = derive_copy(t->ir, ir);
    ir->of = t;
    atomic_fetch_add(&t->refs, 1);
    if (!status) {
        for (uint32_t v = 0; v < ir->n_value; v++) /* the new constant is not the folded one */
            if (t->of_ir.value[v] && ir->value[v].folded) {
                bp_folded_release(ir->value[v].constant, false);
                ir->value[v].folded = false;
            }
        parts = bp_parts_of_ir(ir);
        status = bp_changes_apply(&t->of_ir, &t->constants, &t->samples, at, made, t->device,
                                  &parts);
    }
    if (!status && t->folds) {
        struct bp_compilation c = {.ir = ir};
        status = bp_pass_fold(&c);
    }
    if (status) bp_ir_destroy(ir);
    else *out_ir = ir;
    return status;
}
