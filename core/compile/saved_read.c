/* SPDX-License-Identifier: Apache-2.0 */
/* saved_read.c: reads the representation of a compiled graph (saved.h). The nodes are recorded in a
 * graph of their own by the functions that record calls of the app, which check operators,
 * attributes and types, and take the place of the recorded nodes. */
#include "saved.h"

#include "../call/prepared.h"
#include "passes.h"

#include <stdlib.h>
#include <string.h>

struct reading_node {
    const char *name, *prefer; /* in the file */
    bool made;
    uint64_t random_at;
    uint32_t *source; /* numbers of recorded nodes; owned */
    uint32_t n_source;
    uint16_t *layout; /* of each output; owned; NULL: all are in strides */
};

struct reading {
    struct bp_kept_reader r;
    const struct bp_graph *graph; /* of the program */
    struct bp_graph *nodes;       /* those of the file */
    struct bp_ir *ir;
    struct bp_tensor **tensor; /* of each id: a symbol of `nodes`, or NULL */
    uint32_t n_id, room_id;
    uint32_t n_own; /* ids of values that the IR of the recorded graph has */
    struct reading_node *node; /* of each node of `nodes` */
    uint32_t n_folded, n_node; /* nodes that compute constants, and all */
    uint32_t *place;           /* of each input of `nodes`: the IR's value */
    struct bp_saved_group *group; /* compiled by engines: n_group */
    uint32_t n_group;
    const struct bp_compile_options *options;
};

static enum bp_status reading_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to read a program");
}

static enum bp_status reading_bad(const char *what)
{
    return bp_error(BP_ERR_INVALID, "the file of a program is invalid: %s", what);
}

/* ---- contents of constants ---- */

static enum bp_status read_contents(struct reading *s)
{
    uint32_t n = bp_kept_get_count(&s->r, 4 + sizeof(struct bp_digest));

    for (uint32_t i = 0; i < n; i++) {
        uint32_t v = bp_kept_get_u32(&s->r);
        const void *noted = bp_kept_get_bytes(&s->r, sizeof(struct bp_digest));
        struct bp_digest now;
        if (!noted || v >= s->graph->n_value || !s->graph->value[v].constant)
            return reading_bad("a constant");
        TRY(bp_saved_contents(s->graph->value[v].constant, &now));
        if (memcmp(noted, &now, sizeof now))
            return bp_error(BP_ERR_INVALID,
                            "the file of a program is stale: constant %s has other contents",
                            s->graph->value[v].name);
    }
    return s->r.failed ? reading_bad("it ends early") : BP_OK;
}

/* ---- nodes ---- */

/* Returns the symbol of a value of the file; a recorded value becomes an input of `nodes` at its
 * first use. */
static enum bp_status reading_value(struct reading *s, uint32_t id, struct bp_tensor **out)
{
    const struct bp_typed_view *of;
    struct bp_type type;
    uint32_t *grown;

    *out = NULL;
    if (id == BP_NO_VALUE) return BP_OK;
    if (id >= s->n_id) return reading_bad("a value that is not computed before");
    if (!s->tensor[id]) {
        if (id >= s->n_own || s->ir->value[id].kind == BP_VALUE_RESULT)
            return reading_bad("a value that is not computed before");
        of = s->ir->value[id].type;
        type = (struct bp_type){.dtype = of->view.dtype, .rank = of->view.rank};
        memcpy(type.shape, of->shape, sizeof type.shape);
        grown = realloc(s->place, (s->nodes->n_input + 1) * sizeof *grown);
        if (!grown) return reading_no_memory();
        s->place = grown;
        s->place[s->nodes->n_input] = id;
        TRY(bp_graph_add_input(s->nodes, NULL, &type, &s->tensor[id]));
    }
    *out = s->tensor[id];
    return BP_OK;
}

/* The attributes of a node: their struct, and the lists that it points to. */
struct reading_attrs {
    uint64_t full[512 / 8];
    int64_t *list[64];
    uint32_t n_list;
};

static const struct bp_attr *attr_named(const struct bp_opinfo *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
    return NULL;
}

static enum bp_status read_attr(struct reading *s, const struct bp_opinfo *op,
                                struct reading_attrs *to)
{
    const struct bp_attr *a = attr_named(op, bp_kept_get_text(&s->r));
    uint32_t kind = bp_kept_get_u32(&s->r), n = bp_kept_get_count(&s->r, 8);
    const void *words = bp_kept_get_bytes(&s->r, 8 * (size_t)n);
    struct bp_dims dims = {NULL, n};

    if (!words || !a || a->kind != kind || (kind != BP_ATTR_DIMS && n != a->count))
        return reading_bad("an attribute");
    if (kind != BP_ATTR_DIMS) {
        memcpy((char *)to->full + a->offset, words, 8 * (size_t)n);
        return BP_OK;
    }
    if (to->n_list == sizeof to->list / sizeof *to->list) return reading_bad("many attributes");
    dims.at = to->list[to->n_list] = malloc(8 * (size_t)n + 8);
    if (!dims.at) return reading_no_memory();
    memcpy(to->list[to->n_list++], words, 8 * (size_t)n);
    memcpy((char *)to->full + a->offset, &dims, sizeof dims);
    return BP_OK;
}

static enum bp_status read_attrs(struct reading *s, const struct bp_opinfo *op,
                                 struct reading_attrs *to, bool *out_any)
{
    uint32_t n;
    size_t size = op->attrs_size;

    *out_any = bp_kept_get_u32(&s->r);
    n = bp_kept_get_count(&s->r, 16);
    if (s->r.failed || n > op->n_attr || (*out_any && !size) || (!*out_any && n) ||
        size > sizeof to->full)
        return reading_bad("a list of attributes");
    if (!*out_any) return BP_OK;
    memcpy(to->full, op->defaults, size);
    memcpy(to->full, &size, sizeof size);
    for (uint32_t i = 0; i < n; i++) TRY(read_attr(s, op, to));
    return BP_OK;
}

/* A call that is being read. */
struct reading_call {
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX];
    struct bp_arg arg[BP_PORT_MAX];
    uint8_t want[BP_FLAT_MAX];
    uint32_t n_out;
    struct reading_attrs attrs;
    bool has_attrs;
};

static enum bp_status read_inputs(struct reading *s, const struct bp_opinfo *op,
                                  struct reading_call *c)
{
    uint32_t at = 0;

    if (bp_kept_get_u32(&s->r) != op->n_in) return reading_bad("a number of inputs");
    for (uint32_t p = 0; p < op->n_in; p++) {
        uint32_t n = bp_kept_get_u32(&s->r);
        if (n > BP_FLAT_MAX - at) return reading_bad("a number of inputs");
        c->arg[p] = (struct bp_arg){c->in + at, n};
        at += n;
    }
    for (uint32_t i = 0; i < at; i++) TRY(reading_value(s, bp_kept_get_u32(&s->r), &c->in[i]));
    return BP_OK;
}

static enum bp_status read_outputs(struct reading *s, struct reading_node *node,
                                   struct reading_call *c)
{
    c->n_out = bp_kept_get_u32(&s->r);
    if (s->r.failed || c->n_out > BP_FLAT_MAX) return reading_bad("a number of outputs");
    for (uint32_t i = 0; i < c->n_out; i++) {
        uint32_t word = bp_kept_get_u32(&s->r);
        c->want[i] = word != 0;
        if (word < 2) continue;
        if (word - 1 > s->ir->device->entry->n_layout) return reading_bad("a layout");
        if (!node->layout) node->layout = calloc(c->n_out, sizeof *node->layout);
        if (!node->layout) return reading_no_memory();
        node->layout[i] = (uint16_t)(word - 1);
    }
    return BP_OK;
}

static enum bp_status read_sources(struct reading *s, struct reading_node *node)
{
    uint32_t n = bp_kept_get_count(&s->r, 4);

    node->source = malloc((n + 1) * sizeof *node->source);
    if (!node->source) return reading_no_memory();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t source = bp_kept_get_u32(&s->r);
        if (source >= s->graph->n_node) return reading_bad("the source of a node");
        node->source[node->n_source++] = source;
    }
    return BP_OK;
}

/* Gives the results of the recorded call their ids. */
static enum bp_status take_results(struct reading *s, struct reading_call *c)
{
    enum bp_status status = BP_OK;

    if (s->n_id + c->n_out > s->room_id) {
        uint32_t room = 2 * s->room_id + c->n_out;
        struct bp_tensor **grown = realloc(s->tensor, room * sizeof(struct bp_tensor *));
        if (grown) {
            s->tensor = grown;
            s->room_id = room;
        } else status = reading_no_memory();
    }
    for (uint32_t i = 0; i < c->n_out; i++) {
        if (!c->want[i]) continue;
        if (!c->out[i] && !status) status = reading_bad("a result");
        if (status) bp_tensor_destroy(c->out[i]);
        else s->tensor[s->n_id++] = c->out[i];
    }
    return status;
}

static enum bp_status read_call(struct reading *s, struct reading_node *node,
                                struct reading_call *c)
{
    struct bp_call call = {.size = sizeof call, .op = bp_kept_get_text(&s->r), .in = c->arg};
    const struct bp_opdef *row = bp_opdef_find(call.op);

    if (!row) return reading_bad("an operator that does not exist");
    node->name = bp_kept_get_text(&s->r);
    call.kernel = bp_kept_get_text(&s->r);
    if (!*call.kernel) call.kernel = NULL;
    node->prefer = bp_kept_get_text(&s->r);
    node->made = bp_kept_get_u32(&s->r) != 0;
    node->random_at = bp_kept_get_u64(&s->r);
    if (node->random_at > s->ir->random_blocks) return reading_bad("a range of random numbers");
    call.n_in = row->info.n_in;
    TRY(read_inputs(s, &row->info, c));
    TRY(read_outputs(s, node, c));
    TRY(read_attrs(s, &row->info, &c->attrs, &c->has_attrs));
    TRY(read_sources(s, node));
    if (s->r.failed) return reading_bad("it ends early");
    if (c->has_attrs) call.attrs = c->attrs.full;
    TRY(bp_graph_trace(s->nodes, row, &call, c->out, c->n_out, c->want));
    return take_results(s, c);
}

static enum bp_status read_node(struct reading *s, struct reading_node *node)
{
    struct reading_call *c = calloc(1, sizeof *c);
    enum bp_status status = c ? read_call(s, node, c) : reading_no_memory();

    for (uint32_t i = 0; c && i < c->attrs.n_list; i++) free(c->attrs.list[i]);
    free(c);
    return status;
}

static enum bp_status read_nodes(struct reading *s)
{
    s->n_folded = bp_kept_get_u32(&s->r);
    s->n_node = bp_kept_get_count(&s->r, 32);
    if (s->r.failed || s->n_folded > s->n_node) return reading_bad("a number of nodes");
    s->node = calloc(s->n_node + 1, sizeof *s->node);
    if (!s->node) return reading_no_memory();
    for (uint32_t n = 0; n < s->n_node; n++) {
        char *name;
        TRY(read_node(s, &s->node[n]));
        if (s->nodes->n_node != n + 1) return reading_bad("a node");
        name = strdup(s->node[n].name);
        if (!name) return reading_no_memory();
        free(s->nodes->node[n].name);
        s->nodes->node[n].name = name;
    }
    return BP_OK;
}

static enum bp_status read_groups(struct reading *s)
{
    s->n_group = bp_kept_get_count(&s->r, 48);
    s->group = calloc(s->n_group + 1u, sizeof *s->group);
    if (!s->group) return reading_no_memory();
    for (uint32_t g = 0; g < s->n_group; g++)
        if (!bp_saved_read_group(&s->r, &s->group[g])) return reading_bad("a group");
    return s->r.failed ? reading_bad("it ends early") : BP_OK;
}

/* ---- the representation ---- */

/* The IR's number of a value of the file, after its nodes have been inserted; BP_NO_VALUE: there is
 * no such value. */
static uint32_t number_of(const struct reading *s, uint32_t id, const uint32_t *number)
{
    if (id >= s->n_id) return BP_NO_VALUE;
    if (id < s->n_own)
        return id < s->graph->n_value && s->graph->value[id].kind != BP_VALUE_RESULT ? id
                                                                                     : BP_NO_VALUE;
    return number[s->tensor[id]->value];
}

/* Makes the outputs of the IR values of the file. */
static enum bp_status read_outputs_of_graph(struct reading *s, const uint32_t *number)
{
    struct bp_ir *ir = s->ir;
    bool has_dense = bp_kept_get_u32(&s->r) != 0;

    if (has_dense) {
        ir->dense = calloc(ir->n_output + 1, sizeof *ir->dense);
        if (!ir->dense) return reading_no_memory();
    }
    for (uint32_t o = 0; o < ir->n_output; o++) {
        uint32_t v = number_of(s, bp_kept_get_u32(&s->r), number);
        bool dense = bp_kept_get_u32(&s->r) != 0;
        if (s->r.failed || v == BP_NO_VALUE ||
            !bp_same_type(&ir->value[v].type->view, &ir->value[ir->output[o]].type->view))
            return reading_bad("an output");
        ir->value[ir->output[o]].uses--;
        ir->value[v].uses++;
        ir->output[o] = v;
        if (has_dense) ir->dense[o] = dense;
    }
    for (uint32_t i = 0; i < BP_IR_PASSES; i++) {
        ir->pass[i].changes = bp_kept_get_u32(&s->r);
        ir->pass[i].nodes = bp_kept_get_u32(&s->r);
        ir->pass[i].ran = bp_kept_get_u32(&s->r) != 0;
    }
    ir->shaped = bp_kept_get_u32(&s->r) != 0;
    return s->r.failed || s->r.at != s->r.end ? reading_bad("its end") : BP_OK;
}

static enum bp_status describe_nodes(struct reading *s, uint32_t first)
{
    for (uint32_t n = 0; n < s->n_node; n++) {
        struct bp_ir_node *to = &s->ir->node[first + n];
        const struct reading_node *from = &s->node[n];
        to->made = from->made;
        to->random_at = from->random_at;
        for (uint32_t i = 0; from->layout && i < to->call.n_out; i++)
            if (to->call.out[i] != BP_NO_VALUE)
                s->ir->value[to->call.out[i]].type->view.layout = from->layout[i];
        to->source = malloc((from->n_source + 1) * sizeof *to->source);
        if (!to->source) return reading_no_memory();
        for (uint32_t i = 0; i < from->n_source; i++)
            to->source[to->n_source++] = s->ir->node[from->source[i]].call.name;
        if (!*from->prefer) continue;
        to->prefer = strdup(from->prefer);
        if (!to->prefer) return reading_no_memory();
    }
    return BP_OK;
}

/* Replaces the nodes of the IR, a copy of the program's graph, by those of the file. */
static enum bp_status replace_nodes(struct reading *s)
{
    struct bp_ir *ir = s->ir;
    uint32_t recorded = ir->n_node, next = ir->n_value, n_value = s->nodes->n_value;
    uint32_t *number = malloc((n_value + 1) * sizeof *number);
    enum bp_status status = number ? BP_OK : reading_no_memory();

    for (uint32_t v = 0; number && v < n_value; v++)
        number[v] = s->nodes->value[v].kind == BP_VALUE_INPUT ? BP_NO_VALUE : next++;
    if (!status) status = bp_ir_splice(ir, s->nodes, BP_NO_VALUE, s->place, NULL, NULL, 0);
    if (!status) status = read_outputs_of_graph(s, number);
    if (!status) status = describe_nodes(s, recorded);
    for (uint32_t n = recorded; !status && n-- > 0;) bp_ir_kill(ir, n);
    if (!status) bp_ir_resolve(ir);
    free(number);
    return status;
}

static enum bp_status reading_run(struct reading *s, struct bp_device *device)
{
    uint32_t first;

    TRY(read_contents(s));
    TRY(bp_ir_create(s->graph, device, &s->ir));
    s->ir->allow |= s->options->allow;
    s->ir->cancel = s->options->cancel;
    first = s->ir->n_node;
    s->n_own = s->n_id = s->room_id = s->ir->n_value;
    s->tensor = calloc(s->n_own + 1, sizeof(struct bp_tensor *));
    if (!s->tensor) return reading_no_memory();
    TRY(read_nodes(s));
    TRY(read_groups(s));
    TRY(replace_nodes(s));
    if (s->n_folded) {
        struct bp_compilation c = {.ir = s->ir};
        TRY(bp_ir_verify(s->ir));
        TRY(bp_pass_fold(&c));
        bp_ir_resolve(s->ir);
    }
    TRY(bp_ir_verify(s->ir));
    if (!s->n_group) return BP_OK;
    TRY(bp_saved_restore(s->ir, first, s->n_node, s->group, s->n_group));
    return bp_ir_verify(s->ir);
}

enum bp_status bp_saved_read(const struct bp_graph *graph, struct bp_device *device,
                             const struct bp_compile_options *options, const void *bytes,
                             size_t n, struct bp_ir **out_ir)
{
    struct reading s = {.r = {bytes, (const unsigned char *)bytes + n, false},
                        .graph = graph,
                        .options = options};
    enum bp_status status = bp_graph_make(&s.nodes);

    if (!status) status = reading_run(&s, device);
    for (uint32_t i = 0; s.tensor && i < s.n_id; i++) bp_tensor_destroy(s.tensor[i]);
    for (uint32_t i = 0; s.node && i < s.n_node; i++) {
        free(s.node[i].source);
        free(s.node[i].layout);
    }
    free(s.tensor);
    free(s.node);
    free(s.place);
    free(s.group);
    bp_graph_release(s.nodes);
    if (status) bp_ir_destroy(s.ir);
    else *out_ir = s.ir;
    return status;
}
