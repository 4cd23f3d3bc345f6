/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of `fused`: code that is stated as text, and code that is
 * drawn. */
#include "../common/cases.h"
#include "../common/cases_random.h"
#include <backplane/fused_text.h>
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_fused;

/* ---- code ---- */

/* Code that a case refers to. Cases come and go; equal code is kept once, until the process
 * ends. */
struct kept_code {
    struct kept_code *next;
    size_t n;
    int64_t word[];
};
static struct kept_code *kept;

static struct bp_dims code_keep(const char *text)
{
    int64_t word[BP_FUSED_WORDS];
    struct kept_code *made;
    size_t n;

    if (bp_fused_parse(text, word, &n)) {
        fprintf(stderr, "the code of a case is wrong: %s\n", text);
        abort();
    }
    for (const struct kept_code *k = kept; k; k = k->next)
        if (k->n == n && !memcmp(k->word, word, n * sizeof *word))
            return (struct bp_dims){k->word, (int64_t)n};
    made = malloc(sizeof *made + n * sizeof *word);
    if (!made) abort();
    *made = (struct kept_code){kept, n};
    memcpy(made->word, word, n * sizeof *word);
    kept = made;
    return (struct bp_dims){made->word, (int64_t)n};
}

static struct kernel_case *fused_case(const struct case_builder *builder, const char *shapes,
                                      const char *code)
{
    struct kernel_case *made = case_begin(builder, shapes);

    made->attrs.fused.code = code_keep(code);
    made->n_out = (int)bp_fused_n_out(made->attrs.fused.code.at);
    return made;
}

/* Adds the case once for each output. */
static void fused_end(const struct case_builder *builder, struct kernel_case *made,
                      const char *variant)
{
    for (int part = made->n_out - 1; part > 0; part--) {
        struct kernel_case *copy = case_copy(made);
        copy->part = part;
        copy->gradient = 0;
        case_end(builder, copy, "%s.y%d", variant, part);
    }
    case_end(builder, made, "%s", variant);
}

/* ---- stated code ---- */

#define EIGHT \
    "r0 = add x0 x1; r1 = mul r0 x0; r2 = sub r1 x1; r3 = maximum r2 x0; r4 = minimum r3 x1; " \
    "r5 = abs r4; r6 = neg r5; y0 = relu r6"
#define DIAMOND "r0 = square x0; r1 = sigmoid r0; r2 = tanh r0; y0 = mul r1 r2"
#define NORM "r0 = mul x0 x1; r1 = add r0 x2; y0 = relu r1"
#define EXACT "r0 = abs x0; r1 = neg x1; r2 = maximum r0 r1; y0 = minimum r2 x0; y1 = relu r1"
#define TRUTHS \
    "r0 = equal x0 x1; r1 = less_equal x0 x1; r2 = isnan x1; r3 = isinf x0; r0 = logical_or r0 " \
    "r2; r1 = logical_xor r1 r3; y0 = where r0 x0 x1; r4 = neg x0; y1 = masked_fill r4 r1 x1; " \
    "r2 = not_equal x0 x1; y2 = mask x1 r2; r3 = greater_than x0 x1; y3 = mask x0 r3 invert=1"

static const struct {
    const char *variant, *shapes, *code;
    enum data data;
    bool quick;
    int gradient;
} stated[] = {
    {"eight", "5x7+5x7", EIGHT, DATA_PLAIN, true, 0},
    {"eight.broadcast", "3x1x9+7x1", EIGHT, DATA_PLAIN, false, 0},
    {"diamond", "3x5", DIAMOND, DATA_PLAIN, true, 2},
    {"norm.channels", "2x6x5x7+6x1x1+6x1x1", NORM, DATA_PLAIN, true, 0},
    {"norm.rows", "37x19+19+19", NORM, DATA_PLAIN, true, 0},
    {"norm.columns", "37x19+37x1+37x1", NORM, DATA_PLAIN, false, 0},
    {"norm.scalars", "37x19+scalar+1x1", NORM, DATA_PLAIN, true, 0},
    {"norm.planes", "3x16x7x7+16x1x1+1x16x1x1", NORM, DATA_PLAIN, false, 0},
    {"norm.repeats", "4x1x9+1x5x9+4x5x1", NORM, DATA_PLAIN, false, 0},
    {"exact", "41+41", EXACT, DATA_PLAIN, true, 0},
    {"exact.nonfinite", "259+259", EXACT, DATA_NONFINITE, true, 0},
    {"exact.special", "331+331", EXACT, DATA_SPECIAL, true, 0},
    {"exact.zeros", "67+67", EXACT, DATA_ZERO, false, 0},
    {"outputs", "3x4+4",
     "r0 = add x0 x1; y0 = relu r0; y1 = neg y0; r0 = mul y1 x1; y2 = sigmoid r0; y3 = add y2 r0",
     DATA_PLAIN, true, 0},
    {"small-output", "3x4+4", "y0 = exp x1; y1 = add x0 y0", DATA_PLAIN, true, 1},
    {"unread-input", "1x4+3x1", "x1; y0 = neg x0", DATA_PLAIN, false, 0},
    {"attributes", "6x7",
     "r0 = clip x0 min=-0.5 max=1.25; r1 = leaky_relu r0 slope=0.3; r2 = scale r1 factor=3 "
     "bias=-0.125; r3 = gelu r2; r4 = gelu r2 approximate=1; r5 = elu r3 alpha=1.5; y0 = addcmul "
     "r5 r4 x0 value=0.75",
     DATA_PLAIN, true, 0},
    {"positive", "5x9+9",
     "r0 = div x0 x1; r1 = log r0; r2 = sqrt x0; r3 = rsqrt x1; r4 = lerp r1 r2 r3; y0 = hypot r4 "
     "x0; y1 = reciprocal r2",
     DATA_POSITIVE, true, 2},
    {"rounding", "4x33+33", "r0 = mul x0 x1; r1 = floor r0; r2 = frac r0; y0 = add r1 r2",
     DATA_PLAIN, false, 0},
    {"registers", "2x3x5",
     "r0 = neg x0; r1 = abs x0; r2 = square x0; r3 = relu x0; r4 = tanh x0; r5 = sigmoid x0; r6 = "
     "sin x0; r7 = cos x0; r8 = erf x0; r9 = silu x0; r10 = atan x0; r11 = deg2rad x0; r0 = add "
     "r0 r1; r0 = add r0 r2; r0 = add r0 r3; r0 = add r0 r4; r0 = add r0 r5; r0 = add r0 r6; r0 = "
     "add r0 r7; r0 = add r0 r8; r0 = add r0 r9; r0 = add r0 r10; y0 = add r0 r11",
     DATA_PLAIN, false, 0},
    {"inputs", "7+7+7+7+7+7+7+7+7+7+7+7",
     "r0 = add x0 x1; r0 = sub r0 x2; r0 = add r0 x3; r0 = sub r0 x4; r0 = add r0 x5; r0 = sub r0 "
     "x6; r0 = add r0 x7; r0 = sub r0 x8; r0 = add r0 x9; r0 = sub r0 x10; y0 = add r0 x11",
     DATA_PLAIN, false, 0},
    {"truths", "5x67+67", TRUTHS, DATA_PLAIN, true, 0},
    {"truths.special", "331+331", TRUTHS, DATA_SPECIAL, true, 0},
    {"truths.nonfinite", "259+259", TRUTHS, DATA_NONFINITE, true, 0},
    {"truths.zeros", "67+67", TRUTHS, DATA_ZERO, false, 0},
    {"truths.registers", "3x41+3x1",
     "r0 = less_than x0 x1; r1 = greater_equal x0 x0; r0 = logical_and r0 r1; r1 = logical_or r1 "
     "r1; r1 = logical_xor r0 r1; r0 = logical_not r0; r2 = masked_fill x0 r1 x1; r1 = isfinite "
     "r2; r2 = mask r2 r1; y0 = where r0 r2 x0; y1 = mask r2 r0 invert=1",
     DATA_PLAIN, false, 0},
    {"truths.computed", "7x33+33",
     "r0 = mul x0 x1; r1 = less_than r0 x0; r2 = where r1 r0 x1; y0 = add r2 r0", DATA_PLAIN, true,
     0},
    {"truths.gradient", "3x5+5", "r0 = greater_than x0 x1; r1 = mul x0 x1; y0 = where r0 r1 x1",
     DATA_PLAIN, true, 2},
    {"empty", "0x3+1x3", EIGHT, DATA_PLAIN, true, 0},
    {"scalar", "scalar+scalar", EIGHT, DATA_PLAIN, true, 0},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1", EIGHT, DATA_PLAIN, false, 0},
};

/* Lengths around those of tiles, which depend on the number of registers. */
static const int lengths[] = {255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 3079, 70001};

static void cases_stated(struct case_builder *builder)
{
    char shapes[64], variant[32];

    for (int i = 0; i < COUNT(stated); i++) {
        struct kernel_case *made = fused_case(builder, stated[i].shapes, stated[i].code);
        case_data(made, stated[i].data);
        made->quick = stated[i].quick;
        if (stated[i].gradient) case_smooth(made, stated[i].gradient);
        fused_end(builder, made, stated[i].variant);
    }
    for (int i = 0; i < COUNT(lengths); i++) {
        snprintf(shapes, sizeof shapes, "%d+%d", lengths[i], lengths[i]);
        snprintf(variant, sizeof variant, "length%d", lengths[i]);
        fused_end(builder, fused_case(builder, shapes, i % 2 ? EIGHT : EXACT), variant);
    }
}

/* ---- drawn code ---- */

/* Operators that are defined for all numbers. grows: the result grows with the operands; squares:
 * with their product. */
static const struct {
    const char *name;
    int n;
    bool grows, squares;
} drawn[] = {
    {"neg", 1, true, false},       {"abs", 1, true, false},      {"relu", 1, true, false},
    {"leaky_relu", 1, true, false}, {"silu", 1, true, false},     {"gelu", 1, true, false},
    {"elu", 1, true, false},       {"hard_swish", 1, true, false}, {"cos", 1, false, false},
    {"sigmoid", 1, false, false},  {"tanh", 1, false, false},    {"erf", 1, false, false},
    {"atan", 1, false, false},     {"hard_sigmoid", 1, false, false}, {"sin", 1, false, false},
    {"clip", 1, false, false},     {"floor", 1, true, false},    {"square", 1, true, true},
    {"mul", 2, true, true},        {"add", 2, true, false},      {"sub", 2, true, false},
    {"maximum", 2, true, false},   {"minimum", 2, true, false},  {"relu_grad", 2, true, false},
    {"addcmul", 3, true, true},    {"lerp", 3, true, true},
};

enum { DRAWN = 24, DRAWN_STEPS = 14 };

/* Code that is being drawn. size: the largest magnitude in each place, 0: no value. */
struct drawing {
    struct random random;
    char text[2048];
    double size[BP_FUSED_PLACES];
    int n_in;
};

static int drawing_below(struct drawing *d, int n)
{
    return (int)random_below(&d->random, (uint64_t)n);
}

static void drawing_place(struct drawing *d, int place)
{
    size_t at = strlen(d->text);
    char letter = place < BP_FUSED_R ? 'x' : place < BP_FUSED_Y ? 'r' : 'y';

    snprintf(d->text + at, sizeof d->text - at, "%c%d", letter,
             place - (letter == 'x' ? BP_FUSED_X : letter == 'r' ? BP_FUSED_R : BP_FUSED_Y));
}

static void drawing_word(struct drawing *d, const char *word)
{
    size_t at = strlen(d->text);

    snprintf(d->text + at, sizeof d->text - at, "%s", word);
}

/* Adds an instruction with operands that have values. */
static void drawing_step(struct drawing *d, int to)
{
    int from[3], which = drawing_below(d, COUNT(drawn));
    double largest = 1, size = 2;

    for (int k = 0; k < drawn[which].n; k++) {
        do from[k] = drawing_below(d, BP_FUSED_PLACES);
        while (!d->size[from[k]]);
        if (d->size[from[k]] > largest) largest = d->size[from[k]];
    }
    if (drawn[which].grows) size = largest * (drawn[which].squares ? 3 * largest : 2) + 1;
    if (size > 200) { /* half types have few digits and a small range */
        which = 10;   /* tanh */
        size = 2;
    }
    drawing_place(d, to);
    drawing_word(d, " = ");
    drawing_word(d, drawn[which].name);
    for (int k = 0; k < drawn[which].n; k++) {
        drawing_word(d, " ");
        drawing_place(d, from[k]);
    }
    if (!strcmp(drawn[which].name, "clip")) drawing_word(d, " min=-1.5 max=0.75");
    drawing_word(d, "; ");
    d->size[to] = size;
}

/* Draws shapes that broadcast to rows x columns, one of which is whole. */
static void drawing_shapes(struct drawing *d, char *text, size_t size)
{
    static const char *const shape[] = {"6x35", "6x35", "1x35", "35", "6x1", "scalar", "2x6x35",
                                        "2x1x1"};
    int whole = drawing_below(d, d->n_in);

    *text = 0;
    for (int i = 0; i < d->n_in; i++) {
        size_t at = strlen(text);
        snprintf(text + at, size - at, "%s%s", i ? "+" : "",
                 shape[i == whole ? 0 : drawing_below(d, COUNT(shape))]);
    }
}

static void cases_drawn(struct case_builder *builder)
{
    for (int i = 0; i < DRAWN; i++) {
        struct drawing d = {.random = {builder->seed * DRAWN + (uint64_t)i}};
        struct kernel_case *made;
        char shapes[128], variant[32];
        int n_out, n;
        d.n_in = 1 + drawing_below(&d, 4);
        n_out = 1 + drawing_below(&d, 3);
        n = 1 + drawing_below(&d, DRAWN_STEPS);
        snprintf(d.text, sizeof d.text, "x%d; ", d.n_in - 1);
        for (int k = 0; k < d.n_in; k++) d.size[k] = 2;
        for (int k = 0; k < n; k++) drawing_step(&d, BP_FUSED_R + drawing_below(&d, 6));
        for (int k = 0; k < n_out; k++) drawing_step(&d, BP_FUSED_Y + k);
        drawing_shapes(&d, shapes, sizeof shapes);
        made = fused_case(builder, shapes, d.text);
        made->quick = i < 4;
        snprintf(variant, sizeof variant, "drawn%d", i);
        fused_end(builder, made, variant);
    }
}

void cases_fused(struct case_builder *builder)
{
    struct kernel_case *made;

    cases_stated(builder);
    cases_drawn(builder);
    case_layouts(builder, fused_case(builder, "3x4x5x6+4x1x1+3x4x5x6", NORM), "layouts", false);
    case_layouts(builder, fused_case(builder, "5x6x7+5x6x7", EIGHT), "rank3", false);
    made = fused_case(builder, "257+257", EIGHT);
    case_large(builder, made, "large");
}
