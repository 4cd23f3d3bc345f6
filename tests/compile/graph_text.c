/* SPDX-License-Identifier: Apache-2.0 */
/* graph_text.c: records graphs from text; graph_text.h explains the language. */
#include "graph_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ARGS = 12,
    ATTR_WORDS = 64,
    LISTS = 5
};

const char *text_device = "cpu:0";

struct text_graph text_begin(void)
{
    const char *other = getenv("TEXT_DEVICE");

    return text_begin_on(other ? other : text_device, NULL);
}

struct text_graph text_begin_on(const char *device, const char *library)
{
    struct text_graph g = {
        .dtype = BP_F32, .rank = 3, .shape = {4, 4, 4}, .constant_rank = 1, .constant_shape = {4}};
    struct bp_device_properties properties = {.size = sizeof properties};
    uint32_t plugin, flags = 0;

    OK(bp_core_create(NULL, &g.f.core));
    if (library) OK(bp_core_load_path(g.f.core, library, &plugin));
    OK(bp_device_create(g.f.core, device, &g.f.device));
    OK(bp_device_get_properties(g.f.device, &properties));
    if (properties.flags & BP_DEVICE_INLINE) flags = BP_STREAM_INLINE;
    OK(bp_stream_create_with(g.f.device, flags, &g.f.stream));
    g.f.scope = bp_stream_scope(g.f.stream);
    OK(bp_graph_create(g.f.core, &g.graph));
    g.scope = bp_graph_scope(g.graph);
    return g;
}

void text_finish(struct text_graph *g)
{
    for (uint32_t i = 0; i < g->n_made; i++) bp_tensor_destroy(g->made[i]);
    for (uint32_t i = 0; i < g->n_in; i++) bp_tensor_destroy(g->in[i]);
    bp_graph_destroy(g->graph);
    fixture_finish(&g->f);
}

static struct bp_tensor *text_own(struct text_graph *g, struct bp_tensor *t)
{
    cr_assert(g->n_made < TEXT_MADE, "too many values in a text");
    return g->made[g->n_made++] = t;
}

static struct bp_tensor *text_keep(struct text_graph *g, const char *text, size_t length,
                                   struct bp_tensor *t)
{
    cr_assert(g->n_value < TEXT_VALUES, "too many names in a text");
    g->value[g->n_value++] = (struct text_value){text, length, t};
    return t;
}

static struct bp_tensor *text_lookup(const struct text_graph *g, const char *text, size_t length)
{
    for (uint32_t i = 0; i < g->n_value; i++)
        if (g->value[i].length == length && !memcmp(g->value[i].text, text, length))
            return g->value[i].tensor;
    return NULL;
}

struct bp_tensor *text_find(const struct text_graph *g, const char *name)
{
    return text_lookup(g, name, strlen(name));
}

/* Counts a place where an edit of this kind is possible. Returns whether to make the edit here. */
static bool text_edits(struct text_graph *g, int kind)
{
    return (int)g->edit.kind == kind && g->places++ == g->edit.number;
}

/* ---- the text ---- */

static void text_skip(struct text_graph *g)
{
    while (*g->at == ' ') g->at++;
}

static bool text_take(struct text_graph *g, char c)
{
    text_skip(g);
    if (*g->at != c) return false;
    g->at++;
    return true;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '|';
}

/* ---- values ---- */

/* A type as written behind a name. */
struct text_type {
    uint32_t dtype, rank;
    int64_t shape[6], count;
};

static bool take_dtype(struct text_graph *g, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t dtype;
    } dtypes[] = {{"f16", BP_F16}, {"f32", BP_F32}, {"f64", BP_F64}, {"i64", BP_I64}};

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strncmp(g->at, dtypes[i].name, 3)) {
            g->at += 3;
            *out = dtypes[i].dtype;
            return true;
        }
    return false;
}

static struct text_type read_type(struct text_graph *g, uint32_t rank, const int64_t *shape)
{
    struct text_type type = {.dtype = g->dtype, .rank = rank, .count = 1};

    for (uint32_t a = 0; a < rank; a++) type.shape[a] = shape[a];
    if (text_take(g, ':')) cr_assert(take_dtype(g, &type.dtype), "no dtype at '%s'", g->at);
    if (text_take(g, '[')) {
        type.rank = 0;
        while (!text_take(g, ']')) {
            char *end;
            cr_assert(type.rank < 6);
            type.shape[type.rank++] = strtoll(g->at, &end, 10);
            cr_assert(end > g->at, "no extent at '%s'", g->at);
            g->at = end;
            text_take(g, ',');
        }
    }
    for (uint32_t a = 0; a < type.rank; a++) type.count *= type.shape[a];
    return type;
}

/* Creates a tensor from numbers, by a conversion of its dtype. */
static struct bp_tensor *tensor_from(struct text_graph *g, const struct text_type *type,
                                     const double *number)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = type->dtype};
    struct bp_tensor *given = tensor_of(&g->f, BP_F64, type->rank, type->shape, number), *t = NULL;

    if (type->dtype == BP_F64) return given;
    OK(bp_op_cast(g->f.scope, given, &attrs, &t));
    bp_tensor_destroy(given);
    return t;
}

/* Numbers between -1.5 and 1.5 that depend on the name; between 0.5 and 1.5 for names that begin
 * with v (variances); indices 0 to 2 for integers. */
static struct bp_tensor *tensor_named(struct text_graph *g, const struct text_type *type,
                                      const char *name, size_t length, bool special)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, -0.0, 0, 1e4, -1e4};
    double *number = malloc((size_t)(type->count + 1) * sizeof *number);
    uint32_t state = 7;
    struct bp_tensor *t;

    for (size_t i = 0; i < length; i++) state = state * 31 + (unsigned char)name[i];
    for (int64_t i = 0; i < type->count; i++) {
        double unit = (double)((state = state * 1664525 + 1013904223) >> 8) / 0x1p24;
        number[i] = *name == 'v' ? 0.5 + unit : 3 * unit - 1.5;
        if (type->dtype == BP_I64) number[i] = floor(3 * unit);
        if (special && i % 2) number[i] = specials[i / 2 % 7];
    }
    t = tensor_from(g, type, number);
    free(number);
    return t;
}

static struct bp_tensor *tensor_filled(struct text_graph *g, const struct text_type *type,
                                       double value)
{
    double *number = malloc((size_t)(type->count + 1) * sizeof *number);
    struct bp_tensor *t;

    for (int64_t i = 0; i < type->count; i++) number[i] = value;
    t = tensor_from(g, type, number);
    free(number);
    return t;
}

static struct bp_tensor *read_number(struct text_graph *g)
{
    struct text_type type;
    struct bp_tensor *t;
    bool frozen;
    double number;
    char *end;

    number = strtod(g->at, &end);
    cr_assert(end > g->at, "no number at '%s'", g->at);
    g->at = end;
    if (text_edits(g, TEXT_NUMBER)) number = number == 0 ? 0.01 : 1.01 * number;
    frozen = !text_take(g, '~');
    if (text_edits(g, TEXT_LIVE_NUMBER)) frozen = false;
    type = read_type(g, 0, NULL);
    t = text_own(g, tensor_filled(g, &type, number));
    if (frozen) OK(bp_tensor_freeze(t));
    return t;
}

/* "$e": a number that the pattern captures. Another one for each name. */
static struct bp_tensor *read_capture(struct text_graph *g)
{
    const char *text = g->at++;
    struct text_type type = {.dtype = g->dtype, .count = 1};
    struct bp_tensor *t;

    while (is_word(*g->at)) g->at++;
    t = text_lookup(g, text, (size_t)(g->at - text));
    if (t) return t;
    t = text_own(g, tensor_filled(g, &type, 0.0625 * (text[1] - '_')));
    if (!text_edits(g, TEXT_LIVE_NUMBER)) OK(bp_tensor_freeze(t));
    return text_keep(g, text, (size_t)(g->at - text), t);
}

static struct bp_tensor *new_input(struct text_graph *g, const char *name, size_t length)
{
    struct text_type type = read_type(g, g->rank, g->shape);
    char word[32];
    struct bp_tensor *t;

    snprintf(word, sizeof word, "%.*s", (int)length, name);
    OK(bp_graph_input(g->graph, word, type.dtype, type.rank, type.shape, &t));
    g->in[g->n_in++] = tensor_named(g, &type, name, length, g->special == *name);
    return text_own(g, t);
}

static struct bp_tensor *new_constant(struct text_graph *g, const char *name, size_t length,
                                      bool frozen)
{
    struct text_type type = read_type(g, g->constant_rank, g->constant_shape);
    struct bp_tensor *t = text_own(g, tensor_named(g, &type, name, length, false));

    if (frozen && text_edits(g, TEXT_LIVE_CONSTANT)) frozen = false;
    if (frozen) OK(bp_tensor_freeze(t));
    return t;
}

struct bp_tensor *text_input(const struct text_graph *g, const char *name)
{
    struct bp_graph_info info = {.size = sizeof info};

    OK(bp_graph_get_info(g->graph, &info));
    for (uint32_t v = 0, input = 0; v < info.values; v++) {
        struct bp_value_info value = {.size = sizeof value};
        OK(bp_graph_value(g->graph, v, &value));
        if (value.kind) continue;
        if (!strcmp(value.name, name)) return g->in[input];
        input++;
    }
    cr_assert_fail("the graph has no input %s", name);
    return NULL;
}

/* ---- calls ---- */

/* A call that is read. */
struct text_call {
    const struct bp_opinfo *op;
    struct bp_tensor *in[ARGS];
    uint32_t n_in;
    uint64_t attrs[ATTR_WORDS];
    int64_t list[LISTS][8];
    uint32_t n_list;
    bool named[ATTR_WORDS]; /* attributes that the text states */
};

static const struct bp_attr *attr_of(const struct bp_opinfo *op, const char *name, size_t length)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (strlen(op->attr[i].name) == length && !memcmp(op->attr[i].name, name, length))
            return &op->attr[i];
    cr_assert_fail("%s has no attribute '%.*s'", op->name, (int)length, name);
    return NULL;
}

static void attr_write(struct text_call *c, const struct bp_attr *a, uint32_t i, double number)
{
    char *field = (char *)c->attrs + a->offset + 8 * i;
    int64_t integer = (int64_t)number;

    if (a->kind == BP_ATTR_F64) memcpy(field, &number, sizeof number);
    else memcpy(field, &integer, sizeof integer);
}

/* Another value for an attribute: for a number 1 % more, for an axis the first one, for a flag the
 * opposite. */
static double other_number(const struct bp_attr *a, double number)
{
    if (a->kind == BP_ATTR_F64) return number == 0 ? 0.01 : 1.01 * number;
    if (a->kind == BP_ATTR_FLAG) return number == 0;
    return number < 0 ? 0 : number + 1;
}

static void read_attr(struct text_graph *g, struct text_call *c)
{
    const char *name = g->at;
    const struct bp_attr *a;
    int64_t list[8];
    double number[8];
    uint32_t n = 0;

    while (is_word(*g->at)) g->at++;
    a = attr_of(c->op, name, (size_t)(g->at - name));
    c->named[a - c->op->attr] = true;
    cr_assert(text_take(g, '='), "no value at '%s'", g->at);
    do {
        uint32_t dtype;
        char *end;
        cr_assert(n < 8);
        if (take_dtype(g, &dtype)) {
            number[n++] = dtype;
            continue;
        }
        number[n++] = strtod(g->at, &end);
        cr_assert(end > g->at, "no number at '%s'", g->at);
        g->at = end;
    } while (*g->at == '_' && g->at++);
    if (text_edits(g, TEXT_ATTR)) number[0] = other_number(a, number[0]);
    for (uint32_t i = 0; i < n; i++) list[i] = (int64_t)number[i];
    if (a->kind == BP_ATTR_DIMS) {
        struct bp_dims dims = {c->list[c->n_list], n};
        cr_assert(c->n_list < LISTS);
        memcpy(c->list[c->n_list++], list, n * sizeof *list);
        memcpy((char *)c->attrs + a->offset, &dims, sizeof dims);
        return;
    }
    for (uint32_t i = 0; i < n; i++) attr_write(c, a, i, number[i]);
}

static void read_attrs(struct text_graph *g, struct text_call *c)
{
    if (c->op->attrs_size) memcpy(c->attrs, c->op->defaults, c->op->attrs_size);
    if (text_take(g, ';')) {
        do {
            text_skip(g);
            read_attr(g, c);
        } while (text_take(g, ','));
    }
    for (uint32_t i = 0; i < c->op->n_attr; i++) {
        const struct bp_attr *a = &c->op->attr[i];
        if (c->named[i] || (a->kind != BP_ATTR_F64 && a->kind != BP_ATTR_FLAG)) continue;
        if (text_edits(g, TEXT_OTHER_ATTR)) attr_write(c, a, 0, other_number(a, a->value));
    }
}

static struct bp_tensor *call_record(struct text_graph *g, const struct text_call *c,
                                     const char *kernel)
{
    struct bp_arg arg[ARGS];
    struct bp_tensor *out[4] = {NULL};
    struct bp_call call = {.size = sizeof call,
                           .op = c->op->name,
                           .in = arg,
                           .n_in = c->op->n_in < c->n_in ? c->op->n_in : c->n_in,
                           .attrs = c->op->attrs_size ? c->attrs : NULL,
                           .kernel = kernel};
    enum bp_status status;
    size_t n_out = c->op->n_out;

    while (n_out > 1 && c->op->out[n_out - 1].kind == BP_PORT_OPTOUT) n_out--;
    cr_assert(n_out <= 4);
    for (uint32_t p = 0; p < call.n_in; p++) {
        bool many = c->op->in[p].kind == BP_PORT_VAR;
        arg[p] = (struct bp_arg){c->in + p, many ? c->n_in - p : 1};
    }
    status = bp_call_run(g->scope, &call, out, n_out, NULL);
    if (status && g->edit.kind) {
        g->refused++;
        return NULL;
    }
    cr_assert_eq(status, BP_OK, "%s", bp_error_message());
    for (size_t i = 0; i < n_out; i++) text_own(g, out[i]);
    return out[0];
}

/* The other reader of a value, and other outputs. */
static void call_edit(struct text_graph *g, struct bp_tensor *y)
{
    struct bp_tensor *reader = NULL;

    if (text_edits(g, TEXT_OUTPUT)) g->output[g->n_output++] = y;
    if (!text_edits(g, TEXT_READER)) return;
    OK(bp_op_neg(g->scope, y, &reader));
    g->output[g->n_output++] = text_own(g, reader);
}

/* Returns what follows a call's text, which has a "(" first. */
static const char *call_end(const char *text)
{
    int depth = 0;

    for (text += strcspn(text, "("); *text; text++) {
        depth += (*text == '(') - (*text == ')');
        if (!depth) return text + 1;
    }
    cr_assert_fail("a call without an end");
    return text;
}

static struct bp_tensor *read_term(struct text_graph *g);

static struct bp_tensor *read_call(struct text_graph *g, const char *text, size_t length)
{
    struct text_call c = {0};
    struct bp_tensor *y;
    size_t first = strcspn(text, "|(@"), at = strcspn(text, "@");
    char name[48], kernel[64] = "";

    y = g->apart ? NULL : text_lookup(g, text, (size_t)(call_end(text) - text));
    if (y) {
        g->at = call_end(text);
        return y;
    }
    snprintf(name, sizeof name, "%.*s", (int)(first < length ? first : length), text);
    c.op = bp_opinfo_find(name);
    cr_assert_not_null(c.op, "no operator '%s'", name);
    for (g->at++; *g->at != ')' && *g->at != ';'; text_take(g, ',')) {
        bool absent;
        text_skip(g);
        absent = g->at[0] == '_' && !is_word(g->at[1]);
        cr_assert(c.n_in < ARGS);
        if (absent) g->at++;
        c.in[c.n_in++] = absent ? NULL : read_term(g);
        if (g->refused) return NULL;
        text_skip(g);
    }
    read_attrs(g, &c);
    cr_assert(text_take(g, ')'), "no ')' at '%s'", g->at);
    if ((!strcmp(name, "sub") || !strcmp(name, "div")) && text_edits(g, TEXT_EXCHANGE)) {
        struct bp_tensor *left = c.in[0];
        c.in[0] = c.in[1];
        c.in[1] = left;
    }
    if (at < length) snprintf(kernel, sizeof kernel, "%.*s", (int)(length - at - 1), text + at + 1);
    if (text_edits(g, TEXT_PIN)) strcpy(kernel, "no_such_kernel");
    y = call_record(g, &c, *kernel ? kernel : NULL);
    if (!y) return NULL;
    text_keep(g, text, (size_t)(g->at - text), y);
    call_edit(g, y);
    return y;
}

static struct bp_tensor *read_term(struct text_graph *g)
{
    const char *text;
    struct bp_tensor *t;
    size_t length;
    bool constant, frozen;

    text_skip(g);
    text = g->at;
    if (*text == '$') return read_capture(g);
    if (isdigit((unsigned char)*text) || *text == '-' || !strncmp(text, "inf", 3) ||
        !strncmp(text, "nan", 3))
        return read_number(g);
    while (is_word(*g->at) || *g->at == '@') g->at++;
    length = (size_t)(g->at - text);
    cr_assert(length, "no name at '%s'", text);
    if (*g->at == '(') return read_call(g, text, length);
    frozen = text_take(g, '!');
    constant = frozen || text_take(g, '~');
    t = text_lookup(g, text, length);
    if (t && !constant && text_edits(g, TEXT_OTHER_INPUT)) {
        text = "other";
        length = 5;
        t = NULL;
    }
    if (t) return t;
    t = constant ? new_constant(g, text, length, frozen) : new_input(g, text, length);
    return text_keep(g, text, length, t);
}

/* ---- statements ---- */

static void read_return(struct text_graph *g)
{
    do {
        struct bp_tensor *t = read_term(g);
        if (t) g->output[g->n_output++] = t;
    } while (text_take(g, ','));
}

/* Reads a statement. Returns the value of its call; NULL: it was a return, or was refused. */
static struct bp_tensor *read_statement(struct text_graph *g)
{
    const char *name = g->at;
    struct bp_tensor *t;
    size_t length;

    if (!strncmp(name, "return ", 7)) {
        g->at += 7;
        read_return(g);
        return NULL;
    }
    while (is_word(*g->at)) g->at++;
    length = (size_t)(g->at - name);
    if (!text_take(g, '=')) {
        g->at = name;
        return read_term(g);
    }
    t = read_term(g);
    return t ? text_keep(g, name, length, t) : NULL;
}

/* Updates the input x after its readers: x += x / 4. */
static void update_inputs(struct text_graph *g)
{
    uint32_t n = g->n_value;

    for (uint32_t i = 0; i < n; i++) {
        char name[32];
        struct bp_tensor *x = g->value[i].tensor, *y = NULL, *rate, *gradient = NULL;
        struct text_type type = {.dtype = g->dtype, .count = 1};
        snprintf(name, sizeof name, "%.*s", (int)g->value[i].length, g->value[i].text);
        if (strcmp(name, "x") || !text_edits(g, TEXT_UPDATE)) continue;
        rate = text_own(g, tensor_filled(g, &type, 0.25));
        OK(bp_op_neg(g->scope, x, &gradient));
        text_own(g, gradient);
        OK(bp_op_sgd(g->scope, x, gradient, rate, &y));
        text_own(g, y);
    }
}

bool text_record(struct text_graph *g, const char *text)
{
    struct bp_tensor *last = NULL;

    g->at = text;
    while (*g->at && !g->refused) {
        text_skip(g);
        last = read_statement(g);
        text_skip(g);
        cr_assert(g->refused || !*g->at || *g->at == '\n', "expected the end at '%s'", g->at);
        while (*g->at == '\n') g->at++;
    }
    if (g->refused) return false;
    update_inputs(g);
    if (last) g->output[g->n_output++] = last;
    for (uint32_t o = 0; o < g->n_output; o++) OK(bp_graph_output(g->graph, g->output[o], NULL));
    return true;
}
