/* SPDX-License-Identifier: Apache-2.0 */
/* maker.c: what families of cases share, and the table of operators. */
#include "../kernel_case.h"
#include <backplane/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A family that a row names and that is not here does not link. */
#define CASES(family) cases_fn cases_##family;
#define OP(op, ins, outs, facts) facts
#define OPA(op, ins, outs, attrs, facts) facts
#include <backplane/ops/ops.def>

static const struct conform_op ops[] = {
#define CASES(family) .cases = cases_##family,
#define TOL(ulp_, terms_) .ulp = ulp_, .terms = terms_,
#define OP(op, ins, outs, facts) {.name = #op, .reference = ref_##op, facts},
#define OPA(op, ins, outs, attrs, facts) {.name = #op, .reference = ref_##op, facts},
#include <backplane/ops/ops.def>
};

const struct conform_op *conform_op(const char *name)
{
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (!strcmp(ops[i].name, name)) return &ops[i];
    return NULL;
}

/* Reads "2x3", "scalar" or "-" up to '+' or the end. */
static const char *parse_shape(const char *text, struct kernel_input *in)
{
    size_t n = strcspn(text, "+");

    if (!strncmp(text, "-", n)) return text + n;
    in->present = true;
    if (strncmp(text, "scalar", n)) {
        char *end = (char *)text;
        do {
            in->shape[in->rank++] = strtoll(end, &end, 10);
        } while (*end == 'x' && end++ && in->rank < REF_RANK);
    }
    return text + n;
}

struct kernel_case *case_begin(const struct case_maker *maker, const char *shapes)
{
    struct kernel_case *made = calloc(1, sizeof *made);

    if (!made) abort();
    made->op = maker->op;
    made->row = maker->row;
    made->row_flags = maker->row_flags;
    while (made->n_in < CASE_PORTS) {
        struct kernel_input *in = &made->in[made->n_in++];
        in->dtype = maker->dtype[0];
        shapes = parse_shape(shapes, in);
        if (*shapes++ != '+') break;
    }
    if (maker->defaults && maker->attrs_size <= sizeof made->attrs)
        memcpy(&made->attrs, maker->defaults, maker->attrs_size);
    return made;
}

static void append(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, CASE_ID - used, format, args);
    va_end(args);
}

static void append_shape(char *text, const struct kernel_input *in)
{
    if (!in->present) append(text, "-");
    else if (!in->rank) append(text, "scalar");
    for (int i = 0; i < in->rank; i++)
        append(text, "%s%lld", i ? "x" : "", (long long)in->shape[i]);
}

void case_end(const struct case_maker *maker, struct kernel_case *made, const char *variant, ...)
{
    va_list args;
    size_t used;

    append(made->id, "kernel/%s/%s", maker->op->name, num_type(maker->dtype[0])->name);
    if (maker->dtype[1] != maker->dtype[0])
        append(made->id, "-%s", num_type(maker->dtype[1])->name);
    append(made->id, "/");
    used = strlen(made->id);
    va_start(args, variant);
    vsnprintf(made->id + used, CASE_ID - used, variant, args);
    va_end(args);
    append(made->id, "/");
    for (int i = 0; i < made->n_in; i++) {
        if (i) append(made->id, "+");
        append_shape(made->id, &made->in[i]);
    }
    append(made->id, "@%s", maker->row);
    maker->made(maker->ctx, made);
}

void case_data(struct kernel_case *made, enum data data)
{
    for (int i = 0; i < made->n_in; i++) made->in[i].data = data;
}

bool case_is_float(const struct case_maker *maker)
{
    return !num_is_int(num_type(maker->dtype[0]));
}

bool case_is_complex(const struct case_maker *maker)
{
    return num_type(maker->dtype[0])->class == NUM_COMPLEX;
}

static struct kernel_case *copy_of(const struct kernel_case *made)
{
    struct kernel_case *copy = malloc(sizeof *copy);

    if (!copy) abort();
    *copy = *made;
    /* The only attribute that points: into the case itself. */
    if (!strcmp(copy->op->name, "sum") && copy->attrs.sum.axes.n)
        copy->attrs.sum.axes.at = copy->dims;
    if (!strcmp(copy->op->name, "sum_grad") && copy->attrs.sum_grad.axes.n)
        copy->attrs.sum_grad.axes.at = copy->dims;
    return copy;
}

void case_layouts(const struct case_maker *maker, struct kernel_case *made, const char *variant,
                  bool share)
{
    static const struct {
        enum layout layout;
        const char *name;
    } layouts[] = {{LAYOUT_OFFSET, "offset"},
                   {LAYOUT_PERMUTED, "permuted"},
                   {LAYOUT_GAPS, "gaps"},
                   {LAYOUT_REPEAT, "repeat"}};
    struct kernel_case *copy;

    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++)
        for (int i = 0; i < made->n_in; i++) {
            /* Rows that take contiguous tensors only are shown one that is not: it must be
             * refused. */
            bool contiguous_only = !(maker->row_flags & BP_KERNEL_STRIDED);
            if (!made->in[i].present || !made->in[i].rank) continue;
            if (layouts[l].layout == LAYOUT_PERMUTED && made->in[i].rank < 2) continue;
            if (contiguous_only && layouts[l].layout > LAYOUT_PERMUTED) continue;
            if (contiguous_only && layouts[l].layout == LAYOUT_PERMUTED && i) continue;
            copy = copy_of(made);
            copy->in[i].layout = layouts[l].layout;
            case_end(maker, copy, "%s.%s%d", variant, layouts[l].name, i);
        }
    if (share && maker->row_flags & BP_KERNEL_IN_PLACE) {
        copy = copy_of(made);
        copy->in_place = true;
        case_end(maker, copy, "%s.inplace", variant);
    }
    case_end(maker, made, "%s", variant);
}
