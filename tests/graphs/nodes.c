/* SPDX-License-Identifier: Apache-2.0 */
/* nodes.c: adds values and nodes to a recipe. Each node is recorded in a graph at once: the graph
 * infers its results, and the recipe has no node that the graph refuses. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The finalizer of SplitMix64 (Steele, Lea and Flood, 2014). */
uint64_t fuzz_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint32_t fuzz_below(struct fuzz_generator *m, uint32_t n)
{
    m->random++;
    return (uint32_t)((fuzz_mix(m->random) >> 32) * n >> 32);
}

bool fuzz_chance(struct fuzz_generator *m, uint32_t percent)
{
    return fuzz_below(m, 100) < percent;
}

bool fuzz_is_float(uint32_t dtype)
{
    return dtype == BP_F32 || dtype == BP_F64 || dtype == BP_F16 || dtype == BP_BF16;
}

uint32_t fuzz_float_dtype(struct fuzz_generator *m)
{
    uint32_t n = fuzz_below(m, 100);

    return m->plain || n < 70 ? BP_F32 : n < 82 ? BP_F16 : n < 92 ? BP_BF16 : BP_F64;
}

const struct fuzz_value *fuzz_value_of(const struct fuzz_generator *m, uint32_t v)
{
    static const struct fuzz_value none = {
        .dtype = BP_F32, .rank = 4, .shape = {1, 1, 1, 1, 1, 1, 1, 1}};

    return v < m->recipe->n_value ? &m->recipe->value[v] : &none;
}

static int64_t value_elements(const struct fuzz_value *v)
{
    int64_t n = 1;

    for (uint32_t i = 0; i < v->rank; i++) n *= v->shape[i];
    return n;
}

int64_t fuzz_elements(const struct fuzz_generator *m, uint32_t v)
{
    return value_elements(fuzz_value_of(m, v));
}

/* ---- values ---- */

uint32_t fuzz_new(struct fuzz_generator *m, enum fuzz_kind kind, enum fuzz_data data,
                  uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    struct fuzz_recipe *r = m->recipe;
    struct fuzz_value *v = &r->value[r->n_value];

    if (r->n_value == FUZZ_VALUES) return FUZZ_BAD;
    *v = (struct fuzz_value){
        .dtype = dtype, .rank = rank, .kind = kind, .data = data, .limit = 2, .base = FUZZ_ABSENT};
    v->strided = kind == FUZZ_CONSTANT && fuzz_chance(m, 12);
    memcpy(v->shape, shape, rank * sizeof *shape);
    if (bp_graph_input(m->graph, NULL, (enum bp_dtype)dtype, rank, shape, &m->symbol[r->n_value]))
        return FUZZ_BAD;
    return r->n_value++;
}

uint32_t fuzz_weight(struct fuzz_generator *m, enum fuzz_data data, uint32_t dtype, uint32_t rank,
                     const int64_t *shape)
{
    enum fuzz_kind kind = fuzz_chance(m, 85) ? FUZZ_CONSTANT : FUZZ_INPUT;
    uint32_t v = fuzz_new(m, kind, data, dtype, rank, shape);

    if (v != FUZZ_BAD) m->recipe->value[v].frozen = kind == FUZZ_CONSTANT && fuzz_chance(m, 75);
    return v;
}

uint32_t fuzz_new_like(struct fuzz_generator *m, uint32_t v)
{
    const struct fuzz_value like = *fuzz_value_of(m, v);

    if (v >= m->recipe->n_value) return FUZZ_BAD;
    return fuzz_new(m, fuzz_chance(m, 60) ? FUZZ_INPUT : FUZZ_CONSTANT, FUZZ_PLAIN, like.dtype,
                    like.rank, like.shape);
}

uint32_t fuzz_alias(struct fuzz_generator *m, uint32_t v)
{
    struct fuzz_value like = *fuzz_value_of(m, v);
    int64_t shape[REF_RANK];
    uint32_t made;

    if (v >= m->recipe->n_value || like.kind != FUZZ_CONSTANT || like.base != FUZZ_ABSENT) return v;
    for (uint32_t i = 0; i < like.rank; i++) shape[i] = like.shape[like.rank - 1 - i];
    made = fuzz_new(m, FUZZ_CONSTANT, like.data, like.dtype, like.rank, shape);
    if (made == FUZZ_BAD) return made;
    m->recipe->value[made].base = v;
    m->recipe->value[made].strided = false;
    return made;
}

static uint32_t new_input(struct fuzz_generator *m, uint32_t dtype, uint32_t rank)
{
    enum fuzz_data data = m->special && fuzz_chance(m, 20) && fuzz_is_float(dtype) ? FUZZ_SPECIAL
                                                                                   : FUZZ_PLAIN;
    int64_t shape[REF_RANK];

    if (rank == FUZZ_ABSENT) rank = 1 + fuzz_below(m, 4);
    for (uint32_t i = 0; i < rank; i++)
        shape[i] = fuzz_chance(m, 8) ? 1 : 2 + fuzz_below(m, rank > 2 ? 5 : 11);
    if (rank && fuzz_chance(m, 1)) shape[fuzz_below(m, rank)] = 0;
    return fuzz_new(m, fuzz_chance(m, 80) ? FUZZ_INPUT : FUZZ_CONSTANT, data, dtype, rank, shape);
}

static bool value_fits(const struct fuzz_value *v, uint32_t dtype, uint32_t rank)
{
    return (dtype == FUZZ_ABSENT ? fuzz_is_float(v->dtype) : v->dtype == dtype) &&
           (rank == FUZZ_ABSENT || v->rank == rank) && value_elements(v) <= FUZZ_ELEMENTS;
}

/* Recent values are picked more often: graphs become deep. */
uint32_t fuzz_pick_dtype(struct fuzz_generator *m, uint32_t dtype, uint32_t rank)
{
    uint32_t n = m->recipe->n_value;

    for (int tries = 0; n && tries < 12; tries++) {
        uint32_t back = fuzz_chance(m, 60) && n > 6 ? 6 : n, v = n - 1 - fuzz_below(m, back);
        if (value_fits(&m->recipe->value[v], dtype, rank)) return v;
    }
    return new_input(m, dtype == FUZZ_ABSENT ? fuzz_float_dtype(m) : dtype, rank);
}

uint32_t fuzz_pick(struct fuzz_generator *m, uint32_t rank)
{
    return fuzz_pick_dtype(m, FUZZ_ABSENT, rank);
}

uint32_t fuzz_pick_like(struct fuzz_generator *m, uint32_t v)
{
    const struct fuzz_value *like = fuzz_value_of(m, v);

    for (int tries = 0; m->recipe->n_value && tries < 20; tries++) {
        uint32_t i = fuzz_below(m, m->recipe->n_value);
        const struct fuzz_value *other = &m->recipe->value[i];
        if (other->dtype == like->dtype && other->rank == like->rank &&
            !memcmp(other->shape, like->shape, like->rank * sizeof *like->shape))
            return i;
    }
    return fuzz_new_like(m, v);
}

/* ---- nodes ---- */

void fuzz_begin(struct fuzz_generator *m, const char *op)
{
    struct fuzz_node *node = &m->recipe->node[m->recipe->n_node];

    m->node = node;
    m->bad = m->recipe->n_node == FUZZ_NODES;
    if (m->bad) node = m->node = &m->recipe->node[FUZZ_NODES - 1];
    if (m->bad) return;
    memset(node, 0, sizeof *node);
    node->op = bp_opinfo_find(op);
    if (!node->op || node->op->attrs_size > sizeof node->attrs || node->op->n_in > FUZZ_PORTS) {
        fprintf(stderr, "operator %s: unknown, or too large for a recipe\n", op);
        exit(2);
    }
    if (node->op->attrs_size) memcpy(node->attrs, node->op->defaults, node->op->attrs_size);
}

void fuzz_in_many(struct fuzz_generator *m, const uint32_t *v, uint32_t n)
{
    struct fuzz_node *node = m->node;
    uint32_t port = 0;

    if (m->bad) return;
    while (port < node->op->n_in && (node->count[port] || node->op->in[port].kind == BP_PORT_HOST))
        port++;
    m->bad = port == node->op->n_in || node->n_in + n > FUZZ_FLAT;
    for (uint32_t i = 0; i < n && !m->bad; i++) {
        m->bad = v[i] == FUZZ_BAD;
        node->in[node->n_in++] = v[i];
    }
    if (!m->bad) node->count[port] = n;
}

void fuzz_in(struct fuzz_generator *m, uint32_t v)
{
    fuzz_in_many(m, &v, 1);
}

static bool attr_is_integer(const struct bp_attr *attr)
{
    return attr->kind <= BP_ATTR_DTYPE && attr->kind != BP_ATTR_F64;
}

static void *attr_field(struct fuzz_generator *m, const char *name, enum bp_attr_kind kind)
{
    const struct bp_opinfo *op = m->node->op;

    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name) &&
            (op->attr[i].kind == kind || (kind == BP_ATTR_I64 && attr_is_integer(&op->attr[i]))))
            return (char *)m->node->attrs + op->attr[i].offset;
    fprintf(stderr, "operator %s has no attribute %s of kind %d\n", op->name, name, (int)kind);
    exit(2);
}

void fuzz_i64(struct fuzz_generator *m, const char *name, int64_t value)
{
    if (!m->bad) memcpy(attr_field(m, name, BP_ATTR_I64), &value, sizeof value);
}

void fuzz_f64(struct fuzz_generator *m, const char *name, double value)
{
    if (!m->bad) memcpy(attr_field(m, name, BP_ATTR_F64), &value, sizeof value);
}

void fuzz_ints(struct fuzz_generator *m, const char *name, uint32_t n, const int64_t *at)
{
    if (!m->bad) memcpy(attr_field(m, name, BP_ATTR_INTS), at, n * sizeof *at);
}

void fuzz_list(struct fuzz_generator *m, const char *name, uint32_t n, const int64_t *at)
{
    struct fuzz_node *node = m->node;
    struct bp_dims dims = {NULL, n};

    if (m->bad) return;
    m->bad = node->n_list == FUZZ_LISTS || n > REF_RANK;
    if (m->bad) return;
    memcpy(node->list[node->n_list], at, n * sizeof *at);
    dims.at = node->list[node->n_list++];
    memcpy(attr_field(m, name, BP_ATTR_DIMS), &dims, sizeof dims);
}

/* Adds the results of a recorded node to the values. */
static uint32_t node_results(struct fuzz_generator *m, const struct fuzz_node *node)
{
    struct fuzz_recipe *r = m->recipe;

    for (uint32_t i = 0; i < node->n_out; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        struct fuzz_value *v = &r->value[node->out[i]];
        bp_tensor_get_info(m->symbol[node->out[i]], &info);
        *v = (struct fuzz_value){.dtype = info.dtype,
                                 .rank = info.rank,
                                 .kind = FUZZ_RESULT,
                                 .base = FUZZ_ABSENT,
                                 .data = FUZZ_PLAIN,
                                 .limit = 2};
        v->is_view = node->op && node->op->flags & BP_OP_VIEW;
        memcpy(v->shape, info.shape, info.rank * sizeof *info.shape);
    }
    r->n_value += node->n_out;
    r->n_node++;
    return node->out[0];
}

uint32_t fuzz_end(struct fuzz_generator *m, uint32_t n_out)
{
    struct fuzz_recipe *r = m->recipe;
    struct fuzz_node *node = m->node;

    if (m->bad) return FUZZ_BAD;
    node->n_out = n_out ? n_out : node->op ? node->op->n_out : 0;
    if (node->n_out > FUZZ_FLAT || r->n_value + node->n_out > FUZZ_VALUES) return FUZZ_BAD;
    for (uint32_t i = 0; i < node->n_out; i++) node->out[i] = r->n_value + i;
    if (fuzz_record(m->graph, node, m->symbol)) {
        r->refused++;
        if (m->verbose)
            printf("refused: %s: %s\n", node->op ? node->op->name : "gradient", bp_error_message());
        return FUZZ_BAD;
    }
    return node_results(m, node);
}

uint32_t fuzz_unary(struct fuzz_generator *m, const char *op, uint32_t x)
{
    fuzz_begin(m, op);
    fuzz_in(m, x);
    return fuzz_end(m, 0);
}

uint32_t fuzz_binary(struct fuzz_generator *m, const char *op, uint32_t x, uint32_t y)
{
    fuzz_begin(m, op);
    fuzz_in(m, x);
    fuzz_in(m, y);
    return fuzz_end(m, 0);
}

uint32_t fuzz_cast(struct fuzz_generator *m, uint32_t x, uint32_t dtype)
{
    if (m->plain && fuzz_is_float(dtype)) dtype = BP_F32;
    fuzz_begin(m, "cast");
    fuzz_in(m, x);
    fuzz_i64(m, "to", dtype);
    return fuzz_end(m, 0);
}

void fuzz_output(struct fuzz_generator *m, uint32_t v)
{
    if (v < m->recipe->n_value && m->recipe->n_output < FUZZ_OUTPUTS &&
        m->recipe->value[v].kind != FUZZ_CONSTANT) /* a constant is no symbolic tensor */
        m->recipe->output[m->recipe->n_output++] = v;
}
