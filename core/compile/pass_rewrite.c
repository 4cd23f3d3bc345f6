/* SPDX-License-Identifier: Apache-2.0 */
/* pass_rewrite.c: runs the pass of a plugin, rewrite of backplane/passes.h: the plugin gets the
 * graph as flat arrays and returns edits, of which the core applies all or none. */
#include "edits.h"
#include "passes.h"
#include "rewrite.h"

#include "../base/activity.h"
#include "../plugin/entry.h"
#include "../plugin/patterns.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 8
};

/* Warns once about an result that had to be refused. */
static void rewrite_warn(const struct bp_ir *ir, struct bp_plugin_rewrite *r)
{
    if (atomic_exchange(&r->warned, true)) return;
    bp_core_log(ir->device->core, BP_LOG_WARN, "%s is refused: %s", r->name, bp_error_message());
}

/* The plugin may have looked at each extent, and at each constant. */
static void rewrite_mark(struct bp_ir *ir, const struct bp_graph_copy *copy)
{
    ir->shaped = true;
    for (uint32_t v = 0; v < copy->n_value; v++)
        if (bp_ir_is_frozen(ir, copy->value_of[v])) ir->value[copy->value_of[v]].read = true;
}

/* Fills the numbers of the IR for the nodes of a list. */
static enum bp_status rewrite_numbers(const uint32_t *list, const uint32_t *of, uint32_t n,
                                      uint32_t **out)
{
    *out = malloc((n + 1u) * sizeof **out);
    if (!*out) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    for (uint32_t i = 0; i < n; i++) (*out)[i] = of[list[i]];
    return BP_OK;
}

/* Puts the new nodes of an edit into the IR, at the end of the list of nodes. */
static enum bp_status edit_splice(const struct bp_edits_made *e, const struct bp_edit_made *edit)
{
    uint32_t *in = NULL, *out = NULL, *kill = NULL;
    enum bp_status status;

    status = rewrite_numbers(edit->in, e->copy->value_of, edit->graph->n_input, &in);
    if (!status) status = rewrite_numbers(edit->value, e->copy->value_of, edit->n_value, &out);
    if (!status) status = rewrite_numbers(edit->kill, e->copy->node_of, edit->n_kill, &kill);
    if (!status) status = bp_rewrite_name(e->ir, edit->graph, kill, edit->n_kill);
    if (!status)
        status = bp_ir_splice(e->ir, edit->graph, BP_NO_VALUE, in, out, kill, edit->n_kill);
    free(in);
    free(out);
    free(kill);
    return status;
}

/* Applies all edits, and puts all nodes into the order that was found. A failure, of memory only,
 * ends the compilation. */
static enum bp_status edits_apply(struct bp_edits_made *e, uint32_t *order, uint32_t n)
{
    uint32_t first = e->ir->n_node;

    for (uint32_t i = 0; i < e->n_edit; i++) TRY(edit_splice(e, &e->edit[i]));
    for (uint32_t i = 0; i < n; i++)
        order[i] = order[i] < e->copy->n_node ? e->copy->node_of[order[i]]
                                              : first + order[i] - e->copy->n_node;
    bp_ir_set_order(e->ir, order, n);
    bp_ir_resolve(e->ir);
    return BP_OK;
}

/* Requests the edits of the plugin. BP_OK: they are right, and *out_order is the order after
 * them. */
static enum bp_status rewrite_request(struct bp_plugin_rewrite *r, struct bp_edits_made *e,
                                      uint32_t **out_order, uint32_t *out_n)
{
    const struct bp_edits edits = {
        .size = sizeof edits, .ctx = e, .allow = e->ir->allow, .add = bp_edits_add};
    enum bp_status status;

    bp_error_enter();
    status = r->run(r->entry->self, &e->copy->data, &edits);
    status = bp_error_leave(status, r->entry->plugin.name, "rewrite");
    if (e->refused) status = bp_error(BP_ERR_PLUGIN, "%s", e->why ? e->why : "no host memory");
    return status ? status : bp_edits_order(e, out_order, out_n);
}

/* Returns only failures that end the compilation. *out_n_edit: 0 if nothing was changed. */
static enum bp_status rewrite_round(struct bp_compilation *c, uint32_t *out_n_edit)
{
    struct bp_graph_copy *copy;
    struct bp_edits_made e;
    uint32_t *order = NULL, n = 0;
    enum bp_status status;

    *out_n_edit = 0;
    TRY(bp_graph_copy_create(c->ir, NULL, 0, &copy));
    status = bp_edits_init(&e, c->ir, copy);
    if (status == BP_OK) {
        enum bp_status refused = rewrite_request(c->rewrite, &e, &order, &n);
        rewrite_mark(c->ir, copy);
        if (refused) {
            rewrite_warn(c->ir, c->rewrite);
            if (bp_compile_checks("rewrite")) status = refused;
        } else if (e.n_edit) {
            status = edits_apply(&e, order, n);
            *out_n_edit = e.n_edit;
        }
    }
    for (uint32_t i = 0; i < *out_n_edit; i++) c->changes += e.edit[i].n_kill;
    free(order);
    bp_edits_finish(&e);
    bp_graph_copy_destroy(copy);
    return status;
}

static enum bp_status rewrite_rounds(struct bp_compilation *c)
{
    uint32_t found = 1;

    bp_ir_resolve(c->ir);
    for (int round = 0; found && round < ROUNDS; round++) TRY(rewrite_round(c, &found));
    if (!found) return BP_OK;
    atomic_store(&c->rewrite->stopped, true);
    bp_core_log(c->ir->device->core, BP_LOG_WARN,
                "%s is not used any more: it has changed a graph %d times, and goes on",
                c->rewrite->name, ROUNDS);
    return BP_OK;
}

enum bp_status bp_pass_rewrite(struct bp_compilation *c)
{
    char *before;
    enum bp_status status;

    if (c->rewrite->allow & ~c->ir->allow || atomic_load(&c->rewrite->stopped)) return BP_OK;
    before = strdup(bp_error_message());
    if (!before) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    status = rewrite_rounds(c);
    if (status == BP_OK) bp_error_write("%s", before);
    free(before);
    return status;
}
