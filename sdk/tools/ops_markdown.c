/* SPDX-License-Identifier: Apache-2.0 */
/* ops_markdown.c: `bp ops --markdown`: prints docs/ops.md. */
#include "opfacts.h"

#include <stdlib.h>
#include <string.h>

#include "tools.h"

static void print_ports(const struct bp_port *port, unsigned n, const char *role)
{
    static const char *const kinds[16] = {
        [BP_PORT_OPT] = "optional", [BP_PORT_VAR] = "any number", [BP_PORT_OPTOUT] = "if wanted",
        [BP_PORT_HOST] = "or the attribute", [BP_PORT_VIEW] = "a view",
        [BP_PORT_UPDATE] = "updated", [BP_PORT_VAROUT] = "any number", [BP_PORT_VIEWS] = "views",
    };

    for (unsigned i = 0; i < n; i++) {
        const char *kind = port[i].kind < 16 ? kinds[port[i].kind] : NULL;
        printf("| `%s` | %s%s%s | %c | %s |\n", port[i].name, role, kind ? ", " : "",
               kind ? kind : "", bp_var_name(port[i].var), port[i].doc);
    }
}

static void print_attrs(const struct bp_opinfo *op)
{
    if (!op->n_attr) return;
    printf("\n| attribute | kind | default | |\n|---|---|---|---|\n");
    for (unsigned i = 0; i < op->n_attr; i++) {
        char *value = bp_attr_default_text(&op->attr[i]);
        printf("| `%s` | %s%s | %s | %s |\n", op->attr[i].name, bp_attr_kind_name(op->attr[i].kind),
               op->attr[i].when == BP_ATTR_RUN ? ", read at each run" : "", value, op->attr[i].doc);
        free(value);
    }
}

static void print_aliases(const char *alias)
{
    printf("\nAlso called");
    for (const char *sign = " "; *alias; sign = ", ") {
        size_t n = strcspn(alias, " ");
        printf("%s`%.*s`", sign, (int)n, alias);
        alias += n;
        alias += strspn(alias, " ");
    }
    printf(".\n");
}

/* Prints the input whose memory an output uses. */
static void print_share(const struct bp_opinfo *op, const struct bp_port *out)
{
    bool view = out->kind == BP_PORT_VIEW || out->kind == BP_PORT_VIEWS;
    const char *how = view                          ? "views the memory of"
                      : out->kind == BP_PORT_UPDATE ? "is written over"
                                                    : "may be written over";

    if (out->share >= 0) printf("- `%s` %s `%s`\n", out->name, how, op->in[out->share].name);
}

static void print_op(const struct bp_opinfo *op, const struct bp_opfacts *facts)
{
    printf("\n### %s\n\n%s\n", op->name, op->doc);
    printf("\n| tensor | | type | |\n|---|---|---|---|\n");
    print_ports(op->in, op->n_in, "input");
    print_ports(op->out, op->n_out, "output");
    print_attrs(op);
    printf("\n");
    for (int var = 0; var < BP_VAR_COUNT; var++) {
        if (!op->types[var]) continue;
        char *dtypes = bp_dtypes_text(op->types[var]);
        printf("- %c: %s\n", bp_var_name(var), dtypes);
        free(dtypes);
    }
    if (facts->no_gradient) printf("- gradient: none, %s\n", facts->no_gradient);
    else printf("- gradient: yes\n");
    for (unsigned i = 0; i < op->n_out; i++) print_share(op, &op->out[i]);
    if (op->alias) print_aliases(op->alias);
}

/* Whether a tolerance comes before another one in the table. */
static bool is_tighter(const struct bp_opfacts *a, const struct bp_opfacts *b)
{
    return a->ulp < b->ulp || (a->ulp == b->ulp && a->terms < b->terms);
}

/* Advances *at to the next looser tolerance. Returns false if there is none. */
static bool next_tolerance(struct bp_opfacts *at)
{
    struct bp_opfacts next = {0};
    bool found = false;

    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        struct bp_opfacts facts = bp_opfacts_find(bp_opinfo_at(i)->name);
        if (!is_tighter(at, &facts) || (found && !is_tighter(&facts, &next))) continue;
        next = facts;
        found = true;
    }
    *at = next;
    return found;
}

/* Prints the operators by tolerance. docs/accuracy.md explains the two numbers. */
static void print_tolerances(void)
{
    struct bp_opfacts at = {.ulp = -1};

    printf("\n## Tolerances\n\n"
           "`TOL(ulp, terms)` of each operator, as `bp conform` holds results to it: "
           "[accuracy](accuracy.md).\n\n| ulp | terms | operators |\n|---|---|---|\n");
    while (next_tolerance(&at)) {
        const char *before = "";
        printf("| %g | %d | ", at.ulp, at.terms);
        for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
            const char *name = bp_opinfo_at(i)->name;
            struct bp_opfacts facts = bp_opfacts_find(name);
            if (facts.ulp != at.ulp || facts.terms != at.terms) continue;
            printf("%s`%s`", before, name);
            before = ", ";
        }
        printf(" |\n");
    }
}

int bp_ops_markdown(void)
{
    const char *family = "";

    printf("# Operators\n\n"
           "Printed by `bp ops --markdown` from `sdk/ops/*/schema*.def`: do not edit.\n\n"
           "T, U, I and R stand for dtypes: tensors of one letter have one dtype. Which of them\n"
           "a device has a kernel for says `bp ops --device DEV`.\n");
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        struct bp_opfacts facts = bp_opfacts_find(op->name);
        if (strcmp(family, facts.family)) printf("\n## %s\n", facts.family);
        family = facts.family;
        print_op(op, &facts);
    }
    print_tolerances();
    return BP_EXIT_GOOD;
}
