/* SPDX-License-Identifier: Apache-2.0 */
/* pass_recognise.c: replaces expressions that exporters write by the operators that compute them.
 * The list of patterns is here; pattern.h explains their text. Each operator has a kernel of one
 * pass where its parts make a pass over memory each. */
#include "passes.h"
#include "pattern.h"
#include "rewrite.h"

#include "../call/compose.h"
#include "../call/prepared.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of patterns with one last operator, those with more nodes come first. */
const struct bp_text_pattern bp_pattern_list[] = {
    {"silu", "mul(x, sigmoid(x))", "swish(x)"},
    {"hard_swish by clip", "mul(x, div(clip(add(x, 3); min=0, max=6), 6))", "hard_swish(x)"},
    {"hard_swish by clip, divided last", "div(mul(x, clip(add(x, 3); min=0, max=6)), 6)",
     "hard_swish(x)"},
    {"hard_swish by clip, scaled last",
     "mul(mul(x, clip(add(x, 3); min=0, max=6)), 0.16666666666666667)", "hard_swish(x)"},
    {"hard_swish by clip, scaled",
     "mul(x, mul(clip(add(x, 3); min=0, max=6), 0.16666666666666667))", "hard_swish(x)"},
    {"hard_swish by hard_sigmoid", "mul(x, hard_sigmoid(x; slope=0.16666666666666667, offset=0.5))",
     "hard_swish(x)"},
    {"mish", "mul(x, tanh(softplus(x)))", "mish(x)"},
    {"gelu, half first", "mul(mul(x, 0.5), add(erf(div(x, 1.4142135623730951)), 1))", "gelu(x)"},
    {"gelu, half last", "mul(mul(x, add(erf(div(x, 1.4142135623730951)), 1)), 0.5)", "gelu(x)"},
    {"gelu, half of the sum", "mul(x, mul(add(erf(div(x, 1.4142135623730951)), 1), 0.5))",
     "gelu(x)"},
    {"gelu, scaled, half first", "mul(mul(x, 0.5), add(erf(mul(x, 0.70710678118654752)), 1))",
     "gelu(x)"},
    {"gelu, scaled, half last", "mul(mul(x, add(erf(mul(x, 0.70710678118654752)), 1)), 0.5)",
     "gelu(x)"},
    {"gelu, scaled, half of the sum", "mul(x, mul(add(erf(mul(x, 0.70710678118654752)), 1), 0.5))",
     "gelu(x)"},
    {"gelu by tanh",
     "mul(mul(x, 0.5), "
     "add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.79788456080286536)), 1))",
     "gelu(x; approximate=1)"},
    {"gelu by tanh, half last",
     "mul(mul(x, "
     "add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.79788456080286536)), 1)), 0.5)",
     "gelu(x; approximate=1)"},
    {"gelu by tanh, half of the sum",
     "mul(x, mul("
     "add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.79788456080286536)), 1), 0.5))",
     "gelu(x; approximate=1)"},
    {"layer_norm by pow",
     "add(mul(div(sub(x, mean(x; axes=-1, keep=1)), "
     "sqrt(add(mean(pow(sub(x, mean(x; axes=-1, keep=1)), 2); axes=-1, keep=1), $e))), g!), b!)",
     "layer_norm(x, g, b; epsilon=$e)"},
    {"layer_norm by square",
     "add(mul(div(sub(x, mean(x; axes=-1, keep=1)), "
     "sqrt(add(mean(square(sub(x, mean(x; axes=-1, keep=1))); axes=-1, keep=1), $e))), g!), b!)",
     "layer_norm(x, g, b; epsilon=$e)"},
    {"layer_norm by mul",
     "add(mul(div(sub(x, mean(x; axes=-1, keep=1)), "
     "sqrt(add(mean(mul(sub(x, mean(x; axes=-1, keep=1)), sub(x, mean(x; axes=-1, keep=1))); "
     "axes=-1, keep=1), $e))), g!), b!)",
     "layer_norm(x, g, b; epsilon=$e)"},
    {"rms_norm by pow", "mul(mul(x, rsqrt(add(mean(pow(x, 2); axes=-1, keep=1), $e))), g!)",
     "rms_norm(x, g; epsilon=$e)"},
    {"rms_norm by square", "mul(mul(x, rsqrt(add(mean(square(x); axes=-1, keep=1), $e))), g!)",
     "rms_norm(x, g; epsilon=$e)"},
    {"rms_norm, divided", "mul(div(x, sqrt(add(mean(pow(x, 2); axes=-1, keep=1), $e))), g!)",
     "rms_norm(x, g; epsilon=$e)"},
    {"multiplication by 1", "mul(x, 1)", "x"},
    {"division by 1", "div(x, 1)", "x"},
    {"subtraction of 0", "sub(x, 0)", "x"},
    {"clip by maximum", "minimum(maximum(x, $a), $b)", "clip(x; min=$a, max=$b)"},
    {"scale", "add(mul(x, $a), $b)", "scale(x; factor=$a, bias=$b)"},
};
enum {
    PATTERNS = sizeof bp_pattern_list / sizeof *bp_pattern_list
};
const uint32_t bp_pattern_count = PATTERNS;
_Static_assert(PATTERNS <= 64, "one bit for each pattern");

/* A pattern whose texts are read. */
struct read_pattern {
    struct bp_pattern_names names;
    struct bp_pattern_text match, result;
};

/* All patterns, read once in a process and constant afterwards; for each operator, the bits of the
 * patterns whose last call has it. */
static struct {
    pthread_once_t once;
    enum bp_status status;
    struct read_pattern pattern[PATTERNS];
    uint64_t last[BP_ROW_COUNT];
} patterns = {.once = PTHREAD_ONCE_INIT};

struct replacement {
    struct bp_rewrite *rw;
    struct bp_compose *c;
    const struct read_pattern *pattern;
    const struct bp_text_match *match;
};

static struct bp_tensor *replace_fail(struct replacement *r, enum bp_status status)
{
    if (r->c->status == BP_OK) r->c->status = status;
    return NULL;
}

/* Records one term of the result, and returns its tensor. */
static struct bp_tensor *replace_term(struct replacement *r, uint32_t number)
{
    const struct bp_pattern_node *term = &r->pattern->result.node[number];
    const struct bp_opdef *row;
    struct bp_tensor *in[4], *t;
    uint64_t attrs[512 / 8];
    enum bp_status status;

    if (term->kind != BP_TERM_CALL) {
        status = bp_rewrite_in(r->rw, r->match->value[term->name], &t);
        return status ? replace_fail(r, status) : t;
    }
    row = term->row[0];
    for (uint32_t i = 0; i < term->n_in; i++) in[i] = replace_term(r, term->in[i]);
    if (!row->info.attrs_size)
        return bp_compose(r->c, (enum bp_row_number)(row - bp_opdef), NULL, in, term->n_in);
    memcpy(attrs, row->info.defaults, row->info.attrs_size);
    status = bp_pattern_set_attrs(&row->info, term->attrs, &r->pattern->names, r->match, attrs);
    if (status) return replace_fail(r, status);
    return bp_compose(r->c, (enum bp_row_number)(row - bp_opdef), attrs, in, term->n_in);
}

/* Replaces a match. A result of another type, or one that the operator refuses, is none: the nodes
 * stay. */
static bool match_replace(struct bp_ir *ir, const struct read_pattern *pattern,
                          const struct bp_text_match *match)
{
    uint32_t node[BP_PATTERN_NODES], n = match->n_node;
    struct bp_tensor *result = NULL;
    struct bp_rewrite rw;
    struct bp_compose c;
    struct replacement r = {&rw, &c, pattern, match};

    for (uint32_t i = 0; i < n; i++) node[i] = match->node[n - 1 - i];
    if (bp_rewrite_begin(&rw, ir, node, n)) return false;
    c = bp_compose_begin(bp_rewrite_scope(&rw));
    bp_compose_keep(&c, replace_term(&r, 0), &result);
    if (bp_compose_end(&c) == BP_OK)
        return bp_rewrite_end(&rw, result, ir->node[match->node[0]].call.out[0]) == BP_OK;
    bp_rewrite_cancel(&rw);
    return false;
}

static enum bp_status pattern_read(uint32_t i)
{
    struct read_pattern *read = &patterns.pattern[i];
    const struct bp_pattern_node *last = &read->match.node[0];

    TRY(bp_pattern_parse(bp_pattern_list[i].match, &read->names, &read->match));
    TRY(bp_pattern_parse(bp_pattern_list[i].result, &read->names, &read->result));
    for (uint32_t k = 0; k < BP_PATTERN_ROWS && last->row[k]; k++)
        patterns.last[last->row[k] - bp_opdef] |= UINT64_C(1) << i;
    return BP_OK;
}

static void patterns_read(void)
{
    for (uint32_t i = 0; i < PATTERNS && patterns.status == BP_OK; i++)
        patterns.status = pattern_read(i);
}

/* The bits of the patterns that may match at a node. Operators of plugins are in no pattern. */
static uint64_t patterns_of(const struct bp_node *node)
{
    uint32_t row = bp_opdef_number(node->row);

    return row < BP_ROW_COUNT ? patterns.last[row] : 0;
}

/* Whether the result is a value of the match and must stay a tensor of its own: the app gets it, or
 * a node updates it. */
static bool loses_output(const struct bp_ir *ir, const struct read_pattern *pattern, uint32_t n)
{
    uint32_t root = ir->value[ir->node[n].call.out[0]].root;

    return pattern->result.node[0].kind != BP_TERM_CALL &&
           (ir->value[root].returned || ir->value[root].updated);
}

/* Whether the device runs the operators of the result, by kernels or as other operators. Without
 * that the whole program could not be compiled. */
static bool device_has_result(const struct bp_ir *ir, const struct read_pattern *pattern,
                              uint32_t n)
{
    uint32_t dtype = ir->value[ir->node[n].call.out[0]].type->view.dtype;

    for (uint32_t i = 0; i < pattern->result.n_node; i++) {
        const struct bp_pattern_node *term = &pattern->result.node[i];
        const struct bp_opdef *row = term->row[0];
        if (term->kind != BP_TERM_CALL) continue;
        if (!row->decompose && !bp_select_has_dtype(ir->device, row, dtype)) return false;
    }
    return true;
}

/* Replaces the first match of a pattern at node n. */
static bool recognise_node(struct bp_ir *ir, uint32_t n)
{
    struct bp_text_match match;

    for (uint64_t left = patterns_of(&ir->node[n].call); left; left &= left - 1) {
        const struct read_pattern *p = &patterns.pattern[__builtin_ctzll(left)];
        if (bp_pattern_matches(ir, &p->match, n, &match) && !loses_output(ir, p, n) &&
            device_has_result(ir, p, n) && match_replace(ir, p, &match))
            return true;
    }
    return false;
}

/* Visits the nodes from the last to the first, so that the larger one of two expressions is found,
 * of which one is a part of the other. */
static uint32_t recognise_round(struct bp_ir *ir)
{
    uint32_t found = 0;

    for (uint32_t n = ir->last, after; n != BP_NO_VALUE;) {
        after = ir->node[n].next;
        found += recognise_node(ir, n);
        n = ir->node[n].dead ? after == BP_NO_VALUE ? ir->last : ir->node[after].previous : n;
        if (n != BP_NO_VALUE && !ir->node[n].dead) n = ir->node[n].previous;
    }
    bp_ir_resolve(ir);
    return found;
}

enum bp_status bp_pass_recognise(struct bp_compilation *c)
{
    char *before = strdup(bp_error_message());
    uint32_t found = 1;

    if (!before) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    pthread_once(&patterns.once, patterns_read);
    if (patterns.status) {
        free(before);
        return bp_error(patterns.status, "a pattern of the compiler is wrong");
    }
    while (found) { /* a result may be a part of another pattern */
        found = recognise_round(c->ir);
        c->changes += found;
    }
    bp_error_write("%s", before);
    free(before);
    return BP_OK;
}
