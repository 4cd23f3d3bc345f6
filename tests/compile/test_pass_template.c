/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_template.c: tests templates: programs for other extents than those of the samples, and
 * the samples of which there is no template. */
#include "pass_kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SAMPLES = 3,
    TEXT = 4096
};

/* One number in a text between braces: n times S, then S rounded down to a multiple, a quotient
 * or a least number: "{S}", "{2S}", "{S+3}", "{S-3}", "{S/2}", "{S&4}", "{S<7}". */
static int64_t template_number(const char *text, int64_t s)
{
    int64_t factor = strtol(text, (char **)(uintptr_t)&text, 10), n;
    char how;

    s *= factor ? factor : 1;
    how = *++text;
    n = strtol(text + 1, NULL, 10);
    switch (how) {
    case '+': return s + n;
    case '-': return s - n;
    case '/': return s / n;
    case '&': return s / n * n;
    case '<': return s < n ? s : n;
    default: return s;
    }
}

static void template_text(const char *text, int64_t s, char out[TEXT])
{
    size_t at = 0;

    for (; *text; text++) {
        if (*text != '{') {
            out[at++] = *text;
            continue;
        }
        at += (size_t)snprintf(out + at, TEXT - at, "%lld",
                               (long long)template_number(text + 1, s));
        text = strchr(text, '}');
        cr_assert(text && at < TEXT - 1);
    }
    out[at] = 0;
}

/* A graph of a text at one S, on the device of another one, and its program. */
struct template_sample {
    struct text_graph g;
    struct bp_program *program;
};

static void sample_begin(struct template_sample *t, const struct text_graph *first,
                         const char *text, int64_t s)
{
    char own[TEXT];

    *t = (struct template_sample){.g = *first};
    OK(bp_graph_create(first->f.core, &t->g.graph));
    t->g.scope = bp_graph_scope(t->g.graph);
    template_text(text, s, own);
    text_record(&t->g, own);
    OK(bp_program_create(t->g.graph, first->f.device, &t->program));
}

static void sample_finish(struct template_sample *t)
{
    for (uint32_t i = 0; i < t->g.n_made; i++) bp_tensor_destroy(t->g.made[i]);
    for (uint32_t i = 0; i < t->g.n_in; i++) bp_tensor_destroy(t->g.in[i]);
    bp_program_destroy(t->program);
    bp_graph_destroy(t->g.graph);
}

static enum bp_status template_make(const struct text_graph *first, const char *text,
                                    const int64_t at[SAMPLES], struct bp_template **out)
{
    struct template_sample sample[SAMPLES];
    struct bp_program *program[SAMPLES];
    enum bp_status status;

    for (int k = 0; k < SAMPLES; k++) {
        sample_begin(&sample[k], first, text, at[k]);
        program[k] = sample[k].program;
    }
    status = bp_template_create(program, at, SAMPLES, out);
    for (int k = 0; k < SAMPLES; k++) sample_finish(&sample[k]);
    return status;
}

/* Reads an output as f64. The caller frees the list. */
static double *output_read(struct text_graph *g, struct bp_tensor *t, int64_t *out_n)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = BP_F64};
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *wide = NULL;
    double *number;

    OK(bp_op_cast(g->f.scope, t, &attrs, &wide));
    OK(bp_tensor_get_info(wide, &info));
    number = malloc(info.bytes + 1);
    cr_assert(number);
    if (info.bytes) OK(bp_tensor_read(g->f.stream, wide, number, info.bytes));
    bp_tensor_destroy(wide);
    *out_n = info.count;
    return number;
}

static void outputs_compare(struct text_graph *g, struct bp_tensor *got, struct bp_tensor *want,
                            double tolerance, const char *what)
{
    struct bp_tensor_info a = {.size = sizeof a}, b = {.size = sizeof b};
    int64_t n, m;
    double *x = output_read(g, got, &n), *y = output_read(g, want, &m);

    OK(bp_tensor_get_info(got, &a));
    OK(bp_tensor_get_info(want, &b));
    cr_assert(a.dtype == b.dtype && a.rank == b.rank &&
                  !memcmp(a.shape, b.shape, a.rank * sizeof *a.shape),
              "%s: another type", what);
    for (int64_t i = 0; i < n; i++)
        cr_assert(x[i] == y[i] || fabs(x[i] - y[i]) <= tolerance * (1 + fabs(y[i])) ||
                      (isnan(x[i]) && isnan(y[i])),
                  "%s: element %lld is %.17g, expected %.17g", what, (long long)i, x[i], y[i]);
    free(x);
    free(y);
}

/* Runs the derived program and its graph, a program that was compiled for this S, and that one's
 * graph node by node, on equal inputs. */
static void derived_compare(struct template_sample *fresh, struct bp_program *program,
                            struct bp_graph *graph, const char *what)
{
    struct bp_tensor *out[4][TEXT_OUTPUTS] = {{NULL}};
    struct text_graph *g = &fresh->g;
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_run(program, g->f.stream, g->in, g->n_in, out[0], g->n_output));
    OK(bp_program_get_info(program, &info));
    cr_assert(info.compiled == 1 && info.derived == 1, "%s: %s", what, info.not_compiled);
    OK(bp_graph_run(graph, g->f.stream, g->in, g->n_in, out[1], g->n_output));
    OK(bp_program_run(fresh->program, g->f.stream, g->in, g->n_in, out[2], g->n_output));
    OK(bp_graph_run(g->graph, g->f.stream, g->in, g->n_in, out[3], g->n_output));
    OK(bp_program_get_info(fresh->program, &info));
    cr_assert_eq(info.derived, 0);
    for (uint32_t o = 0; o < g->n_output; o++) {
        outputs_compare(g, out[0][o], out[2][o], 0, what);
        outputs_compare(g, out[1][o], out[3][o], 0, what);
        outputs_compare(g, out[0][o], out[3][o], 1e-4, what);
        for (int k = 0; k < 4; k++) bp_tensor_destroy(out[k][o]);
    }
}

static void derived_expect(struct text_graph *first, struct bp_template *t, const char *text,
                           int64_t s)
{
    struct template_sample fresh;
    struct bp_graph *graph;
    struct bp_program *program;
    char what[TEXT + 64];

    snprintf(what, sizeof what, "S = %lld of %s", (long long)s, text);
    sample_begin(&fresh, first, text, s);
    cr_assert_eq(bp_template_program(t, s, &graph, &program), BP_OK, "%s: %s", what,
                 bp_error_message());
    cr_assert_eq(bp_template_check(t, s, fresh.g.graph), BP_OK, "%s: %s", what, bp_error_message());
    derived_compare(&fresh, program, graph, what);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    sample_finish(&fresh);
}

static struct text_graph device_begin(void)
{
    struct text_graph first = text_begin();

    bp_graph_destroy(first.graph);
    first.graph = NULL;
    return first;
}

static const int64_t template_at[SAMPLES] = {6, 11, 13};

static const char *const template_texts[] = {
    "relu(add(x[2,{S},8], b![8]))",
    "add(x[{S},4], mul(y[{S},4], 0.5))",
    /* extents that are sums with multiples */
    "y = concat(x[2,{S},4], z[2,3,4]; axis=1)\nreturn neg(y), sum(y; axes=2)",
    "neg(concat(x[{S},4], y[{S},4]; axis=0))",
    "abs(concat(tanh(y[2,3,4]), neg(x[2,{S},4]); axis=1))",
    "a = concat(neg(x[2,{S},4]), tanh(y[2,3,4]); axis=1)\n"
    "c = concat(a, exp(z[2,3,4]); axis=1)\nreturn abs(a), abs(c)",
    "softmax(matmul(x[2,{S},8], y[2,8,{S+2}]); axis=-1)",
    /* attributes */
    "tanh(reshape(x[2,{S},6]; shape=2_{3S}_2))",
    "exp(slice(x[{2S},3]; starts=1_0, ends={S+1}_3, axes=0_1, steps=1_1))",
    "add(expand(b[1,4]; shape={S}_4), x[{S},4])",
    "transpose(reshape(x[{S},12]; shape={S}_3_4); perm=1_0_2)",
    /* attention */
    "q = transpose(reshape(x[1,{S},24]; shape=1_{S}_3_8); perm=0_2_1_3)\n"
    "k = transpose(reshape(y[1,{S},24]; shape=1_{S}_3_8); perm=0_2_3_1)\n"
    "v = transpose(reshape(z[1,{S},24]; shape=1_{S}_3_8); perm=0_2_1_3)\n"
    "p = softmax(mul(matmul(q, k), 0.25); axis=-1)\n"
    "return reshape(transpose(matmul(p, v); perm=0_2_1_3); shape=1_{S}_24)",
    /* a decoder's step: only the past depends on S */
    "k = concat(past[1,2,{S},8], matmul(x[1,2,1,16], w![16,8]); axis=2)\n"
    "p = softmax(mul(matmul(x2[1,2,1,8], transpose(k; perm=0_1_3_2)), 0.5); axis=-1)\n"
    "y = add(matmul(matmul(p, k), u![8,16]), x)\n"
    "return layer_norm(y, g![16], b![16]), k",
    /* the leading block of a constant, and one that is computed from it */
    "add(x[{S},4], mul(slice(c![40,4]; starts=0, ends={S}, axes=0, steps=1), 2))",
    "add(x[{S},4], tanh(c![{S},4]))",
    "matmul(x[2,3,{S}], concat(c![{S},4], tanh(c); axis=1))",
    "add(x:i64[{S},4], {2S}:i64)",
    "relu(matmul(x[64,64], gather(w![14,64,64], {S}:i64)))",
    "topk(x[3,40]; k={S})",
    /* folded constants that are computed anew */
    "add(x[2,{S},4], gather(c![40,4], {S}:i64))",
    "add(matmul(x[{S},4], w![4,4]), tanh(slice(c![40,4]; starts={S-3}, ends={S-2}, axes=0)))",
    "return add(x:i64[{S},4], {S}:i64), neg(y[2,3])",
    "conv(x[1,3,{S},9], w![4,3,3,3], b![4]; pad=1_1_0_1_1_0)",
    "max(x[{S},5]; axes=0)",
};

Test(template, programs_are_those_that_are_compiled)
{
    struct text_graph first = device_begin();

    for (size_t i = 0; i < sizeof template_texts / sizeof *template_texts; i++) {
        struct bp_template *t;
        cr_assert_eq(template_make(&first, template_texts[i], template_at, &t), BP_OK, "%s: %s",
                     template_texts[i], bp_error_message());
        for (int64_t s = 6; s <= 13; s++) derived_expect(&first, t, template_texts[i], s);
        bp_template_destroy(t);
    }
    fixture_finish(&first.f);
}

/* ---- random graphs ---- */

enum {
    GRAPHS = 120,
    NODES = 14
};

/* The kinds of values: [2, S, 8], [2, 8, S], [2, S, S] and [2, 2S, 8]. */
enum random_kind {
    RANDOM_ROWS,
    RANDOM_TURNED,
    RANDOM_SQUARE,
    RANDOM_TWICE,
    RANDOM_KINDS
};

/* Calls: the kinds of their operands ('0' to '3') and result, and the text with a place for each
 * operand. */
static const struct {
    const char *operands;
    enum random_kind result;
    const char *text;
} random_calls[] = {
    {"0", RANDOM_ROWS, "tanh(%s)"},
    {"0", RANDOM_ROWS, "sigmoid(neg(%s))"},
    {"00", RANDOM_ROWS, "add(%s, %s)"},
    {"00", RANDOM_ROWS, "mul(tanh(%s), tanh(%s))"},
    {"0", RANDOM_ROWS, "mul(%s, w![8])"},
    {"0", RANDOM_ROWS, "layer_norm(%s, g![8], b![8])"},
    {"0", RANDOM_ROWS, "relu(add(matmul(%s, u![8,8]), b![8]))"},
    {"0", RANDOM_ROWS, "reshape(neg(reshape(%s; shape={2S}_8)); shape=2_{S}_8)"},
    {"0", RANDOM_ROWS, "reshape(reshape(%s; shape=2_{4S}_2); shape=2_{S}_8)"},
    {"0", RANDOM_ROWS, "add(%s, c![{S},8])"},
    {"0", RANDOM_ROWS, "add(%s, gather(d![40,8], {S}:i64))"},
    {"0", RANDOM_ROWS, "add(%s, slice(d![40,8]; starts=3, ends={S+3}, axes=0))"},
    {"00", RANDOM_ROWS, "sub(%s, mean(%s; axes=1, keep=1))"},
    {"20", RANDOM_ROWS, "matmul(softmax(%s; axis=-1), %s)"},
    {"3", RANDOM_ROWS, "slice(%s; starts=0, ends={S}, axes=1)"},
    {"3", RANDOM_ROWS, "slice(%s; starts={S-3}, ends={2S-3}, axes=1)"},
    {"1", RANDOM_ROWS, "transpose(%s; perm=0_2_1)"},
    {"0", RANDOM_TURNED, "transpose(%s; perm=0_2_1)"},
    {"1", RANDOM_TURNED, "softmax(%s; axis=-1)"},
    {"1", RANDOM_TURNED, "relu(%s)"},
    {"01", RANDOM_SQUARE, "tanh(mul(matmul(%s, %s), 0.25))"},
    {"2", RANDOM_SQUARE, "relu(transpose(%s; perm=0_2_1))"},
    {"22", RANDOM_SQUARE, "add(%s, %s)"},
    {"00", RANDOM_TWICE, "concat(%s, %s; axis=1)"},
    {"3", RANDOM_TWICE, "tanh(%s)"},
};

struct random_text {
    char text[TEXT];
    size_t n;
    uint32_t state;
    enum random_kind kind[NODES + 2]; /* of each value */
    uint32_t n_value;
};

static uint32_t random_below(struct random_text *r, uint32_t n)
{
    r->state = r->state * 1664525 + 1013904223;
    return (r->state >> 8) % n;
}

/* Picks a value of a kind, a later one more often. false: there is none. */
static bool random_pick(struct random_text *r, enum random_kind kind, char out[16])
{
    for (int i = 0; i < 30; i++) {
        uint32_t a = random_below(r, r->n_value), b = random_below(r, r->n_value);
        uint32_t v = a > b ? a : b;
        if (r->kind[v] != kind) continue;
        snprintf(out, 16, "v%u", v);
        return true;
    }
    return false;
}

/* Adds a call. Each constant gets a name of its own. */
static bool random_call(struct random_text *r)
{
    uint32_t i = random_below(r, sizeof random_calls / sizeof *random_calls), n_operand = 0;
    char operand[2][16];

    for (uint32_t k = 0; random_calls[i].operands[k]; k++)
        if (!random_pick(r, (enum random_kind)(random_calls[i].operands[k] - '0'), operand[k]))
            return false;
    r->n += (size_t)snprintf(r->text + r->n, TEXT - r->n, "v%u = ", r->n_value);
    for (const char *at = random_calls[i].text; *at; at++) {
        if (*at == '%' && at++)
            r->n += (size_t)snprintf(r->text + r->n, TEXT - r->n, "%s", operand[n_operand++]);
        else if (*at == '!') r->n += (size_t)snprintf(r->text + r->n, TEXT - r->n, "%zu!", r->n);
        else r->text[r->n++] = *at;
    }
    r->text[r->n++] = '\n';
    r->kind[r->n_value++] = random_calls[i].result;
    return true;
}

static void random_make(struct random_text *r, uint32_t seed)
{
    *r = (struct random_text){.state = seed * 2654435761u + 1, .n_value = 2};
    r->n = (size_t)snprintf(r->text, TEXT, "v0 = neg(x[2,{S},8])\nv1 = abs(y[2,{S},8])\n");
    while (r->n_value < NODES + 2) random_call(r);
    snprintf(r->text + r->n, TEXT - r->n, "return v%u, v%u", NODES + 1,
             2 + random_below(r, NODES - 1));
}

Test(template, random_graphs, .timeout = 110)
{
    struct text_graph first = device_begin();
    uint32_t made = 0;

    for (uint32_t seed = 0; seed < GRAPHS; seed++) {
        struct random_text r;
        struct bp_template *t;
        random_make(&r, seed);
        if (template_make(&first, r.text, template_at, &t)) continue;
        made++;
        for (int k = 0; k < 3; k++) derived_expect(&first, t, r.text, 6 + random_below(&r, 8));
        bp_template_destroy(t);
    }
    cr_expect(made > GRAPHS / 2, "%u of %d graphs have a template", made, GRAPHS);
    fixture_finish(&first.f);
}

/* ---- what is refused ---- */

/* Samples of which a template would give another result between them, or might. */
static const struct {
    const char *text, *why;
} template_misses[] = {
    {"exp(slice(x[40,3]; starts=0, ends={S/2}, axes=0, steps=1))", "multiple"},
    {"exp(slice(x[40,3]; starts=0, ends={S&2}, axes=0, steps=1))", "multiple"},
    {"exp(slice(x[40,3]; starts=0, ends={S&7}, axes=0, steps=1))", "multiple"},
    {"exp(slice(x[40,3]; starts=0, ends={S<12}, axes=0, steps=1))", "multiple"},
    {"exp(slice(x[{S<12},3]; starts=0, ends=2, axes=0, steps=1))", "multiple"},
    {"neg(neg(x[{S-5},3]))", "1 places"},
    {"tanh(slice(x[40,3]; starts={S-9}, ends=9, axes=0, steps=1))", "multiple"},
    {"add(x[{S},4], {S}~)", "not frozen"},
    {"add(x[{S},4], 0.{S})", "constant"},
    {"add(x[4,{S}], c![4,{S}])", "leading block"},
    {"add(x[2,{S},4], mul(c![{S},4], d![4]))", "have read"},
    {"add(x:i64[{S},4], {S&2}:i64)", "constant"},
    {"scale(x[{S},4]; factor={S})", "attribute"},
    {"dropout(x[{S},4])", "random"},
    {"nonzero(x[{S},4])", "depend on"},
};

Test(template, samples_that_are_no_line_are_refused)
{
    struct text_graph first = device_begin();

    for (size_t i = 0; i < sizeof template_misses / sizeof *template_misses; i++) {
        struct bp_template *t = NULL;
        enum bp_status status = template_make(&first, template_misses[i].text, template_at, &t);
        cr_expect_eq(status, BP_ERR_UNSUPPORTED, "%s: %s", template_misses[i].text,
                     status ? bp_error_message() : "a template");
        cr_expect(!status || strstr(bp_error_message(), template_misses[i].why), "%s: %s",
                  template_misses[i].text, bp_error_message());
        if (!status) bp_template_destroy(t);
    }
    fixture_finish(&first.f);
}

Test(template, parameters_are_checked)
{
    static const char text[] = "relu(add(x[2,{S},8], b![8]))";
    struct text_graph first = device_begin();
    struct bp_template *t;
    struct bp_graph *graph;
    struct bp_program *program;
    struct template_sample other;

    FAILS(BP_ERR_UNSUPPORTED, "multiples of 2", template_make(&first, text, SHAPE(6, 8, 12), &t));
    FAILS(BP_ERR_INVALID, "two samples", template_make(&first, text, SHAPE(6, 8, 6), &t));
    OK(template_make(&first, text, template_at, &t));
    FAILS(BP_ERR_UNSUPPORTED, "outside 6 to 13", bp_template_program(t, 5, &graph, &program));
    FAILS(BP_ERR_UNSUPPORTED, "outside 6 to 13", bp_template_program(t, 14, &graph, &program));
    sample_begin(&other, &first, text, 8);
    OK(bp_template_check(t, 8, other.g.graph));
    FAILS(BP_ERR_INTERNAL, "another graph", bp_template_check(t, 9, other.g.graph));
    sample_finish(&other);
    sample_begin(&other, &first, "relu(add(x[2,{S},8], 0.5))", 8);
    FAILS(BP_ERR_INTERNAL, "another graph", bp_template_check(t, 8, other.g.graph));
    sample_finish(&other);
    bp_template_destroy(t);
    fixture_finish(&first.f);
}

/* A derived program keeps what it needs. Its graph takes no calls, but has programs of its own. */
Test(template, programs_outlive_their_template)
{
    static const char text[] = "y = add(x[{S},4], c![{S},4])\nreturn relu(y), gather(y, {S-1}:i64)";
    struct text_graph first = device_begin();
    struct bp_program *program[2], *own;
    struct bp_graph *graph[2];
    struct template_sample fresh;
    struct bp_template *t;
    struct bp_tensor *x;

    OK(template_make(&first, text, template_at, &t));
    for (int k = 0; k < 2; k++) OK(bp_template_program(t, 8 + k, &graph[k], &program[k]));
    bp_template_destroy(t);
    bp_program_destroy(program[1]);
    sample_begin(&fresh, &first, text, 8);
    derived_compare(&fresh, program[0], graph[0], text);
    FAILS(BP_ERR_INVALID, "a program has been made",
          bp_graph_input(graph[1], "more", BP_F32, 0, NULL, &x));
    OK(bp_graph_output_symbol(graph[1], 0, &x));
    FAILS(BP_ERR_INVALID, "a program has been made", bp_graph_output(graph[1], x, NULL));
    bp_tensor_destroy(x);
    OK(bp_program_create(graph[0], first.f.device, &own));
    OK(bp_program_compile(own));
    FAILS(BP_ERR_UNSUPPORTED, "from a template",
          bp_template_create((struct bp_program *[]){own, program[0], fresh.program},
                             SHAPE(8, 9, 10), 3, &t));
    bp_program_destroy(own);
    bp_program_destroy(program[0]);
    for (int k = 0; k < 2; k++) bp_graph_destroy(graph[k]);
    sample_finish(&fresh);
    fixture_finish(&first.f);
}
