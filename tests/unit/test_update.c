/* SPDX-License-Identifier: Apache-2.0 */
/* test_update.c: tests prepared calls of all operators with outputs that update an input: they
 * change their inputs like an eager call, for each selection of wanted outputs. */
#include "fixture.h"

enum { PORTS = 12 };

static bool update_updates(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_UPDATE) return true;
    return false;
}

static uint32_t dtype_of(const struct bp_opinfo *op, uint32_t var)
{
    if (op->types[var] & BP_M(F32)) return BP_F32;
    return (uint32_t)__builtin_ctzll(op->types[var]);
}

/* Creates inputs of one element each; all these operators accept this as "one value" and as a
 * parameter. */
static void make_inputs(struct fixture *f, const struct bp_opinfo *op, bool optional,
                        struct bp_tensor **in)
{
    struct bp_cast_attrs to = bp_cast_defaults();

    for (uint32_t i = 0; i < op->n_in; i++) {
        uint32_t rank = !strcmp(op->name, "cache_write") && i < 2 ? 2 : 1; /* and batches */
        struct bp_tensor *half = tensor_of(f, BP_F32, rank, SHAPE(1, 1),
                                           F32(0.5f + (float)i / 64));
        in[i] = NULL;
        to.to = dtype_of(op, op->in[i].var);
        if (op->in[i].kind != BP_PORT_OPT || optional) OK(bp_op_cast(f->scope, half, &to, &in[i]));
        bp_tensor_destroy(half);
    }
}

static void update_destroy(struct bp_tensor **t, size_t n)
{
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(t[i]), t[i] = NULL;
}

static struct bp_call update_call_of(const struct bp_opinfo *op, struct bp_tensor **in,
                                     struct bp_arg *arg)
{
    static struct bp_cache_write_attrs last_axis; /* the first is that of batches */

    last_axis = bp_cache_write_defaults();
    last_axis.axis = 1;
    for (uint32_t i = 0; i < op->n_in; i++) arg[i] = (struct bp_arg){&in[i], in[i] != NULL};
    return (struct bp_call){.size = sizeof(struct bp_call), .op = op->name, .in = arg,
                            .n_in = op->n_in,
                            .attrs = strcmp(op->name, "cache_write") ? NULL : &last_axis};
}

static void expect_same(struct fixture *f, const char *op, uint32_t wanted,
                        struct bp_tensor *const *got, struct bp_tensor *const *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        unsigned char a[16], b[16];
        if (!got[i]) continue;
        OK(bp_tensor_get_info(got[i], &info));
        OK(bp_tensor_read(f->stream, got[i], a, info.bytes));
        OK(bp_tensor_read(f->stream, expected[i], b, info.bytes));
        cr_expect_arr_eq(a, b, info.bytes, "%s, outputs %x: input %zu is not as by an eager call",
                         op, wanted, i);
    }
}

/* wanted: a bit for each output. */
static void try_wants(struct fixture *f, const struct bp_opinfo *op, bool optional, uint32_t wanted)
{
    struct bp_tensor *in[PORTS] = {NULL}, *same[PORTS], *out[PORTS] = {NULL},
                     *eager[PORTS] = {NULL};
    uint8_t want[PORTS] = {0};
    struct bp_arg arg[PORTS];
    struct bp_prepared *p;
    struct bp_call call;

    make_inputs(f, op, optional, in);
    make_inputs(f, op, optional, same);
    for (uint32_t i = 0; i < op->n_out; i++) {
        want[i] = wanted >> i & 1 && in[op->out[i].share];
        if (want[i]) out[i] = in[op->out[i].share];
    }
    call = update_call_of(op, same, arg);
    for (int run = 0; run < 2; run++) {
        OK(bp_call_run(f->scope, &call, eager, op->n_out, want));
        update_destroy(eager, op->n_out);
    }
    call = update_call_of(op, in, arg);
    OK(bp_prepared_create(f->device, &call, want, op->n_out, &p));
    for (int run = 0; run < 2; run++)
        OK(bp_prepared_run(p, f->stream, in, op->n_in, out, op->n_out, NULL));
    expect_same(f, op->name, wanted, in, same, op->n_in);
    if (!want[0]) {
        struct bp_tensor_info info = {.size = sizeof info};
        FAILS(BP_ERR_INVALID, "was not asked for", bp_prepared_output(p, 0, &info));
        out[0] = in[op->out[0].share];
        FAILS(BP_ERR_INVALID, "expected NULL",
              bp_prepared_run(p, f->stream, in, op->n_in, out, op->n_out, NULL));
    }
    bp_prepared_destroy(p);
    update_destroy(in, op->n_in);
    update_destroy(same, op->n_in);
}

Test(update, prepared_calls_update_unrequested_outputs)
{
    struct fixture f = fixture_init();
    int found = 0;

    for (uint32_t n = 0; n < bp_opinfo_count(); n++) {
        const struct bp_opinfo *op = bp_opinfo_at(n);
        if (!update_updates(op)) continue;
        cr_assert(op->n_in <= PORTS && op->n_out <= PORTS);
        found++;
        for (uint32_t wanted = 0; wanted < 1u << op->n_out; wanted++)
            for (int optional = 0; optional < 2; optional++)
                try_wants(&f, op, optional, wanted);
    }
    cr_expect_geq(found, 12);
    fixture_finish(&f);
}

/* Creates inputs of fill and sgd: matrices whose columns are innermost, and one number. */
static void make_transposed(struct fixture *f, const struct bp_opinfo *op, struct bp_tensor **in)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        struct bp_tensor *dense = tensor_of(f, BP_F32, i < 2 ? 2 : 1,
                                            i < 2 ? SHAPE(2, 3) : SHAPE(1), F32(1, 2, 3, 4, 5, 6));
        in[i] = i < 2 ? NULL : dense;
        if (i >= 2) continue;
        OK(bp_op_transpose(f->scope, dense, NULL, &in[i]));
        bp_tensor_destroy(dense);
    }
}

static void read_matrix(struct fixture *f, struct bp_tensor *t, float *to)
{
    struct bp_tensor *dense;

    OK(bp_tensor_create(f->device, BP_F32, 2, SHAPE(3, 2), &dense));
    OK(bp_tensor_copy(f->stream, dense, t));
    OK(bp_tensor_read(f->stream, dense, to, 6 * sizeof *to));
    bp_tensor_destroy(dense);
}

/* The output is the input itself, for any layout of the input. */
static void try_transposed(struct fixture *f, const char *name, uint8_t wanted)
{
    const struct bp_opinfo *op = bp_opinfo_find(name);
    struct bp_tensor *in[PORTS], *same[PORTS], *eager = NULL, *out;
    struct bp_prepared *p;
    struct bp_arg arg[PORTS];
    struct bp_call call;
    float got[6], expected[6];

    make_transposed(f, op, in);
    make_transposed(f, op, same);
    call = update_call_of(op, same, arg);
    OK(bp_call_run(f->scope, &call, &eager, 1, NULL));
    bp_tensor_destroy(eager);
    call = update_call_of(op, in, arg);
    OK(bp_prepared_create(f->device, &call, &wanted, 1, &p));
    out = wanted ? in[0] : NULL;
    OK(bp_prepared_run(p, f->stream, in, op->n_in, &out, 1, NULL));
    read_matrix(f, in[0], got);
    read_matrix(f, same[0], expected);
    cr_expect_arr_eq(got, expected, sizeof got, "%s, want %d", name, wanted);
    bp_prepared_destroy(p);
    update_destroy(in, op->n_in);
    update_destroy(same, op->n_in);
}

Test(update, prepared_calls_take_inputs_that_are_strided)
{
    struct fixture f = fixture_init();

    for (uint8_t wanted = 0; wanted < 2; wanted++) {
        try_transposed(&f, "fill", wanted);
        try_transposed(&f, "sgd", wanted);
    }
    fixture_finish(&f);
}
