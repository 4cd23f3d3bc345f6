/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_rows.c: tests the temporaries, the constants and the roles of sdk/kit/rows. */
#include "fixture.h"
#include <kit/rows.h>

/* A build of a call with one input and one output of 2 x 3 numbers. */
struct rows_call {
    int64_t shape[2], stride[2];
    struct bp_view view;
    const struct bp_view *in[1], *out[1];
    uint16_t at[2];
    struct bp_prep prep;
    struct kit_build b;
};

static struct kit_build *rows_begin(struct rows_call *c)
{
    *c = (struct rows_call){.shape = {2, 3}, .stride = {3, 1}, .at = {0, 1}};
    c->view = (struct bp_view){
        .shape = c->shape, .stride = c->stride, .count = 6, .dtype = BP_F32, .rank = 2};
    c->in[0] = c->out[0] = &c->view;
    c->prep = (struct bp_prep){.size = sizeof c->prep,
                               .in = c->in,
                               .out = c->out,
                               .in_at = c->at,
                               .out_at = c->at,
                               .n_in = 1,
                               .n_out = 1};
    kit_build_prep(&c->b, NULL, &c->prep);
    return &c->b;
}

static uint64_t rows_place(const struct kit_build *b, struct kit_arg arg)
{
    return (uintptr_t)kit_arg_view(b, &arg)->data;
}

static void temporaries_do_not_overlap(void)
{
    static const int64_t shape[1] = {100};
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg first = kit_temporary(b, BP_F32, 1, shape);
    struct kit_arg second = kit_temporary(b, BP_F16, 1, shape);

    CHECK(rows_place(b, second) >= rows_place(b, first) + 400, "they overlap");
    CHECK(b->bytes >= rows_place(b, second) + 200, "%llu bytes", (unsigned long long)b->bytes);
    kit_build_end(b);
}

/* Contents stay although later constants need more memory. */
static void constants_are_copied(void)
{
    static const int64_t shape[1] = {3}, more[1] = {5000};
    int64_t number[3] = {7, 8, 9}, *large = calloc(5000, sizeof *large);
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg first = kit_constant(b, BP_I64, 1, shape, number), second;

    number[0] = 1;
    large[4999] = 11;
    second = kit_constant(b, BP_I64, 1, more, large);
    memset(large, 0, 5000 * sizeof *large);
    CHECK(!b->status, "the status is %d", b->status);
    CHECK(!memcmp(b->held + rows_place(b, first), (int64_t[]){7, 8, 9}, 24), "the first constant");
    CHECK(((int64_t *)(void *)(b->held + rows_place(b, second)))[4999] == 11, "the second one");
    CHECK(b->held_bytes >= rows_place(b, second) + 5000 * 8, "the size of all");
    CHECK(!b->bytes, "a constant takes no workspace");
    kit_build_end(b);
    CHECK(!b->held, "the end frees constants");
    free(large);
}

static void constants_are_read_and_temporaries_written_first(void)
{
    static const int64_t shape[1] = {2};
    static const float number[2] = {1, 2};
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);
    struct kit_arg t = kit_temporary(b, BP_F32, 1, shape);
    struct kit_arg constant = kit_constant(b, BP_F32, 1, shape, number);

    KIT_STEP(b, "Exp", constant, t);
    KIT_STEP(b, "Log", t, KIT_OUT(0));
    CHECK(b->n_step == 2 && b->step[0].n == 2, "two steps of two arguments");
    CHECK(b->step[0].arg[0].role == KIT_READS, "a constant is read");
    CHECK(b->step[0].arg[1].role == KIT_WRITES, "a temporary is written by its first step");
    CHECK(b->step[1].arg[0].role == KIT_READS, "and read by the next one");
    CHECK(b->step[1].arg[1].role == KIT_WRITES, "an output is written");
    kit_build_end(b);
}

static void too_many_steps_are_refused(void)
{
    struct rows_call c;
    struct kit_build *b = rows_begin(&c);

    for (int i = 0; i < KIT_STEPS; i++) KIT_STEP(b, "Exp", KIT_IN(0), KIT_OUT(0));
    CHECK(!b->status, "the status is %d", b->status);
    CHECK(KIT_STEP(b, "Exp", KIT_IN(0), KIT_OUT(0)) == BP_ERR_UNSUPPORTED, "one step more");
    CHECK(kit_constant(b, BP_F32, 0, NULL, &c).from == KIT_FROM_NONE, "after a failure");
    kit_build_end(b);
}

int main(void)
{
    static const struct kit_test tests[] = {
        {"temporaries do not overlap", temporaries_do_not_overlap},
        {"constants are copied", constants_are_copied},
        {"constants are read, temporaries written first",
         constants_are_read_and_temporaries_written_first},
        {"too many steps are refused", too_many_steps_are_refused},
    };

    return kit_run(tests, sizeof tests / sizeof *tests);
}
