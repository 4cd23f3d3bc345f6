/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_rule.c: runs the rules by which plugins express their own operators and the gradients of
 * these operators in calls of other operators (backplane/rule.h). */
#include "../graph/graph.h"
#include "compose.h"
#include "shape.h"

#include <backplane/call.h>
#include <string.h>

/* One run of a rule. The composition owns the tensors of its calls. */
struct rule_run {
    struct bp_compose c;
    const struct bp_opdef *row;
    const char *what; /* "decompose" or "gradient" */
};

static const struct bp_view *rule_view(void *ctx, const struct bp_tensor *tensor)
{
    (void)ctx;
    return tensor ? &tensor->view : NULL;
}

/* Makes the plugin's call with results in out. */
static enum bp_status rule_make(struct rule_run *r, const struct bp_rule_call *made,
                                struct bp_tensor **out)
{
    struct bp_arg in[BP_PORT_MAX] = {{0}};
    struct bp_call call = {.size = sizeof call, .op = made->op, .in = in, .n_in = made->n_in,
                           .attrs = made->attrs};
    const char *name = r->row->info.name;

    if (!made->op || made->n_in > BP_PORT_MAX || made->n_out > BP_FLAT_MAX ||
        (made->n_in && !made->in) || (made->n_out && !made->out))
        return bp_error(BP_ERR_PLUGIN,
                        "%s: a call in %s of its plugin has no op, in or out, or too many of them",
                        name, r->what);
    for (uint32_t i = 0; i < made->n_in; i++)
        in[i] = (struct bp_arg){made->in[i].at, made->in[i].n};
    return bp_call_run(r->c.scope, &call, out, made->n_out, made->want);
}

static enum bp_status rule_call(void *ctx, const struct bp_rule_call *made)
{
    struct rule_run *r = ctx;
    struct bp_tensor *out[BP_FLAT_MAX];
    uint32_t n = made->n_out;

    if (r->c.status) return r->c.status;
    memset(out, 0, (n < BP_FLAT_MAX ? n : BP_FLAT_MAX) * sizeof *out);
    r->c.status = rule_make(r, made, out);
    if (r->c.status) return r->c.status;
    for (uint32_t i = 0; i < n; i++) made->out[i] = bp_compose_take(&r->c, out[i]);
    return r->c.status;
}

/* Whether a result is a tensor of the rule: one of its calls made it, or the rule was given it. */
static bool rule_knows(const struct rule_run *r, const struct bp_rule *rule,
                       const struct bp_tensor *t)
{
    for (uint32_t i = 0; i < r->c.n; i++)
        if (r->c.made[i] == t) return true;
    for (uint32_t i = 0; i < rule->n_in; i++)
        if (rule->in[i] == t) return true;
    for (uint32_t i = 0; i < rule->n_out && rule->out; i++)
        if (rule->out[i] == t || rule->dy[i] == t) return true;
    return false;
}

/* Checks that result i of the rule is what the core expects, of the type `like`. */
static enum bp_status rule_check(const struct rule_run *r, const struct bp_rule *rule, uint32_t i,
                                 const struct bp_type *like)
{
    const char *op = r->row->info.name;
    const struct bp_tensor *t = rule->result[i];
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];

    if (!rule_knows(r, rule, t))
        return bp_error(BP_ERR_PLUGIN,
                        "%s: result %u of %s of its plugin is no tensor that the rule was given or "
                        "that its calls made", op, i, r->what);
    if (t->view.dtype == like->dtype && t->view.rank == like->rank &&
        !memcmp(t->shape, like->shape, like->rank * sizeof *like->shape))
        return BP_OK;
    return bp_error(BP_ERR_PLUGIN, "%s: result %u of %s of its plugin is %s, expected %s", op, i,
                    r->what, bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
                    bp_type_text(like->dtype, like->rank, like->shape, expected, sizeof expected));
}

/* Runs the rule. The first failure of its calls is the failure of the rule. */
static void rule_execute(struct rule_run *r, struct bp_rule *rule,
                         enum bp_status (*function)(const struct bp_rule *rule))
{
    enum bp_status status;

    rule->size = sizeof *rule;
    rule->ctx = r;
    rule->op = &r->row->info;
    rule->view = rule_view;
    rule->call = rule_call;
    bp_error_enter();
    status = function(rule);
    if (r->c.status) return;
    r->c.status = bp_error_leave(status, r->row->info.name, r->what);
}

/* Begins an invocation of the operator from the inputs of a rule, of which only types are used. */
static enum bp_status rule_infer(const struct bp_opdef *row, struct bp_scope *scope,
                                 struct bp_tensor *const *in, uint32_t n_in, const void *attrs,
                                 struct bp_invocation *out_inv)
{
    const struct bp_opinfo *op = &row->info;
    struct bp_arg arg[BP_PORT_MAX];
    struct bp_call call = {.size = sizeof call, .op = op->name, .in = arg, .n_in = op->n_in,
                           .attrs = attrs};
    bool is_graph = bp_scope_is(scope, BP_MAGIC_GRAPH);
    struct bp_graph *graph = is_graph ? (struct bp_graph *)scope : NULL;
    struct bp_device *device = is_graph ? NULL : ((struct bp_stream *)scope)->device;

    for (uint32_t i = 0; i < op->n_in; i++) { /* only the last input is variadic */
        arg[i].at = &in[i];
        arg[i].n = op->in[i].kind == BP_PORT_VAR ? n_in - i : 1;
    }
    return bp_invocation_init_row(out_inv, row, device, graph, &call, bp_want_all, 0);
}

static enum bp_status rule_expand(struct bp_decomposition *e, const struct bp_invocation *inv)
{
    struct rule_run r = {bp_compose_begin(e->scope), e->row, "decompose"};
    struct bp_tensor *result[BP_PORT_MAX] = {NULL};
    uint8_t want[BP_PORT_MAX];
    struct bp_rule rule = {.attrs = e->attrs, .in_at = inv->in_at, .out_at = inv->out_at,
                           .in = e->in, .want = want, .result = result, .n_in = inv->n_in,
                           .n_out = inv->n_out};

    for (uint32_t i = 0; i < inv->n_out; i++) want[i] = e->want >> i & 1;
    rule_execute(&r, &rule, bp_plugin_op_rules(e->row)->decompose);
    for (uint32_t i = 0; i < inv->n_out && r.c.status == BP_OK; i++) {
        if (!want[i]) continue;
        r.c.status = rule_check(&r, &rule, i, &inv->out[i]);
        bp_compose_keep(&r.c, result[i], &e->out[i]);
    }
    return bp_compose_end(&r.c);
}

static enum bp_status rule_decompose(struct bp_decomposition *expansion)
{
    struct bp_decomposition *e = expansion;
    struct bp_invocation inv;
    enum bp_status status;

    TRY(rule_infer(e->row, e->scope, e->in, e->n_in, e->attrs, &inv));
    status = rule_expand(e, &inv);
    bp_invocation_finish(&inv);
    return status;
}

static enum bp_status rule_gradient(struct bp_grad *g, const struct bp_invocation *inv)
{
    struct rule_run r = {bp_compose_begin(g->scope), g->row, "gradient"};
    struct bp_tensor *result[BP_FLAT_MAX];
    struct bp_rule rule = {.attrs = g->attrs, .in_at = inv->in_at, .out_at = inv->out_at,
                           .in = g->in, .out = g->out, .dy = g->dy, .want = g->want,
                           .result = result, .n_in = g->n_in, .n_out = g->n_out};

    memset(result, 0, g->n_in * sizeof *result);
    rule_execute(&r, &rule, bp_plugin_op_rules(g->row)->gradient);
    for (uint32_t i = 0; i < g->n_in && r.c.status == BP_OK; i++) {
        struct bp_type like = {0};
        if (!g->want[i] || !result[i]) continue;
        like.dtype = g->in[i]->view.dtype;
        bp_shape_copy(&like, &g->in[i]->view);
        r.c.status = rule_check(&r, &rule, i, &like);
    }
    for (uint32_t i = 0; i < g->n_in && r.c.status == BP_OK; i++)
        if (g->want[i] && result[i]) g->dx[i] = bp_tensor_retain(result[i]);
    return bp_compose_end(&r.c);
}

static enum bp_status rule_grad(struct bp_grad *grad)
{
    struct bp_invocation inv;
    enum bp_status status;

    TRY(rule_infer(grad->row, grad->scope, grad->in, grad->n_in, grad->attrs, &inv));
    status = rule_gradient(grad, &inv);
    bp_invocation_finish(&inv);
    return status;
}

void bp_plugin_rules_init(void)
{
    static const struct bp_rule_functions functions = {rule_decompose, rule_grad};

    bp_plugin_op_init(&functions);
}
