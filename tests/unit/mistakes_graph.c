/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_graph.c: tables of wrong calls of graph.h and program.h. */
#include "mistakes.h"

#include <unistd.h>

static uint64_t graph_create(const union value *a)
{
    return bp_graph_create(a[0].p, a[1].p);
}

static uint64_t graph_destroy(const union value *a)
{
    bp_graph_destroy(a[0].p);
    return 0;
}

static uint64_t graph_scope(const union value *a)
{
    return (uintptr_t)bp_graph_scope(a[0].p);
}

static uint64_t graph_input(const union value *a)
{
    return bp_graph_input(a[0].p, a[1].cp, (uint32_t)a[2].u, (uint32_t)a[3].u, a[4].cp, a[5].p);
}

static uint64_t graph_output(const union value *a)
{
    return bp_graph_output(a[0].p, a[1].p, a[2].cp);
}

static uint64_t graph_name(const union value *a)
{
    static unsigned number; /* a name can be used once only */
    char fresh[32];

    snprintf(fresh, sizeof fresh, "name_%u", number++);
    return bp_graph_name(a[0].p, a[1].p, a[2].cp && !strcmp(a[2].cp, "fresh") ? fresh : a[2].cp);
}

static uint64_t graph_run(const union value *a)
{
    return bp_graph_run(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u);
}

static uint64_t graph_gradient(const union value *a)
{
    return bp_graph_gradient(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u, a[6].p);
}

static uint64_t graph_info(const union value *a)
{
    return bp_graph_get_info(a[0].p, a[1].p);
}

static uint64_t graph_value(const union value *a)
{
    return bp_graph_value(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t graph_output_symbol(const union value *a)
{
    return bp_graph_output_symbol(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t template_create(const union value *a)
{
    return bp_template_create(a[0].p, a[1].cp, a[2].u, a[3].p);
}

static uint64_t template_destroy(const union value *a)
{
    bp_template_destroy(a[0].p);
    return 0;
}

static uint64_t template_program(const union value *a)
{
    return bp_template_program(a[0].p, a[1].i, a[2].p, a[3].p);
}

static uint64_t template_check(const union value *a)
{
    return bp_template_check(a[0].p, a[1].i, a[2].p);
}

static uint64_t graph_node(const union value *a)
{
    return bp_graph_node(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static bool take_part(void *ctx, const struct bp_part *part)
{
    (void)ctx, (void)part;
    return false;
}

static uint64_t graph_decompose(const union value *a)
{
    return bp_graph_decompose(a[0].p, a[1].cp, a[2].cp, a[3].u, a[4].p ? take_part : NULL, a[5].p);
}

static uint64_t program_create(const union value *a)
{
    return bp_program_create(a[0].p, a[1].p, a[2].p);
}

static uint64_t program_create_with(const union value *a)
{
    return bp_program_create_with(a[0].p, a[1].p, a[2].cp, a[3].p);
}

static uint64_t program_save(const union value *a)
{
    enum bp_status status = bp_program_save(a[0].p, a[1].cp);

    if (!status) unlink(a[1].cp);
    return status;
}

/* The program is compiled, so a right call returns BP_ERR_BUSY. */
static uint64_t program_load(const union value *a)
{
    enum bp_status status = bp_program_load(a[0].p, a[1].cp);

    return status == BP_ERR_BUSY ? BP_OK : status;
}

static uint64_t program_destroy(const union value *a)
{
    bp_program_destroy(a[0].p);
    return 0;
}

static uint64_t program_run(const union value *a)
{
    return bp_program_run(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u);
}

static uint64_t program_info(const union value *a)
{
    return bp_program_get_info(a[0].p, a[1].p);
}

/* The program is not being compiled, so a right call returns BP_ERR_NOT_FOUND. */
static uint64_t program_cancel(const union value *a)
{
    enum bp_status status = bp_program_cancel(a[0].p);

    return status == BP_ERR_NOT_FOUND ? BP_OK : status;
}

static uint64_t program_compile(const union value *a)
{
    return bp_program_compile(a[0].p);
}

static uint64_t pass_get(const union value *a)
{
    return bp_pass_get((uint32_t)a[0].u, a[1].p);
}

static uint64_t device_pass(const union value *a)
{
    return bp_device_pass(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t program_pass(const union value *a)
{
    return bp_program_pass(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t program_group(const union value *a)
{
    return bp_program_group(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t program_left(const union value *a)
{
    return bp_program_left(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t program_launch(const union value *a)
{
    return bp_program_launch(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t program_operand(const union value *a)
{
    return bp_program_operand(a[0].p, (uint32_t)a[1].u, (uint32_t)a[2].u, a[3].p);
}

static uint64_t program_watch(const union value *a)
{
    return bp_program_watch(a[0].p, NULL, a[2].p);
}

enum {
    INPUTS = T_OWN, /* a list of T_TENSOR */
    VALUES,         /* of T_SCRATCH_SYMBOL */
    GRADIENTS,      /* of T_SPARE, which has its type */
    FOREIGN,        /* of T_SYMBOL, a value of another graph */
    STRANGERS,      /* of T_STREAM */
    DOUBLES,        /* of T_DOUBLE */
    LOSS,           /* a call: l1_loss of T_SCRATCH_SYMBOL twice */
    LOSS_OF_OTHER_GRAPH, /* a call of T_SYMBOL, a value of another graph */
    PLAIN_SUM,      /* a call of an operator without a decomposition */
    SAMPLES,        /* programs of z = x + x of f32 [S, 3], for S from 2 to 4 */
    PROGRAMS,       /* T_PROGRAM, twice, and a tensor */
};

#define BIG (INT64_C(1) << 40)
#define TO_GRAPH {.kind = ARG_HANDLE, .thing = T_GRAPH, .good = T_SCRATCH}
#define SYMBOL \
    {.kind = ARG_HANDLE, .thing = T_SYMBOL, .good = T_SCRATCH_SYMBOL, .word = "symbolic tensor"}

static const struct function functions[] = {
    {"bp_graph_create", graph_create, {HANDLE(T_CORE), OUT_OF(T_GRAPH)}},
    {"bp_graph_destroy", graph_destroy, {HANDLE(T_GRAPH)}, RETURNS_NOTHING},
    {"bp_graph_scope", graph_scope, {HANDLE(T_GRAPH)}, RETURNS_ZERO},
    {"bp_graph_input", graph_input,
     {TO_GRAPH, OPTIONAL(NULL), NUMBER(BP_F32), NUMBER(2), POINTER(SHAPE(2, 3)), OUT_OF(T_TENSOR)}},
    {"bp_graph_output", graph_output, {TO_GRAPH, SYMBOL, OPTIONAL(NULL)}},
    {"bp_graph_name", graph_name, {TO_GRAPH, SYMBOL, POINTER("fresh")}},
    {"bp_graph_run", graph_run,
     {HANDLE(T_GRAPH), HANDLE(T_STREAM), POINTER_OWN(INPUTS), NUMBER(1),
      {.kind = ARG_INOUT, .thing = T_TENSOR}, NUMBER(1)}},
    {"bp_graph_gradient", graph_gradient,
     {{.kind = ARG_HANDLE, .thing = T_GRAPH, .good = T_SCRATCH}, POINTER_OWN(VALUES),
      POINTER_OWN(GRADIENTS), NUMBER(1), POINTER_OWN(VALUES), NUMBER(1), OUT_OF(T_TENSOR)}},
    {"bp_graph_get_info", graph_info, {HANDLE(T_GRAPH), INFO(struct bp_graph_info)}},
    {"bp_graph_value", graph_value, {HANDLE(T_GRAPH), NUMBER(0), INFO(struct bp_value_info)}},
    {"bp_graph_output_symbol", graph_output_symbol,
     {HANDLE(T_GRAPH), NUMBER(0), OUT_OF(T_TENSOR)}},
    {"bp_graph_node", graph_node, {HANDLE(T_GRAPH), NUMBER(0), INFO(struct bp_node_info)}},
    {"bp_graph_decompose", graph_decompose,
     {TO_GRAPH, POINTER_OWN(LOSS), OPTIONAL(NULL), NUMBER(0), POINTER(""), OPTIONAL(NULL)},
     .called = ""},
    {"bp_program_create", program_create,
     {HANDLE(T_GRAPH), HANDLE(T_DEVICE), OUT_OF(T_PROGRAM)}},
    {"bp_program_create_with", program_create_with,
     {HANDLE(T_GRAPH), HANDLE(T_DEVICE), OPTIONAL(NULL), OUT_OF(T_PROGRAM)},
     .called = "bp_program_create"},
    {"bp_program_save", program_save, {HANDLE(T_PROGRAM), POINTER("mistakes.program")}},
    {"bp_program_load", program_load, {HANDLE(T_PROGRAM), POINTER("mistakes.program")}},
    {"bp_program_destroy", program_destroy, {HANDLE(T_PROGRAM)}, RETURNS_NOTHING},
    {"bp_program_run", program_run,
     {HANDLE(T_PROGRAM), HANDLE(T_STREAM), POINTER_OWN(INPUTS), NUMBER(1),
      {.kind = ARG_INOUT, .thing = T_TENSOR}, NUMBER(1)}},
    {"bp_program_get_info", program_info, {HANDLE(T_PROGRAM), INFO(struct bp_program_info)}},
    {"bp_program_compile", program_compile, {HANDLE(T_PROGRAM)}},
    {"bp_program_cancel", program_cancel, {HANDLE(T_PROGRAM)}},
    {"bp_pass_get", pass_get, {NUMBER(0), INFO(struct bp_pass_info)}},
    {"bp_device_pass", device_pass, {HANDLE(T_DEVICE), NUMBER(0), INFO(struct bp_pass_info)}},
    {"bp_program_pass", program_pass,
     {HANDLE(T_PROGRAM), NUMBER(0), INFO(struct bp_pass_result)}},
    {"bp_program_group", program_group,
     {HANDLE(T_PROGRAM), NUMBER(0), INFO(struct bp_group_info)}},
    {"bp_program_left", program_left,
     {HANDLE(T_PROGRAM), NUMBER(0), INFO(struct bp_left_info)}},
    {"bp_program_launch", program_launch,
     {HANDLE(T_PROGRAM), NUMBER(0), INFO(struct bp_launch_info)}},
    {"bp_program_operand", program_operand,
     {HANDLE(T_PROGRAM), NUMBER(0), NUMBER(0), INFO(struct bp_operand_info)}},
    {"bp_program_watch", program_watch,
     {HANDLE(T_PROGRAM), OPTIONAL(NULL), OPTIONAL(NULL)}},
    {"bp_template_create", template_create,
     {POINTER_OWN(SAMPLES), POINTER(SHAPE(2, 3, 4)), NUMBER(3), OUT_OF(T_TEMPLATE)}},
    {"bp_template_destroy", template_destroy, {HANDLE(T_TEMPLATE)}, RETURNS_NOTHING},
    {"bp_template_program", template_program,
     {HANDLE(T_TEMPLATE), NUMBER(3), OUT_OF(T_GRAPH), OUT_OF(T_PROGRAM)}},
    {"bp_template_check", template_check, {HANDLE(T_TEMPLATE), NUMBER(2), HANDLE(T_GRAPH)}},
};

static const struct mistake mistakes[] = {
    {"bp_graph_input", "a name that is taken", BP_ERR_INVALID, "'taken' is taken",
     {PUT(2, "taken")}},
    {"bp_graph_input", "an empty name", BP_ERR_INVALID, "a name is empty", {PUT(2, "")}},
    {"bp_graph_input", "no dtype", BP_ERR_INVALID, "99 is no dtype", {SET(3, 99)}},
    {"bp_graph_input", "rank 9", BP_ERR_INVALID, "rank is 9",
     {SET(4, 9), PUT(5, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1))}},
    {"bp_graph_input", "the largest rank", BP_ERR_INVALID, "rank is 4294967295",
     {SET(4, UINT32_MAX)}},
    {"bp_graph_input", "a negative extent", BP_ERR_INVALID, "extent 1 is -3",
     {PUT(5, SHAPE(2, -3))}},
    {"bp_graph_input", "past 63 bits", BP_ERR_INVALID, "63 bits", {PUT(5, SHAPE(BIG, BIG))}},
    {"bp_graph_output", "a value of another graph", BP_ERR_INVALID, "no value of this graph",
     {USE(2, T_SYMBOL)}},
    {"bp_graph_output", "a name that is taken", BP_ERR_INVALID, "'taken' is taken",
     {PUT(3, "taken")}},
    {"bp_graph_output", "an empty name", BP_ERR_INVALID, "a name is empty", {PUT(3, "")}},
    {"bp_graph_name", "a value of another graph", BP_ERR_INVALID, "no value of this graph",
     {USE(2, T_SYMBOL)}},
    {"bp_graph_name", "a name that is taken", BP_ERR_INVALID, "'taken' is taken",
     {PUT(3, "taken")}},
    {"bp_graph_name", "an empty name", BP_ERR_INVALID, "a name is empty", {PUT(3, "")}},
    {"bp_graph_run", "fewer inputs", BP_ERR_INVALID, "0 inputs", {SET(4, 0)}},
    {"bp_graph_run", "more inputs", BP_ERR_INVALID, "2 inputs", {SET(4, 2)}},
    {"bp_graph_run", "the most inputs", BP_ERR_INVALID, "inputs", {SET(4, SIZE_MAX)}},
    {"bp_graph_run", "fewer outputs", BP_ERR_INVALID, "0 outputs", {SET(6, 0)}},
    {"bp_graph_run", "more outputs", BP_ERR_INVALID, "2 outputs", {SET(6, 2)}},
    {"bp_graph_run", "the most outputs", BP_ERR_INVALID, "outputs", {SET(6, SIZE_MAX)}},
    {"bp_graph_run", "a stream of another device", BP_ERR_INVALID, "is on cpu:0",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_graph_run", "an output of another shape", BP_ERR_INVALID, "output z is f32 [4]",
     {USE(5, T_SHORT)}},
    {"bp_graph_run", "an output of another device", BP_ERR_INVALID, "template:0",
     {USE(5, T_OTHER_TENSOR)}},
    {"bp_graph_run", "a frozen output", BP_ERR_INVALID, "frozen", {USE(5, T_FROZEN)}},
    {"bp_graph_run", "a symbolic output", BP_ERR_INVALID, "output 0", {USE(5, T_SYMBOL)}},
    {"bp_graph_run", "a device for an output", BP_ERR_INVALID, "output 0", {USE(5, T_DEVICE)}},
    {"bp_graph_run", "a stream for an output", BP_ERR_INVALID, "output 0", {USE(5, T_STREAM)}},
    {"bp_graph_run", "no handle for an output", BP_ERR_INVALID, "output 0", {USE(5, T_STRANGER)}},
    {"bp_program_run", "fewer inputs", BP_ERR_INVALID, "0 inputs", {SET(4, 0)}},
    {"bp_program_run", "the most inputs", BP_ERR_INVALID, "inputs", {SET(4, SIZE_MAX)}},
    {"bp_program_run", "more outputs", BP_ERR_INVALID, "2 outputs", {SET(6, 2)}},
    {"bp_program_run", "the most outputs", BP_ERR_INVALID, "outputs", {SET(6, SIZE_MAX)}},
    {"bp_program_run", "a stream of another device", BP_ERR_INVALID, "the stream is of template:0",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_program_run", "an output of another shape", BP_ERR_INVALID, "output z",
     {USE(5, T_SHORT)}},
    {"bp_program_run", "an output of another device", BP_ERR_INVALID, "template:0",
     {USE(5, T_OTHER_TENSOR)}},
    {"bp_program_run", "a frozen output", BP_ERR_INVALID, "frozen", {USE(5, T_FROZEN)}},
    {"bp_program_run", "a symbolic output", BP_ERR_INVALID, "output 0", {USE(5, T_SYMBOL)}},
    {"bp_program_run", "a stream for an output", BP_ERR_INVALID, "output 0", {USE(5, T_STREAM)}},
    {"bp_pass_get", "no such pass", BP_ERR_NOT_FOUND, "there is no pass 99", {SET(1, 99)}},
    {"bp_device_pass", "no such pass", BP_ERR_NOT_FOUND, "there is no pass 99", {SET(2, 99)}},
    {"bp_program_pass", "no such pass", BP_ERR_NOT_FOUND, "there is no pass 99", {SET(2, 99)}},
    {"bp_program_launch", "no such launch", BP_ERR_NOT_FOUND, "there is no launch 99",
     {SET(2, 99)}},
    {"bp_program_operand", "no such launch", BP_ERR_NOT_FOUND, "there is no launch 99",
     {SET(2, 99)}},
    {"bp_program_operand", "no such operand", BP_ERR_NOT_FOUND, "there is no operand 99",
     {SET(3, 99)}},
    {"bp_graph_gradient", "the most y", BP_ERR_INVALID, "n_y is 18446744073709551615",
     {SET(4, SIZE_MAX)}},
    {"bp_graph_gradient", "the most x", BP_ERR_INVALID, "n_x is 18446744073709551615",
     {SET(6, SIZE_MAX)}},
    {"bp_graph_gradient", "y of another graph", BP_ERR_INVALID, "y[0] is a value of another graph",
     {USE(2, FOREIGN)}},
    {"bp_graph_gradient", "dy of another graph", BP_ERR_INVALID,
     "dy[0] is a value of another graph", {USE(3, FOREIGN)}},
    {"bp_graph_gradient", "x of another graph", BP_ERR_INVALID, "x[0] is a value of another graph",
     {USE(5, FOREIGN)}},
    {"bp_graph_gradient", "a stream for y", BP_ERR_INVALID, "y[0]: expected a value",
     {USE(2, STRANGERS)}},
    {"bp_graph_gradient", "a stream for dy", BP_ERR_INVALID, "dy[0]: expected a tensor or NULL",
     {USE(3, STRANGERS)}},
    {"bp_graph_gradient", "a stream for x", BP_ERR_INVALID, "x[0]: expected a value",
     {USE(5, STRANGERS)}},
    {"bp_graph_gradient", "a tensor that the graph does not know", BP_ERR_INVALID,
     "x[0] is a tensor that no call of this graph was given", {USE(5, INPUTS)}},
    {"bp_graph_gradient", "dy of another dtype", BP_ERR_INVALID,
     "dy[0] is f64 [2, 3], expected f32 [2, 3]", {USE(3, DOUBLES)}},
    {"bp_graph_decompose", "a value of another graph", BP_ERR_INVALID, "a value of another graph",
     {USE(2, LOSS_OF_OTHER_GRAPH)}},
    {"bp_graph_decompose", "what is not made of others", BP_ERR_INVALID, "is not defined in other",
     {USE(2, PLAIN_SUM)}},
    {"bp_graph_decompose", "more outputs than declared", BP_ERR_INVALID, "2 outputs asked for",
     {PUT(3, "\1\1"), SET(4, 2)}},
    {"bp_graph_value", "no such value", BP_ERR_INVALID, "there is no value 99", {SET(2, 99)}},
    {"bp_graph_value", "the largest value", BP_ERR_INVALID, "there is no value 4294967295",
     {SET(2, UINT32_MAX)}},
    {"bp_graph_output_symbol", "no such output", BP_ERR_INVALID, "there is no output 1",
     {SET(2, 1)}},
    {"bp_template_create", "two samples", BP_ERR_INVALID, "2 samples", {SET(3, 2)}},
    {"bp_template_create", "nine samples", BP_ERR_INVALID, "9 samples", {SET(3, 9)}},
    {"bp_template_create", "no program", BP_ERR_INVALID, "program", {USE(1, PROGRAMS)}},
    {"bp_template_create", "equal parameters", BP_ERR_INVALID, "two samples have parameter 3",
     {PUT(2, SHAPE(3, 4, 3))}},
    {"bp_template_create", "a negative parameter", BP_ERR_INVALID, "parameter -2",
     {PUT(2, SHAPE(-2, 3, 4))}},
    {"bp_template_create", "other parameters", BP_ERR_UNSUPPORTED, "does not depend",
     {PUT(2, SHAPE(2, 3, 5))}},
    {"bp_template_program", "below the samples", BP_ERR_UNSUPPORTED, "outside 2 to 4",
     {SET(2, 1)}},
    {"bp_template_program", "above the samples", BP_ERR_UNSUPPORTED, "outside 2 to 4",
     {SET(2, 5)}},
    {"bp_template_check", "another length", BP_ERR_INTERNAL, "another graph", {SET(2, 3)}},
    {"bp_graph_node", "no such node", BP_ERR_INVALID, "there is no node 99", {SET(2, 99)}},
    {"bp_graph_node", "the largest node", BP_ERR_INVALID, "there is no node 4294967295",
     {SET(2, UINT32_MAX)}},
};

static void graph_more(struct world *w)
{
    static const uint8_t wrong_input[] = {T_NONE,  T_CORE,  T_DEVICE,    T_STREAM,   T_EVENT,
                                          T_GRAPH, T_SHORT, T_DOUBLE,    T_PREPARED, T_GENERATOR,
                                          T_SYMBOL, T_STRANGER};

    for (size_t i = 0; i < COUNT(wrong_input); i++) {
        struct bp_tensor *in = w->thing[wrong_input[i]].p;
        char what[64];
        struct mistake m = {"bp_graph_run", what, BP_ERR_INVALID, "input x", {PUT(3, &in)}};
        snprintf(what, sizeof what, "input x is thing %u", wrong_input[i]);
        mistakes_try(w, &m);
        m.function = "bp_program_run";
        mistakes_try(w, &m);
    }
}

static void prepare_calls(struct world *w)
{
    static struct bp_tensor *symbol[2];
    static struct bp_arg in[2][2];
    static struct bp_call call[3];

    OK(bp_program_compile(w->thing[T_PROGRAM].p)); /* so that it can be described */
    symbol[0] = w->thing[T_SCRATCH_SYMBOL].p;
    symbol[1] = w->thing[T_SYMBOL].p;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2 && i < 2; k++) in[i][k] = (struct bp_arg){&symbol[i], 1};
        call[i] = (struct bp_call){.size = sizeof *call, .op = i < 2 ? "l1_loss" : "sum",
                                   .in = in[i % 2], .n_in = i < 2 ? 2 : 1};
        w->thing[LOSS + i].p = &call[i];
    }
}

static struct bp_program *sample_program(struct world *w, int64_t rows)
{
    struct bp_graph *graph;
    struct bp_tensor *x, *z = NULL;
    struct bp_program *program;

    OK(bp_graph_create(w->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(rows, 3), &x));
    OK(bp_op_add(bp_graph_scope(graph), x, x, &z));
    OK(bp_graph_output(graph, z, "z"));
    bp_tensor_destroy(z);
    bp_tensor_destroy(x);
    OK(bp_program_create(graph, w->f.device, &program));
    bp_graph_destroy(graph);
    return program;
}

static struct bp_program *samples[3];

static void graph_finish(struct world *w)
{
    (void)w;
    for (size_t i = 0; i < COUNT(samples); i++) bp_program_destroy(samples[i]);
}

static void graph_prepare(struct world *w)
{
    static struct bp_program *programs[3];
    static const uint8_t of[] = {T_TENSOR, T_SCRATCH_SYMBOL, T_SPARE, T_SYMBOL,
                                 T_STREAM, T_DOUBLE};
    static void *list[COUNT(of)];
    struct bp_tensor *taken;

    for (size_t i = 0; i < COUNT(of); i++) {
        list[i] = w->thing[of[i]].p;
        w->thing[INPUTS + i].p = &list[i];
    }
    OK(bp_graph_input(w->thing[T_SCRATCH].p, "taken", BP_F32, 0, NULL, &taken));
    bp_tensor_destroy(taken);
    prepare_calls(w);
    for (size_t i = 0; i < COUNT(samples); i++) samples[i] = sample_program(w, 2 + (int64_t)i);
    programs[0] = programs[1] = samples[0];
    programs[2] = w->thing[T_TENSOR].p;
    w->thing[SAMPLES].p = samples;
    w->thing[PROGRAMS].p = programs;
}

const struct table mistakes_graph = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = graph_prepare,
    .more = graph_more,
    .finish = graph_finish,
};
