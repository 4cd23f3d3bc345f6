/* SPDX-License-Identifier: Apache-2.0 */
/* fused_text.c: converts the code of the operator `fused` from and to text; see fused_text.h. */
#include "op.h"

#include "../base/number.h"

#include <backplane/attrs.h>
#include <backplane/fused_text.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- text to code ---- */

struct reader {
    const char *at;
    int64_t *code;
    uint32_t n_step, n_in, n_out, n_register;
    uint32_t truths; /* a bit for each register that a comparison writes */
};

static enum bp_status reader_error(const struct reader *r, const char *what)
{
    return bp_error(BP_ERR_INVALID, "bp_fused_parse: instruction %u: %s at '%.40s'", r->n_step,
                    what, r->at);
}

static void reader_skip(struct reader *r, const char *set)
{
    r->at += strspn(r->at, set);
}

/* Whether an operator's result is a truth value. */
static bool gives_truth(const char *op)
{
    static const struct {
        const char *name;
        bool truth;
    } list[] = {
#define TRUTH_OP(name, n, from, to) {#name, to},
        BP_FUSED_TRUTH_OPS(TRUTH_OP)
#undef TRUTH_OP
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(op, list[i].name)) return list[i].truth;
    return false;
}

static void reader_count(uint32_t *count, uint32_t number)
{
    if (*count < number + 1) *count = number + 1;
}

/* Reads a place such as "r12". A number without a place gives an error; the limits of places are
 * checked with the code. */
static enum bp_status reader_place(struct reader *r, uint8_t *out_place)
{
    char letter = *r->at, *end;
    unsigned long number;
    bool digit = letter && r->at[1] >= '0' && r->at[1] <= '9';

    if (!digit || !strchr("xry", letter)) return reader_error(r, "expected a place, x, r or y");
    number = strtoul(r->at + 1, &end, 10);
    if (number >= (letter == 'x'   ? BP_FUSED_IN
                   : letter == 'r' ? BP_FUSED_REGISTERS
                                   : BP_FUSED_OUT))
        return reader_error(r, "the number of the place is too large");
    if (letter == 'x') reader_count(&r->n_in, (uint32_t)number);
    else if (letter == 'r') reader_count(&r->n_register, (uint32_t)number);
    else reader_count(&r->n_out, (uint32_t)number);
    *out_place = (uint8_t)(number + (letter == 'x'   ? BP_FUSED_X
                                     : letter == 'r' ? BP_FUSED_R
                                                     : BP_FUSED_Y));
    r->at = end;
    return BP_OK;
}

/* Reads a word of letters, digits and '_'. */
static enum bp_status reader_name(struct reader *r, char *name, size_t room)
{
    size_t n = strspn(r->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    if (!n || n >= room) return reader_error(r, "expected a name");
    memcpy(name, r->at, n);
    memset(name + n, 0, room - n);
    r->at += n;
    return BP_OK;
}

/* Reads "name=number". */
static enum bp_status reader_attr(struct reader *r, const struct bp_opdef *row,
                                  struct bp_fused_step *step)
{
    char name[64], *end;

    TRY(reader_name(r, name, sizeof name));
    if (*r->at != '=') return reader_error(r, "expected '='");
    for (uint32_t k = 0; k < row->info.n_attr && k < BP_FUSED_FROM; k++) {
        if (strcmp(row->info.attr[k].name, name)) continue;
        step->number[k] = bp_number_parse(r->at + 1, &end);
        if (end == r->at + 1) return reader_error(r, "expected a number");
        r->at = end;
        return BP_OK;
    }
    return reader_error(r, "the operator has no such attribute");
}

static double attr_default(const struct bp_opdef *row, uint32_t k)
{
    const char *field = (const char *)row->info.defaults + row->info.attr[k].offset;
    int64_t integer;
    double number;

    memcpy(&integer, field, sizeof integer);
    memcpy(&number, field, sizeof number);
    return row->info.attr[k].kind == BP_ATTR_F64 ? number : (double)integer;
}

/* Reads the part of an instruction that follows '='. */
static enum bp_status reader_call(struct reader *r, struct bp_fused_step *step)
{
    const struct bp_opdef *row;
    uint32_t n = 0;

    TRY(reader_name(r, step->op, sizeof step->op));
    row = bp_opdef_find(step->op);
    if (!row) return reader_error(r, "the name before is no operator:");
    for (uint32_t k = 0; k < row->info.n_attr && k < BP_FUSED_FROM; k++)
        step->number[k] = attr_default(row, k);
    for (reader_skip(r, " \t"); *r->at && !strchr(";\n", *r->at); reader_skip(r, " \t")) {
        size_t word = strcspn(r->at, " \t;\n");
        if (memchr(r->at, '=', word)) {
            TRY(reader_attr(r, row, step));
        } else {
            if (n == BP_FUSED_FROM) return reader_error(r, "there are too many operands");
            TRY(reader_place(r, &step->from[n++]));
        }
    }
    return BP_OK;
}

static enum bp_status reader_step(struct reader *r)
{
    struct bp_fused_step step = {.from = {BP_FUSED_NONE, BP_FUSED_NONE, BP_FUSED_NONE}};

    TRY(reader_place(r, &step.to));
    reader_skip(r, " \t");
    if (!*r->at || strchr(";\n", *r->at)) return BP_OK; /* a declaration */
    if (*r->at != '=') return reader_error(r, "expected '='");
    r->at++;
    reader_skip(r, " \t");
    if (r->n_step == BP_FUSED_STEPS) return reader_error(r, "there are too many instructions");
    TRY(reader_call(r, &step));
    if (gives_truth(step.op) && step.to >= BP_FUSED_R && step.to < BP_FUSED_Y)
        r->truths |= 1u << (step.to - BP_FUSED_R);
    bp_fused_put(r->code, r->n_step++, &step);
    return BP_OK;
}

/* Checks code as a call does. */
static enum bp_status code_check(const int64_t *code, size_t n)
{
    struct bp_fused_attrs attrs = {.size = sizeof attrs, .code = {code, (int64_t)n}};

    return bp_attrs_check(&bp_opdef[BP_ROW_fused].info, &attrs);
}

enum bp_status bp_fused_parse(const char *text, int64_t *out_code, size_t *out_n)
{
    int64_t code[BP_FUSED_WORDS];
    struct reader r = {.at = text, .code = code};
    size_t n;

    if (!text || !out_code || !out_n)
        return bp_error(BP_ERR_INVALID, "bp_fused_parse: text, out_code or out_n is NULL");
    bp_opdefs_init();
    for (reader_skip(&r, " \t\n;"); *r.at; reader_skip(&r, " \t\n;")) TRY(reader_step(&r));
    code[0] = bp_fused_head_truths(r.n_in, r.n_out, r.n_register, r.truths);
    n = 1 + (size_t)r.n_step * BP_FUSED_STEP_WORDS;
    TRY(code_check(code, n));
    memcpy(out_code, code, n * sizeof *code);
    *out_n = n;
    return BP_OK;
}

/* ---- code to text ---- */

struct writer {
    char *text;
    size_t at, room;
};

static void writer_add(struct writer *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void writer_add(struct writer *w, const char *format, ...)
{
    size_t left = w->at < w->room ? w->room - w->at : 0;
    va_list list;

    va_start(list, format);
    w->at += (size_t)vsnprintf(left ? w->text + w->at : NULL, left, format, list);
    va_end(list);
}

static void writer_place(struct writer *w, const char *before, uint32_t place)
{
    char letter = place < BP_FUSED_R ? 'x' : place < BP_FUSED_Y ? 'r' : 'y';

    writer_add(w, "%s%c%u", before, letter, place % (letter == 'y' ? BP_FUSED_Y : BP_FUSED_R));
}

/* Writes the fewest digits that give the number. */
static void writer_number(struct writer *w, double number)
{
    char text[40];
    int digits = 1;

    do {
        bp_number_print(text, sizeof text, digits, number);
    } while (digits++ < 17 && bp_number_parse(text, NULL) != number);
    writer_add(w, "%s", text);
}

static void writer_step(struct writer *w, const struct bp_fused_step *step)
{
    const struct bp_opdef *row = bp_opdef_find(step->op);

    writer_place(w, w->at ? "; " : "", step->to);
    writer_add(w, " = %s", step->op);
    for (int k = 0; k < BP_FUSED_FROM && step->from[k] != BP_FUSED_NONE; k++)
        writer_place(w, " ", step->from[k]);
    for (uint32_t k = 0; k < row->info.n_attr; k++) {
        double normal = attr_default(row, k);
        if (!memcmp(&normal, &step->number[k], sizeof normal)) continue;
        writer_add(w, " %s=", row->info.attr[k].name);
        writer_number(w, step->number[k]);
    }
}

/* Writes valid code. */
static void writer_code(struct writer *w, const int64_t *code, size_t n)
{
    uint64_t used = 0;
    uint32_t last[2];

    for (uint32_t i = 0; i < bp_fused_n_step((int64_t)n); i++) {
        struct bp_fused_step step;
        bp_fused_get(code, i, &step);
        writer_step(w, &step);
        used |= UINT64_C(1) << step.to;
        for (int k = 0; k < BP_FUSED_FROM; k++)
            if (step.from[k] != BP_FUSED_NONE) used |= UINT64_C(1) << step.from[k];
    }
    last[0] = BP_FUSED_X + bp_fused_n_in(code) - 1;
    last[1] = BP_FUSED_R + bp_fused_n_register(code) - 1;
    for (int k = 0; k < 2; k++)
        if (!(used >> last[k] & 1) && (!k || bp_fused_n_register(code)))
            writer_place(w, "; ", last[k]);
}

enum bp_status bp_fused_print(const int64_t *code, size_t n, char *out_text, size_t room)
{
    struct writer counted = {NULL, 0, 0}, w = {out_text, 0, room};

    if (!code || !out_text)
        return bp_error(BP_ERR_INVALID, "bp_fused_print: code or out_text is NULL");
    bp_opdefs_init();
    TRY(code_check(code, n));
    writer_code(&counted, code, n);
    if (counted.at >= room)
        return bp_error(BP_ERR_INVALID, "bp_fused_print: the text has %zu bytes, room is %zu",
                        counted.at + 1, room);
    writer_code(&w, code, n);
    return BP_OK;
}
