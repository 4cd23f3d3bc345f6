/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_call.c: tables of wrong calls of call.h. One list has the mistakes in a struct bp_call,
 * and each function that takes such a struct gets all of them. */
#include "mistakes.h"

static uint64_t call_run(const union value *a)
{
    return bp_call_run(a[0].p, a[1].cp, a[2].p, a[3].u, a[4].cp);
}

static uint64_t call_gradient(const union value *a)
{
    return bp_call_gradient(a[0].p, a[1].cp, a[2].p, a[3].p, a[4].u, a[5].cp, a[6].p, a[7].u);
}

static uint64_t gradient_reads(const union value *a)
{
    return bp_call_gradient_reads(a[0].cp, a[1].cp, a[2].p, a[3].u, a[4].p, a[5].u);
}

static uint64_t einsum_labels(const union value *a)
{
    return bp_einsum_labels(a[0].cp, a[1].p, a[2].u, a[3].p);
}

static uint64_t prepared_create(const union value *a)
{
    return bp_prepared_create(a[0].p, a[1].cp, a[2].cp, a[3].u, a[4].p);
}

static uint64_t prepared_create_with(const union value *a)
{
    return bp_prepared_create_with(a[0].p, a[1].cp, a[2].cp, a[3].p);
}

static uint64_t prepared_step(const union value *a)
{
    return (uintptr_t)bp_prepared_step(a[0].p, (uint32_t)a[1].u);
}

static uint64_t prepared_destroy(const union value *a)
{
    bp_prepared_destroy(a[0].p);
    return 0;
}

static uint64_t prepared_kernel(const union value *a)
{
    return (uintptr_t)bp_prepared_kernel(a[0].p);
}

static uint64_t prepared_steps(const union value *a)
{
    return bp_prepared_steps(a[0].p);
}

static uint64_t prepared_output(const union value *a)
{
    return bp_prepared_output(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t prepared_run(const union value *a)
{
    return bp_prepared_run(a[0].p, a[1].p, a[2].p, a[3].u, a[4].p, a[5].u, a[6].cp);
}

/* Lists of tensors that calls get. */
enum {
    PAIR = T_OWN, /* two of T_TENSOR */
    ONE,          /* T_SPARE */
    CALL,         /* add of PAIR */
    GRAPH_CALL,   /* add of T_SCRATCH_SYMBOL twice */
    SUM,          /* prepared: the sum of T_TENSOR over axis 0 */
    ROW,          /* one f32 [3] for the result of SUM */
};

static const uint8_t all[] = {1, 1};

static int64_t labels[8];

static const struct function functions[] = {
    {"bp_call_run", call_run,
     {SCOPE, POINTER_OWN(CALL), {.kind = ARG_INOUT, .thing = T_TENSOR}, NUMBER(1), OPTIONAL(all)},
     .called = ""},
    {"bp_call_run on a graph", call_run,
     {SCOPE_GRAPH, POINTER_OWN(GRAPH_CALL), {.kind = ARG_INOUT, .thing = T_TENSOR}, NUMBER(1),
      OPTIONAL(NULL)},
     .called = ""},
    {"bp_call_gradient", call_gradient,
     {SCOPE, POINTER_OWN(CALL), POINTER_OWN(ONE), POINTER_OWN(ONE), NUMBER(1), POINTER(all),
      {.kind = ARG_INOUT, .thing = T_TENSOR}, NUMBER(2)},
     .called = ""},
    {"bp_call_gradient_reads", gradient_reads,
     {POINTER_OWN(CALL), POINTER(all), OUT_OF(T_NONE), NUMBER(2), OUT_OF(T_NONE), NUMBER(1)},
     .called = ""},
    {"bp_einsum_labels", einsum_labels,
     {POINTER("ij,jk->ik"), POINTER(labels), NUMBER(8), OUT_OF(T_NONE)}},
    {"bp_prepared_create", prepared_create,
     {HANDLE(T_DEVICE), POINTER_OWN(CALL), OPTIONAL(NULL), NUMBER(0), OUT_OF(T_PREPARED)},
     .called = ""},
    {"bp_prepared_create_with", prepared_create_with,
     {HANDLE(T_DEVICE), POINTER_OWN(CALL), OPTIONAL(NULL), OUT_OF(T_PREPARED)},
     .called = ""},
    {"bp_prepared_step", prepared_step, {HANDLE(T_PREPARED), NUMBER(0)}, RETURNS_EMPTY},
    {"bp_prepared_destroy", prepared_destroy, {HANDLE(T_PREPARED)}, RETURNS_NOTHING},
    {"bp_prepared_kernel", prepared_kernel, {HANDLE(T_PREPARED)}, RETURNS_EMPTY},
    {"bp_prepared_steps", prepared_steps, {HANDLE(T_PREPARED)}, RETURNS_ZERO},
    {"bp_prepared_output", prepared_output,
     {HANDLE(T_PREPARED), NUMBER(0), INFO(struct bp_tensor_info)}},
    {"bp_prepared_run", prepared_run,
     {HANDLE(T_PREPARED), HANDLE(T_STREAM), POINTER_OWN(PAIR),
      NUMBER(2), POINTER_OWN(ONE), NUMBER(1), OPTIONAL(NULL)},
     .called = ""},
    {"bp_prepared_run with attributes", prepared_run,
     {GIVEN(T_PREPARED, SUM), HANDLE(T_STREAM), POINTER_OWN(PAIR), NUMBER(1), POINTER_OWN(ROW),
      NUMBER(1), OPTIONAL(NULL)},
     .called = ""},
};

static const struct bp_sum_attrs attrs_0 = {.size = 0}, attrs_9 = {.size = 9},
                                 attrs_huge = {.size = 65544},
                                 keep_2 = {.size = sizeof keep_2, .axes = {SHAPE(0), 1}, .keep = 2},
                                 axis_1 = {.size = sizeof axis_1, .axes = {SHAPE(1), 1}},
                                 nowhere = {.size = sizeof nowhere, .axes = {NULL, 1}};
static const struct {
    struct bp_sum_attrs attrs;
    int64_t newer;
} longer = {{.size = sizeof longer, .axes = {SHAPE(0), 1}}, 1};

static const struct bp_prepare_options
    prepare_0 = {.size = 0}, prepare_huge = {.size = 65544},
    prepare_2 = {.size = sizeof prepare_2, .flags = 2},
    prepare_expand = {.size = sizeof prepare_expand, .flags = BP_PREPARE_DECOMPOSE};

static const struct mistake mistakes[] = {
    {"bp_call_run", "more outputs than declared", BP_ERR_INVALID, "2 outputs asked for",
     {SET(4, 2)}},
    {"bp_call_run", "the most outputs", BP_ERR_INVALID, "18446744073709551615 outputs asked for",
     {SET(4, SIZE_MAX), PUT(5, NULL)}},
    {"bp_call_run", "no outputs", BP_ERR_INVALID, "output z is not optional", {SET(4, 0)}},
    {"bp_call_run", "an output that is not wanted", BP_ERR_INVALID, "output z is not optional",
     {PUT(5, "\0\0")}},
    {"bp_call_run", "an output of another shape", BP_ERR_INVALID, "output z is f32 [4]",
     {USE(3, T_SHORT)}},
    {"bp_call_run", "an output of another dtype", BP_ERR_INVALID, "output z is f64 [2, 3]",
     {USE(3, T_DOUBLE)}},
    {"bp_call_run", "an output of another device", BP_ERR_INVALID, "output z is on template:0",
     {USE(3, T_OTHER_TENSOR)}},
    {"bp_call_run", "an output that is symbolic", BP_ERR_INVALID, "output z", {USE(3, T_SYMBOL)}},
    {"bp_call_run", "a device for an output", BP_ERR_INVALID, "output z", {USE(3, T_DEVICE)}},
    {"bp_call_run", "a stream for an output", BP_ERR_INVALID, "output z", {USE(3, T_STREAM)}},
    {"bp_call_run", "a generator for an output", BP_ERR_INVALID, "output z",
     {USE(3, T_GENERATOR)}},
    {"bp_call_run", "no handle for an output", BP_ERR_INVALID, "output z", {USE(3, T_STRANGER)}},
    {"bp_call_run", "a frozen output", BP_ERR_INVALID, "frozen", {USE(3, T_FROZEN)}},
    {"bp_call_run", "an output that overlaps itself", BP_ERR_INVALID, "may overlap itself",
     {USE(3, T_REPEATED)}},
    {"bp_call_run on a graph", "a given output", BP_ERR_INVALID, "makes its outputs",
     {USE(3, T_SPARE)}},
    {"bp_call_run on a graph", "a given symbolic output", BP_ERR_INVALID, "makes its outputs",
     {USE(3, T_SCRATCH_SYMBOL)}},
    {"bp_call_run on a graph", "more outputs than declared", BP_ERR_INVALID, "2 outputs asked for",
     {SET(4, 2)}},
    {"bp_call_run on a graph", "no outputs", BP_ERR_INVALID, "output z is not optional",
     {SET(4, 0)}},
    {"bp_call_run on a graph", "values of another graph", BP_ERR_INVALID, "another graph",
     {USE(1, T_GRAPH)}},
    {"bp_call_run on a graph", "values of a graph on a stream", BP_ERR_INVALID,
     "a value of a graph", {USE(1, T_STREAM)}},

    {"bp_call_gradient_reads", "room for too many inputs", BP_ERR_INVALID, "room for 3 inputs",
     {SET(4, 3)}},
    {"bp_call_gradient_reads", "more outputs than declared", BP_ERR_INVALID, "outputs asked for",
     {SET(6, 2)}},
    {"bp_call_gradient", "no outputs", BP_ERR_INVALID, "output z is not optional", {SET(5, 0)}},
    {"bp_call_gradient", "more outputs than declared", BP_ERR_INVALID, "outputs asked for",
     {SET(5, 2)}},
    {"bp_call_gradient", "the most outputs", BP_ERR_INVALID, "outputs asked for",
     {SET(5, SIZE_MAX)}},
    {"bp_call_gradient", "room for too few", BP_ERR_INVALID, "room for 1 gradients", {SET(8, 1)}},
    {"bp_call_gradient", "room for none", BP_ERR_INVALID, "room for 0 gradients", {SET(8, 0)}},
    {"bp_call_gradient", "room for too many", BP_ERR_INVALID, "room for 3 gradients", {SET(8, 3)}},
    {"bp_call_gradient", "room for the most", BP_ERR_INVALID, "gradients", {SET(8, SIZE_MAX)}},
    {"bp_call_gradient", "tensors of another device", BP_ERR_INVALID, "is on cpu:0",
     {USE(1, T_OTHER_STREAM)}},

    {"bp_einsum_labels", "an empty place", BP_ERR_INVALID, "room for 0 labels", {SET(3, 0)}},
    {"bp_einsum_labels", "too little room", BP_ERR_INVALID, "room for 7 labels", {SET(3, 7)}},
    {"bp_einsum_labels", "no letters", BP_ERR_INVALID, "unexpected '.'", {PUT(1, "i...->i")}},
    {"bp_einsum_labels", "two arrows", BP_ERR_INVALID, "unexpected '-'", {PUT(1, "i->i->i")}},
    {"bp_einsum_labels", "a letter from nowhere", BP_ERR_INVALID, "which no operand has",
     {PUT(1, "i->j")}},

    {"bp_prepared_create", "tensors of another device", BP_ERR_INVALID, "is on cpu:0",
     {USE(1, T_OTHER_DEVICE)}},
    {"bp_prepared_create", "values of a graph", BP_ERR_INVALID, "a value of a graph",
     {USE(2, GRAPH_CALL)}},
    {"bp_prepared_create_with", "size 0", BP_ERR_INVALID, "options->size is 0",
     {PUT(3, &prepare_0)}},
    {"bp_prepared_create_with", "huge size", BP_ERR_INVALID, "options->size is 65544",
     {PUT(3, &prepare_huge)}},
    {"bp_prepared_create_with", "a flag of 2", BP_ERR_INVALID, "options->flags is 2",
     {PUT(3, &prepare_2)}},
    {"bp_prepared_create_with", "no expansion", BP_ERR_INVALID, "is not defined in other",
     {PUT(3, &prepare_expand)}},
    {"bp_prepared_output", "no such output", BP_ERR_INVALID, "there is no output 1", {SET(2, 1)}},
    {"bp_prepared_output", "the largest output", BP_ERR_INVALID, "there is no output 4294967295",
     {SET(2, UINT32_MAX)}},

    {"bp_prepared_run", "a stream of another device", BP_ERR_INVALID, "the stream is of template:0",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_prepared_run", "fewer inputs", BP_ERR_INVALID, "1 inputs", {SET(4, 1)}},
    {"bp_prepared_run", "more inputs", BP_ERR_INVALID, "3 inputs", {SET(4, 3)}},
    {"bp_prepared_run", "the most inputs", BP_ERR_INVALID, "inputs", {SET(4, SIZE_MAX)}},
    {"bp_prepared_run", "no outputs", BP_ERR_INVALID, "0 outputs", {SET(6, 0)}},
    {"bp_prepared_run", "more outputs", BP_ERR_INVALID, "2 outputs", {SET(6, 2)}},
    {"bp_prepared_run", "attributes where there are none", BP_ERR_INVALID, "takes no attributes",
     {PUT(7, &attrs_0)}},
    {"bp_prepared_run with attributes", "size 0", BP_ERR_INVALID, "attrs->size is 0",
     {PUT(7, &attrs_0)}},
    {"bp_prepared_run with attributes", "size 9", BP_ERR_INVALID, "attrs->size is 9",
     {PUT(7, &attrs_9)}},
    {"bp_prepared_run with attributes", "huge size", BP_ERR_INVALID, "attrs->size is 65544",
     {PUT(7, &attrs_huge)}},
    {"bp_prepared_run with attributes", "a newer attribute", BP_ERR_UNSUPPORTED, "is newer",
     {PUT(7, &longer)}},
    {"bp_prepared_run with attributes", "a flag of 2", BP_ERR_INVALID, "keep is 2",
     {PUT(7, &keep_2)}},
    {"bp_prepared_run with attributes", "a list at NULL", BP_ERR_INVALID, "axes has 1 entries",
     {PUT(7, &nowhere)}},
    {"bp_prepared_run with attributes", "another KEY attribute", BP_ERR_INVALID, "prepare again",
     {PUT(7, &axis_1)}},
};

/* Mistakes in a list of tensors: its first entry is replaced by a thing. */
static const struct {
    const char *what;
    enum thing thing;
    bool symbolic; /* the thing is valid on a graph */
} entry[] = {
    {"NULL in a list", T_NONE, false},
    {"a core in a list", T_CORE, false},
    {"a device in a list", T_DEVICE, false},
    {"a stream in a list", T_STREAM, false},
    {"an event in a list", T_EVENT, false},
    {"a prepared call in a list", T_PREPARED, false},
    {"a graph in a list", T_GRAPH, false},
    {"a generator in a list", T_GENERATOR, false},
    {"no handle in a list", T_STRANGER, false},
    {"a symbolic tensor in a list", T_SYMBOL, false},
    {"a tensor of another device in a list", T_OTHER_TENSOR, true},
    {"a tensor of another shape in a list", T_SHORT, false},
    {"a tensor of another dtype in a list", T_DOUBLE, false},
};

/* Mistakes in a struct bp_call. */
enum spoil { SIZE, OP, KERNEL, N_IN, IN, AT, N, ATTRS };
static const struct {
    const char *what;
    enum bp_status status;
    const char *word;
    enum spoil spoil;
    size_t number;
    const void *pointer;
} call_mistake[] = {
    {"call->size 0", BP_ERR_INVALID, "call->size is 0", SIZE, 0, NULL},
    {"call->size 8", BP_ERR_INVALID, "call->size is 8", SIZE, 8, NULL},
    {"huge call->size", BP_ERR_INVALID, "call->size", SIZE, SIZE_MAX, NULL},
    {"no operator", BP_ERR_INVALID, "op is NULL", OP, 0, NULL},
    {"no such operator", BP_ERR_NOT_FOUND, "'addd'", OP, 0, "addd"},
    {"an empty operator", BP_ERR_NOT_FOUND, "operator ''", OP, 0, ""},
    {"fewer inputs", BP_ERR_INVALID, "input y is NULL", N_IN, 1, NULL},
    {"no inputs", BP_ERR_INVALID, "input x is NULL", N_IN, 0, NULL},
    {"more inputs", BP_ERR_INVALID, "3 inputs given", N_IN, 3, NULL},
    {"the most inputs", BP_ERR_INVALID, "inputs given", N_IN, SIZE_MAX, NULL},
    {"call->in NULL", BP_ERR_INVALID, "in is NULL", IN, 0, NULL},
    {"tensors at NULL", BP_ERR_INVALID, "at NULL", AT, 0, NULL},
    {"two tensors for one", BP_ERR_INVALID, "takes one tensor, got 2", N, 2, NULL},
    {"the most tensors for one", BP_ERR_INVALID, "takes one tensor", N, SIZE_MAX, NULL},
    {"no tensor for one", BP_ERR_INVALID, "input x is NULL", N, 0, NULL},
    {"attributes where there are none", BP_ERR_INVALID, "takes no attributes", ATTRS, 0, &longer},
    {"no such kernel", BP_ERR_NOT_FOUND, "no_such_row", KERNEL, 0, "no_such_row"},
};

static void call_spoil(struct bp_call *call, struct bp_arg *in, size_t i)
{
    switch (call_mistake[i].spoil) {
    case SIZE: call->size = call_mistake[i].number; break;
    case OP: call->op = call_mistake[i].pointer; break;
    case KERNEL: call->kernel = call_mistake[i].pointer; break;
    case N_IN: call->n_in = call_mistake[i].number; break;
    case IN: call->in = NULL; break;
    case AT: in[0].at = NULL; break;
    case N: in[0].n = call_mistake[i].number; break;
    case ATTRS: call->attrs = call_mistake[i].pointer; break;
    }
}

/* The functions that take a struct bp_call. */
static const struct {
    const char *function;
    enum thing operand; /* of a right call */
    bool has_kernel;    /* the function reads the field kernel */
} taker[] = {
    {"bp_call_run", T_TENSOR, true},
    {"bp_call_run on a graph", T_SCRATCH_SYMBOL, false},
    {"bp_call_gradient", T_TENSOR, false},
    {"bp_prepared_create", T_TENSOR, true},
};

static void spoilt_calls(struct world *w)
{
    for (size_t i = 0; i < COUNT(call_mistake) * COUNT(taker); i++) {
        size_t t = i / COUNT(call_mistake), m = i % COUNT(call_mistake);
        struct bp_tensor *operand = w->thing[taker[t].operand].p;
        struct bp_arg in[3] = {{&operand, 1}, {&operand, 1}, {&operand, 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
        struct mistake wrong = {taker[t].function, call_mistake[m].what, call_mistake[m].status,
                                call_mistake[m].word, {PUT(2, &call)}};
        if (call_mistake[m].spoil == KERNEL && !taker[t].has_kernel) continue;
        call_spoil(&call, in, m);
        mistakes_try(w, &wrong);
    }
}

/* Replaces one of the two operands by a thing that does not fit the other. */
static void spoilt_operands(struct world *w)
{
    for (size_t i = 0; i < COUNT(entry) * COUNT(taker) * 2; i++) {
        size_t t = i / 2 / COUNT(entry), e = i / 2 % COUNT(entry);
        struct bp_tensor *operand[2] = {w->thing[taker[t].operand].p, w->thing[taker[t].operand].p};
        struct bp_arg in[2] = {{&operand[0], 1}, {&operand[1], 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
        struct mistake wrong = {taker[t].function, entry[e].what, BP_ERR_INVALID, "add: ",
                                {PUT(2, &call)}};
        if (taker[t].operand == T_SCRATCH_SYMBOL && entry[e].symbolic) continue;
        operand[i % 2] = w->thing[entry[e].thing].p;
        mistakes_try(w, &wrong);
    }
}

static void spoilt_lists(struct world *w)
{
    static const struct {
        const char *function, *word;
        uint8_t arg, at;
        bool takes_null;
    } list[] = {
        {"bp_call_gradient", "out[0]", 3, 0, false},
        {"bp_call_gradient", "dy[0]", 4, 0, true},
        {"bp_prepared_run", "input 0", 3, 0, false},
        {"bp_prepared_run", "input 1", 3, 1, false},
        {"bp_prepared_run", "output 0", 5, 0, false},
    };

    for (size_t i = 0; i < COUNT(entry) * COUNT(list); i++) {
        size_t l = i / COUNT(entry), e = i % COUNT(entry);
        struct bp_tensor *pair[2] = {w->thing[T_TENSOR].p, w->thing[T_TENSOR].p};
        struct mistake wrong = {list[l].function, entry[e].what, BP_ERR_INVALID, list[l].word,
                                {PUT(list[l].arg, pair)}};
        if (entry[e].thing == T_NONE && list[l].takes_null) continue;
        pair[list[l].at] = w->thing[entry[e].thing].p;
        mistakes_try(w, &wrong);
    }
}

static void single_rows(struct world *w)
{
    struct bp_tensor *frozen = w->thing[T_FROZEN].p;
    struct bp_tensor *repeated = w->thing[T_REPEATED].p;
    struct bp_uniform_attrs attrs = {.size = sizeof attrs, .shape = {SHAPE(2, 3), 2},
                                     .dtype = BP_F32};
    struct bp_call call = {.size = sizeof call, .op = "uniform", .attrs = &attrs};
    struct mistake rows[] = {
        {"bp_prepared_run", "a frozen output", BP_ERR_INVALID, "frozen", {PUT(5, &frozen)}},
        {"bp_prepared_run", "an output that overlaps itself", BP_ERR_INVALID, "output 0",
         {PUT(5, &repeated)}},
        {"bp_call_gradient", "an operator without gradient", BP_ERR_UNSUPPORTED, "no gradient",
         {PUT(2, &call), SET(8, 0)}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) mistakes_try(w, &rows[i]);
}

static void call_more(struct world *w)
{
    spoilt_calls(w);
    spoilt_operands(w);
    spoilt_lists(w);
    single_rows(w);
}

static void call_prepare(struct world *w)
{
    static struct bp_tensor *pair[2], *symbols[2], *one[1], *row[1];
    static struct bp_arg in[2], graph_in[2];
    static struct bp_call add, graph_add;
    struct bp_sum_attrs attrs = bp_sum_defaults();
    struct bp_call sum = {.size = sizeof sum, .op = "sum", .in = in, .n_in = 1, .attrs = &attrs};

    for (int i = 0; i < 2; i++) {
        pair[i] = w->thing[T_TENSOR].p;
        symbols[i] = w->thing[T_SCRATCH_SYMBOL].p;
        in[i] = (struct bp_arg){&pair[i], 1};
        graph_in[i] = (struct bp_arg){&symbols[i], 1};
    }
    one[0] = w->thing[T_SPARE].p;
    row[0] = tensor_of(&w->f, BP_F32, 1, SHAPE(3), NULL);
    add = (struct bp_call){.size = sizeof add, .op = "add", .in = in, .n_in = 2};
    graph_add = (struct bp_call){.size = sizeof add, .op = "add", .in = graph_in, .n_in = 2};
    attrs.axes = (struct bp_dims){SHAPE(0), 1};
    w->thing[PAIR].p = pair;
    w->thing[ONE].p = one;
    w->thing[ROW].p = row;
    w->thing[CALL].p = &add;
    w->thing[GRAPH_CALL].p = &graph_add;
    OK(bp_prepared_create(w->f.device, &sum, NULL, 0, (struct bp_prepared **)&w->thing[SUM].p));
}

static void call_finish(struct world *w)
{
    bp_prepared_destroy(w->thing[SUM].p);
    bp_tensor_destroy(*(struct bp_tensor **)w->thing[ROW].p);
}

const struct table mistakes_call = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = call_prepare,
    .more = call_more,
    .finish = call_finish,
};
