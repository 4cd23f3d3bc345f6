/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_operators.c: registers operators that plugins define, in addition to those of ops.def. The
 * list belongs to the process and only grows, because calls, graphs and models refer to its
 * elements, and look-ups have no core. */
#include "op.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct custom {
    struct bp_opdef row; /* first: an operator is found by its definition */
    enum bp_status (*infer)(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out);
    struct bp_op_rules rules;
    struct custom *next;
    struct bp_attr attr[];
};

enum { LONGEST_NAME = 128, ATTRS_MAX = 8 * 64 /* bytes: key_words has one bit for each 8 */ };

static _Atomic(struct custom *) list;
static _Atomic(const struct bp_rule_functions *) rule_functions;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held to add operators */

void bp_plugin_op_init(const struct bp_rule_functions *functions)
{
    atomic_store(&rule_functions, functions);
}

const struct bp_opdef *bp_plugin_op_find(const char *name)
{
    for (const struct custom *c = atomic_load(&list); c; c = c->next)
        if (!strcmp(c->row.info.name, name)) return &c->row;
    return NULL;
}

const struct bp_op_rules *bp_plugin_op_rules(const struct bp_opdef *row)
{
    return &((const struct custom *)row)->rules;
}

/* Returns the status of one of the operator's functions, with a message. */
static enum bp_status infer_leave(const struct bp_opdef *row, enum bp_status status,
                                  const char *callback)
{
    status = bp_error_leave(status, row->info.name, callback);
    if (status == BP_OK || status == BP_ERR_DEVICE) return status;
    return bp_error(status == BP_ERR_UNSUPPORTED ? status : BP_ERR_INVALID,
                    "%s: the inputs or attributes do not go together: its plugin says %s",
                    row->info.name, bp_status_name(status));
}

/* Places the tensors of the variadic output, as many as the plugin says. */
static enum bp_status infer_count(struct bp_invocation *inv)
{
    const struct bp_op_rules *rules = bp_plugin_op_rules(inv->row);
    const struct bp_prep prep = {.size = sizeof prep, .in = inv->in, .in_at = inv->in_at,
                                 .n_in = inv->n_in, .attrs = inv->attrs};
    uint32_t count = 0;

    bp_error_enter();
    TRY(infer_leave(inv->row, rules->count(&prep, &count), "count"));
    TRY(bp_invocation_count(inv, count));
    if (!rules->decompose || inv->n_out <= BP_PORT_MAX) return BP_OK;
    return bp_error(BP_ERR_UNSUPPORTED, "%s: it has %u outputs, and an operator with a "
                    "decomposition at most %d", inv->row->info.name, inv->n_out, BP_PORT_MAX);
}

static enum bp_status infer_shapes(struct bp_invocation *inv, struct bp_inferred *out)
{
    const struct custom *c = (const struct custom *)inv->row;
    const struct bp_prep prep = {.size = sizeof prep, .in = inv->in, .in_at = inv->in_at,
                                 .out_at = inv->out_at, .n_in = inv->n_in,
                                 .n_out = inv->n_out, .attrs = inv->attrs};

    if (c->infer) {
        bp_error_enter();
        return infer_leave(&c->row, c->infer(&prep, out, inv->n_out), "infer");
    }
    for (uint32_t i = 0; i < inv->n_out && inv->in[0]; i++) {
        out[i].rank = inv->in[0]->rank;
        memcpy(out[i].extent, inv->in[0]->shape, out[i].rank * sizeof *out[i].extent);
    }
    return BP_OK;
}

static enum bp_status plugin_op_infer(struct bp_invocation *inv)
{
    struct bp_inferred out[BP_FLAT_MAX];

    if (inv->row->varies) TRY(infer_count(inv));
    memset(out, 0, inv->n_out * sizeof *out);
    for (uint32_t i = 0; i < inv->n_out; i++) {
        uint32_t var = inv->row->info.out[bp_out_port(inv->row, inv->out_at, i)].var;
        out[i].dtype = inv->bound >> var & 1 ? inv->dtype[var] : inv->out[i].dtype;
    }
    TRY(infer_shapes(inv, out));
    for (uint32_t i = 0; i < inv->n_out; i++) {
        const struct bp_port *port = &inv->row->info.out[bp_out_port(inv->row, inv->out_at, i)];
        uint64_t types = inv->row->info.types[port->var];
        if (out[i].dtype > 63 || !(types >> out[i].dtype & 1) || out[i].rank > BP_RANK_MAX)
            return bp_error(BP_ERR_PLUGIN, "%s: its plugin says that output %s has dtype %u and "
                            "%u axes", inv->row->info.name, port->name, out[i].dtype,
                            out[i].rank);
        inv->out[i].dtype = out[i].dtype;
        inv->out[i].rank = out[i].rank;
        memcpy(inv->out[i].shape, out[i].extent, out[i].rank * sizeof *out[i].extent);
    }
    return BP_OK;
}

static bool is_named(const char *name)
{
    const char *dot = name ? strchr(name, '.') : NULL;

    if (!dot || dot == name || strlen(name) > LONGEST_NAME) return false;
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_' && (*at != '.' || at[1] == '.'))
            return false;
    return name[strlen(name) - 1] != '.';
}

static const char *unfit_port(const struct bp_opinfo *op, const struct bp_port *p, bool is_input,
                              bool is_last)
{
    bool fits = is_input ? p->kind == BP_PORT_IN || p->kind == BP_PORT_OPT ||
                               (p->kind == BP_PORT_VAR && is_last)
                         : p->kind == BP_PORT_OUT || p->kind == BP_PORT_OPTOUT ||
                               (p->kind == BP_PORT_VAROUT && is_last);

    if (!p->name || !*p->name) return "a port has no name";
    if (!fits) return "a port is of a kind that its place does not allow";
    if (p->var >= BP_VAR_COUNT || !op->types[p->var]) return "a port has no dtypes";
    if (!is_input && (p->share < -1 || p->share >= op->n_in))
        return "an output shares an input that is not there";
    return NULL;
}

static const char *unfit_attrs(const struct bp_opinfo *op)
{
    size_t size = sizeof(size_t), given = 0;

    for (uint32_t i = 0; op->attr && i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        if (!a->name || !*a->name || a->kind > BP_ATTR_DIMS || a->when > BP_ATTR_RUN ||
            !a->count || (a->count > 1 && a->kind != BP_ATTR_INTS))
            return "an attribute has no name, or a kind, time or count that is none";
        size += a->kind == BP_ATTR_DIMS ? sizeof(struct bp_dims) : 8u * a->count;
    }
    if (!op->n_attr) size = 0;
    if (op->defaults) memcpy(&given, op->defaults, sizeof given);
    if ((op->n_attr && !op->attr) || size > ATTRS_MAX || op->attrs_size != size || given != size)
        return "attrs_size, or the size in defaults, is not that of the attributes";
    return NULL;
}

static const char *plugin_op_unfit(const struct bp_opinfo *op)
{
    const char *why = NULL;

    if (!is_named(op->name)) return "its name is not DOMAIN.NAME";
    if (op->n_in > BP_PORT_MAX || !op->n_out || op->n_out > BP_PORT_MAX ||
        (op->n_in && !op->in) || !op->out)
        return "it has no output, or too many ports";
    if (op->flags || op->alias) return "flags and alias are not for it";
    for (uint32_t i = 0; i < op->n_in && !why; i++)
        why = unfit_port(op, &op->in[i], true, i + 1u == op->n_in);
    for (uint32_t i = 0; i < op->n_out && !why; i++)
        why = unfit_port(op, &op->out[i], false, i + 1u == op->n_out);
    return why ? why : unfit_attrs(op);
}

static bool same_ports(const struct bp_port *a, const struct bp_port *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(a[i].name, b[i].name) || a[i].kind != b[i].kind || a[i].var != b[i].var)
            return false;
    return true;
}

/* Whether two operators have the same interface, so that calls of one are valid calls of the
 * other. */
static bool is_same(const struct bp_opinfo *a, const struct bp_opinfo *b)
{
    if (a->n_in != b->n_in || a->n_out != b->n_out || a->n_attr != b->n_attr ||
        a->attrs_size != b->attrs_size || memcmp(a->types, b->types, sizeof a->types) ||
        !same_ports(a->in, b->in, a->n_in) || !same_ports(a->out, b->out, a->n_out))
        return false;
    for (uint32_t i = 0; i < a->n_attr; i++)
        if (strcmp(a->attr[i].name, b->attr[i].name) || a->attr[i].kind != b->attr[i].kind ||
            a->attr[i].when != b->attr[i].when || a->attr[i].count != b->attr[i].count)
            return false;
    return true;
}

static const char *plugin_op_add(const struct bp_operator *op, const struct bp_op_rules *rules)
{
    const struct bp_opdef *there = bp_plugin_op_find(op->info.name);
    struct custom *c;

    if (there)
        return is_same(&there->info, &op->info) ? NULL : "another plugin brings another one";
    c = calloc(1, sizeof *c + op->info.n_attr * sizeof *c->attr);
    if (!c) return "out of memory";
    c->row = (struct bp_opdef){.info = op->info, .infer = plugin_op_infer};
    c->infer = op->infer;
    if (rules) c->rules = *rules;
    if (c->rules.decompose) c->row.decompose = atomic_load(&rule_functions)->decompose;
    if (c->rules.gradient) c->row.grad = atomic_load(&rule_functions)->grad;
    if (op->info.n_attr) memcpy(c->attr, op->info.attr, op->info.n_attr * sizeof *c->attr);
    c->row.info.attr = c->attr;
    bp_opdef_derive(&c->row, c->attr);
    if (c->row.grad || c->row.decompose) c->row.info.flags |= BP_OP_GRADIENT;
    c->next = atomic_load(&list);
    atomic_store(&list, c);
    return NULL;
}

static const char *unfit_count(const struct bp_opinfo *op, const struct bp_op_rules *rules)
{
    bool varies = op->out[op->n_out - 1].kind == BP_PORT_VAROUT;
    bool counts = rules && rules->count;

    if (varies && !counts) return "an output has any number of tensors, and no rule count says it";
    if (counts && !varies) return "it has a rule count, and no output with any number of tensors";
    return NULL;
}

const char *bp_plugin_op_add(const struct bp_operator *op, const struct bp_op_rules *rules)
{
    const char *why = plugin_op_unfit(&op->info);

    if (!why) why = unfit_count(&op->info, rules);
    if (why) return why;
    pthread_mutex_lock(&lock);
    why = plugin_op_add(op, rules);
    pthread_mutex_unlock(&lock);
    return why;
}
