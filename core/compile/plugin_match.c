/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_match.c: finds matches of the patterns of plugins: follows values from the last node to
 * the others, and goes back where an order of inputs, a reader or an optional node does not fit. */
#include "plugin_match.h"

#include "pattern.h"
#include "rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_MOST = 4096 /* elements of a constant that are compared */
};

struct search {
    struct bp_ir *ir;
    const struct bp_plugin_pattern *p;
    struct bp_plugin_match *m;
};

/* ---- values ---- */

static bool value_is_output(const struct bp_ir *ir, uint32_t v)
{
    for (uint32_t o = 0; o < ir->n_output; o++)
        if (bp_ir_same(ir, ir->output[o]) == v) return true;
    return false;
}

static bool value_in_range(const struct bp_ir *ir, const struct bp_want_value *want, uint32_t v)
{
    int64_t n = ir->value[v].type->view.count;
    double least = want->least - want->within * fabs(want->least);
    double most = want->most + want->within * fabs(want->most);
    double *number = n > READ_MOST ? NULL : malloc((size_t)(n + 1) * sizeof *number);
    bool good = number && bp_ir_read(ir, v, READ_MOST, number);

    for (int64_t i = 0; good && i < n; i++) good = number[i] >= least && number[i] <= most;
    free(number);
    return good;
}

static bool value_fits(const struct bp_ir *ir, const struct bp_want_value *want, uint32_t v)
{
    const struct bp_ir_value *value = &ir->value[v];
    const struct bp_view *view = &value->type->view;
    double number;

    if (value->kind == BP_VALUE_SHAPE || !bp_ir_is_stable(ir, v)) return false;
    if (want->dtypes && (view->dtype > 63 || !(want->dtypes >> view->dtype & 1))) return false;
    if (want->rank_max && (view->rank < want->rank_min || view->rank > want->rank_max))
        return false;
    if (want->flags & BP_WANT_CONSTANT && !value->constant) return false;
    if (want->flags & BP_WANT_FROZEN && !bp_ir_is_frozen(ir, v)) return false;
    if (want->flags & BP_WANT_ONE && view->count != 1) return false;
    if (want->flags & BP_WANT_NOT_OUTPUT && value_is_output(ir, v)) return false;
    if (want->flags & BP_WANT_ALIKE &&
        (!bp_ir_read_alike(ir, v, READ_MOST, &number) || isnan(number)))
        return false;
    return !(want->flags & BP_WANT_RANGE) || value_in_range(ir, want, v);
}

/* Binds a value of the pattern to one of the IR, or compares the two. */
static bool search_bind(struct search *s, int16_t number, uint32_t v)
{
    v = bp_ir_same(s->ir, v);
    if (s->m->value[number] != BP_NO_VALUE) return s->m->value[number] == v;
    if (!value_fits(s->ir, &s->p->row.value[number], v)) return false;
    s->m->value[number] = v;
    return true;
}

static bool values_are_alike(const struct search *s)
{
    for (uint32_t i = 0; i < s->p->row.n_value; i++) {
        const struct bp_want_value *want = &s->p->row.value[i];
        const struct bp_view *a, *b;
        if (!(want->flags & BP_WANT_LIKE) || s->m->value[i] == BP_NO_VALUE ||
            s->m->value[want->like] == BP_NO_VALUE)
            continue;
        a = &s->ir->value[s->m->value[i]].type->view;
        b = &s->ir->value[s->m->value[want->like]].type->view;
        s->ir->shaped = true;
        if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof *a->shape))
            return false;
    }
    return true;
}

/* ---- the whole match ---- */

static uint32_t match_uses(const struct search *s, uint32_t v)
{
    uint32_t uses = 0;

    for (uint32_t k = 0; k < s->p->row.n_node; k++) {
        const struct bp_node *node;
        if (s->m->node[k] == BP_NO_VALUE) continue;
        node = &s->ir->node[s->m->node[k]].call;
        for (uint32_t i = 0; i < node->n_in; i++)
            uses += node->in[i] != BP_NO_VALUE && bp_ir_same(s->ir, node->in[i]) == v;
    }
    return uses;
}

/* Whether the result computes value v of the IR. */
static bool match_gives(const struct search *s, uint32_t v)
{
    for (uint32_t i = 0; i < s->p->row.n_out; i++)
        if (s->m->value[s->p->row.out[i]] == v) return true;
    return false;
}

static bool match_is_closed(const struct search *s)
{
    uint32_t found = 0;

    for (uint32_t k = 0; k < s->p->row.n_node; k++) {
        const struct bp_node *node;
        if (s->m->node[k] == BP_NO_VALUE) continue;
        node = &s->ir->node[s->m->node[k]].call;
        found++;
        for (uint32_t i = 0; i < node->n_out; i++)
            if (node->out[i] != BP_NO_VALUE && !match_gives(s, node->out[i]) &&
                s->ir->value[node->out[i]].uses != match_uses(s, node->out[i]))
                return false;
    }
    return found;
}

/* ---- nodes ---- */

static bool search_next(struct search *s, uint32_t k);

/* Permutation `number` of n inputs; 0 is their own order. */
static void order_permute(uint32_t number, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) order[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i + number % (n - i), kept = order[i];
        number /= n - i;
        order[i] = order[k];
        order[k] = kept;
    }
}

/* In how many orders the inputs may match. */
static uint32_t orders_of(const struct bp_want_node *want, const struct bp_node *node)
{
    uint32_t orders = 1;

    if (want->flags & BP_NODE_ANY_ORDER)
        for (uint32_t i = 2; i <= want->n_in; i++) orders *= i;
    else if (want->n_in == 2 && bp_row_commutes(node->row) && want->in[1] != BP_REST) orders = 2;
    return orders;
}

static bool bind_rest(struct search *s, const struct bp_node *node, uint32_t from)
{
    s->m->n_rest = 0;
    for (uint32_t i = from; i < node->n_in; i++) {
        uint32_t v = node->in[i] == BP_NO_VALUE ? BP_NO_VALUE : bp_ir_same(s->ir, node->in[i]);
        if (v == BP_NO_VALUE || s->m->n_rest == BP_REST_MAX || !bp_ir_is_stable(s->ir, v) ||
            s->ir->value[v].kind == BP_VALUE_SHAPE)
            return false;
        s->m->rest[s->m->n_rest++] = v;
    }
    return true;
}

static bool bind_inputs(struct search *s, const struct bp_want_node *want,
                        const struct bp_node *node, const uint32_t *order)
{
    for (uint32_t i = 0; i < want->n_in; i++) {
        uint32_t at = order ? order[i] : i;
        uint32_t v = at < node->n_in ? node->in[at] : BP_NO_VALUE;
        if (want->in[i] == BP_REST) return bind_rest(s, node, i);
        if (want->in[i] == BP_NO_INDEX) {
            if (v != BP_NO_VALUE) return false;
        } else if (v == BP_NO_VALUE || !search_bind(s, want->in[i], v)) {
            return false;
        }
    }
    for (uint32_t i = want->n_in; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) return false;
    return true;
}

static bool bind_outputs(struct search *s, const struct bp_want_node *want,
                         const struct bp_node *node)
{
    for (uint32_t i = 0; i < want->n_out || i < node->n_out; i++) {
        uint32_t v = i < node->n_out ? node->out[i] : BP_NO_VALUE;
        bool is_named = i < want->n_out && want->out[i] != BP_NO_INDEX;
        if (is_named ? v == BP_NO_VALUE || !search_bind(s, want->out[i], v)
                     : v != BP_NO_VALUE && s->ir->value[v].uses)
            return false;
    }
    return true;
}

static bool node_is_named(const struct bp_plugin_pattern *p, uint32_t number,
                          const struct bp_opdef *row)
{
    for (uint32_t i = 0; i < BP_WANT_ROWS && p->want[number][i]; i++)
        if (p->want[number][i] == row) return true;
    return false;
}

static bool node_is_wanted(const struct search *s, uint32_t number, uint32_t n)
{
    const struct bp_node *node = &s->ir->node[n].call;

    if (!node_is_named(s->p, number, node->row) || node->kernel || !bp_ir_is_pure(node))
        return false;
    for (uint32_t i = 0; i < s->p->row.n_node; i++)
        if (s->m->node[i] == n) return false;
    return bp_want_attrs_hold(s->ir, &s->p->row.node[number], node);
}

/* Takes node n as the k-th one of the search, and matches all after it. */
static bool search_node(struct search *s, uint32_t k, uint32_t n)
{
    uint32_t number = s->p->order[k], order[BP_PERMUTED];
    const struct bp_want_node *want = &s->p->row.node[number];
    const struct bp_node *node = &s->ir->node[n].call;
    struct bp_plugin_match before;
    uint32_t orders;

    if (!node_is_wanted(s, number, n) || !bind_outputs(s, want, node)) return false;
    s->m->node[number] = n;
    orders = orders_of(want, node);
    before = *s->m;
    for (uint32_t i = 0; i < orders; i++) {
        if (orders > 1) order_permute(i, want->n_in, order);
        if (bind_inputs(s, want, node, orders > 1 ? order : NULL) && search_next(s, k + 1))
            return true;
        *s->m = before;
    }
    return false;
}

/* How many inputs of a node are value v. */
static uint32_t node_reads(const struct bp_ir *ir, const struct bp_node *node, uint32_t v)
{
    uint32_t reads = 0;

    for (uint32_t i = 0; i < node->n_in; i++)
        reads += node->in[i] != BP_NO_VALUE && bp_ir_same(ir, node->in[i]) == v;
    return reads;
}

/* Tries the node that computes value v, and otherwise skips an optional node. */
static bool search_producer(struct search *s, uint32_t k, uint32_t v)
{
    const struct bp_want_node *want = &s->p->row.node[s->p->order[k]];
    struct bp_plugin_match before = *s->m;

    if (s->ir->value[v].kind == BP_VALUE_RESULT && search_node(s, k, s->ir->value[v].node))
        return true;
    *s->m = before;
    return want->flags & BP_NODE_OPTIONAL && search_bind(s, want->in[0], v) &&
           search_next(s, k + 1);
}

/* Tries the readers of value v: they stand behind its node, and most of them near it. */
static bool search_readers(struct search *s, uint32_t k, uint32_t v)
{
    const struct bp_ir_value *value = &s->ir->value[v];
    uint32_t n = value->kind == BP_VALUE_RESULT ? value->node : s->ir->first;
    struct bp_plugin_match before = *s->m;

    for (uint32_t left = value->uses; left && n != BP_NO_VALUE; n = s->ir->node[n].next) {
        uint32_t reads = node_reads(s->ir, &s->ir->node[n].call, v);
        if (!reads) continue;
        left -= reads;
        if (search_node(s, k, n)) return true;
        *s->m = before;
    }
    return false;
}

/* Matches the k-th node of the search and all after it. */
static bool search_next(struct search *s, uint32_t k)
{
    const struct bp_want_node *want;

    if (k == s->p->row.n_node)
        return match_is_closed(s) && bp_want_same_hold(s->ir, s->p, s->m) && values_are_alike(s);
    want = &s->p->row.node[s->p->order[k]];
    for (uint32_t i = 0; i < want->n_out; i++)
        if (want->out[i] >= 0 && s->m->value[want->out[i]] != BP_NO_VALUE)
            return search_producer(s, k, s->m->value[want->out[i]]);
    for (uint32_t i = 0; i < want->n_in; i++)
        if (want->in[i] >= 0 && s->m->value[want->in[i]] != BP_NO_VALUE)
            return search_readers(s, k, s->m->value[want->in[i]]);
    return false;
}

bool bp_plugin_match_find(struct bp_ir *ir, const struct bp_plugin_pattern *p, uint32_t n,
                          struct bp_plugin_match *out)
{
    const struct bp_want_node *last = &p->row.node[p->row.n_node - 1];
    const struct bp_node *node = &ir->node[n].call;
    struct search s = {ir, p, out};
    uint32_t first = 0;

    if (!(last->flags & BP_NODE_OPTIONAL) && !node_is_named(p, p->row.n_node - 1, node->row))
        return false;
    while (last->out[first] < 0) first++;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_VALUE) continue;
        memset(out, 0xff, sizeof *out); /* BP_NO_VALUE */
        out->n_rest = 0;
        if (search_bind(&s, last->out[first], node->out[i]) && search_next(&s, 0)) return true;
    }
    return false;
}
