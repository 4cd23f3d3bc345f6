/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kit.c: gives graphs of tests to the engine of the openvino plugin, and compares values. */
#include "engine_kit.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the plugin ---- */

static void kit_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "openvino: %s\n", text);
}

static enum bp_status kit_fail(void *ctx, uint32_t status, const char *text)
{
    struct kit_plugin *k = ctx;

    snprintf(k->message, sizeof k->message, "%s", text);
    return status;
}

static void *kit_allocate(void *ctx, size_t size, size_t alignment)
{
    void *memory = NULL;

    if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, size ? size : 1)) return NULL;
    ((struct kit_plugin *)ctx)->allocations++;
    return memory;
}

static void kit_release(void *ctx, void *memory, size_t size)
{
    (void)size;
    if (memory) ((struct kit_plugin *)ctx)->allocations--;
    free(memory);
}

void kit_open(struct kit_plugin *k)
{
    void *library = dlopen(OPENVINO_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    cr_assert_not_null(library, "%s", dlerror());
    *(void **)&get = dlsym(library, "bp_plugin_get");
    *k = (struct kit_plugin){.plugin = get()};
    k->host = (struct bp_host){.size = sizeof k->host,
                               .abi_major = BP_ABI_MAJOR,
                               .abi_minor = BP_ABI_MINOR,
                               .ctx = k,
                               .log = kit_log,
                               .fail = kit_fail,
                               .allocate = kit_allocate,
                               .release = kit_release};
    k->engine = k->plugin->engines;
    k->flags = BP_ENGINE_FAST_MATH;
    cr_assert_eq(k->plugin->create(&k->host, &k->self), BP_OK, "%s", k->message);
}

void kit_close(struct kit_plugin *k)
{
    k->plugin->destroy(k->self);
    cr_assert_eq(k->allocations, 0, "%ld allocations are left", (long)k->allocations);
}

/* ---- graphs ---- */

static void kit_value(const struct text_graph *g, uint32_t number, struct bp_data_value *to)
{
    struct bp_value_info info = {.size = sizeof info};
    struct bp_tensor_info tensor = {.size = sizeof tensor};
    void *data;

    OK(bp_graph_value(g->graph, number, &info));
    *to = (struct bp_data_value){.name = info.name,
                                 .shape = info.shape,
                                 .dtype = info.dtype,
                                 .rank = info.rank,
                                 .node = info.node};
    if (info.kind == 0) to->flags |= BP_DATA_INPUT;
    if (info.output != UINT32_MAX) to->flags |= BP_DATA_OUTPUT;
    if (info.kind != 1) return;
    OK(bp_tensor_get_info(info.constant, &tensor));
    if (!tensor.frozen) {
        to->flags |= BP_DATA_STATE;
        return;
    }
    OK(bp_tensor_map(info.constant, &data));
    to->flags |= BP_DATA_FROZEN;
    to->data = data;
    to->bytes = tensor.bytes;
    to->stride = tensor.stride;
}

/* Fills the index of the first value of each port: a variadic port has what the others leave. */
static void kit_ports(const struct bp_port *port, uint32_t n_port, uint32_t n, uint16_t *at)
{
    uint32_t used = 0;

    for (uint32_t p = 0; p < n_port; p++) {
        bool any = port[p].kind == BP_PORT_VAR || port[p].kind == BP_PORT_VAROUT;
        at[p] = (uint16_t)used;
        used += any ? n - (n_port - 1) : 1;
        if (used > n) used = n;
    }
    at[n_port] = (uint16_t)n;
}

static void kit_node(const struct text_graph *g, uint32_t number, struct kit_graph *to)
{
    struct bp_node_info info = {.size = sizeof info};
    uint16_t *in_at = to->at[2 * number], *out_at = to->at[2 * number + 1];
    const struct bp_opinfo *op;

    OK(bp_graph_node(g->graph, number, &info));
    op = bp_opinfo_find(info.op);
    kit_ports(op->in, op->n_in, info.n_in, in_at);
    kit_ports(op->out, op->n_out, info.n_out, out_at);
    to->node[number] = (struct bp_data_node){.name = info.name,
                                             .op = info.op,
                                             .info = op,
                                             .attrs = info.attrs,
                                             .in = info.in,
                                             .out = info.out,
                                             .in_at = in_at,
                                             .out_at = out_at,
                                             .n_in = info.n_in,
                                             .n_out = info.n_out,
                                             .source = number,
                                             .flags = op->flags & BP_OP_RANDOM  ? BP_DATA_RANDOM
                                                      : op->flags & BP_OP_BOUND ? BP_DATA_BOUND
                                                                                : 0};
}

void kit_graph(const struct text_graph *g, struct kit_graph *to)
{
    struct bp_graph_info info = {.size = sizeof info};
    uint32_t n_in = 0;

    OK(bp_graph_get_info(g->graph, &info));
    cr_assert(info.values <= KIT_VALUES && info.nodes <= KIT_NODES);
    *to = (struct kit_graph){.data = {.size = sizeof to->data,
                                      .value = to->value,
                                      .node = to->node,
                                      .n_value = info.values,
                                      .n_node = info.nodes,
                                      .value_stride = sizeof *to->value,
                                      .node_stride = sizeof *to->node,
                                      .in = to->in,
                                      .out = to->out,
                                      .n_out = info.outputs}};
    for (uint32_t v = 0; v < info.values; v++) {
        kit_value(g, v, &to->value[v]);
        if (to->value[v].flags & BP_DATA_INPUT) to->in[n_in++] = v;
        for (uint32_t o = 0; o < info.outputs; o++) {
            struct bp_value_info value = {.size = sizeof value};
            OK(bp_graph_value(g->graph, v, &value));
            if (value.output == o) to->out[o] = v;
        }
    }
    to->data.n_in = n_in;
    for (uint32_t n = 0; n < info.nodes; n++) kit_node(g, n, to);
}

/* ---- the engine ---- */

enum bp_status kit_claim(struct kit_plugin *k, const struct kit_graph *graph,
                         struct kit_claim *claim)
{
    double score[KIT_NODES] = {0};
    struct bp_claim out = {
        .size = sizeof out, .group = claim->group, .reason = claim->reason, .score = score,
        .flags = k->flags};
    enum bp_status status;

    *claim = (struct kit_claim){0};
    status = k->engine->claim(k->self, &graph->data, &out);
    claim->n_group = out.n_group;
    return status;
}

enum bp_status kit_compile(struct kit_plugin *k, const struct kit_graph *graph,
                           struct kit_compiled *c)
{
    c->options.size = sizeof c->options;
    c->options.graph = &graph->data;
    c->options.flags = k->flags;
    if (!c->options.width) c->options.width = 2;
    c->result = (struct bp_engine_compiled){.size = sizeof c->result,
                                            .in_layout = c->in_layout,
                                            .out_layout = c->out_layout,
                                            .may_share = c->may_share,
                                            .out_type = c->out_type};
    for (uint32_t i = 0; i < graph->data.n_out; i++) {
        const struct bp_data_value *v = &graph->value[graph->out[i]];
        c->out_type[i] = (struct bp_inferred){.dtype = v->dtype, .rank = v->rank};
        memcpy(c->out_type[i].extent, v->shape, v->rank * sizeof *v->shape);
    }
    return k->engine->compile(k->self, &c->options, &c->result);
}

void kit_destroy(struct kit_plugin *k, struct kit_compiled *c)
{
    k->engine->engine_destroy(k->self, 0, c->result.engine);
}

static struct bp_view kit_view(const struct bp_data_value *v, void *data)
{
    struct bp_view view = {.data = data,
                           .shape = v->shape,
                           .count = 1,
                           .dtype = (uint8_t)v->dtype,
                           .rank = (uint8_t)v->rank};

    for (uint32_t a = 0; a < v->rank; a++) view.count *= v->shape[a];
    return view;
}

enum bp_status kit_run(struct kit_plugin *k, const struct text_graph *g,
                       const struct kit_graph *graph, const struct kit_compiled *c, void *context,
                       void **out, uint32_t *fault)
{
    struct bp_view in_view[KIT_VALUES], out_view[TEXT_OUTPUTS];
    const struct bp_view *in[KIT_VALUES], *result[TEXT_OUTPUTS];
    struct bp_engine_run run = {.self = k->self,
                                .engine = c->result.engine,
                                .context = context,
                                .in = in,
                                .out = result,
                                .n_in = graph->data.n_in,
                                .n_out = graph->data.n_out,
                                .fault = fault,
                                .width = 2};

    for (uint32_t i = 0; i < run.n_in; i++) {
        void *data;
        OK(bp_tensor_map(g->in[i], &data));
        in_view[i] = kit_view(&graph->value[graph->in[i]], data);
        in[i] = &in_view[i];
    }
    for (uint32_t i = 0; i < run.n_out; i++) {
        out_view[i] = kit_view(&graph->value[graph->out[i]], NULL);
        out_view[i].data = out[i] = aligned_alloc(64, (size_t)out_view[i].count * 8 / 64 * 64 + 64);
        memset(out[i], 0xA5, (size_t)out_view[i].count * 8 / 64 * 64 + 64);
        result[i] = &out_view[i];
    }
    return k->engine->run(&run);
}

/* ---- values ---- */

static double half_number(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);

    return bits >> 15 ? -size : size;
}

static double number_at(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case BP_F32: return ((const float *)data)[i];
    case BP_F16: return half_number(((const uint16_t *)data)[i]);
    case BP_BOOL: return ((const uint8_t *)data)[i];
    default: cr_assert_fail("dtype %u", dtype); return 0;
    }
}

static void compare_output(struct text_graph *g, const void *got, struct bp_tensor *output,
                           const struct bp_data_value *v, double terms)
{
    struct bp_tensor_info info = {.size = sizeof info};
    double unit = v->dtype == BP_F32 ? 0x1p-24 : v->dtype == BP_F16 ? 0x1p-11 : 0;
    void *expected;

    OK(bp_tensor_get_info(output, &info));
    expected = malloc(info.bytes + 1);
    OK(bp_tensor_read(g->f.stream, output, expected, info.bytes));
    for (int64_t i = 0; i < info.count; i++) {
        double a = number_at(got, v->dtype, i), b = number_at(expected, v->dtype, i);
        double limit = terms * unit * fmax(1, fabs(b));
        cr_assert(a == b || fabs(a - b) <= limit, "%s: element %ld: %.9g, expected %.9g within %g",
                  v->name, (long)i, a, b, limit);
    }
    free(expected);
}

void kit_check(struct kit_plugin *k, struct text_graph *g, double terms)
{
    struct bp_tensor *expected[TEXT_OUTPUTS] = {NULL};
    struct kit_graph *graph = malloc(sizeof *graph);
    struct kit_compiled c = {.result = {0}};
    struct kit_claim claim;
    void *context, *got[TEXT_OUTPUTS];
    uint32_t fault = 0;

    kit_graph(g, graph);
    cr_assert_eq(kit_claim(k, graph, &claim), BP_OK);
    for (uint32_t n = 0; n < graph->data.n_node; n++)
        cr_assert_eq(claim.group[n], 1, "%s is left out: %s", graph->node[n].op, claim.reason[n]);
    cr_assert_eq(kit_compile(k, graph, &c), BP_OK, "%s", k->message);
    cr_assert_eq(k->engine->context_create(k->self, 0, c.result.engine, &context), BP_OK, "%s",
                 k->message);
    cr_assert_eq(kit_run(k, g, graph, &c, context, got, &fault), BP_OK, "%s", k->message);
    cr_assert_eq(fault, 0);
    OK(bp_graph_run(g->graph, g->f.stream, g->in, g->n_in, expected, g->n_output));
    for (uint32_t o = 0; o < g->n_output; o++) {
        compare_output(g, got[o], expected[o], &graph->value[graph->out[o]], terms);
        bp_tensor_destroy(expected[o]);
        free(got[o]);
    }
    k->engine->context_destroy(k->self, 0, c.result.engine, context);
    kit_destroy(k, &c);
    free(graph);
}
