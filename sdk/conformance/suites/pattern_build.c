/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_build.c: makes graphs from the rows of a plugin's pattern. */
#include "pattern_build.h"

#include <backplane/call.h>
#include <backplane/graph.h>
#include <ops/common/reference.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXTENT = 4,
    ELEMENTS = EXTENT * EXTENT * EXTENT * EXTENT,
    CONSTANT_FLAGS = BP_WANT_CONSTANT | BP_WANT_FROZEN | BP_WANT_ALIKE | BP_WANT_RANGE
};

const struct bp_want_value *build_value(const struct bp_pattern *p, uint32_t v)
{
    return BP_ROW(struct bp_want_value, p->value, p->value_stride, v);
}

const struct bp_want_node *build_node(const struct bp_pattern *p, uint32_t n)
{
    return BP_ROW(struct bp_want_node, p->node, p->node_stride, n);
}

const struct bp_want_attr *build_attr(const struct bp_want_node *node, uint32_t i)
{
    return BP_ROW(struct bp_want_attr, node->attr, node->attr_stride, i);
}

const struct bp_opinfo *build_op(const struct bp_want_node *node, uint32_t alternative)
{
    const struct bp_opinfo *found = NULL;
    char name[128];

    for (const char *at = node->op; *at; at += strcspn(at, "|"), at += *at == '|') {
        size_t length = strcspn(at, "|");
        const struct bp_opinfo *op;
        if (length >= sizeof name) continue;
        memcpy(name, at, length);
        name[length] = 0;
        op = bp_opinfo_find(name);
        if (!op) continue;
        found = op;
        if (!alternative--) break;
    }
    return found;
}

static bool near_is(struct build *b, enum build_near near, uint32_t at, uint32_t row)
{
    bool is = b->choice.near == near && b->choice.at == at && b->choice.row == row;

    if (is) b->broken = true;
    return is;
}

/* ---- values ---- */

static uint32_t value_dtype(struct build *b, uint32_t v, uint64_t mask)
{
    uint32_t dtype = b->choice.dtype;

    if (mask && !(mask >> dtype & 1))
        for (dtype = 0; !(mask >> dtype & 1);) dtype++;
    if (!mask || !near_is(b, NEAR_DTYPE, v, 0)) return dtype;
    return mask >> BP_F64 & 1 ? (uint32_t)BP_F32 : (uint32_t)BP_F64;
}

/* The rank of a value that no node computes. */
static uint32_t value_rank(struct build *b, uint32_t v)
{
    static const uint32_t ranks[BUILD_RANKS] = {2, 3, 4, 1};
    const struct bp_want_value *want = build_value(b->p, v);
    uint32_t digits = b->choice.ranks, rank;

    for (uint32_t i = 0; i < b->n_free && b->free[i] != v; i++) digits /= BUILD_RANKS;
    rank = ranks[digits % BUILD_RANKS];
    if (!want->rank_min && !want->rank_max) return rank;
    if (near_is(b, NEAR_RANK, v, 0)) return want->rank_max + 1u;
    return rank < want->rank_min ? want->rank_min : rank > want->rank_max ? want->rank_max : rank;
}

/* The shape of a value that no node computes. false: it depends on one that is not there yet. */
static bool value_shape(struct build *b, uint32_t v, uint32_t *rank, int64_t *shape)
{
    const struct bp_want_value *want = build_value(b->p, v);
    struct bp_tensor_info info = {.size = sizeof info};
    bool one = want->flags & BP_WANT_ONE && !near_is(b, NEAR_ONE, v, 0);

    if (want->flags & BP_WANT_LIKE && b->value[want->like]) {
        if (bp_tensor_get_info(b->value[want->like], &info)) return false;
        *rank = info.rank;
        memcpy(shape, info.shape, info.rank * sizeof *shape);
        return true;
    }
    *rank = one ? 1 : value_rank(b, v);
    if (*rank > BUILD_RANKS) return false;
    for (uint32_t i = 0; i < *rank; i++) shape[i] = one ? 1 : EXTENT;
    return true;
}

/* Element i of a constant. */
static double value_element(struct build *b, uint32_t v, int64_t i)
{
    const struct bp_want_value *want = build_value(b->p, v);
    double range[3] = {want->least, want->most, (want->least + want->most) / 2}, number = 2;

    if (want->flags & BP_WANT_RANGE) {
        double step = 1 + (want->least < 0 ? -want->least : want->least) +
                      (want->most < 0 ? -want->most : want->most);
        number = range[b->choice.variant % 3];
        if (i == 0 && near_is(b, NEAR_BELOW, v, 0)) return want->least - step;
        if (i == 0 && near_is(b, NEAR_ABOVE, v, 0)) return want->most + step;
    } else if (!(want->flags & BP_WANT_ALIKE)) {
        return (double)(i * 37 % 29) / 16 - 0.75 + b->choice.variant;
    }
    return i == 1 && near_is(b, NEAR_ALIKE, v, 0) ? number + 1 : number;
}

static bool value_constant(struct build *b, uint32_t v, uint32_t dtype, uint32_t rank,
                           const int64_t *shape)
{
    struct fixture *f = b->c->fixture;
    bool freezes = build_value(b->p, v)->flags & (CONSTANT_FLAGS & ~BP_WANT_CONSTANT);
    struct ref_array a;
    char data[ELEMENTS * 16];
    bool ok;

    ref_array_init(&a, dtype, (int)rank, shape);
    for (int64_t i = 0; i < a.count * a.type->parts; i++) {
        double number = value_element(b, v, i);
        if (num_is_int(a.type)) a.u[i] = (uint64_t)(int64_t)number;
        else a.v[i] = number;
    }
    ref_array_encode(&a, data);
    ok = !bp_tensor_create(f->device, dtype, rank, shape, &b->value[v]) &&
         !bp_tensor_write(f->stream, b->value[v], data, (uint64_t)a.count * a.type->size);
    if (freezes && !near_is(b, NEAR_FROZEN, v, 0)) ok = ok && !bp_tensor_freeze(b->value[v]);
    ref_array_finish(&a);
    return ok;
}

static bool value_make(struct build *b, uint32_t v)
{
    const struct bp_want_value *want = build_value(b->p, v);
    uint32_t dtype = value_dtype(b, v, want->dtypes), rank;
    int64_t shape[8];

    if (b->value[v]) return true;
    if (!num_type(dtype) || !value_shape(b, v, &rank, shape)) return false;
    b->own[v] = true;
    if (want->flags & CONSTANT_FLAGS && !near_is(b, NEAR_CONSTANT, v, 0))
        return value_constant(b, v, dtype, rank, shape);
    return !bp_graph_input(b->graph, NULL, dtype, rank, shape, &b->value[v]);
}

/* ---- attributes ---- */

static double word_read(const struct bp_attr *a, const uint64_t *words)
{
    const char *at = (const char *)words + a->offset;
    int64_t number;
    double real;

    memcpy(&number, at, sizeof number);
    memcpy(&real, at, sizeof real);
    return a->kind == BP_ATTR_F64 ? real : (double)number;
}

static void word_write(const struct bp_attr *a, uint64_t *words, double real)
{
    char *at = (char *)words + a->offset;
    int64_t number = (int64_t)real;

    for (uint32_t i = 0; i < a->count; i++)
        memcpy(at + 8 * i, a->kind == BP_ATTR_F64 ? (void *)&real : (void *)&number, 8);
}

static const struct bp_attr *attr_find(const struct bp_opinfo *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
    return NULL;
}

static bool attr_is_list(const struct bp_attr *a)
{
    return a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS;
}

static void attr_list(const struct bp_attr *a, const struct bp_want_attr *t, uint64_t *words,
                      bool breaks)
{
    static const int64_t others[] = {0, 1};
    struct bp_dims list = {t->list, (int64_t)t->n_list};

    /* Another length: numbers below 0 could mean the same axis. */
    if (breaks) list = (struct bp_dims){others, t->n_list == 2 ? 1 : 2};
    if (a->kind == BP_ATTR_DIMS) memcpy((char *)words + a->offset, &list, sizeof list);
    else if (list.n == a->count)
        memcpy((char *)words + a->offset, list.at, a->count * sizeof *list.at);
}

/* Sets the attribute of a test to a value that passes, or that fails. */
static void attr_set(struct build *b, uint32_t n, uint32_t i, const struct bp_attr *a)
{
    const struct bp_want_attr *t = build_attr(build_node(b->p, n), i);
    double now = word_read(a, b->words[n]),
           other = a->kind == BP_ATTR_FLAG ? 1 - t->value : t->value + 1;
    bool breaks = near_is(b, NEAR_ATTR, n, i);
    const struct bp_opinfo *op;

    switch (t->test) {
    case BP_TEST_IS: word_write(a, b->words[n], breaks ? other : t->value); break;
    case BP_TEST_NOT:
        if (breaks || now == t->value) word_write(a, b->words[n], breaks ? t->value : other);
        break;
    case BP_TEST_LEAST:
        if (breaks || now < t->value || b->choice.variant)
            word_write(a, b->words[n], breaks ? t->value - 1 : t->value);
        break;
    case BP_TEST_MOST:
        if (breaks || now > t->value || b->choice.variant > 1)
            word_write(a, b->words[n], breaks ? t->value + 1 : t->value);
        break;
    case BP_TEST_SAME:
        op = build_op(build_node(b->p, (uint32_t)t->of), b->choice.alternative);
        if (op && attr_find(op, t->other) && !attr_is_list(a)) {
            double same = word_read(attr_find(op, t->other), b->words[t->of]);
            word_write(a, b->words[n], !breaks ? same : isfinite(same) ? same + 1 : 0);
        }
        break;
    case BP_TEST_LIST: attr_list(a, t, b->words[n], breaks); break;
    default:
        if (b->choice.variant && !attr_is_list(a))
            word_write(a, b->words[n],
                       a->kind == BP_ATTR_FLAG  ? 1 - now
                       : b->choice.variant == 1 ? now + 1
                                                : now / 2);
    }
}

static bool attrs_make(struct build *b, uint32_t n, const struct bp_opinfo *op)
{
    const struct bp_want_node *node = build_node(b->p, n);

    if (op->attrs_size > sizeof b->words[n]) return false;
    if (op->attrs_size) memcpy(b->words[n], op->defaults, op->attrs_size);
    for (uint32_t i = 0; i < node->n_attr; i++) {
        const struct bp_attr *a = attr_find(op, build_attr(node, i)->name);
        if (a) attr_set(b, n, i, a);
    }
    for (uint32_t i = 0; i < op->n_attr; i++) {
        bool tested = attr_is_list(&op->attr[i]);
        for (uint32_t k = 0; k < node->n_attr; k++)
            tested |= !strcmp(build_attr(node, k)->name, op->attr[i].name);
        if (tested || b->choice.near != NEAR_OTHER || !near_is(b, NEAR_OTHER, n, i)) continue;
        word_write(&op->attr[i], b->words[n],
                   op->attr[i].kind == BP_ATTR_FLAG ? 1 - op->attr[i].value
                                                    : op->attr[i].value + 1);
    }
    return true;
}

/* ---- nodes ---- */

/* Fills the inputs of a node as a flat list. */
static bool node_inputs(struct build *b, const struct bp_want_node *node, struct bp_tensor **flat,
                        uint32_t *out_n)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < node->n_in; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        if (node->in[i] == BP_NO_INDEX) flat[n++] = NULL;
        if (node->in[i] >= 0) {
            if (!value_make(b, (uint32_t)node->in[i])) return false;
            flat[n++] = b->value[node->in[i]];
        }
        if (node->in[i] != BP_REST) continue;
        if (!n || !flat[0] || bp_tensor_get_info(flat[0], &info)) return false;
        for (int k = 0; k < 2; k++) {
            if (bp_graph_input(b->graph, NULL, info.dtype, info.rank, info.shape, &b->rest[k]))
                return false;
            flat[n++] = b->rest[k];
        }
    }
    *out_n = n;
    return true;
}

/* Divides a flat list into the declared inputs: a group gets what the others leave. */
static void node_args(const struct bp_opinfo *op, struct bp_tensor **flat, uint32_t n,
                      struct bp_arg *arg)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t after = op->n_in - 1u - i, left = n - at, take = left > 0;
        if (op->in[i].kind == BP_PORT_VAR) take = left > after ? left - after : 0;
        arg[i] = (struct bp_arg){flat + at, take};
        at += take;
    }
}

static bool node_make(struct build *b, uint32_t n)
{
    const struct bp_want_node *node = build_node(b->p, n);
    const struct bp_opinfo *op = build_op(node, b->choice.alternative);
    struct bp_tensor *flat[2 * BUILD_VALUES], *out[16] = {NULL};
    struct bp_arg arg[16];
    struct bp_call call = {.size = sizeof call, .in = arg};
    uint8_t want[16] = {0};
    uint32_t n_in;

    if (node->flags & BP_NODE_OPTIONAL && b->choice.skips) {
        if (!value_make(b, (uint32_t)node->in[0])) return false;
        b->value[node->out[0]] = b->value[node->in[0]];
        return true;
    }
    if (!op || op->n_in > 16 || node->n_out > 16 || !node_inputs(b, node, flat, &n_in) ||
        !attrs_make(b, n, op))
        return false;
    node_args(op, flat, n_in, arg);
    call.op = op->name;
    call.n_in = op->n_in;
    call.attrs = op->attrs_size ? b->words[n] : NULL;
    for (uint32_t i = 0; i < node->n_out; i++)
        want[i] = node->out[i] != BP_NO_INDEX || op->out[i].kind != BP_PORT_OPTOUT;
    if (bp_call_run(bp_graph_scope(b->graph), &call, out, node->n_out, want)) return false;
    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_INDEX) {
            bp_tensor_destroy(out[i]);
            continue;
        }
        b->value[node->out[i]] = out[i];
        b->own[node->out[i]] = true;
    }
    return true;
}

static bool node_is_ready(const struct build *b, uint32_t n)
{
    const struct bp_want_node *node = build_node(b->p, n);

    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0 && b->made >> node->in[i] & 1 && !b->value[node->in[i]]) return false;
    return true;
}

/* Records all nodes, in the order of the pattern or in another one. */
static bool nodes_make(struct build *b)
{
    bool done[BUILD_NODES] = {false};
    uint32_t state = b->choice.seed;

    for (uint32_t left = b->p->n_node; left; left--) {
        uint32_t n = 0;
        state = state * 1664525 + 1013904223;
        if (b->choice.seed) n = state / 65536 % b->p->n_node;
        while (done[n] || !node_is_ready(b, n)) n = (n + 1) % b->p->n_node;
        if (!node_make(b, n)) return false;
        done[n] = true;
    }
    return true;
}

/* ---- the graph ---- */

static bool outputs_make(struct build *b)
{
    for (uint32_t i = 0; i < b->p->n_out; i++)
        if (bp_graph_output(b->graph, b->value[b->p->out[i]], NULL)) return false;
    for (uint32_t v = 0; v < b->p->n_value; v++)
        if (b->made >> v & 1 && near_is(b, NEAR_READER, v, 0) &&
            bp_graph_output(b->graph, b->value[v], NULL))
            return false;
    return true;
}

bool build_make(struct build *b, struct check *c, const struct bp_pattern *p,
                const struct build_choice *choice)
{
    *b = (struct build){.c = c, .p = p, .choice = *choice};
    for (uint32_t n = 0; n < p->n_node; n++)
        for (uint32_t i = 0; i < build_node(p, n)->n_out; i++)
            if (build_node(p, n)->out[i] >= 0) b->made |= UINT64_C(1) << build_node(p, n)->out[i];
    for (uint32_t v = 0; v < p->n_value; v++)
        if (!(b->made >> v & 1)) b->free[b->n_free++] = v;
    return !bp_graph_create(c->fixture->core, &b->graph) && nodes_make(b) && outputs_make(b) &&
           (choice->near == NEAR_NOTHING || b->broken);
}

void build_finish(struct build *b)
{
    for (uint32_t v = 0; v < BUILD_VALUES; v++)
        if (b->own[v]) bp_tensor_destroy(b->value[v]);
    bp_tensor_destroy(b->rest[0]);
    bp_tensor_destroy(b->rest[1]);
    bp_graph_destroy(b->graph);
}

bool build_find(struct build *b, struct check *c, const struct bp_pattern *p,
                struct build_choice *choice)
{
    static const uint32_t alike[BUILD_RANKS] = {0, 0x555, 0xaaa,
                                                0xfff}; /* all values of one rank */
    uint32_t first = choice->ranks;

    for (uint32_t i = 0; i < BUILD_RANKS + 1024; i++) {
        choice->ranks = i < BUILD_RANKS ? alike[(first + i) % BUILD_RANKS] : i - BUILD_RANKS;
        if (build_make(b, c, p, choice)) return true;
        build_finish(b);
    }
    *b = (struct build){0};
    return false;
}
