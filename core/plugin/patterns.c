/* SPDX-License-Identifier: Apache-2.0 */
/* patterns.c: copies a pattern of a plugin into the form of this core's version, and checks it. */
#include "patterns.h"

#include "loader.h"

#include <stdio.h>
#include <stdlib.h>

#define END(type, field) (offsetof(struct type, field) + sizeof((struct type *)0)->field)

/* A pattern that is being checked. */
struct pattern_check {
    struct bp_plugin_pattern *p;
    const struct bp_pattern *row;
    char text[400]; /* what is wrong; "": nothing */
    bool out_of_memory;
    bool has_rest;
    uint64_t between; /* a bit for each value between nodes of the result that was computed */
};

static bool check_wrong(struct pattern_check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool check_wrong(struct pattern_check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->text, sizeof c->text, format, args);
    va_end(args);
    return false;
}

/* Copies n rows. required: the bytes that a row has at least. n is at most `most`. */
static bool check_copy(struct pattern_check *c, const char *what, const void **rows, uint32_t n,
                       size_t stride, size_t required, size_t size, uint32_t most)
{
    char *copy;

    if (n > most) return check_wrong(c, "it has %u %s, at most %u are possible", n, what, most);
    if (n && !*rows) return check_wrong(c, "its %u %s are at NULL", n, what);
    if (n && (stride < required || stride > 4096 || stride % sizeof(void *)))
        return check_wrong(c, "the stride of its %s is %zu, expected %zu to 4096", what, stride,
                           required);
    copy = calloc(n + 1, size);
    c->out_of_memory = !copy;
    for (uint32_t i = 0; copy && i < n; i++)
        memcpy(copy + i * size, (const char *)*rows + i * stride, stride < size ? stride : size);
    *rows = copy; /* owned from now on, or NULL */
    return copy;
}

/* ---- attributes ---- */

static const struct bp_attr *check_attr(const struct bp_opinfo *op, const char *name)
{
    for (uint32_t i = 0; name && i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
    return NULL;
}

static bool attr_is_list(const struct bp_attr *a)
{
    return a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS;
}

static const char *check_name(const char *name)
{
    return name ? name : "(NULL)";
}

/* Checks a test of an attribute of node n, for one of its operators. */
static bool check_test(struct pattern_check *c, uint32_t n, const struct bp_opdef *op,
                       const struct bp_want_attr *t)
{
    const struct bp_attr *a = check_attr(&op->info, t->name), *other;

    if (!a)
        return check_wrong(c, "%s has no attribute %.60s (node %u)", op->info.name,
                           check_name(t->name), n);
    if (t->test > BP_TEST_ANY)
        return check_wrong(c, "the test %u of %s is none (node %u)", t->test, a->name, n);
    if (t->test == BP_TEST_LIST && (!attr_is_list(a) || (t->n_list && !t->list)))
        return check_wrong(c, "%s is no list, or its list is NULL (node %u)", a->name, n);
    if (t->test <= BP_TEST_MOST && attr_is_list(a))
        return check_wrong(c, "%s is a list: expected BP_TEST_LIST (node %u)", a->name, n);
    if (t->test != BP_TEST_SAME) return true;
    if (t->of < 0 || (uint32_t)t->of >= c->row->n_node || !c->p->want[t->of][0])
        return check_wrong(c, "%s is compared with node %d, which is no node before it (node %u)",
                           a->name, t->of, n);
    other = check_attr(&c->p->want[t->of][0]->info, t->other);
    if (other && other->kind == a->kind && other->count == a->count) return true;
    return check_wrong(c, "%s is compared with %.60s, which is another kind or none (node %u)",
                       a->name, check_name(t->other), n);
}

static bool check_given_attr(struct pattern_check *c, uint32_t n, const struct bp_give_attr *g)
{
    const struct bp_opinfo *op = &c->p->give[n]->info;
    const struct bp_attr *a = check_attr(op, g->name), *other;

    if (!a)
        return check_wrong(c, "%s has no attribute %.60s (node %u of the result)", op->name,
                           check_name(g->name), n);
    if (g->from == BP_GIVE_LIST && attr_is_list(a) && (g->list || !g->n_list) &&
        (a->kind == BP_ATTR_DIMS || g->n_list == a->count))
        return true;
    if (g->from == BP_GIVE_NUMBER && !attr_is_list(a)) return true;
    if (g->from == BP_GIVE_ELEMENT && !attr_is_list(a) && g->of >= 0 &&
        (uint32_t)g->of < c->row->n_value && c->row->value[g->of].flags & BP_WANT_ALIKE)
        return true;
    if (g->from == BP_GIVE_ATTR && g->of >= 0 && (uint32_t)g->of < c->row->n_node) {
        other = check_attr(&c->p->want[g->of][0]->info, g->other);
        if (other && attr_is_list(a) == attr_is_list(other) &&
            (!attr_is_list(a) || (a->kind == other->kind && a->count == other->count)))
            return true;
    }
    return check_wrong(c, "attribute %s of %s gets nothing that fits it (node %u of the result)",
                       a->name, op->name, n);
}

/* ---- nodes to find ---- */

/* Finds the operators of node n. All alternatives take the same tests. */
static bool check_operators(struct pattern_check *c, uint32_t n, const char *text)
{
    uint32_t found = 0;

    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        const struct bp_opdef *op;
        char name[132];
        end = strchr(at, '|');
        if (!end) end = at + strlen(at);
        if ((size_t)(end - at) >= sizeof name || found == BP_WANT_ROWS)
            return check_wrong(c, "its operators are too many, or their names too long (node %u)",
                               n);
        memcpy(name, at, (size_t)(end - at));
        name[end - at] = 0;
        op = bp_opdef_find(name);
        if (op && (op->random || op->updates || op->bound))
            return check_wrong(c,
                               "%s draws random numbers, updates, or has extents that depend on "
                               "data: no pattern has it (node %u)",
                               name, n);
        if (op) c->p->want[n][found++] = op;
    }
    if (found) return true;
    return check_wrong(c, "this version (%s) has no operator %.80s (node %u)", bp_version(), text,
                       n);
}

/* Checks the values that node n reads. */
static bool check_inputs(struct pattern_check *c, uint32_t n)
{
    const struct bp_want_node *node = &c->row->node[n];
    uint64_t later = 0;

    for (uint32_t k = n; k < c->row->n_node; k++)
        for (uint32_t i = 0; i < c->row->node[k].n_out; i++)
            if (c->row->node[k].out[i] >= 0) later |= UINT64_C(1) << (c->row->node[k].out[i] & 63);
    for (uint32_t i = 0; i < node->n_in; i++) {
        int16_t v = node->in[i];
        bool rest = v == BP_REST && i + 1 == node->n_in && !c->has_rest &&
                    !(node->flags & BP_NODE_ANY_ORDER);
        if (rest) c->has_rest = true;
        else if (v < BP_NO_INDEX || v >= (int32_t)c->row->n_value)
            return check_wrong(c, "input %u is value %d, which is none (node %u)", i, v, n);
        else if (v >= 0 && later >> v & 1)
            return check_wrong(c, "input %u is value %d, which is computed later (node %u)", i, v,
                               n);
    }
    return true;
}

static bool check_outputs(struct pattern_check *c, uint32_t n)
{
    const struct bp_want_node *node = &c->row->node[n];
    uint32_t computed = 0;

    for (uint32_t i = 0; i < node->n_out; i++) {
        int16_t v = node->out[i];
        if (v == BP_NO_INDEX) continue;
        if (v < 0 || v >= (int32_t)c->row->n_value)
            return check_wrong(c, "output %u is value %d, which is none (node %u)", i, v, n);
        if (c->p->made >> v & 1)
            return check_wrong(c, "value %d is computed twice (node %u)", v, n);
        c->p->made |= UINT64_C(1) << v;
        computed++;
    }
    if (!computed) return check_wrong(c, "it computes no value (node %u)", n);
    if (!(node->flags & BP_NODE_OPTIONAL)) return true;
    if (node->n_out == 1 && node->n_in && node->in[0] >= 0) return true;
    return check_wrong(c, "it is optional: expected one output and a first input (node %u)", n);
}

/* Checks the lengths of the lists of all nodes, before one is read. */
static bool check_lists(struct pattern_check *c)
{
    for (uint32_t n = 0; n < c->row->n_node; n++) {
        const struct bp_want_node *node = &c->row->node[n];
        uint32_t most = node->flags & BP_NODE_ANY_ORDER ? BP_PERMUTED : BP_WANT_VALUES;
        if (!node->op) return check_wrong(c, "its operator is NULL (node %u)", n);
        if (node->n_in > most || (node->n_in && !node->in) || !node->n_out ||
            node->n_out > BP_PORT_MAX || !node->out)
            return check_wrong(c, "its list of inputs or outputs is too long or at NULL (node %u)",
                               n);
    }
    return true;
}

static bool check_node(struct pattern_check *c, uint32_t n)
{
    struct bp_want_node *node = (struct bp_want_node *)(uintptr_t)&c->row->node[n];
    const void *attr = node->attr;
    uint32_t n_attr = node->n_attr;

    node->attr = NULL; /* not owned yet */
    node->n_attr = 0;
    if (!check_operators(c, n, node->op)) return false;
    if (!check_inputs(c, n) || !check_outputs(c, n)) return false;
    if (!check_copy(c, "tests of attributes", &attr, n_attr, node->attr_stride,
                    END(bp_want_attr, of), sizeof *node->attr, BP_WANT_ATTRS))
        return false;
    node->attr = attr;
    node->n_attr = n_attr;
    node->attr_stride = sizeof *node->attr;
    for (uint32_t i = 0; i < n_attr; i++)
        for (uint32_t k = 0; k < BP_WANT_ROWS && c->p->want[n][k]; k++)
            if (!check_test(c, n, c->p->want[n][k], &node->attr[i])) return false;
    return true;
}

static bool check_want_values(struct pattern_check *c)
{
    for (uint32_t v = 0; v < c->row->n_value; v++) {
        const struct bp_want_value *value = &c->row->value[v];
        if (value->flags & BP_WANT_LIKE &&
            (value->like < 0 || value->like >= (int32_t)c->row->n_value))
            return check_wrong(c, "value %u is like value %d, which is none", v, value->like);
        if (value->rank_min > value->rank_max)
            return check_wrong(c, "value %u has ranks from %u to %u", v, value->rank_min,
                               value->rank_max);
    }
    return true;
}

/* Whether a node reads (or computes) one of some values. */
static bool node_has(const int16_t *list, uint32_t n, uint64_t values)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] >= 0 && values >> list[i] & 1) return true;
    return false;
}

static void add_values(const int16_t *list, uint32_t n, uint64_t *values)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] >= 0) *values |= UINT64_C(1) << list[i];
}

/* Finds the order of matching: the last node; then a node that computes a known value, the later
 * ones first; or else one that reads such a value. */
static bool check_order(struct pattern_check *c)
{
    const struct bp_pattern *row = c->row;
    uint64_t known = 0, done = 0;

    for (uint32_t k = 0; k < row->n_node; k++) {
        uint32_t next = k ? row->n_node : row->n_node - 1;
        for (int by_input = 0; by_input < 2 && next == row->n_node; by_input++)
            for (uint32_t n = row->n_node; n-- > 0 && next == row->n_node;) {
                const struct bp_want_node *node = &row->node[n];
                if (done >> n & 1 || (by_input && node->flags & BP_NODE_OPTIONAL)) continue;
                if (by_input ? node_has(node->in, node->n_in, known)
                             : node_has(node->out, node->n_out, known))
                    next = n;
            }
        if (next == row->n_node)
            return check_wrong(c, "its nodes are not connected with the last one by values");
        c->p->order[k] = (uint8_t)next;
        done |= UINT64_C(1) << next;
        add_values(row->node[next].in, row->node[next].n_in, &known);
        add_values(row->node[next].out, row->node[next].n_out, &known);
    }
    return true;
}

/* ---- the result ---- */

static bool check_given_values(struct pattern_check *c)
{
    const struct bp_want_node *last;

    if (!c->row->n_out || c->row->n_out > BP_PORT_MAX || !c->row->out)
        return check_wrong(c, "it computes no values, or too many");
    for (uint32_t i = 0; i < c->row->n_out; i++) {
        int16_t v = c->row->out[i];
        if (v < 0 || v >= (int32_t)c->row->n_value || !(c->p->made >> v & 1) ||
            c->p->given >> v & 1)
            return check_wrong(c, "it replaces value %d, which no node computes, or twice", v);
        c->p->given |= UINT64_C(1) << v;
    }
    last = &c->row->node[c->row->n_node - 1];
    if (node_has(last->out, last->n_out, c->p->given)) return true;
    return check_wrong(c, "its last node computes no value of the result");
}

static bool check_give_inputs(struct pattern_check *c, uint32_t n, uint64_t done)
{
    const struct bp_give_node *node = &c->row->give[n];
    int32_t n_value = (int32_t)c->row->n_value;

    for (uint32_t i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i];
        bool good = v == BP_NO_INDEX || (v == BP_REST && c->has_rest && i + 1 == node->n_in) ||
                    (v >= 0 && v < n_value && (!(c->p->made >> v & 1) || done >> v & 1)) ||
                    (v >= n_value && v < n_value + (int32_t)c->row->n_between &&
                     c->between >> (v - n_value) & 1);
        if (!good)
            return check_wrong(c,
                               "input %u is value %d, which is not there (node %u of the "
                               "result)",
                               i, v, n);
    }
    return true;
}

static bool check_give_outputs(struct pattern_check *c, uint32_t n, uint64_t *done)
{
    const struct bp_give_node *node = &c->row->give[n];
    int32_t n_value = (int32_t)c->row->n_value;

    for (uint32_t i = 0; i < node->n_out; i++) {
        int32_t v = node->out[i];
        uint64_t bit = v < 0 ? 0 : UINT64_C(1) << ((v < n_value ? v : v - n_value) & 63);
        if (v == BP_NO_INDEX) continue;
        if (v >= 0 && v < n_value && c->p->given & bit && !(*done & bit)) *done |= bit;
        else if (v >= n_value && v < n_value + (int32_t)c->row->n_between && !(c->between & bit))
            c->between |= bit;
        else
            return check_wrong(c,
                               "output %u is value %d, which it cannot compute (node %u of the "
                               "result)",
                               i, v, n);
    }
    return true;
}

static bool check_give(struct pattern_check *c, uint32_t n, uint64_t *done)
{
    struct bp_give_node *node = (struct bp_give_node *)(uintptr_t)&c->row->give[n];
    const struct bp_opdef *op = node->op ? bp_opdef_find(node->op) : NULL;
    const void *attr = node->attr;
    uint32_t n_attr = node->n_attr, groups = 0;

    node->attr = NULL; /* not owned yet */
    node->n_attr = 0;
    if (!op)
        return check_wrong(c, "this version (%s) has no operator %.80s (node %u of the result)",
                           bp_version(), check_name(node->op), n);
    for (uint32_t i = 0; i < op->info.n_in; i++) groups += op->info.in[i].kind == BP_PORT_VAR;
    if (op->random || op->updates || op->bound || groups > 1)
        return check_wrong(c, "%s is no operator for a result (node %u of the result)",
                           op->info.name, n);
    c->p->give[n] = op;
    if (node->n_in > BP_WANT_VALUES || (node->n_in && !node->in) || !node->n_out ||
        node->n_out > BP_PORT_MAX || !node->out || (!op->varies && node->n_out > op->info.n_out) ||
        (!groups && node->n_in > op->info.n_in))
        return check_wrong(c,
                           "its list of inputs or outputs is too long or at NULL (node %u of "
                           "the result)",
                           n);
    if (!check_give_inputs(c, n, *done) || !check_give_outputs(c, n, done)) return false;
    if (!check_copy(c, "attributes", &attr, n_attr, node->attr_stride, END(bp_give_attr, of),
                    sizeof *node->attr, BP_WANT_ATTRS))
        return false;
    node->attr = attr;
    node->n_attr = n_attr;
    node->attr_stride = sizeof *node->attr;
    for (uint32_t i = 0; i < n_attr; i++)
        if (!check_given_attr(c, n, &node->attr[i])) return false;
    return true;
}

/* ---- the pattern ---- */

static bool name_is_valid(const char *name)
{
    size_t n = name ? strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_.-")
                    : 0;

    return n && n < 64 && !name[n];
}

/* Takes over the arrays of the row; those that are not copied yet become NULL. */
static bool check_arrays(struct pattern_check *c)
{
    struct bp_pattern *row = &c->p->row;
    const void *value = row->value, *node = row->node, *give = row->give;

    row->value = NULL;
    row->node = NULL;
    row->give = NULL;
    if (!check_copy(c, "values", &value, row->n_value, row->value_stride,
                    END(bp_want_value, rank_max), sizeof *row->value, BP_WANT_VALUES))
        return false;
    row->value = value;
    if (!check_copy(c, "nodes", &node, row->n_node, row->node_stride, END(bp_want_node, zero),
                    sizeof *row->node, BP_WANT_NODES))
        return false;
    row->node = node;
    if (!check_copy(c, "nodes of the result", &give, row->n_give, row->give_stride,
                    END(bp_give_node, attr_stride), sizeof *row->give, BP_GIVE_NODES))
        return false;
    row->give = give;
    if (!row->n_node || !row->n_give) return check_wrong(c, "it has no nodes, or no result");
    if (row->n_between > BP_GIVE_NODES)
        return check_wrong(c,
                           "it has %u values between nodes of the result, at most %d are "
                           "possible",
                           row->n_between, BP_GIVE_NODES);
    c->p->want = calloc(row->n_node, sizeof *c->p->want);
    c->p->give = calloc(row->n_give, sizeof *c->p->give);
    c->out_of_memory = !c->p->want || !c->p->give;
    return !c->out_of_memory;
}

/* Forgets attributes that are still those of the plugin: check_node and check_give did not copy
 * them. */
static void pattern_disown(struct bp_pattern *row, uint32_t node, uint32_t give)
{
    for (; row->node && node < row->n_node; node++) {
        struct bp_want_node *want = (struct bp_want_node *)(uintptr_t)&row->node[node];
        want->attr = NULL;
    }
    for (; row->give && give < row->n_give; give++) {
        struct bp_give_node *made = (struct bp_give_node *)(uintptr_t)&row->give[give];
        made->attr = NULL;
    }
}

static void check_pattern(struct pattern_check *c)
{
    uint32_t node = 0, give = 0;
    uint64_t done = 0;
    bool good = check_arrays(c) && check_want_values(c) && check_lists(c);

    while (good && node < c->row->n_node) good = check_node(c, node++);
    good = good && check_given_values(c) && check_order(c);
    while (good && give < c->row->n_give) good = check_give(c, give++, &done);
    pattern_disown(&c->p->row, node, give);
    if (good && done != c->p->given) check_wrong(c, "its result lacks a value that it replaces");
}

bool bp_plugin_pattern_init(struct bp_plugin_pattern *p, struct bp_plugin_entry *entry,
                            const struct bp_pattern *row, size_t stride)
{
    struct pattern_check c = {.p = p, .row = &p->row};
    struct bp_quote quote;

    *p = (struct bp_plugin_pattern){.entry = entry};
    memcpy(&p->row, row, stride < sizeof p->row ? stride : sizeof p->row);
    if (name_is_valid(p->row.name)) check_pattern(&c);
    else
        check_wrong(&c, "its name is %s, expected letters, digits, '_', '.' and '-', at most 63",
                    bp_quote(&quote, p->row.name));
    if (!name_is_valid(p->row.name)) {
        p->row.name = "?";
        p->row.value = NULL, p->row.node = NULL, p->row.give = NULL;
    }
    if (*c.text) p->reason = strdup(c.text);
    if (c.out_of_memory || (*c.text && !p->reason) ||
        asprintf(&p->name, "%s.%s", entry->plugin.name, p->row.name) < 0) {
        p->name = NULL;
        return false;
    }
    return true;
}

void bp_plugin_pattern_finish(struct bp_plugin_pattern *p)
{
    for (uint32_t i = 0; p->row.node && i < p->row.n_node; i++) free((void *)p->row.node[i].attr);
    for (uint32_t i = 0; p->row.give && i < p->row.n_give; i++) free((void *)p->row.give[i].attr);
    free((void *)p->row.value);
    free((void *)p->row.node);
    free((void *)p->row.give);
    free(p->want);
    free(p->give);
    free(p->name);
    free(p->reason);
}
