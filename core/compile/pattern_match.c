/* SPDX-License-Identifier: Apache-2.0 */
/* pattern_match.c: finds out whether a pattern matches at a node, by comparing backwards from the
 * last call and trying both orders of operands that may be exchanged. */
#include "pattern.h"

#include "rewrite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIKE_MAX = 4096
}; /* elements of a constant that are compared with a number */

struct matching {
    const struct bp_ir *ir;
    const struct bp_pattern_text *text;
    struct bp_text_match match;
};

/* Whether all elements of a frozen constant are one number. A NaN is none: attributes that are NaN
 * do not make NaN of an operator's result. Nor is an integer that a double may round. */
static bool constant_number(const struct bp_ir *ir, uint32_t v, double *out_number)
{
    double number;
    bool alike = bp_ir_read_alike(ir, v, ALIKE_MAX, &number);

    alike = alike && !isnan(number);
    alike = alike && (ir->value[v].type->view.dtype != BP_I64 || fabs(number) < 0x1p53);
    if (alike) *out_number = number;
    return alike;
}

/* Whether a constant is a number of a pattern, to the digits that its dtype has. Exporters write 7
 * digits for f32. */
static bool number_is(double a, double b, uint32_t dtype)
{
    double near = dtype == BP_F32    ? 1e-6
                  : dtype == BP_F16  ? 0x1.01p-11
                  : dtype == BP_BF16 ? 0x1.01p-8
                                     : 1e-14;

    if (b == 0) return a == 0 && !signbit(a); /* x - -0 is no x: it makes 0 of -0 */
    return fabs(a - b) <= near * fabs(b);
}

/* Whether the operator is one of those of a call. */
static bool names_operator(const struct bp_pattern_node *term, const struct bp_opdef *row)
{
    for (uint32_t i = 0; i < BP_PATTERN_ROWS && term->row[i]; i++)
        if (term->row[i] == row) return true;
    return false;
}

bool bp_row_commutes(const struct bp_opdef *row)
{
    static const enum bp_row_number rows[] = {BP_ROW_add, BP_ROW_mul, BP_ROW_maximum,
                                              BP_ROW_minimum};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (row == &bp_opdef[rows[i]]) return true;
    return false;
}

static bool term_matches(struct matching *m, uint32_t term, uint32_t v);

static bool operands_match(struct matching *m, const struct bp_pattern_node *term,
                           const struct bp_node *node, bool exchanged)
{
    for (uint32_t i = 0; i < term->n_in; i++) {
        uint32_t v = node->in[exchanged && i < 2 ? 1 - i : i];
        if (v == BP_NO_VALUE || !term_matches(m, term->in[i], bp_ir_same(m->ir, v))) return false;
    }
    return true;
}

/* Adds a node to the match. A node that two terms name is listed once. */
static bool match_add(struct bp_text_match *match, uint32_t n)
{
    for (uint32_t i = 0; i < match->n_node; i++)
        if (match->node[i] == n) return true;
    if (match->n_node == BP_PATTERN_NODES) return false;
    match->node[match->n_node++] = n;
    return true;
}

static bool attrs_match(const struct bp_ir *ir, const struct bp_node *node, const char *text)
{
    bool has_input = node->n_in && node->in[0] != BP_NO_VALUE;

    return bp_pattern_check_attrs(node, text,
                                  has_input ? &ir->value[node->in[0]].type->view : NULL);
}

/* Inputs that the term does not list must be absent. */
static bool call_matches(struct matching *m, const struct bp_pattern_node *term, uint32_t n)
{
    const struct bp_node *node = &m->ir->node[n].call;
    struct bp_text_match before;

    if (node->kernel || !bp_ir_is_pure(node) || !names_operator(term, node->row) ||
        node->n_in < term->n_in || !attrs_match(m->ir, node, term->attrs))
        return false;
    for (uint32_t i = term->n_in; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) return false;
    if (!match_add(&m->match, n)) return false;
    before = m->match;
    if (operands_match(m, term, node, false)) return true;
    m->match = before;
    return term->n_in == 2 && bp_row_commutes(node->row) && operands_match(m, term, node, true);
}

static bool value_matches(struct matching *m, const struct bp_pattern_node *term, uint32_t v)
{
    if (term->frozen && !bp_ir_is_frozen(m->ir, v)) return false;
    if (m->match.value[term->name] != BP_NO_VALUE) return m->match.value[term->name] == v;
    m->match.value[term->name] = v;
    return bp_ir_is_stable(m->ir, v);
}

static bool term_matches(struct matching *m, uint32_t number, uint32_t v)
{
    const struct bp_pattern_node *term = &m->text->node[number];
    double is;

    switch (term->kind) {
    case BP_TERM_VALUE: return value_matches(m, term, v);
    case BP_TERM_NUMBER:
        return constant_number(m->ir, v, &is) &&
               number_is(is, term->number, m->ir->value[v].type->view.dtype);
    case BP_TERM_CAPTURE:
        if (!constant_number(m->ir, v, &is)) return false;
        m->match.number[term->name] = is;
        m->match.value[term->name] = v;
        return true;
    default:
        return m->ir->value[v].kind == BP_VALUE_RESULT && !m->ir->value[v].output &&
               call_matches(m, term, m->ir->value[v].node);
    }
}

/* Uses of value v by the nodes of a match. */
static uint32_t uses_inside(const struct bp_ir *ir, const struct bp_text_match *match, uint32_t v)
{
    uint32_t uses = 0;

    for (uint32_t k = 0; k < match->n_node; k++) {
        const struct bp_node *node = &ir->node[match->node[k]].call;
        for (uint32_t i = 0; i < node->n_in; i++)
            uses += node->in[i] != BP_NO_VALUE && bp_ir_same(ir, node->in[i]) == v;
    }
    return uses;
}

/* Whether nothing outside reads what the nodes compute, apart from the last node (node 0). */
static bool match_is_closed(const struct bp_ir *ir, const struct bp_text_match *match)
{
    for (uint32_t k = 0; k < match->n_node; k++) {
        const struct bp_node *node = &ir->node[match->node[k]].call;
        for (uint32_t i = 0; i < node->n_out; i++) {
            uint32_t v = node->out[i];
            if (v == BP_NO_VALUE || (!k && !i)) continue;
            if (ir->value[v].uses != (k ? uses_inside(ir, match, v) : 0)) return false;
        }
    }
    return true;
}

bool bp_pattern_matches(const struct bp_ir *ir, const struct bp_pattern_text *text, uint32_t n,
                        struct bp_text_match *out)
{
    struct matching m;

    if (!names_operator(&text->node[0], ir->node[n].call.row)) return false;
    m = (struct matching){.ir = ir, .text = text};
    for (uint32_t i = 0; i < BP_PATTERN_NAMES; i++) m.match.value[i] = BP_NO_VALUE;
    if (!call_matches(&m, &text->node[0], n) || !match_is_closed(ir, &m.match)) return false;
    *out = m.match;
    return true;
}
