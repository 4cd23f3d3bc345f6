/* SPDX-License-Identifier: Apache-2.0 */
/* opgen.c: prints headers from ops.def, for compilers, editors and readers. The build runs it; its
 * output is not checked in.
 *
 *   opgen attrs   backplane/attrs.h: attribute structs, and BP_OPROW. For plugins and apps.
 *   opgen calls   backplane/ops.h: defaults, and one typed call for each operator. For apps.
 *   opgen bodies  calls.c: the bodies of the typed calls. Compiled into the core. */
#include "check.c" /* must be first */

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum kind { IN_ONE, IN_OPT, IN_VAR, IN_HOST, OUT_ONE, OUT_OPT, OUT_VAR };
enum attr_kind { ATTR_I64, ATTR_F64, ATTR_FLAG, ATTR_DTYPE, ATTR_INTS, ATTR_DIMS };

struct port {
    const char *name, *doc;
    enum kind kind;
};
struct attr {
    const char *name, *value, *when, *doc;
    enum attr_kind kind;
    int count;
};
struct row {
    const char *name, *doc, *alias;
    struct port in[16], out[16];
    struct attr attr[32];
};

static const struct row rows[] = {
#define OP(op, ins, outs, facts) {.name = #op, .in = {ins}, .out = {outs}, facts},
#define OPA(op, ins, outs, attrs, facts) \
    {.name = #op, .in = {ins}, .out = {outs}, .attr = {attrs}, facts},
#define IN(n, t, d) {#n, d, IN_ONE},
#define SHAPE_IN(n, t, d) {#n, d, IN_ONE},
#define OPT(n, t, d) {#n, d, IN_OPT},
#define VAR(n, t, d) {#n, d, IN_VAR},
#define HOST(n, t, d) {#n, d, IN_HOST},
#define OUT(n, t, d) {#n, d, OUT_ONE},
#define OPTOUT(n, t, d) {#n, d, OUT_OPT},
#define MAY_SHARE(n, t, i, d) {#n, d, OUT_ONE},
#define UPDATE(n, t, i, d) {#n, d, OUT_ONE},
#define VIEW(n, t, i, d) {#n, d, OUT_ONE},
#define VAROUT(n, t, d) {#n, d, OUT_VAR},
#define VAROUT_SHARE(n, t, i, d) {#n, d, OUT_VAR},
#define VIEWS(n, t, i, d) {#n, d, OUT_VAR},
#define I64(n, v, w, d) {#n, #v, #w, d, ATTR_I64, 1},
#define F64(n, v, w, d) {#n, #v, #w, d, ATTR_F64, 1},
#define FLAG(n, v, w, d) {#n, #v, #w, d, ATTR_FLAG, 1},
#define DTYPE(n, v, w, d) {#n, #v, #w, d, ATTR_DTYPE, 1},
#define INTS(n, c, v, w, d) {#n, #v, #w, d, ATTR_INTS, c},
#define DIMS(n, w, d) {#n, "none", #w, d, ATTR_DIMS, 1},
#define DOC(text) .doc = text,
#define ALIAS(names) .alias = names,
#include <ops/ops.def>
};
enum { ROWS = sizeof rows / sizeof *rows };

static void print_head(const char *guard, const char *doc)
{
    printf("/* SPDX-License-Identifier: Apache-2.0 */\n/* %s\n * Printed from ops.def: do not "
           "edit. */\n",
           doc);
    printf("#ifndef %s\n#define %s\n\n", guard, guard);
}

static void print_attrs(const struct row *r)
{
    static const char *const type[] = {"int64_t", "double",  "int64_t",
                                       "int64_t", "int64_t", "struct bp_dims"};

    printf("\n/* Attributes of %s. */\nstruct bp_%s_attrs {\n    size_t size;\n", r->name, r->name);
    for (const struct attr *a = r->attr; a->name; a++) {
        printf("    %s %s", type[a->kind], a->name);
        if (a->kind == ATTR_INTS) printf("[%d]", a->count);
        printf("; /* %s; default %s%s */\n", a->doc, a->value, a->kind == ATTR_INTS ? " each" : "");
    }
    printf("};\n");
}

/* Prints a name in upper case, for enumerators. */
static void print_upper(const char *name)
{
    for (; *name; name++) putchar(*name >= 'a' && *name <= 'z' ? *name - 'a' + 'A' : *name);
}

static void print_enumerator(const char *name, const char *value, int number, const char *meaning)
{
    printf("    BP_");
    print_upper(name);
    printf("_%s = %d, /* %s */\n", value, number, meaning);
}

/* Prints the values of attributes that are enumerations (common/words_enums.h). */
static void print_enums(void)
{
#define VALUE(name, value, number, meaning) print_enumerator(#name, #value, number, meaning);
#define PRINT(name) \
    printf("\nenum bp_%s {\n", #name); \
    ENUM_##name(VALUE) \
    printf("};\n");
    ATTR_ENUMS(PRINT)
#undef PRINT
#undef VALUE
}

static int opgen_count(const struct port *p)
{
    int n = 0;
    while (p[n].name) n++;
    return n;
}

static void print_oprow(const struct row *r)
{
    printf("#define BP_OPROW_%s .op = \"%s\", .attrs_size = ", r->name, r->name);
    if (r->attr[0].name) printf("sizeof(struct bp_%s_attrs)", r->name);
    else printf("0");
    printf(", .in_known = %d, .out_known = %d\n", opgen_count(r->in), opgen_count(r->out));
}

static void attrs_header(void)
{
    print_head("BP_ATTRS_H",
               "attrs.h: the attribute structs of the operators, for kernels and for calls.");
    printf("#include <backplane/op.h>\n");
    print_enums();
    for (int i = 0; i < ROWS; i++)
        if (rows[i].attr[0].name) print_attrs(&rows[i]);
    printf("\n/* The first fields of a kernel row: {BP_OPROW(add), .name = \"cpu_add_f32\", ...}. "
           "*/\n");
    printf("#define BP_OPROW(op) BP_OPROW_##op\n");
    for (int i = 0; i < ROWS; i++) print_oprow(&rows[i]);
    printf("\n#endif\n");
}

static void print_ports(const struct port *ports, const char *title)
{
    for (const struct port *p = ports; p->name; p++)
        printf(" *   %s%s  %s%s\n", title, p->name, p->doc,
               p->kind == IN_OPT    ? " (or NULL)"
               : p->kind == IN_HOST ? " (or NULL: attrs say it)"
               : p->kind == OUT_OPT ? " (NULL: not wanted)"
               : p->kind == OUT_VAR ? " (room for as many as there are, exactly)"
                                    : "");
}

/* Prints the documentation of a row, wrapped. */
static void print_doc(const char *doc)
{
    int column = 3;

    printf(" *");
    for (const char *word = doc; *word;) {
        int n = (int)strcspn(word, " ");
        if (column + n > 98) {
            printf("\n *");
            column = 3;
        }
        printf(" %.*s", n, word);
        column += n + 1;
        word += n;
        word += strspn(word, " ");
    }
    printf("\n");
}

static void print_prototype(const struct row *r)
{
    printf("enum bp_status bp_op_%s(struct bp_scope *scope", r->name);
    for (const struct port *p = r->in; p->name; p++)
        if (p->kind == IN_VAR)
            printf(", struct bp_tensor *const *%s, size_t n_%s", p->name, p->name);
        else
            printf(", struct bp_tensor *%s%s", p->name, p->kind == IN_HOST ? "_value" : "");
    if (r->attr[0].name) printf(",\n    const struct bp_%s_attrs *attrs", r->name);
    for (const struct port *p = r->out; p->name; p++) {
        printf(", struct bp_tensor **out_%s", p->name);
        if (p->kind == OUT_VAR) printf(", size_t n_%s", p->name);
    }
    printf(")");
}

/* Declares that the call reads and writes the entries for results, so that the compiler warns where
 * they are not initialized. */
static void print_accesses(const struct row *r)
{
    int at = 2;

    for (const struct port *p = r->in; p->name; p++) at += 1 + (p->kind == IN_VAR);
    if (r->attr[0].name) at++;
    for (const struct port *p = r->out; p->name; p++) {
        printf("\n    BP_READ_WRITE(%d)", at);
        at += 1 + (p->kind == OUT_VAR);
    }
}

static void print_call(const struct row *r)
{
    printf("\n/* %s\n", r->name);
    print_doc(r->doc);
    print_ports(r->in, "");
    print_ports(r->out, "out_");
    if (r->attr[0].name)
        printf(" *   attrs  struct bp_%s_attrs of attrs.h; NULL: all defaults\n", r->name);
    printf(" */\n");
    if (r->attr[0].name)
        printf("BP_API struct bp_%s_attrs bp_%s_defaults(void);\n", r->name, r->name);
    printf("BP_API ");
    print_prototype(r);
    print_accesses(r);
    printf(";\n");
}

static void calls_header(void)
{
    print_head(
        "BP_OPS_H",
        "ops.h: one call an operator. On entry *out_y is NULL, and the call makes a new tensor, "
        "or\n"
        " * it is a tensor that gets the result. Rules and errors are those of bp_call_run.");
    printf("#include <backplane/attrs.h>\n#include <backplane/call.h>\n\n");
    printf("#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (int i = 0; i < ROWS; i++) print_call(&rows[i]);
    printf("\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}

/* Whether the operator has an output with any number of tensors. */
static bool opgen_varies(const struct row *r)
{
    bool any = false;

    for (const struct port *p = r->out; p->name; p++) any |= p->kind == OUT_VAR;
    return any;
}

static void print_outputs(const struct row *r)
{
    printf("    %s out[] = {",
           opgen_varies(r) ? "const struct bp_room" : "struct bp_tensor **const");
    for (const struct port *p = r->out; p->name; p++) {
        if (!opgen_varies(r)) printf("out_%s, ", p->name);
        else if (p->kind == OUT_VAR) printf("{out_%s, n_%s}, ", p->name, p->name);
        else printf("{out_%s, 1}, ", p->name);
    }
    printf("};\n");
}

static void print_body(const struct row *r)
{
    if (r->attr[0].name)
        printf("\nstruct bp_%s_attrs bp_%s_defaults(void)\n{\n"
               "    return *(const struct bp_%s_attrs *)bp_opdef[BP_ROW_%s].info.defaults;\n}\n",
               r->name, r->name, r->name, r->name);
    printf("\n");
    print_prototype(r);
    printf("\n{\n    const struct bp_arg in[] = {");
    for (const struct port *p = r->in; p->name; p++)
        if (p->kind == IN_VAR) printf("{%s, n_%s}, ", p->name, p->name);
        else printf("{&%s%s, 1}, ", p->name, p->kind == IN_HOST ? "_value" : "");
    printf("};\n");
    print_outputs(r);
    printf("\n    return bp_call_%s(scope, BP_ROW_%s, in, %d, %s, out, %d);\n}\n",
           opgen_varies(r) ? "groups" : "typed", r->name, opgen_count(r->in),
           r->attr[0].name ? "attrs" : "NULL", opgen_count(r->out));
}

static void call_bodies(void)
{
    printf("/* SPDX-License-Identifier: Apache-2.0 */\n/* calls.c: the typed calls. Printed from "
           "ops.def. */\n");
    printf("#include \"schema/op.h\"\n\n#include <backplane/ops.h>\n");
    for (int i = 0; i < ROWS; i++) print_body(&rows[i]);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "attrs")) attrs_header();
    else if (argc == 2 && !strcmp(argv[1], "calls")) calls_header();
    else if (argc == 2 && !strcmp(argv[1], "bodies")) call_bodies();
    else return fprintf(stderr, "opgen: use `opgen attrs`, `opgen calls` or `opgen bodies`\n"), 2;
    return 0;
}
