/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_typed.c: makes wrong calls of all operators. The calls are made from the operators'
 * rows, so that a new operator needs no line here. Each operator is called in five ways: by its
 * typed call; by name, on a stream and on a graph; as a prepared call; and for its gradient. */
#include "mistakes.h"

#include <backplane/op.h>
#include <stdlib.h>

static void *const untouched = &(char){0};

/* Checks a call that must be refused. out: an output before and after the call, which must not have
 * changed. */
static void expect_refused(struct world *w, const char *op, const char *what, enum bp_status got,
                           enum bp_status status, const char *word, void *const *out)
{
    const char *message = bp_error_message();

    cr_expect_eq(got, status, "%s, %s: expected %s, got %s: %s", op, what, bp_status_name(status),
                 bp_status_name(got), message);
    cr_expect(strstr(message, word), "%s, %s: the message does not say '%s': '%s'", op, what, word,
              message);
    cr_expect(out[0] == out[1], "%s, %s: the output was written", op, what);
    mistakes_check_world(w, op, what);
}

/* Makes each typed call with this scope, and with x for each of its inputs. */
static void all_typed(struct world *w, void *scope, void *x, const char *what, const char *word)
{
    struct bp_tensor *out[2] = {NULL, NULL}, *t = x;
    void *seen[2];
    enum bp_status status;

#define IN(n, v, d) , t
#define SHAPE_IN(n, v, d) , t
#define OPT(n, v, d) , t
#define HOST(n, v, d) , t
#define VAR(n, v, d) , &t, 1
#define OUT(n, v, d) , &out[0]
#define OPTOUT(n, v, d) , &out[0]
#define MAY_SHARE(n, v, i, d) , &out[0]
#define UPDATE(n, v, i, d) , &out[0]
#define VIEW(n, v, i, d) , &out[0]
#define VAROUT(n, v, d) , &out[0], 1
#define VAROUT_SHARE(n, v, i, d) , &out[0], 1
#define VIEWS(n, v, i, d) , &out[0], 1
#define CALLED(op) \
    memcpy(seen, out, sizeof seen); \
    expect_refused(w, "bp_op_" #op, what, status, BP_ERR_INVALID, word ? word : #op ": ", seen);
#define OP(op, ins, outs, facts) \
    status = bp_op_##op(scope ins outs); \
    CALLED(op)
#define OPA(op, ins, outs, attrs, facts) \
    status = bp_op_##op(scope ins, NULL outs); \
    CALLED(op)
#include <ops/ops.def>
#undef CALLED
}

Test(mistakes, typed_calls)
{
    struct world w = mistakes_world();
    char what[64];

    for (enum thing t = T_NONE; t <= T_STRANGER; t++) {
        if (t == T_STREAM || t == T_GRAPH || t == T_KINDS) continue; /* valid scopes */
        snprintf(what, sizeof what, "on a %s", mistakes_kind(t));
        all_typed(&w, w.thing[t].p, w.thing[T_TENSOR].p, what, "scope");
        if (t == T_NONE || t == T_TENSOR) continue;
        snprintf(what, sizeof what, "of a %s", mistakes_kind(t));
        all_typed(&w, w.f.scope, w.thing[t].p, what, NULL);
    }
    mistakes_world_finish(&w);
}

enum way { RUN, RECORD, PREPARE, GRADIENT };
static const char *const way_name[] = {"run", "recorded", "prepared", "gradient"};

/* An operator with right inputs as far as its row describes them; shapes are checked last. */
struct subject {
    struct world *w;
    const struct bp_opinfo *op;
    struct bp_tensor *tensor[16], *pair[300];
    struct bp_arg in[16];
    struct bp_call call;
    size_t n_out;
};

static struct bp_tensor *of_dtype(struct world *w, uint32_t dtype)
{
    return tensor_of(&w->f, dtype, 2, SHAPE(2, 3), NULL);
}

static uint32_t a_dtype(uint64_t mask)
{
    return mask >> BP_F32 & 1 ? BP_F32 : (uint32_t)__builtin_ctzll(mask);
}

static void typed_begin(struct subject *s, struct world *w, const struct bp_opinfo *op)
{
    memset(s, 0, sizeof *s);
    s->w = w;
    s->op = op;
    s->n_out = op->n_out;
    for (uint32_t i = 0; i < op->n_in; i++) {
        bool given = op->in[i].kind == BP_PORT_IN || op->in[i].kind == BP_PORT_VAR;
        if (given) s->tensor[i] = of_dtype(w, a_dtype(op->types[op->in[i].var]));
        s->in[i] = (struct bp_arg){&s->tensor[i], given};
    }
    s->call = (struct bp_call){.size = sizeof s->call, .op = op->name, .in = s->in,
                               .n_in = op->n_in};
}

static void typed_end(struct subject *s)
{
    for (uint32_t i = 0; i < s->op->n_in; i++) bp_tensor_destroy(s->tensor[i]);
}

static void typed_refused(struct subject *s, enum way way, const char *what, enum bp_status status,
                          const char *word)
{
    static const uint8_t all[17] = {1, 1};
    struct bp_scope *scope = way == RUN ? s->w->f.scope : bp_graph_scope(s->w->thing[T_SCRATCH].p);
    struct bp_tensor *out[17] = {NULL}, *result[17];
    struct bp_prepared *prepared = untouched;
    void *seen[2] = {NULL, NULL};
    enum bp_status got;
    char text[160];

    for (size_t i = 0; i < COUNT(result); i++) result[i] = s->w->thing[T_TENSOR].p;
    if (way == GRADIENT)
        got = bp_call_gradient(s->w->f.scope, &s->call, result, result, s->n_out, all, out,
                               s->op->n_in);
    else if (way == PREPARE) got = bp_prepared_create(s->w->f.device, &s->call, NULL, 0, &prepared);
    else got = bp_call_run(scope, &s->call, out, s->n_out, NULL);
    for (size_t i = 0; i < COUNT(out) && !seen[0]; i++) seen[0] = out[i];
    if (prepared != untouched) seen[0] = prepared;
    snprintf(text, sizeof text, "%s, %s", way_name[way], what);
    expect_refused(s->w, s->op->name, text, got, status, word, seen);
}

/* Gives one port another handle. A prepared call does not take host inputs, and a symbolic tensor
 * cannot be read on the host. */
static void try_handles(struct subject *s, enum way way, uint32_t port)
{
    const struct bp_port *p = &s->op->in[port];
    bool host = p->kind == BP_PORT_HOST;
    struct bp_arg good = s->in[port];
    struct bp_tensor *bad;
    char word[64], what[96];

    snprintf(word, sizeof word, "input %s", p->name);
    s->in[port] = (struct bp_arg){&bad, 1};
    for (enum thing t = T_NONE; t <= T_OTHER_TENSOR; t++) {
        if (t == T_TENSOR || t == T_KINDS || t == T_OTHER_DEVICE || t == T_OTHER_STREAM) continue;
        if (t == T_NONE && p->kind != BP_PORT_IN && p->kind != BP_PORT_VAR) continue;
        if (t == T_OTHER_TENSOR && way == RECORD && !host) continue;
        snprintf(what, sizeof what, "input %s: %s", p->name, mistakes_kind(t));
        bad = s->w->thing[t].p;
        typed_refused(s, way, what,
                      host && (way == PREPARE || (way == RECORD && t == T_SYMBOL))
                          ? BP_ERR_UNSUPPORTED
                          : BP_ERR_INVALID,
                      word);
    }
    s->in[port] = good;
}

/* Gives one port a wrong number of tensors, or NULL. */
static void try_numbers(struct subject *s, enum way way, uint32_t port)
{
    struct bp_arg good = s->in[port];
    const char *name = s->op->in[port].name;
    struct bp_tensor *fine = s->tensor[port] ? s->tensor[port] : s->w->thing[T_TENSOR].p;

    for (size_t i = 0; i < COUNT(s->pair); i++) s->pair[i] = fine;
    s->in[port] = (struct bp_arg){NULL, 1};
    typed_refused(s, way, "one tensor at NULL", BP_ERR_INVALID, name);
    s->in[port] = (struct bp_arg){s->pair, COUNT(s->pair)};
    typed_refused(s, way, "300 tensors", BP_ERR_INVALID, s->op->name);
    s->in[port] = (struct bp_arg){s->pair, SIZE_MAX};
    typed_refused(s, way, "the most tensors", BP_ERR_INVALID, s->op->name);
    s->in[port] = (struct bp_arg){s->pair, 2};
    if (s->op->in[port].kind != BP_PORT_VAR)
        typed_refused(s, way, "two tensors", BP_ERR_INVALID, name);
    s->in[port] = good;
}

/* Gives one port a dtype that the operator is not defined for, or one that differs from an earlier
 * input's. */
static void try_dtypes(struct subject *s, enum way way, uint32_t port)
{
    const struct bp_port *p = &s->op->in[port];
    uint32_t own = a_dtype(s->op->types[p->var]);
    struct bp_device_properties device = {.size = sizeof device};
    struct bp_arg good = s->in[port];
    bool bound = false;

    OK(bp_device_get_properties(s->w->f.device, &device));
    for (uint32_t i = 0; i < port; i++)
        bound |= s->op->in[i].var == p->var && s->op->in[i].kind == BP_PORT_IN;
    for (uint32_t d = 0; d < 64; d++) {
        bool defined = s->op->types[p->var] >> d & 1;
        struct bp_tensor *t;
        char what[64];
        if (!(device.dtypes >> d & 1) || d == own || (defined && !bound)) continue;
        t = of_dtype(s->w, d);
        s->in[port] = (struct bp_arg){&t, 1};
        snprintf(what, sizeof what, "input %s is %s", p->name, bp_dtype_name(d));
        typed_refused(s, way, what, BP_ERR_INVALID, what);
        bp_tensor_destroy(t);
    }
    s->in[port] = good;
}

static void try_outputs(struct subject *s, enum way way)
{
    size_t n = s->n_out;
    uint8_t kind = s->op->out[n - 1].kind;

    if (way == PREPARE) return; /* a prepared call computes all outputs */
    if (kind == BP_PORT_VAROUT || kind == BP_PORT_VIEWS) return; /* attributes set n_out */
    s->n_out = n + 1;
    typed_refused(s, way, "one output more", BP_ERR_INVALID, "outputs asked for");
    s->n_out = 0;
    if (s->op->out[0].kind == BP_PORT_OUT || s->op->out[0].kind == BP_PORT_VIEW)
        typed_refused(s, way, "no outputs", BP_ERR_INVALID, s->op->out[0].name);
    s->n_out = n;
}

static void try_attribute(struct subject *s, enum way way, const struct bp_attr *a, char *attrs)
{
    static const int64_t some[1];
    static const struct bp_dims lists[] = {{NULL, 1}, {some, -1}, {some, INT64_MAX}, {some, 65537}};
    int64_t number = a->kind == BP_ATTR_FLAG ? 2 : 99;

    if (a->kind == BP_ATTR_FLAG || a->kind == BP_ATTR_DTYPE) {
        memcpy(attrs + a->offset, &number, sizeof number);
        typed_refused(s, way, a->name, BP_ERR_INVALID, a->name);
        number = -1;
        memcpy(attrs + a->offset, &number, sizeof number);
        typed_refused(s, way, a->name, BP_ERR_INVALID, a->name);
    }
    for (size_t i = 0; a->kind == BP_ATTR_DIMS && i < COUNT(lists); i++) {
        memcpy(attrs + a->offset, &lists[i], sizeof *lists);
        typed_refused(s, way, a->name, BP_ERR_INVALID, a->name);
    }
    memcpy(attrs, s->op->defaults, s->op->attrs_size);
}

static void try_attrs(struct subject *s, enum way way)
{
    static const size_t sizes[] = {0, 4, 9, 65544, SIZE_MAX};
    size_t size = s->op->attrs_size;
    char *attrs = calloc(1, size + 16);

    cr_assert(attrs);
    s->call.attrs = attrs;
    if (size) memcpy(attrs, s->op->defaults, size);
    for (uint32_t i = 0; i < s->op->n_attr; i++) try_attribute(s, way, &s->op->attr[i], attrs);
    for (size_t i = 0; size && i < COUNT(sizes); i++) {
        memcpy(attrs, &sizes[i], sizeof sizes[i]);
        typed_refused(s, way, "a size that is none", BP_ERR_INVALID, "attrs->size");
    }
    memcpy(attrs, &(size_t){size + 16}, sizeof size);
    attrs[size + 15] = 1;
    if (size) typed_refused(s, way, "an attribute of a newer app", BP_ERR_UNSUPPORTED, "is newer");
    else typed_refused(s, way, "attributes", BP_ERR_INVALID, "takes no attributes");
    s->call.attrs = NULL;
    free(attrs);
}

static void try_operator(struct world *w, const struct bp_opinfo *op, enum way way)
{
    struct subject s;

    typed_begin(&s, w, op);
    for (uint32_t port = 0; port < op->n_in; port++) {
        try_handles(&s, way, port);
        try_numbers(&s, way, port);
        if (op->in[port].kind != BP_PORT_HOST) try_dtypes(&s, way, port);
    }
    s.call.n_in++;
    typed_refused(&s, way, "one input more", BP_ERR_INVALID, "inputs given");
    s.call.n_in--;
    s.call.in = NULL;
    typed_refused(&s, way, "inputs at NULL", BP_ERR_INVALID, "in is NULL");
    s.call.in = s.in;
    try_outputs(&s, way);
    try_attrs(&s, way);
    typed_end(&s);
}

static void try_way(enum way way)
{
    struct world w = mistakes_world();

    cr_expect(bp_opinfo_count() >= 5);
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) try_operator(&w, bp_opinfo_at(i), way);
    mistakes_world_finish(&w);
}

Test(mistakes, operators_on_a_stream)
{
    try_way(RUN);
}

Test(mistakes, operators_on_a_graph)
{
    try_way(RECORD);
}

Test(mistakes, operators_prepared)
{
    try_way(PREPARE);
}

Test(mistakes, gradients)
{
    try_way(GRADIENT);
}
