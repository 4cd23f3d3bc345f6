/* SPDX-License-Identifier: Apache-2.0 */
/* opfacts.c: reads families and gradients of operators from ops.def, and formats parts of
 * operators. */
#include "opfacts.h"

#include <string.h>

#include "tools.h"

static const struct row {
    const char *name, *title; /* an operator, or the title of a family */
    const char *gradient, *expansion, *why; /* without a gradient rule, the decomposition's gradient
                                               is used */
    double ulp; /* the two numbers of TOL */
    int terms;
} rows[] = {
#define FAMILY(text) {.title = text},
#define OP(op, inputs, outputs, facts) {.name = #op, facts},
#define OPA(op, inputs, outputs, attributes, facts) {.name = #op, facts},
#define GRAD(rule) .gradient = #rule,
#define NODIFF(text) .why = text,
#define DECOMPOSE(rule) .expansion = #rule,
#define TOL(ulp_, terms_) .ulp = (ulp_), .terms = (terms_),
#include <ops/ops.def>
};

struct bp_opfacts bp_opfacts_find(const char *name)
{
    struct bp_opfacts facts = {"", "the table says nothing of it"};
    const char *family = "";

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].title) family = rows[i].title;
        if (!rows[i].name || strcmp(rows[i].name, name)) continue;
        facts.family = family;
        facts.ulp = rows[i].ulp;
        facts.terms = rows[i].terms;
        if (rows[i].gradient || (rows[i].expansion && !rows[i].why)) facts.no_gradient = NULL;
        else if (rows[i].why) facts.no_gradient = rows[i].why;
    }
    return facts;
}

const char *bp_attr_kind_name(uint8_t kind)
{
    static const char *const names[] = {"integer", "number", "flag", "dtype", "integers", "list"};
    return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

char *bp_attr_default_text(const struct bp_attr *attr)
{
    if (attr->kind == BP_ATTR_DIMS) return bp_text_format("none");
    if (attr->kind == BP_ATTR_DTYPE)
        return bp_text_format("%s", bp_dtype_name((uint32_t)attr->value));
    if (attr->kind == BP_ATTR_INTS)
        return bp_text_format("%g each of %u", attr->value, attr->count);
    return bp_text_format("%g", attr->value);
}

char *bp_port_text(const struct bp_port *port)
{
    bool optional = port->kind == BP_PORT_OPT || port->kind == BP_PORT_OPTOUT;
    bool any = port->kind == BP_PORT_VAR || port->kind == BP_PORT_VAROUT ||
               port->kind == BP_PORT_VIEWS;

    return bp_text_format("%s%s%s", optional ? "[" : "", port->name,
                          optional ? "]" : any ? "..." : "");
}

int bp_opinfo_vars(const struct bp_opinfo *op)
{
    int n = 0;

    for (int var = 0; var < BP_VAR_COUNT; var++) n += op->types[var] != 0;
    return n;
}

char bp_var_name(int var)
{
    return "TUIR"[var];
}
