/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_attrs.c: tests attributes of nodes by the rows of plugins' patterns, and fills those of
 * results. */
#include "plugin_match.h"

#include "pattern.h"
#include "rewrite.h"

#include <math.h>
#include <string.h>

static const struct bp_attr *attr_of(const struct bp_opdef *row, const char *name)
{
    return bp_attr_find(&row->info, name, strlen(name));
}

/* The rank of the first input, from which axes below 0 count. */
static uint32_t attr_rank(const struct bp_ir *ir, const struct bp_node *node)
{
    if (!node->n_in || node->in[0] == BP_NO_VALUE) return 0;
    return ir->value[bp_ir_same(ir, node->in[0])].type->view.rank;
}

/* The integers of DIMS or INTS. */
static struct bp_dims attr_list(const struct bp_attr *a, const void *attrs)
{
    struct bp_dims list;

    if (a->kind == BP_ATTR_DIMS) memcpy(&list, (const char *)attrs + a->offset, sizeof list);
    else list = (struct bp_dims){(const void *)((const char *)attrs + a->offset), a->count};
    return list;
}

static bool test_list(const struct bp_dims *list, const struct bp_want_attr *t, uint32_t rank)
{
    if (list->n < 0 || (uint64_t)list->n != t->n_list) return false;
    for (int64_t i = 0; i < list->n; i++) {
        int64_t is = list->at[i], wanted = t->list[i];
        if (is != wanted && is + (is < 0 ? rank : 0) != wanted + (wanted < 0 ? rank : 0))
            return false;
    }
    return true;
}

static bool test_number(const struct bp_attr *a, const struct bp_want_attr *t, double is,
                        uint32_t rank)
{
    double wanted = t->value;
    bool near;

    if (a->kind == BP_ATTR_I64 && !strncmp(a->name, "axis", 4)) {
        if (is < 0) is += rank;
        if (wanted < 0) wanted += rank;
    }
    near = is == wanted || fabs(is - wanted) <= t->within * fabs(wanted);
    switch (t->test) {
    case BP_TEST_IS: return near;
    case BP_TEST_NOT: return !near;
    case BP_TEST_LEAST: return is >= wanted;
    default: return is <= wanted;
    }
}

static bool test_holds(const struct bp_ir *ir, const struct bp_node *node,
                       const struct bp_want_attr *t)
{
    const struct bp_attr *a = attr_of(node->row, t->name);
    struct bp_dims list;

    if (!a || !node->attrs) return false;
    if (t->test == BP_TEST_ANY || t->test == BP_TEST_SAME) return true;
    if (t->test == BP_TEST_LIST) {
        list = attr_list(a, node->attrs);
        return test_list(&list, t, attr_rank(ir, node));
    }
    return test_number(a, t, bp_attr_get(a, node->attrs), attr_rank(ir, node));
}

static bool same_attr(const struct bp_attr *a, const void *x, const struct bp_attr *b,
                      const void *y)
{
    struct bp_dims p, q;

    if (a->kind != BP_ATTR_DIMS && a->kind != BP_ATTR_INTS)
        return bp_attr_get(a, x) == bp_attr_get(b, y);
    p = attr_list(a, x);
    q = attr_list(b, y);
    return p.n == q.n && (!p.n || !memcmp(p.at, q.at, (size_t)p.n * sizeof *p.at));
}

static bool is_default(const struct bp_node *node, const struct bp_attr *a)
{
    return same_attr(a, node->attrs, a, node->row->info.defaults);
}

bool bp_want_attrs_hold(const struct bp_ir *ir, const struct bp_want_node *want,
                        const struct bp_node *node)
{
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t i = 0; i < want->n_attr; i++)
        if (!test_holds(ir, node, &want->attr[i])) return false;
    for (uint32_t i = 0; node->attrs && i < op->n_attr; i++) {
        bool tested = false;
        for (uint32_t k = 0; k < want->n_attr && !tested; k++)
            tested = attr_of(node->row, want->attr[k].name) == &op->attr[i];
        if (!tested && !is_default(node, &op->attr[i])) return false;
    }
    return true;
}

static bool same_holds(const struct bp_ir *ir, const struct bp_plugin_match *m,
                       const struct bp_node *node, const struct bp_want_attr *t)
{
    const struct bp_node *of;
    const struct bp_attr *other;

    if (m->node[t->of] == BP_NO_VALUE) return false;
    of = &ir->node[m->node[t->of]].call;
    other = attr_of(of->row, t->other);
    return other && of->attrs &&
           same_attr(attr_of(node->row, t->name), node->attrs, other, of->attrs);
}

bool bp_want_same_hold(const struct bp_ir *ir, const struct bp_plugin_pattern *p,
                       const struct bp_plugin_match *m)
{
    for (uint32_t n = 0; n < p->row.n_node; n++) {
        const struct bp_want_node *want = &p->row.node[n];
        for (uint32_t i = 0; m->node[n] != BP_NO_VALUE && i < want->n_attr; i++)
            if (want->attr[i].test == BP_TEST_SAME &&
                !same_holds(ir, m, &ir->node[m->node[n]].call, &want->attr[i]))
                return false;
    }
    return true;
}

/* ---- results ---- */

static void give_list(const struct bp_attr *a, struct bp_dims list, void *attrs)
{
    char *field = (char *)attrs + a->offset;

    if (a->kind == BP_ATTR_DIMS) memcpy(field, &list, sizeof list);
    else memcpy(field, list.at, a->count * sizeof *list.at);
}

/* Takes an attribute from a node of the match. */
static void give_taken(const struct bp_attr *a, const struct bp_give_attr *g,
                       const struct bp_node *of, void *attrs)
{
    const struct bp_attr *other = attr_of(of->row, g->other);
    double factor = g->factor != 0 ? g->factor : 1;

    if (!other || !of->attrs) return;
    if (a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS)
        give_list(a, attr_list(other, of->attrs), attrs);
    else bp_attr_set(a, attrs, g->value + factor * bp_attr_get(other, of->attrs));
}

static void give_attr(const struct bp_ir *ir, const struct bp_attr *a, const struct bp_give_attr *g,
                      const struct bp_plugin_match *m, void *attrs)
{
    double factor = g->factor != 0 ? g->factor : 1, element = 0;
    bool is_list = a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS;

    if (g->from == BP_GIVE_LIST) give_list(a, (struct bp_dims){g->list, (int64_t)g->n_list}, attrs);
    else if (g->from == BP_GIVE_ATTR && m->node[g->of] != BP_NO_VALUE)
        give_taken(a, g, &ir->node[m->node[g->of]].call, attrs);
    else if (g->from == BP_GIVE_ELEMENT && m->value[g->of] != BP_NO_VALUE &&
             bp_ir_read_alike(ir, m->value[g->of], INT64_MAX, &element))
        bp_attr_set(a, attrs, g->value + factor * element);
    else if (!is_list) bp_attr_set(a, attrs, g->value);
}

void bp_give_attrs_fill(const struct bp_ir *ir, const struct bp_plugin_pattern *p, uint32_t g,
                        const struct bp_plugin_match *m, void *attrs)
{
    const struct bp_opdef *row = p->give[g];

    if (!row->info.attrs_size) return;
    memcpy(attrs, row->info.defaults, row->info.attrs_size);
    for (uint32_t i = 0; i < p->row.give[g].n_attr; i++) {
        const struct bp_give_attr *give = &p->row.give[g].attr[i];
        give_attr(ir, attr_of(row, give->name), give, m, attrs);
    }
}
