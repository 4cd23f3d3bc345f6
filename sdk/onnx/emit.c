/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c: runs rows that only map names: passes a node's attributes and inputs to one operator. */
#include "resolve.h"
#include "row.h"
#include <locale.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS_MAX = 16, WORD_MAX = 64 };

/* One word of a map. */
struct word {
    char from[WORD_MAX]; /* the attribute of ONNX; "@1": input 1; "": no source */
    char attr[WORD_MAX];
    const char *value;   /* the text behind '=', or NULL */
};

/* Reads the next word of a map; NULL after the last one. */
static const char *next_word(const char *map, struct word *out)
{
    size_t n, from, attr;

    while (*map == ' ') map++;
    n = strcspn(map, " ");
    if (!n) return NULL;
    from = strcspn(map, ">= ");
    *out = (struct word){.value = NULL};
    memcpy(out->from, map, from < WORD_MAX ? from : WORD_MAX - 1);
    memcpy(out->attr, out->from, WORD_MAX);
    if (map[from] == '>') {
        attr = strcspn(map + from + 1, "= ");
        memset(out->attr, 0, WORD_MAX);
        memcpy(out->attr, map + from + 1, attr < WORD_MAX ? attr : WORD_MAX - 1);
        from += 1 + attr;
    }
    if (map[from] == '=') out->value = map + from + 1;
    return map + n;
}

static const struct bp_attr *find_attr(const struct bp_opinfo *op, const char *name)
{
    for (uint32_t i = 0; i < op->n_attr; i++)
        if (!strcmp(op->attr[i].name, name)) return &op->attr[i];
    return NULL;
}

static void put_number(const struct bp_attr *a, void *attrs, int64_t number, double real)
{
    void *field = (char *)attrs + a->offset;

    if (a->kind == BP_ATTR_F64) memcpy(field, &real, sizeof real);
    else memcpy(field, &number, sizeof number);
}

static enum bp_status put_ints(const struct bp_attr *a, void *attrs, struct onnx_ints ints)
{
    struct bp_dims dims = onnx_dims(ints);
    void *field = (char *)attrs + a->offset;

    if (a->kind == BP_ATTR_DIMS) memcpy(field, &dims, sizeof dims);
    else if (a->kind != BP_ATTR_INTS) {
        if (ints.n != 1)
            return onnx_error(BP_ERR_INVALID, "%s: expected one number, got %lld", a->name,
                              (long long)ints.n);
        put_number(a, attrs, ints.at[0], (double)ints.at[0]);
    } else if (ints.n > a->count)
        return onnx_error(BP_ERR_UNSUPPORTED, "%s: %lld numbers, at most %d", a->name,
                          (long long)ints.n, a->count);
    else if (ints.n > 0) memcpy(field, ints.at, (size_t)ints.n * sizeof *ints.at);
    return BP_OK;
}

/* Checks the type of an attribute. For operators of ONNX it is known to be right (signature.c); for
 * nodes of a plugin's operators it is checked here. */
static bool is_of_kind(const struct bp_attr *a, const char *type)
{
    if (a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS) return !strcmp(type, "ints");
    return !strcmp(type, "int") || (a->kind == BP_ATTR_F64 && !strcmp(type, "float"));
}

static enum bp_status put_attribute(const struct bp_attr *a, void *attrs,
                                    const Onnx__AttributeProto *from)
{
    int64_t number = from->i;

    if (!is_of_kind(a, onnx_attr_type(from)))
        return onnx_error(BP_ERR_INVALID, "attribute %.80s is %s, expected %s", from->name,
                          onnx_attr_type(from), a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS
                                                    ? "ints"
                          : a->kind == BP_ATTR_F64 ? "float" : "int");
    if (a->kind == BP_ATTR_DIMS || a->kind == BP_ATTR_INTS)
        return put_ints(a, attrs, (struct onnx_ints){from->ints, (int64_t)from->n_ints});
    if (a->kind == BP_ATTR_FLAG) number = number != 0;
    if (a->kind == BP_ATTR_DTYPE && (number = onnx_dtype((int32_t)from->i)) == ONNX_NO_DTYPE)
        return onnx_error(BP_ERR_UNSUPPORTED, "%s: element type %lld is not supported", from->name,
                          (long long)from->i);
    put_number(a, attrs, number, from->has_f ? (double)from->f : (double)number);
    return BP_OK;
}

static enum bp_status put_input(struct onnx_call *c, const struct bp_attr *a, void *attrs,
                                uint32_t input)
{
    struct onnx_ints ints;
    double real;

    if (!onnx_in(c, input)) return BP_OK;
    if (a->kind == BP_ATTR_F64) {
        TRY(onnx_in_float(c, input, 0, &real));
        put_number(a, attrs, 0, real);
        return BP_OK;
    }
    TRY(onnx_in_ints(c, input, &ints));
    return put_ints(a, attrs, ints);
}

/* Reads a number of the table, which has a decimal point in every locale of the app. */
static double table_number(const char *text)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = c ? uselocale(c) : (locale_t)0;
    double number = strtod(text, NULL);

    if (before) uselocale(before);
    if (c) freelocale(c);
    return number;
}

static enum bp_status put_word(struct onnx_call *c, const struct bp_opinfo *op,
                               const struct word *w, void *attrs, uint32_t *used)
{
    const struct bp_attr *a = find_attr(op, w->attr);
    const Onnx__AttributeProto *from;

    if (!a) return onnx_error(BP_ERR_INVALID, "the table names %s of %s, which has none", w->attr,
                              op->name);
    if (*w->from == '@') {
        uint32_t input = (uint32_t)atoi(w->from + 1);
        *used |= 1u << input;
        return put_input(c, a, attrs, input);
    }
    from = *w->from ? onnx_attr(c->node, w->from) : NULL;
    if (from) return put_attribute(a, attrs, from);
    if (w->value) put_number(a, attrs, strtoll(w->value, NULL, 10), table_number(w->value));
    return BP_OK;
}

/* Collects the node's inputs that are tensors of the operator, in order. If the last port takes any
 * number of tensors, it receives all that are left. */
static enum bp_status emit_take_inputs(const struct onnx_call *c, const struct bp_opinfo *op,
                                       uint32_t used, struct bp_tensor **in, struct bp_arg *arg,
                                       size_t *out_n)
{
    size_t n = 0, port = 0;

    for (uint32_t i = 0; i < c->node->n_in; i++) {
        bool many = port < op->n_in && op->in[port].kind == BP_PORT_VAR;
        if (i < 32 && used >> i & 1) continue;
        if (port >= op->n_in)
            return onnx_error(BP_ERR_INVALID, "input %u is more than %s takes", i, op->name);
        in[n] = onnx_in(c, i);
        if (c->node->in[i] != ONNX_NO_SLOT && !in[n])
            return onnx_error(BP_ERR_INVALID, "input %u is no tensor", i);
        if (many) arg[port] = (struct bp_arg){arg[port].n ? arg[port].at : in + n, arg[port].n + 1};
        else arg[port++] = (struct bp_arg){in + n, 1};
        n++;
    }
    *out_n = op->n_in && op->in[op->n_in - 1].kind == BP_PORT_VAR ? op->n_in : port;
    return BP_OK;
}

static enum bp_status call_op(struct onnx_call *c, const struct bp_opinfo *op,
                              const struct bp_call *call)
{
    struct bp_tensor *out[PORTS_MAX] = {NULL};
    uint8_t want[PORTS_MAX];

    if (op->n_out > PORTS_MAX || c->node->n_out > op->n_out)
        return onnx_error(BP_ERR_INVALID, "%u outputs, %s has %u", c->node->n_out, op->name,
                          op->n_out);
    for (uint32_t i = 0; i < op->n_out; i++)
        want[i] = onnx_wants(c, i) || op->out[i].kind != BP_PORT_OPTOUT;
    TRY(bp_call_run(c->scope, call, out, op->n_out, want));
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!onnx_wants(c, i)) bp_tensor_destroy(out[i]);
        else TRY(onnx_give(c, i, out[i])); /* no memory: later outputs are leaked */
    }
    return BP_OK;
}

static enum bp_status emit_node(struct onnx_call *c, const struct bp_opinfo *op, void *attrs,
                                uint32_t used)
{
    struct bp_arg arg[PORTS_MAX] = {{NULL, 0}};
    struct bp_tensor **in = calloc(c->node->n_in + 1, sizeof *in);
    struct bp_call call = {.size = sizeof call, .op = op->name, .in = arg,
                           .attrs = op->n_attr ? attrs : NULL};
    enum bp_status status;

    if (!in) return onnx_no_memory();
    status = emit_take_inputs(c, op, used, in, arg, &call.n_in);
    if (status == BP_OK) status = call_op(c, op, &call);
    free(in);
    return status;
}

/* Memory for the attributes of any operator, filled with the operator's defaults. */
struct room {
    uint64_t at[64];
};

static enum bp_status emit_begin(const struct bp_opinfo *op, struct room *room)
{
    if (op->attrs_size > sizeof *room || op->n_in > PORTS_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "%s has more attributes or inputs than is known here",
                          op->name);
    if (op->attrs_size) memcpy(room, op->defaults, op->attrs_size);
    return BP_OK;
}

enum bp_status onnx_emit_map(struct onnx_call *c)
{
    const struct bp_opinfo *op = bp_opinfo_find(c->node->row->op);
    const char *map = c->node->row->map;
    uint32_t used = 0;
    struct word word;
    struct room room;

    TRY(emit_begin(op, &room));
    while (map && (map = next_word(map, &word))) TRY(put_word(c, op, &word, &room, &used));
    return emit_node(c, op, &room, used);
}

enum bp_status onnx_emit_custom(struct onnx_call *c)
{
    const Onnx__NodeProto *proto = c->node->proto;
    const struct bp_opinfo *op = onnx_custom_op(proto);
    struct room room;

    TRY(emit_begin(op, &room));
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const struct bp_attr *a = find_attr(op, onnx_text(proto->attribute[i]->name));
        const Onnx__AttributeProto *from = onnx_attr(c->node, onnx_text(proto->attribute[i]->name));
        if (!a || !from)
            return onnx_error(BP_ERR_INVALID, "%s has no attribute %.80s", op->name,
                              onnx_text(proto->attribute[i]->name));
        TRY(onnx_check_once(c->node, i));
        TRY(put_attribute(a, &room, from));
    }
    return emit_node(c, op, &room, 0);
}
