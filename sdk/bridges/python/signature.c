/* SPDX-License-Identifier: Apache-2.0 */
/* signature.c: prints the signature and the documentation of an operator's function from the table
 * of operators, in the form in which Python's inspect and help() read those of built-in functions.
 * The stubs (stubs.py) follow the same rules. */
#include "module.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A growing text. */
struct text {
    char *at;
    size_t used, room;
    bool failed;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *t, const char *format, ...)
{
    char *more;
    va_list list;
    int n;

    for (;;) {
        va_start(list, format);
        n = vsnprintf(t->at ? t->at + t->used : NULL, t->room - t->used, format, list);
        va_end(list);
        if (n < 0 || t->failed) break;
        if (t->used + (size_t)n < t->room) {
            t->used += (size_t)n;
            return;
        }
        more = realloc(t->at, 2 * (t->used + (size_t)n) + 256);
        if (!more) break;
        t->at = more;
        t->room = 2 * (t->used + (size_t)n) + 256;
    }
    t->failed = true;
}

static void text_number(struct text *t, double value)
{
    char *repr;

    if (isnan(value)) text_add(t, "None");
    else if (isinf(value)) text_add(t, "%s1e999", value < 0 ? "-" : "");
    else {
        repr = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
        text_add(t, "%s", repr ? repr : "None");
        PyMem_Free(repr);
    }
}

/* The default of an attribute, as a literal of Python. */
static void text_default(struct text *t, const struct bp_attr *attr)
{
    switch (attr->kind) {
    case BP_ATTR_F64: text_number(t, attr->value); break;
    case BP_ATTR_FLAG: text_add(t, "%s", attr->value != 0 ? "True" : "False"); break;
    case BP_ATTR_DTYPE:
        if (attr->value < 0) text_add(t, "None");
        else text_add(t, "'%s'", bp_dtype_name((enum bp_dtype)attr->value));
        break;
    case BP_ATTR_INTS:
        text_add(t, "(");
        for (int i = 0; i < attr->count; i++) text_add(t, "%lld, ", (long long)attr->value);
        t->used -= t->used > 2 && attr->count > 1 ? 2 : 1;
        text_add(t, ")");
        break;
    case BP_ATTR_DIMS: text_add(t, "()"); break;
    default: text_add(t, "%lld", (long long)attr->value);
    }
}

static bool attr_is_port(const struct py_operator *op, int attr)
{
    for (int i = 0; i < op->info->n_in; i++)
        if (op->port_attr[i] == attr) return true;
    return false;
}

/* Whether the number of outputs may vary. */
static bool outputs_vary(const struct bp_opinfo *info)
{
    for (int i = 0; i < info->n_out; i++)
        if (info->out[i].kind == BP_PORT_OPTOUT || info->out[i].kind == BP_PORT_VAROUT ||
            info->out[i].kind == BP_PORT_VIEWS)
            return true;
    return false;
}

static void text_signature(struct text *t, const struct py_operator *op)
{
    const struct bp_opinfo *info = op->info;
    const char *dot = strrchr(info->name, '.');
    bool optional = false;

    text_add(t, "%s(", dot ? dot + 1 : info->name);
    for (int i = 0; i < info->n_in; i++) {
        const struct bp_port *port = &info->in[i];
        text_add(t, "%s%s", i ? ", " : "", port->name);
        optional = optional || port->kind == BP_PORT_OPT || port->kind == BP_PORT_HOST;
        if (!optional) continue;
        text_add(t, "=");
        if (op->port_attr[i] >= 0) text_default(t, &info->attr[op->port_attr[i]]);
        else text_add(t, "None");
    }
    text_add(t, "%s*", info->n_in ? ", " : "");
    for (int i = 0; i < info->n_attr; i++) {
        if (attr_is_port(op, i)) continue;
        text_add(t, ", %s=", info->attr[i].name);
        text_default(t, &info->attr[i]);
    }
    text_add(t, ", out=None%s, row=None)", outputs_vary(info) ? ", outputs=None" : "");
}

static void text_ports(struct text *t, const char *title, const struct bp_port *port, int n)
{
    static const char *const note[] = {[BP_PORT_OPT] = " (may be absent)",
                                       [BP_PORT_VAR] = " (a list of tensors)",
                                       [BP_PORT_HOST] = " (numbers or a tensor)",
                                       [BP_PORT_OPTOUT] = " (optional)",
                                       [BP_PORT_VIEW] = " (a view)",
                                       [BP_PORT_UPDATE] = " (the input, updated)",
                                       [BP_PORT_VAROUT] = " (several)",
                                       [BP_PORT_VIEWS] = " (several views)"};

    text_add(t, "\n\n%s:", title);
    for (int i = 0; i < n; i++) {
        const char *more = port[i].kind < sizeof note / sizeof *note ? note[port[i].kind] : NULL;
        text_add(t, "\n  %s: %s%s", port[i].name, port[i].doc ? port[i].doc : "", more ? more : "");
    }
}

char *py_operator_doc(const struct py_operator *op)
{
    const struct bp_opinfo *info = op->info;
    struct text t = {0};

    text_signature(&t, op);
    text_add(&t, "\n--\n\n%s", info->doc ? info->doc : "");
    if (info->n_in) text_ports(&t, "Inputs", info->in, info->n_in);
    text_ports(&t, "Returns", info->out, info->n_out);
    if (info->n_attr) text_add(&t, "\n\nAttributes:");
    for (int i = 0; i < info->n_attr; i++)
        text_add(&t, "\n  %s: %s", info->attr[i].name, info->attr[i].doc ? info->attr[i].doc : "");
    if (!t.failed) return t.at;
    free(t.at);
    PyErr_NoMemory();
    return NULL;
}
