/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_patterns.c: tests each pattern of the pass `recognise` on the graph that its own text
 * states, and on near misses that are made from the text. A new pattern is tested without a change
 * here. */
#include "pass_kit.h"

#include <compile/pattern.h>
#include <stdlib.h>

/* An expression makes at most 32 roundings, each of a number of at most 8: its parts are values
 * between -1.5 and 1.5 and what polynomials of degree 3 make of them. */
static const double pattern_terms = 32 * 8;

/* Whether the result of a pattern is one of its values, so that the expression goes away. An output
 * of the graph would have to stay. */
static bool result_is_value(const struct bp_text_pattern *p)
{
    return !strchr(p->result, '(');
}

/* The text of a graph: another node reads a result that goes away. */
static void graph_of(const struct bp_text_pattern *p, char *text, size_t size)
{
    snprintf(text, size, result_is_value(p) ? "abs(%s)" : "%s", p->match);
}

static void expected_ops(const struct bp_text_pattern *p, char *ops, size_t size)
{
    if (result_is_value(p)) snprintf(ops, size, "abs");
    else snprintf(ops, size, "%.*s", (int)strcspn(p->result, "("), p->result);
}

static void expect_match(const struct bp_text_pattern *p, uint32_t dtype, bool apart, bool values)
{
    struct text_graph g = text_begin();
    struct pass_run run;
    char text[1024], ops[64];

    g.dtype = dtype;
    g.apart = apart;
    graph_of(p, text, sizeof text);
    expected_ops(p, ops, sizeof ops);
    text_record(&g, text);
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_recognise);
    cr_assert_str_eq(run.ops, ops, "%s, %s%s: the graph becomes\n%s", p->name, bp_dtype_name(dtype),
                     apart ? ", without shared nodes" : "", run.text);
    pass_finish(&run);
    if (values) pass_check_values(&g, pattern_terms);
    text_finish(&g);
}

Test(patterns, each_matches_the_graph_of_its_text)
{
    cr_assert_gt(bp_pattern_count, 20);
    for (uint32_t i = 0; i < bp_pattern_count; i++) {
        expect_match(&bp_pattern_list[i], BP_F32, false, true);
        expect_match(&bp_pattern_list[i], BP_F32, true, false);
        expect_match(&bp_pattern_list[i], BP_F64, false, true);
    }
}

Test(patterns, each_matches_half_types)
{
    for (uint32_t i = 0; i < bp_pattern_count; i++)
        expect_match(&bp_pattern_list[i], BP_F16, false, true);
}

/* The result has the attributes that its text states, and the captured numbers. */
Test(patterns, each_result_has_its_attributes)
{
    static const struct {
        const char *text, *contains;
    } cases[] = {
        {"minimum(maximum(x, -0.25), 0.75)", "clip(i0) min=-0.25 max=0.75"},
        {"add(mul(x, 3), -0.5)", "scale(i0) factor=3 bias=-0.5"},
        {"mul(mul(x, rsqrt(add(mean(square(x); axes=-1, keep=1), 0.125))), g!)", "epsilon=0.125"},
        {"mul(mul(x, 0.5), add(tanh(mul(add(x, mul(pow(x, 3), 0.044715)), 0.79788456)), 1))",
         "gelu(i0) approximate=1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_graph g = text_begin();
        struct pass_run run;
        text_record(&g, cases[i].text);
        pass_begin(&g, &run);
        pass_apply(&run, bp_pass_recognise);
        cr_assert(strstr(run.text, cases[i].contains), "%s: no '%s' in\n%s", cases[i].text,
                  cases[i].contains, run.text);
        pass_finish(&run);
        pass_check_values(&g, pattern_terms);
        text_finish(&g);
    }
}

#define SWISH(sixth) "mul(mul(x, clip(add(x, 3); min=0, max=6)), " sixth ")"
#define SIGMOID(sixth) "mul(x, hard_sigmoid(x; slope=" sixth ", offset=0.5))"

/* A number that an exporter has rounded matches if the dtype has no more digits. */
Test(patterns, numbers_match_to_the_digits_of_their_dtype)
{
    static const struct {
        uint32_t dtype;
        const char *text;
        bool matches;
    } cases[] = {
        {BP_F32, SWISH("0.1666667"), true},
        {BP_F32, SWISH("0.16666"), false},
        {BP_F64, SWISH("0.1666666666666667"), true},
        {BP_F64, SWISH("0.16666667"), false},
        {BP_F16, SWISH("0.1666"), true},
        {BP_F16, SWISH("0.1670"), false},
        {BP_F32, SIGMOID("0.1666667"), true},
        {BP_F32, SIGMOID("0.16666"), false},
        {BP_F64, SIGMOID("0.16666666666666667"), true},
        {BP_F64, SIGMOID("0.16666667"), false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_graph g = text_begin();
        struct pass_run run;
        g.dtype = cases[i].dtype;
        text_record(&g, cases[i].text);
        pass_begin(&g, &run);
        pass_apply(&run, bp_pass_recognise);
        cr_assert_eq(pass_has(run.ops, "hard_swish"), cases[i].matches, "%s, %s: %s",
                     bp_dtype_name(cases[i].dtype), cases[i].text, run.ops);
        pass_finish(&run);
        pass_check_values(&g, pattern_terms);
        text_finish(&g);
    }
}

/* NaN and infinities stay NaN and infinities, and numbers too large for an intermediate result give
 * that of a run node by node. */
Test(patterns, special_numbers_stay)
{
    for (uint32_t i = 0; i < bp_pattern_count; i++) {
        struct text_graph g = text_begin();
        char text[1024];
        g.special = 'x';
        graph_of(&bp_pattern_list[i], text, sizeof text);
        text_record(&g, text);
        pass_check_values(&g, pattern_terms);
        text_finish(&g);
    }
}

/* Graphs that only look like a pattern: the operators that are left, and equal values. */
Test(patterns, other_graphs_keep_their_values)
{
    static const struct {
        const char *text, *ops;
    } cases[] = {
        {"abs(mul(x, 1[4,4,4]))", "abs"},
        {"abs(mul(x[1], 1[4]))", "mul abs"},
        {"abs(div(x[4], 1[2,4]))", "div abs"},
        {"abs(sub(x, -0))", "sub abs"},
        {"add(mul(x[1], 2[4]), 1)", "mul add"},
        {"minimum(maximum(x, 0.5), -0.5)", "clip"},
        {"minimum(maximum(x, -inf), 0.5)", "clip"},
        {"minimum(maximum(x, nan), 0.5)", "maximum minimum"},
        {"minimum(maximum(x, 0.5), nan)", "maximum minimum"},
        {"add(mul(x, inf), 0.5)", "scale"},
        {"mul(mul(x, rsqrt(add(mean(square(x); axes=-1, keep=1), 0.5))), g![1])",
         "square mean add rsqrt mul mul"},
        {"mul(mul(x, rsqrt(add(mean(square(x); axes=-1, keep=1), 0.5))), g![4,4])",
         "square mean add rsqrt mul mul"},
        {"mul(x, tanh(softplus(x; beta=1, threshold=20)))", "mish"},
        {"clip(sigmoid(x); min=0, max=1)", "sigmoid clip"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int special = 0; special < 2; special++) {
            struct text_graph g = text_begin();
            struct pass_run run;
            g.special = special ? 'x' : 0;
            text_record(&g, cases[i].text);
            pass_begin(&g, &run);
            pass_apply(&run, bp_pass_recognise);
            cr_assert_str_eq(run.ops, cases[i].ops, "%s:\n%s", cases[i].text, run.text);
            pass_finish(&run);
            pass_check_values(&g, pattern_terms);
            text_finish(&g);
        }
}

/* ---- near misses ---- */

static const char *const edits[TEXT_EDITS] = {
    [TEXT_NUMBER] = "another number",
    [TEXT_LIVE_NUMBER] = "a number that is not frozen",
    [TEXT_LIVE_CONSTANT] = "a constant that is not frozen",
    [TEXT_READER] = "a second reader",
    [TEXT_OUTPUT] = "a second output",
    [TEXT_ATTR] = "another attribute",
    [TEXT_OTHER_ATTR] = "an attribute that is not its default",
    [TEXT_EXCHANGE] = "exchanged operands",
    [TEXT_PIN] = "a pinned kernel",
    [TEXT_OTHER_INPUT] = "another input",
    [TEXT_UPDATE] = "an update of x",
};

/* Whether the edit is at a call that may have other readers and be an output: the last one of an
 * expression, which is recorded last. A result that goes away must not be an output; the node that
 * reads such a result may be pinned. */
static bool is_last_call(const struct bp_text_pattern *p, const struct text_edit *edit)
{
    struct bp_pattern_names names = {.n = 0};
    struct bp_pattern_text text;
    struct text_graph g;
    uint32_t calls;
    char graph[1024];

    if (edit->kind != TEXT_READER && edit->kind != TEXT_OUTPUT && edit->kind != TEXT_PIN)
        return false;
    if (edit->kind == TEXT_PIN && !result_is_value(p)) return false;
    OK(bp_pattern_parse(p->match, &names, &text));
    g = text_begin();
    g.edit = (struct text_edit){TEXT_OUTPUT, 1000};
    graph_of(p, graph, sizeof graph);
    text_record(&g, graph);
    calls = g.places;
    text_finish(&g);
    return edit->number + (result_is_value(p) && edit->kind == TEXT_READER ? 2 : 1) >= calls;
}

/* Tries one deviation. The graph must not get the result's operator; a part of the graph may match
 * a smaller pattern, so the values are compared too. (No kernel has the pinned name; an update
 * changes the input of the next run.) Returns whether the text has a place for the deviation. */
static bool expect_miss(const struct bp_text_pattern *p, struct text_edit edit, uint32_t *tried)
{
    struct text_graph g = text_begin();
    struct pass_run run;
    char text[1024], what[128], op[64];
    bool recorded, possible;

    g.edit = edit;
    graph_of(p, text, sizeof text);
    recorded = text_record(&g, text);
    possible = g.places > edit.number;
    if (recorded && possible && !is_last_call(p, &edit)) {
        pass_begin(&g, &run);
        pass_apply(&run, bp_pass_recognise);
        snprintf(what, sizeof what, "%s: %s, place %u", p->name, edits[edit.kind], edit.number);
        if (result_is_value(p)) pass_expect_same(&run, what);
        expected_ops(p, op, sizeof op);
        cr_assert(result_is_value(p) || !pass_has(run.ops, op), "%s:\n%s", what, run.text);
        pass_finish(&run);
        if (edit.kind != TEXT_PIN && edit.kind != TEXT_UPDATE) pass_check_values(&g, pattern_terms);
        ++*tried;
    }
    text_finish(&g);
    return possible;
}

static void expect_misses(int kind, uint32_t least)
{
    uint32_t tried = 0;

    for (uint32_t i = 0; i < bp_pattern_count; i++) {
        struct text_edit edit = {kind, 0};
        while (expect_miss(&bp_pattern_list[i], edit, &tried)) edit.number++;
    }
    cr_assert_geq(tried, least, "%s: %u near misses, expected %u", edits[kind], tried, least);
}

Test(patterns, another_number_does_not_match)
{
    expect_misses(TEXT_NUMBER, 45);
}

Test(patterns, a_number_that_is_not_frozen_does_not_match)
{
    expect_misses(TEXT_LIVE_NUMBER, 55);
}

Test(patterns, a_constant_that_is_not_frozen_does_not_match)
{
    expect_misses(TEXT_LIVE_CONSTANT, 9);
}

Test(patterns, an_inner_value_with_a_second_reader_does_not_match)
{
    expect_misses(TEXT_READER, 80);
}

Test(patterns, an_inner_value_that_is_an_output_does_not_match)
{
    expect_misses(TEXT_OUTPUT, 80);
}

Test(patterns, another_attribute_does_not_match)
{
    expect_misses(TEXT_ATTR, 25);
}

Test(patterns, an_attribute_that_is_not_its_default_does_not_match)
{
    expect_misses(TEXT_OTHER_ATTR, 1);
}

Test(patterns, exchanged_operands_do_not_match)
{
    expect_misses(TEXT_EXCHANGE, 10);
}

Test(patterns, another_input_in_one_place_does_not_match)
{
    expect_misses(TEXT_OTHER_INPUT, 20);
}

Test(patterns, a_pinned_kernel_does_not_match)
{
    expect_misses(TEXT_PIN, 80);
}

Test(patterns, a_value_that_is_updated_does_not_match)
{
    expect_misses(TEXT_UPDATE, 20);
}

/* ---- texts that are wrong ---- */

Test(patterns, a_wrong_text_is_refused)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"mul(x", "expected ')'"},
        {"mul(x,)", "expected a name or a number"},
        {"3", "expected a call"},
        {"mul(x) y", "expected the end"},
        {"mul(a, b, c, d, e)", "too many operands"},
        {"mul(a1, a2, a3, mul(a4, a5, a6, mul(a7, a8, a9)))", "too many names"},
        {"mull(x, y)", "unknown operator"},
        {"mul|mull(x, y)", "unknown operator"},
        {"mul|add|sub|div|pow(x, y)", "too many operators"},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct bp_pattern_names names = {.n = 0};
        struct bp_pattern_text text;
        FAILS(BP_ERR_INTERNAL, wrong[i].why, bp_pattern_parse(wrong[i].text, &names, &text));
        cr_assert(strstr(bp_error_message(), wrong[i].text));
    }
}
