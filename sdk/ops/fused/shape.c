/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: checks the code of `fused` and infers the shape of its results. */
#include <call/shape.h>

#include <backplane/attrs.h>
#include <backplane/fused.h>
#include <inttypes.h>
#include <math.h>

/* Each operator that code may name: its number of operands, a bit for each of them that is a truth
 * value, and whether its result is one. */
static const struct member {
    const char *name;
    uint32_t n_from, truths, to_truth;
} members[] = {
#define MEMBER(name, n) {#name, n, 0, 0},
#define TRUTH_MEMBER(name, n, from, to) {#name, n, from, to},
    BP_FUSED_OPS(MEMBER) BP_FUSED_TRUTH_OPS(TRUTH_MEMBER)
#undef MEMBER
#undef TRUTH_MEMBER
};

/* Returns NULL for a name that code may not use. */
static const struct member *member_find(const char *name)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i].name, name)) return &members[i];
    return NULL;
}

/* Code that is being checked. written: a bit for each place that has a value. */
struct check {
    const int64_t *code;
    uint32_t step;
    uint64_t written;
};

static enum bp_status fused_bad(const struct check *c, const char *op, const char *what,
                                uint32_t number)
{
    return bp_error(BP_ERR_INVALID, "fused: instruction %u of code (%s) %s %u", c->step, op, what,
                    number);
}

static enum bp_status check_head(struct bp_dims code)
{
    uint32_t n_in, n_out, n_register, truths;

    if (code.n < 1 + BP_FUSED_STEP_WORDS || code.n > BP_FUSED_WORDS ||
        (code.n - 1) % BP_FUSED_STEP_WORDS)
        return bp_error(BP_ERR_INVALID,
                        "fused: code has %" PRId64 " words, expected 1 and %d for each of 1 to %d "
                        "instructions (fused.h)",
                        code.n, BP_FUSED_STEP_WORDS, BP_FUSED_STEPS);
    n_in = bp_fused_n_in(code.at);
    n_out = bp_fused_n_out(code.at);
    n_register = bp_fused_n_register(code.at);
    truths = bp_fused_truths(code.at);
    if (code.at[0] != bp_fused_head_truths(n_in, n_out, n_register, truths))
        return bp_error(BP_ERR_INVALID,
                        "fused: word 0 of code is %" PRId64 ", expected version %d, or %d if "
                        "registers hold truth values (fused.h)",
                        code.at[0], BP_FUSED_VERSION, BP_FUSED_VERSION_TRUTHS);
    if (n_in < 1 || n_in > BP_FUSED_IN || n_out < 1 || n_out > BP_FUSED_OUT ||
        n_register > BP_FUSED_REGISTERS)
        return bp_error(BP_ERR_INVALID,
                        "fused: code has %u inputs, %u outputs and %u registers, expected 1 to %d, "
                        "1 to %d and 0 to %d",
                        n_in, n_out, n_register, BP_FUSED_IN, BP_FUSED_OUT, BP_FUSED_REGISTERS);
    if (truths >> n_register)
        return bp_error(BP_ERR_INVALID, "fused: code has %u registers, of which 0x%x hold truth "
                        "values", n_register, truths);
    return BP_OK;
}

/* Checks the name: text that ends within the words, and zero bytes after it. */
static enum bp_status check_name(const struct check *c, const struct bp_fused_step *step,
                                 const struct bp_opdef **out_row, const struct member **out_member)
{
    size_t length = strnlen(step->op, BP_FUSED_NAME);

    for (size_t i = length; i < BP_FUSED_NAME; i++)
        if (step->op[i]) length = BP_FUSED_NAME;
    *out_member = length < BP_FUSED_NAME ? member_find(step->op) : NULL;
    if (!*out_member)
        return bp_error(BP_ERR_INVALID,
                        "fused: instruction %u of code names '%.*s', expected an operator that "
                        "fused.h lists",
                        c->step, BP_FUSED_NAME, step->op);
    *out_row = bp_opdef_find(step->op);
    return *out_row ? BP_OK : bp_error(BP_ERR_INTERNAL, "fused: there is no %s", step->op);
}

static enum bp_status check_operands(const struct check *c, const struct bp_fused_step *step,
                                     const struct member *m)
{
    for (uint32_t k = 0; k < BP_FUSED_FROM; k++) {
        uint8_t from = step->from[k];
        bool truth = m->truths >> k & 1;
        if (k >= m->n_from && from != BP_FUSED_NONE)
            return fused_bad(c, step->op, "has more operands than", m->n_from);
        if (k >= m->n_from) continue;
        if (from >= BP_FUSED_PLACES || !(c->written >> from & 1))
            return fused_bad(c, step->op, "reads a place that has no value: number", from);
        if (truth != (bp_fused_is_truth(c->code, from) != 0))
            return fused_bad(c, step->op,
                             truth ? "expects truth values of a register as operand"
                                   : "expects numbers as operand",
                             k);
    }
    return step->rest ? fused_bad(c, step->op, "has unknown bits:", step->rest) : BP_OK;
}

static enum bp_status check_result(struct check *c, const struct bp_fused_step *step,
                                   const struct member *m)
{
    uint32_t to = step->to;
    bool is_register = to >= BP_FUSED_R && to - BP_FUSED_R < bp_fused_n_register(c->code);
    bool is_output = to >= BP_FUSED_Y && to - BP_FUSED_Y < bp_fused_n_out(c->code);

    if (!is_register && !is_output)
        return fused_bad(c, step->op, "writes a place that is no register or output: number", to);
    if (is_output && c->written >> to & 1)
        return fused_bad(c, step->op, "writes again output", to - BP_FUSED_Y);
    if (m->to_truth != (uint32_t)bp_fused_is_truth(c->code, to))
        return fused_bad(c, step->op,
                         m->to_truth ? "writes truth values, for which this place is not: number"
                                     : "writes numbers to a register of truth values: number",
                         to);
    c->written |= UINT64_C(1) << to;
    return BP_OK;
}

/* Checks the attributes, which must be values that the operator accepts, and 0 behind them. */
static enum bp_status check_numbers(const struct check *c, const struct bp_fused_step *step,
                                    const struct bp_opdef *row)
{
    const double limit = 9007199254740992; /* 2^53 */
    uint64_t attrs[512 / 8], bits;

    for (uint32_t k = row->info.n_attr; k < BP_FUSED_FROM; k++) {
        memcpy(&bits, &step->number[k], sizeof bits);
        if (bits) return fused_bad(c, step->op, "has more attributes than", row->info.n_attr);
    }
    if (!row->info.n_attr) return BP_OK;
    memcpy(attrs, row->info.defaults, row->info.attrs_size);
    for (uint32_t k = 0; k < row->info.n_attr; k++) {
        const struct bp_attr *a = &row->info.attr[k];
        double v = step->number[k];
        int64_t integer;
        if (a->kind == BP_ATTR_F64) {
            memcpy((char *)attrs + a->offset, &v, sizeof v);
            continue;
        }
        if (!(v >= -limit && v <= limit) || v != floor(v))
            return fused_bad(c, step->op, "has no integer as attribute", k);
        integer = (int64_t)v;
        memcpy((char *)attrs + a->offset, &integer, sizeof integer);
    }
    return bp_attrs_check(&row->info, attrs);
}

enum bp_status bp_values_fused(const void *attrs)
{
    struct bp_dims code = ((const struct bp_fused_attrs *)attrs)->code;
    struct check c = {.code = code.at};
    uint32_t n_out;

    TRY(check_head(code));
    n_out = bp_fused_n_out(code.at);
    c.written = (UINT64_C(1) << bp_fused_n_in(code.at)) - 1;
    for (; c.step < bp_fused_n_step(code.n); c.step++) {
        struct bp_fused_step step;
        const struct bp_opdef *row;
        const struct member *m;
        bp_fused_get(code.at, c.step, &step);
        TRY(check_name(&c, &step, &row, &m));
        TRY(check_operands(&c, &step, m));
        TRY(check_numbers(&c, &step, row));
        TRY(check_result(&c, &step, m));
    }
    for (uint32_t i = 0; i < n_out; i++)
        if (!(c.written >> (BP_FUSED_Y + i) & 1))
            return bp_error(BP_ERR_INVALID, "fused: code writes no output %u of %u", i, n_out);
    if ((uint64_t)bp_fused_truths(code.at) & ~(c.written >> BP_FUSED_R))
        return bp_error(BP_ERR_INVALID, "fused: no instruction writes a register of truth values");
    return BP_OK;
}

enum bp_status bp_infer_fused(struct bp_invocation *inv)
{
    const int64_t *code = ((const struct bp_fused_attrs *)inv->attrs)->code.at;
    struct bp_type all = {.rank = 0};

    if (inv->n_in != bp_fused_n_in(code))
        return bp_error(BP_ERR_INVALID, "fused: xs has %u tensors, code reads %u", inv->n_in,
                        bp_fused_n_in(code));
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (!bp_shape_join(&all, inv->in[i]))
            return bp_error(BP_ERR_INVALID,
                            "fused: xs[%u] does not broadcast with those before it", i);
    TRY(bp_invocation_count(inv, bp_fused_n_out(code)));
    for (uint32_t i = 0; i < inv->n_out; i++) {
        inv->out[i].rank = all.rank;
        memcpy(inv->out[i].shape, all.shape, sizeof all.shape);
    }
    return BP_OK;
}
