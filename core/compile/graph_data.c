/* SPDX-License-Identifier: Apache-2.0 */
/* graph_data.c: copies the compiler's representation (IR), or a part of it, to flat arrays. */
#include "graph_data.h"

#include "../base/digest.h"
#include "../memory/source.h"
#include "engine.h"
#include "folded.h"
#include "saved.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows, each with its own lists. */
struct bp_data_value_copy {
    struct bp_data_value row; /* first */
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
    char *name;
    struct bp_tensor *constant; /* a reference, if the row has data */
    bool folded;                /* the constant has one user more: folded.h */
};
struct bp_data_node_copy {
    struct bp_data_node row; /* first */
    char *name;
    void *attrs;
    uint16_t in_at[BP_PORT_MAX + 1], out_at[BP_PORT_MAX + 1];
};

/* A name of a recorded node, by its address. */
struct data_name {
    const char *name;
    uint32_t node;
};

struct copying {
    const struct bp_ir *ir;
    struct bp_graph_copy *copy;
    uint32_t *number; /* of each value of the IR: its number in the copy, or BP_DATA_NONE */
    uint32_t *reads;  /* of each value of the copy: inputs of nodes of the copy */
    struct data_name *name; /* of the recorded nodes, sorted by address; NULL: not sorted yet */
    uint32_t n_list;
};

static enum bp_status data_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to describe a graph to a plugin");
}

/* ---- values ---- */

/* A result is named after its node. */
static char *value_name(const struct bp_ir *ir, uint32_t v)
{
    static const char *const kind[] = {[BP_VALUE_INPUT] = "input",
                                       [BP_VALUE_CONSTANT] = "constant",
                                       [BP_VALUE_SHAPE] = "shape"};
    const struct bp_ir_value *value = &ir->value[v];
    char text[BP_GRAPH_NAME + 16];
    const char *node;

    if (value->kind != BP_VALUE_RESULT) {
        snprintf(text, sizeof text, "%s_%u", kind[value->kind],
                 value->kind == BP_VALUE_INPUT ? value->input : v);
        return strdup(text);
    }
    node = ir->node[value->node].call.name;
    if (!value->output) return strdup(node);
    snprintf(text, sizeof text, "%.*s.%u", BP_GRAPH_NAME - 1, node, value->output);
    return strdup(text);
}

/* Holds a frozen constant and describes its contents. */
static enum bp_status value_hold(struct bp_data_value_copy *to, struct bp_tensor *constant,
                                 bool folded)
{
    const struct bp_view *v = &constant->view;

    if (constant->buffer) TRY(bp_buffer_hold_contents(constant->buffer));
    to->constant = bp_tensor_retain(constant);
    if (folded && !bp_folded_add_user(constant))
        return bp_error(BP_ERR_UNSUPPORTED, "the contents of a folded constant were freed");
    to->folded = folded;
    to->row.data = v->data;
    to->row.memory = v->memory;
    to->row.bytes = bp_view_span(v);
    to->row.id = bp_tensor_constant(constant).id;
    to->row.flags |= BP_DATA_FROZEN;
    if (!(v->flags & BP_VIEW_STRIDED)) return BP_OK;
    memcpy(to->stride, constant->stride, sizeof to->stride);
    to->row.stride = to->stride;
    return BP_OK;
}

static uint32_t value_flags(const struct bp_ir *ir, uint32_t v)
{
    const struct bp_ir_value *value = &ir->value[v];
    bool is_state = !bp_ir_is_stable(ir, v) ||
                    (value->constant && !bp_ir_is_frozen(ir, v));

    return (is_state ? BP_DATA_STATE : 0) |
           (value->kind == BP_VALUE_SHAPE ? BP_DATA_SHAPE_ONLY : 0) |
           (value->kind == BP_VALUE_RESULT && ir->value[value->root].returned ? BP_DATA_RETURNED
                                                                              : 0);
}

/* Copies a value of the IR at its first use. There is room. */
static enum bp_status copy_value(struct copying *c, uint32_t v, uint32_t *out_number)
{
    const struct bp_ir_value *from = &c->ir->value[v];
    struct bp_data_value_copy *to = &c->copy->value[c->copy->n_value];

    *out_number = c->number[v];
    if (*out_number != BP_DATA_NONE) return BP_OK;
    to->name = value_name(c->ir, v);
    if (!to->name) return data_no_memory();
    *out_number = c->number[v] = c->copy->n_value;
    c->copy->value_of[c->copy->n_value++] = v;
    memcpy(to->shape, from->type->shape, sizeof to->shape);
    to->row = (struct bp_data_value){.name = to->name,
                                     .shape = to->shape,
                                     .dtype = from->type->view.dtype,
                                     .rank = from->type->view.rank,
                                     .flags = value_flags(c->ir, v),
                                     .node = BP_DATA_NONE};
    return bp_ir_is_frozen(c->ir, v) ? value_hold(to, from->constant, from->folded) : BP_OK;
}

/* ---- nodes ---- */

static int by_address(const void *a, const void *b)
{
    const struct data_name *x = a, *y = b;

    return x->name < y->name ? -1 : x->name > y->name;
}

/* Finds the number of the recorded node that a node is, or the first one that it replaces. */
static enum bp_status node_source(struct copying *c, uint32_t n, uint32_t *out_source)
{
    const struct bp_ir *ir = c->ir;
    struct data_name key, *found;
    uint32_t count;

    *out_source = n < ir->recorded ? n : BP_DATA_NONE;
    if (n < ir->recorded) return BP_OK;
    if (!c->name) {
        c->name = malloc((ir->recorded + 1) * sizeof *c->name);
        if (!c->name) return data_no_memory();
        for (uint32_t i = 0; i < ir->recorded; i++)
            c->name[i] = (struct data_name){ir->node[i].call.name, i};
        qsort(c->name, ir->recorded, sizeof *c->name, by_address);
    }
    key.name = bp_ir_sources(ir, n, &count)[0];
    found = bsearch(&key, c->name, ir->recorded, sizeof *c->name, by_address);
    if (found) *out_source = found->node;
    return BP_OK;
}

static uint32_t node_flags(const struct bp_node *node)
{
    const struct bp_opdef *row = node->row;

    return (row->random ? BP_DATA_RANDOM : 0) | (row->updates ? BP_DATA_UPDATE : 0) |
           (row->bound ? BP_DATA_BOUND : 0) | (node->kernel ? BP_DATA_PINNED : 0) |
           (bp_engine_is_row(row) ? BP_DATA_FIXED : 0);
}

static enum bp_status copy_operands(struct copying *c, const struct bp_node *from, uint32_t n,
                                    struct bp_data_node_copy *to)
{
    uint32_t *in = c->copy->list + c->n_list, *out = in + from->n_in;

    c->n_list += from->n_in + from->n_out;
    for (uint32_t i = 0; i < from->n_in; i++) {
        in[i] = BP_DATA_NONE;
        if (from->in[i] == BP_NO_VALUE) continue;
        TRY(copy_value(c, bp_ir_same(c->ir, from->in[i]), &in[i]));
        c->reads[in[i]]++;
    }
    for (uint32_t i = 0; i < from->n_out; i++) {
        out[i] = BP_DATA_NONE;
        if (from->out[i] == BP_NO_VALUE) continue;
        TRY(copy_value(c, from->out[i], &out[i]));
        c->copy->value[out[i]].row.node = n;
        c->copy->value[out[i]].row.output = i;
    }
    to->row.in = in;
    to->row.out = out;
    return BP_OK;
}

static enum bp_status copy_node(struct copying *c, uint32_t node)
{
    const struct bp_node *from = &c->ir->node[node].call;
    const struct bp_opinfo *op = &from->row->info;
    uint32_t n = c->copy->n_node;
    struct bp_data_node_copy *to = &c->copy->node[n];

    to->name = strdup(from->name);
    if (!to->name) return data_no_memory();
    c->copy->node_of[c->copy->n_node++] = node;
    if (from->attrs) TRY(bp_attrs_clone(op, from->attrs, &to->attrs));
    memcpy(to->in_at, from->in_at, sizeof to->in_at);
    memcpy(to->out_at, from->out_at, sizeof to->out_at);
    to->row = (struct bp_data_node){.name = to->name,
                                    .op = op->name,
                                    .info = op,
                                    .attrs = to->attrs ? to->attrs : op->defaults,
                                    .in_at = to->in_at,
                                    .out_at = to->out_at,
                                    .n_in = from->n_in,
                                    .n_out = from->n_out,
                                    .flags = node_flags(from)};
    TRY(node_source(c, node, &to->row.source));
    return copy_operands(c, from, n, to);
}

/* ---- order ---- */

static enum bp_status order_add(struct bp_graph_copy *copy, uint32_t first, uint32_t second)
{
    uint32_t n = copy->data.n_before;

    if (first == second) return BP_OK;
    if (n == copy->room_before) {
        uint32_t room = 2 * n + 16, *grown = realloc(copy->before, 2 * room * sizeof *grown);
        if (!grown) return data_no_memory();
        copy->before = grown;
        copy->room_before = room;
    }
    copy->before[2 * n] = first;
    copy->before[2 * n + 1] = second;
    copy->data.n_before++;
    return BP_OK;
}

/* The root whose memory a node updates by output i; BP_NO_VALUE: by none. */
static uint32_t updated_root(const struct bp_ir *ir, const struct bp_node *node, uint32_t port)
{
    const struct bp_port *out = &node->row->info.out[port];
    uint32_t v = out->kind == BP_PORT_UPDATE ? node->in[node->in_at[out->share]] : BP_NO_VALUE;

    return v == BP_NO_VALUE ? v : ir->value[v].root;
}

static bool node_updates(const struct bp_ir *ir, const struct bp_node *node, uint32_t root)
{
    for (uint32_t p = 0; node->row->updates && p < node->row->info.n_out; p++)
        if (updated_root(ir, node, p) == root) return true;
    return false;
}

static bool node_reads(const struct bp_ir *ir, const struct bp_node *node, uint32_t root)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE && ir->value[node->in[i]].root == root) return true;
    return false;
}

/* Orders the nodes that use memory which some of them update: each update after the uses since the
 * update before it, each use after the last update. */
static enum bp_status order_root(struct copying *c, uint32_t root)
{
    struct bp_graph_copy *copy = c->copy;
    uint32_t last = BP_DATA_NONE;

    for (uint32_t n = 0; n < copy->n_node; n++) {
        const struct bp_node *node = &c->ir->node[copy->node_of[n]].call;
        bool updates = node_updates(c->ir, node, root);
        if (!updates && !node_reads(c->ir, node, root)) continue;
        if (last != BP_DATA_NONE) TRY(order_add(copy, last, n));
        if (!updates) continue;
        for (uint32_t k = last == BP_DATA_NONE ? 0 : last + 1; k < n; k++)
            if (node_reads(c->ir, &c->ir->node[copy->node_of[k]].call, root))
                TRY(order_add(copy, k, n));
        last = n;
    }
    return BP_OK;
}

static enum bp_status copy_order(struct copying *c)
{
    for (uint32_t v = 0; v < c->copy->n_value; v++) {
        uint32_t value = c->copy->value_of[v], root = c->ir->value[value].root;
        bool is_first = c->ir->value[root].updated;
        for (uint32_t k = 0; k < v && is_first; k++)
            is_first = c->ir->value[c->copy->value_of[k]].root != root;
        if (is_first) TRY(order_root(c, root));
    }
    return BP_OK;
}

/* ---- borders ---- */

static void border_add(struct copying *c, uint32_t v, uint32_t flag)
{
    c->copy->value[v].row.flags |= flag;
    c->copy->list[c->n_list++] = v;
}

/* The borders of the whole IR. */
static enum bp_status copy_ends(struct copying *c)
{
    struct bp_graph_data *d = &c->copy->data;
    uint32_t v;

    for (; d->n_in < c->ir->n_input; d->n_in++) {
        TRY(copy_value(c, c->ir->input[d->n_in], &v));
        border_add(c, v, BP_DATA_INPUT);
    }
    for (; d->n_out < c->ir->n_output; d->n_out++) {
        TRY(copy_value(c, c->ir->output[d->n_out], &v));
        border_add(c, v, BP_DATA_OUTPUT);
    }
    return BP_OK;
}

/* The borders of a part of the IR. */
static void copy_borders(struct copying *c)
{
    struct bp_graph_data *d = &c->copy->data;

    for (uint32_t v = 0; v < c->copy->n_value; v++) {
        const struct bp_data_value *row = &c->copy->value[v].row;
        if (row->node != BP_DATA_NONE || row->flags & (BP_DATA_FROZEN | BP_DATA_SHAPE_ONLY))
            continue;
        border_add(c, v, BP_DATA_INPUT);
        d->n_in++;
    }
    for (uint32_t v = 0; v < c->copy->n_value; v++) {
        if (c->copy->value[v].row.node == BP_DATA_NONE ||
            c->reads[v] == c->ir->value[c->copy->value_of[v]].uses)
            continue;
        border_add(c, v, BP_DATA_OUTPUT);
        d->n_out++;
    }
}

/* ---- identity ---- */

static void hash_graph(const struct bp_graph_copy *copy, struct bp_digest *h)
{
    const struct bp_graph_data *d = &copy->data;

    for (uint32_t v = 0; v < copy->n_value; v++) {
        const struct bp_data_value *row = &copy->value[v].row;
        bp_digest_add_word(h, (uint64_t)row->dtype << 32 | row->rank);
        bp_digest_add_word(h, (uint64_t)row->flags << 32 | (row->stride != NULL));
        bp_digest_add(h, row->shape, row->rank * sizeof *row->shape);
        if (row->stride) bp_digest_add(h, row->stride, row->rank * sizeof *row->stride);
    }
    for (uint32_t n = 0; n < copy->n_node; n++) {
        const struct bp_data_node *row = &copy->node[n].row;
        bp_digest_add_text(h, row->op);
        bp_digest_add(h, row->in, row->n_in * sizeof *row->in);
        bp_digest_add(h, row->out, row->n_out * sizeof *row->out);
        bp_digest_add(h, row->in_at, (row->info->n_in + 1u) * sizeof *row->in_at);
        bp_saved_add_attrs(h, row->info, row->attrs);
    }
    bp_digest_add(h, d->in, d->n_in * sizeof *d->in);
    bp_digest_add(h, d->out, d->n_out * sizeof *d->out);
    bp_digest_add(h, copy->before, 2 * (size_t)d->n_before * sizeof *copy->before);
}

/* Two digests of 16 bytes, which begin with different words. */
static void copy_hash(struct bp_graph_copy *copy)
{
    for (uint64_t half = 0; half < 2; half++) {
        struct bp_digest h = bp_digest_begin();
        bp_digest_add_word(&h, half);
        hash_graph(copy, &h);
        memcpy(copy->data.hash + 16 * half, &h, 16);
    }
}

/* ---- the copy ---- */

/* Allocates all lists for the nodes of a list. */
static enum bp_status copying_room(struct copying *c, const uint32_t *nodes, uint32_t n)
{
    struct bp_graph_copy *copy = c->copy;
    const struct bp_ir *ir = c->ir;
    size_t ends = (size_t)ir->n_input + ir->n_output, list = 0, values;

    for (uint32_t i = 0; i < n; i++)
        list += ir->node[nodes[i]].call.n_in + ir->node[nodes[i]].call.n_out;
    values = list + ends < ir->n_value ? list + ends : ir->n_value;
    copy->value = calloc(values + 1, sizeof *copy->value);
    copy->node = calloc(n + 1u, sizeof *copy->node);
    copy->value_of = malloc((values + 1) * sizeof *copy->value_of);
    copy->node_of = malloc((n + 1u) * sizeof *copy->node_of);
    copy->list = malloc((list + 2 * values + ends + 1) * sizeof *copy->list);
    c->number = malloc((ir->n_value + 1) * sizeof *c->number);
    c->reads = calloc(values + 1, sizeof *c->reads);
    if (!copy->value || !copy->node || !copy->value_of || !copy->node_of || !copy->list ||
        !c->number || !c->reads)
        return data_no_memory();
    for (uint32_t v = 0; v < ir->n_value; v++) c->number[v] = BP_DATA_NONE;
    return BP_OK;
}

static void set_data(struct bp_graph_copy *copy, uint32_t device, uint32_t border)
{
    struct bp_graph_data *d = &copy->data;

    d->size = sizeof *d;
    d->device = device;
    d->in = copy->list + border;
    d->out = d->in + d->n_in;
    d->value = &copy->value->row;
    d->node = &copy->node->row;
    d->n_value = copy->n_value;
    d->n_node = copy->n_node;
    d->value_stride = sizeof *copy->value;
    d->node_stride = sizeof *copy->node;
    d->symbol_stride = sizeof(struct bp_data_symbol);
}

/* Copies the nodes of a list: all of the IR, or a part of it. */
static enum bp_status copy_all(struct copying *c, const uint32_t *nodes, uint32_t n, bool is_part)
{
    uint32_t border;

    TRY(copying_room(c, nodes, n));
    for (uint32_t i = 0; i < n; i++) TRY(copy_node(c, nodes[i]));
    border = c->n_list;
    if (is_part) copy_borders(c);
    else TRY(copy_ends(c));
    set_data(c->copy, c->ir->device->index, border);
    TRY(copy_order(c));
    c->copy->data.before = c->copy->before;
    copy_hash(c->copy);
    return BP_OK;
}

/* Lists the living nodes of the IR in their order. */
static uint32_t *list_nodes(const struct bp_ir *ir)
{
    uint32_t *list = malloc((ir->living + 1u) * sizeof *list), n = 0;

    if (!list) return NULL;
    for (uint32_t i = ir->first; i != BP_NO_VALUE; i = ir->node[i].next) list[n++] = i;
    return list;
}

enum bp_status bp_graph_copy_create(const struct bp_ir *ir, const uint32_t *nodes, uint32_t n,
                                    struct bp_graph_copy **out_copy)
{
    struct copying c = {.ir = ir, .copy = calloc(1, sizeof *c.copy)};
    uint32_t *all = nodes ? NULL : list_nodes(ir);
    enum bp_status status = data_no_memory();

    if (c.copy && (nodes || all))
        status = copy_all(&c, nodes ? nodes : all, nodes ? n : ir->living, nodes != NULL);
    free(all);
    free(c.number);
    free(c.reads);
    free(c.name);
    if (status) bp_graph_copy_destroy(c.copy);
    else *out_copy = c.copy;
    return status;
}

/* ---- the graph of a call ---- */

static enum bp_status call_room(struct bp_graph_copy *copy, const struct bp_prep *prep)
{
    size_t n = (size_t)prep->n_in + prep->n_out;

    copy->value = calloc(n + 1, sizeof *copy->value);
    copy->node = calloc(1, sizeof *copy->node);
    copy->list = malloc((2 * n + 1) * sizeof *copy->list);
    return copy->value && copy->node && copy->list ? BP_OK : data_no_memory();
}

/* Adds the value of a tensor of the call, and to the list at `border` if runs get the tensor. */
static enum bp_status call_value(struct bp_graph_copy *copy, const struct bp_view *v,
                                 const char *name, uint32_t number, uint32_t flags,
                                 uint32_t *border)
{
    struct bp_data_value_copy *to = &copy->value[copy->n_value];
    bool is_out = flags & BP_DATA_OUTPUT;
    char text[BP_GRAPH_NAME + 16];

    snprintf(text, sizeof text, "%.*s%c%u", BP_GRAPH_NAME - 1, name, is_out ? '.' : '_', number);
    if (is_out && !number) text[strlen(text) - 2] = 0; /* as that of a node with one result */
    to->name = strdup(text);
    if (!to->name) return data_no_memory();
    memcpy(to->shape, v->shape, v->rank * sizeof *v->shape);
    to->row = (struct bp_data_value){.name = to->name,
                                     .shape = to->shape,
                                     .dtype = v->dtype,
                                     .rank = v->rank,
                                     .flags = flags,
                                     .node = is_out ? 0 : BP_DATA_NONE,
                                     .output = is_out ? number : 0};
    if (!(flags & BP_DATA_SHAPE_ONLY)) copy->list[(*border)++] = copy->n_value;
    copy->n_value++;
    return BP_OK;
}

/* The values of the call: lists of the node's tensors, then of the graph's. */
static enum bp_status call_values(struct bp_graph_copy *copy, const struct bp_opdef *row,
                                  const struct bp_prep *prep)
{
    uint32_t n = prep->n_in + prep->n_out, border = n;

    for (uint32_t i = 0; i < prep->n_in; i++) {
        uint32_t flags = bp_reads_shape(row, prep->in_at, i) ? BP_DATA_SHAPE_ONLY : BP_DATA_INPUT;
        copy->list[i] = prep->in[i] ? copy->n_value : BP_DATA_NONE;
        if (prep->in[i]) TRY(call_value(copy, prep->in[i], "input", i, flags, &border));
    }
    copy->data.n_in = border - n;
    for (uint32_t o = 0; o < prep->n_out; o++) {
        copy->list[prep->n_in + o] = prep->out[o] ? copy->n_value : BP_DATA_NONE;
        if (prep->out[o])
            TRY(call_value(copy, prep->out[o], row->info.name, o, BP_DATA_OUTPUT, &border));
    }
    copy->data.n_out = border - n - copy->data.n_in;
    return BP_OK;
}

static enum bp_status call_node(struct bp_graph_copy *copy, const struct bp_opdef *row,
                                const struct bp_prep *prep)
{
    struct bp_data_node_copy *to = copy->node;
    const struct bp_opinfo *op = &row->info;

    to->name = strdup(op->name);
    copy->n_node = 1;
    if (!to->name) return data_no_memory();
    if (prep->attrs) TRY(bp_attrs_clone(op, prep->attrs, &to->attrs));
    memcpy(to->in_at, prep->in_at, (op->n_in + 1u) * sizeof *to->in_at);
    memcpy(to->out_at, prep->out_at, (op->n_out + 1u) * sizeof *to->out_at);
    to->row = (struct bp_data_node){.name = to->name,
                                    .op = op->name,
                                    .info = op,
                                    .attrs = to->attrs ? to->attrs : op->defaults,
                                    .in = copy->list,
                                    .out = copy->list + prep->n_in,
                                    .in_at = to->in_at,
                                    .out_at = to->out_at,
                                    .n_in = prep->n_in,
                                    .n_out = prep->n_out,
                                    .source = BP_DATA_NONE};
    return BP_OK;
}

enum bp_status bp_graph_copy_of_call(const struct bp_opdef *row, const struct bp_prep *prep,
                                     struct bp_graph_copy **out_copy)
{
    struct bp_graph_copy *copy = calloc(1, sizeof *copy);
    enum bp_status status = copy ? call_room(copy, prep) : data_no_memory();

    if (status == BP_OK) status = call_values(copy, row, prep);
    if (status == BP_OK) status = call_node(copy, row, prep);
    if (status) {
        bp_graph_copy_destroy(copy);
        return status;
    }
    set_data(copy, prep->device, prep->n_in + prep->n_out);
    copy_hash(copy);
    *out_copy = copy;
    return BP_OK;
}

static bool same_values(const struct bp_graph_copy *a, const struct bp_graph_copy *b)
{
    for (uint32_t v = 0; v < a->n_value; v++) {
        const struct bp_data_value *x = &a->value[v].row, *y = &b->value[v].row;
        if (x->dtype != y->dtype || x->rank != y->rank || x->flags != y->flags ||
            memcmp(x->shape, y->shape, x->rank * sizeof *x->shape))
            return false;
    }
    return true;
}

bool bp_graph_copy_same_call(const struct bp_graph_copy *a, const struct bp_graph_copy *b)
{
    const struct bp_data_node *x = &a->node->row, *y = &b->node->row;
    size_t ports = x->n_in + x->n_out;

    return a->n_value == b->n_value && x->n_in == y->n_in && x->n_out == y->n_out &&
           !memcmp(a->list, b->list, ports * sizeof *a->list) &&
           !memcmp(x->in_at, y->in_at, (x->info->n_in + 1u) * sizeof *x->in_at) &&
           !memcmp(x->out_at, y->out_at, (x->info->n_out + 1u) * sizeof *x->out_at) &&
           bp_attrs_same(x->info, x->attrs, y->attrs) && same_values(a, b);
}

static void value_free(struct bp_data_value_copy *value)
{
    free(value->name);
    if (!value->constant) return;
    if (value->folded) bp_folded_release(value->constant, false);
    if (value->constant->buffer) bp_buffer_end_hold(value->constant->buffer);
    bp_tensor_destroy(value->constant);
}

void bp_graph_copy_destroy(struct bp_graph_copy *copy)
{
    if (!copy) return;
    for (uint32_t v = 0; v < copy->n_value; v++) value_free(&copy->value[v]);
    for (uint32_t n = 0; n < copy->n_node; n++) {
        free(copy->node[n].name);
        free(copy->node[n].attrs);
    }
    free(copy->value);
    free(copy->node);
    free(copy->value_of);
    free(copy->node_of);
    free(copy->list);
    free(copy->before);
    free(copy);
}
