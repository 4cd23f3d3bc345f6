/* SPDX-License-Identifier: Apache-2.0 */
/* ir_text.c: writes the compiler's representation as text and as a graph for Graphviz. */
#include "ir.h"

#include "../base/number.h"
#include "../call/kernel_layout.h"

#include <backplane/fused_text.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void print_type(const struct bp_ir *ir, uint32_t v, FILE *to)
{
    const struct bp_typed_view *type = ir->value[v].type;

    fprintf(to, "%s", bp_dtype_name(type->view.dtype));
    for (uint32_t a = 0; a < type->view.rank; a++)
        fprintf(to, "%s%" PRId64, a ? "x" : " ", type->shape[a]);
    if (type->view.layout)
        fprintf(to, " {%s}", bp_layout_name(ir->device, type->view.layout));
}

static void print_value(const struct bp_ir *ir, uint32_t v, FILE *to)
{
    static const char letter[] = {
        [BP_VALUE_INPUT] = 'i', [BP_VALUE_CONSTANT] = 'c', [BP_VALUE_RESULT] = 'v',
        [BP_VALUE_SHAPE] = 's'};

    if (v == BP_NO_VALUE) fprintf(to, "-");
    else fprintf(to, "%c%u", letter[ir->value[v].kind], v);
}

static void print_number(const struct bp_attr *a, const void *field, FILE *to)
{
    int64_t integer;
    double number;
    char text[32];

    for (uint32_t i = 0; i < a->count; i++) {
        memcpy(&integer, (const char *)field + 8 * i, sizeof integer);
        memcpy(&number, (const char *)field + 8 * i, sizeof number);
        fprintf(to, "%s", i ? "," : "");
        bp_number_print(text, sizeof text, 9, number);
        if (a->kind == BP_ATTR_F64) fprintf(to, "%s", text);
        else fprintf(to, "%" PRId64, integer);
    }
}

/* Prints the code of `fused` as text. */
static void print_code(const struct bp_dims *code, FILE *to)
{
    char *text = malloc(BP_FUSED_TEXT);

    if (text && !bp_fused_print(code->at, (size_t)code->n, text, BP_FUSED_TEXT))
        fprintf(to, "\"%s\"", text);
    free(text);
}

static void print_attr(const struct bp_node *node, const struct bp_attr *a, FILE *to)
{
    const char *field = (const char *)node->attrs + a->offset;
    struct bp_dims dims;

    fprintf(to, " %s=", a->name);
    if (a->kind != BP_ATTR_DIMS) {
        print_number(a, field, to);
        return;
    }
    memcpy(&dims, field, sizeof dims);
    if (node->row == &bp_opdef[BP_ROW_fused]) print_code(&dims, to);
    else for (int64_t i = 0; i < dims.n; i++) fprintf(to, "%s%" PRId64, i ? "," : "", dims.at[i]);
}

/* Attributes that have their default values are left out. */
static void print_attrs(const struct bp_node *node, FILE *to)
{
    const struct bp_opinfo *op = &node->row->info;

    for (uint32_t i = 0; node->attrs && i < op->n_attr; i++) {
        const struct bp_attr *a = &op->attr[i];
        size_t bytes = a->kind == BP_ATTR_DIMS ? sizeof(struct bp_dims) : 8u * a->count;
        if (memcmp((const char *)node->attrs + a->offset, (const char *)op->defaults + a->offset,
                   bytes))
            print_attr(node, a, to);
    }
}

static void print_node(const struct bp_ir *ir, const struct bp_node *node, FILE *to)
{
    for (uint32_t i = 0; i < node->n_out; i++) {
        fprintf(to, "%s", i ? ", " : "");
        print_value(ir, node->out[i], to);
        if (node->out[i] == BP_NO_VALUE) continue;
        fprintf(to, ": ");
        print_type(ir, node->out[i], to);
    }
    fprintf(to, " = %s(", node->row->info.name);
    for (uint32_t i = 0; i < node->n_in; i++) {
        fprintf(to, "%s", i ? ", " : "");
        print_value(ir, node->in[i], to);
    }
    fprintf(to, ")");
    print_attrs(node, to);
    fprintf(to, "  # %s\n", node->name);
}

void bp_ir_print(const struct bp_ir *ir, FILE *to)
{
    for (uint32_t i = 0; i < ir->n_input; i++) {
        fprintf(to, "i%u: ", ir->input[i]);
        print_type(ir, ir->input[i], to);
        fprintf(to, " = input %u\n", i);
    }
    for (uint32_t v = 0; v < ir->n_value; v++) {
        bool is_shape = ir->value[v].kind == BP_VALUE_SHAPE;
        if ((!ir->value[v].constant && !is_shape) || !ir->value[v].uses) continue;
        print_value(ir, v, to);
        fprintf(to, ": ");
        print_type(ir, v, to);
        if (is_shape) {
            fprintf(to, " = shape\n");
            continue;
        }
        fprintf(to, " = constant%s%s\n", bp_ir_is_frozen(ir, v) ? ", frozen" : "",
                ir->value[v].folded ? ", folded" : "");
    }
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next)
        print_node(ir, &ir->node[n].call, to);
    fprintf(to, "return");
    for (uint32_t o = 0; o < ir->n_output; o++) {
        fprintf(to, "%s ", o ? "," : "");
        print_value(ir, ir->output[o], to);
    }
    fprintf(to, "\n");
}

/* Writes a name inside quotes of Graphviz. */
static void print_quoted(const char *name, FILE *to)
{
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') fputc('\\', to);
        fputc(*name, to);
    }
}

void bp_ir_print_dot(const struct bp_ir *ir, FILE *to)
{
    fprintf(to, "digraph program {\n  node [shape=box];\n");
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        const struct bp_node *node = &ir->node[n].call;
        fprintf(to, "  n%u [label=\"%s\\n", n, node->row->info.name);
        print_quoted(node->name, to);
        fprintf(to, "\"];\n");
        for (uint32_t i = 0; i < node->n_in; i++) {
            const struct bp_ir_value *v = node->in[i] == BP_NO_VALUE ? NULL
                                                                     : &ir->value[node->in[i]];
            if (!v || v->constant || v->kind == BP_VALUE_SHAPE) continue;
            if (v->kind == BP_VALUE_INPUT) fprintf(to, "  i%u -> n%u", node->in[i], n);
            else fprintf(to, "  n%u -> n%u", v->node, n);
            fprintf(to, " [label=\"");
            print_type(ir, node->in[i], to);
            fprintf(to, "\"];\n");
        }
    }
    for (uint32_t o = 0; o < ir->n_output; o++) {
        const struct bp_ir_value *v = &ir->value[ir->output[o]];
        if (v->kind == BP_VALUE_RESULT) fprintf(to, "  n%u -> o%u;\n", v->node, o);
    }
    fprintf(to, "}\n");
}
