/* SPDX-License-Identifier: Apache-2.0 */
/* test_decompose.c: tests which operators a call decomposes into. */
#include "fixture.h"

#include <stdio.h>

struct listed {
    struct bp_core *core;
    struct bp_graph *graph;
    char text[1024]; /* "op:dtype" of each part, each with a space behind it */
    const char *further; /* an operator that is decomposed too, or NULL */
};

static struct listed decompose_begin(void)
{
    struct listed l = {.text = ""};

    OK(bp_core_create(NULL, &l.core));
    OK(bp_graph_create(l.core, &l.graph));
    return l;
}

static void decompose_finish(struct listed *l)
{
    bp_graph_destroy(l->graph);
    bp_core_destroy(l->core);
}

static bool decompose_note(void *ctx, const struct bp_part *part)
{
    struct listed *l = ctx;
    size_t used = strlen(l->text);

    cr_assert_eq(part->size, sizeof *part);
    cr_assert(!(part->bound & 1) || bp_dtype_bits(part->dtype[BP_VAR_T]));
    snprintf(l->text + used, sizeof l->text - used, "%s:%s", part->op->name,
             part->bound & 1 ? bp_dtype_name(part->dtype[BP_VAR_T]) : "-");
    for (int v = 1; v < BP_VAR_COUNT; v++) {
        used = strlen(l->text);
        if (part->bound >> v & 1 && part->dtype[v] != part->dtype[0])
            snprintf(l->text + used, sizeof l->text - used, "-%s", bp_dtype_name(part->dtype[v]));
    }
    strncat(l->text, " ", sizeof l->text - strlen(l->text) - 1);
    return l->further && !strcmp(part->op->name, l->further);
}

/* Lists the parts of a call whose n_in inputs are all one value of 2 x 6 x 2 x 2 elements. */
static const char *decompose_parts_of(struct listed *l, const char *op, uint32_t dtype, int n_in,
                                      const void *attrs)
{
    struct bp_tensor *x;
    struct bp_arg in[4];
    struct bp_call call = {.size = sizeof call, .op = op, .in = in, .n_in = (size_t)n_in,
                           .attrs = attrs};

    OK(bp_graph_input(l->graph, NULL, dtype, 4, SHAPE(2, 6, 2, 2), &x));
    for (int i = 0; i < n_in; i++) in[i] = (struct bp_arg){&x, 1};
    *l->text = 0;
    OK(bp_graph_decompose(l->graph, &call, NULL, 0, decompose_note, l));
    bp_tensor_destroy(x);
    return l->text;
}

#define PARTS(expected, l, op, dtype, n_in, attrs) \
    do { \
        const char *got_ = decompose_parts_of(l, op, dtype, n_in, attrs); \
        cr_assert_str_eq(got_, expected, "%s: expected '%s', got '%s'", op, expected, got_); \
    } while (0)

Test(decompose, parts_are_listed_in_order_with_their_dtypes)
{
    struct listed l = decompose_begin();
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_l1_loss_attrs none = bp_l1_loss_defaults();

    none.reduction = 0;
    PARTS("sub:f32 abs:f32 ", &l, "l1_loss", BP_F32, 2, &none);
    OK(bp_graph_get_info(l.graph, &info));
    cr_assert_eq(info.nodes, 0, "nothing is recorded, got %u nodes", info.nodes);
    decompose_finish(&l);
}

Test(decompose, conversions_of_half_types_are_listed)
{
    struct listed l = decompose_begin();
    struct bp_l1_loss_attrs none = bp_l1_loss_defaults();

    none.reduction = 0;
    PARTS("cast:f16-f32 cast:f16-f32 sub:f32 abs:f32 cast:f32-f16 ", &l, "l1_loss", BP_F16, 2,
          &none);
    decompose_finish(&l);
}

Test(decompose, parts_are_decomposed_if_the_visitor_wants)
{
    struct listed l = decompose_begin();
    char whole[sizeof l.text], inner[sizeof l.text];

    snprintf(inner, sizeof inner, "pairwise_distance:f32 %s",
             decompose_parts_of(&l, "pairwise_distance", BP_F32, 2, NULL));
    snprintf(whole, sizeof whole, "%s",
             decompose_parts_of(&l, "triplet_margin_loss", BP_F32, 3, NULL));
    cr_assert(strstr(whole, "pairwise_distance:f32 pairwise_distance:f32 "), "'%s'", whole);
    l.further = "pairwise_distance";
    decompose_parts_of(&l, "triplet_margin_loss", BP_F32, 3, NULL);
    cr_assert(strstr(l.text, inner), "'%s' has '%s'", l.text, inner);
    l.further = "sub"; /* sub has no decomposition */
    PARTS(whole, &l, "triplet_margin_loss", BP_F32, 3, NULL);
    decompose_finish(&l);
}

/* If the strides of a tensor do not allow the view that a part creates, the tensor is copied
 * first. */
Test(decompose, the_copy_for_a_view_is_a_part)
{
    struct fixture f = fixture_init();
    struct listed l = {.text = "", .core = f.core};
    struct bp_median_attrs attrs = bp_median_defaults();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 4, SHAPE(2, 6, 2, 2), NULL), *transposed;
    struct bp_arg in = {&transposed, 1};
    struct bp_call call = {.size = sizeof call, .op = "median", .in = &in, .n_in = 1,
                           .attrs = &attrs};
    char expected[sizeof l.text];
    const char *dense;

    attrs.flatten = 1;
    OK(bp_graph_create(f.core, &l.graph));
    dense = decompose_parts_of(&l, "median", BP_F32, 1, &attrs);
    cr_assert(!strncmp(dense, "reshape:f32 ", 12), "'%s' begins with a view", dense);
    snprintf(expected, sizeof expected, "reshape:f32 assign:f32 %s", dense + 12);
    OK(bp_tensor_transpose(x, SHAPE(3, 1, 2, 0), &transposed));
    *l.text = 0;
    OK(bp_graph_decompose(l.graph, &call, NULL, 0, decompose_note, &l));
    cr_assert_str_eq(l.text, expected);
    bp_tensor_destroy(transposed);
    bp_tensor_destroy(x);
    bp_graph_destroy(l.graph);
    fixture_finish(&f);
}

/* A result that would be a view is copied to memory of its own, behind the copies of the
 * decomposition rule itself. */
Test(decompose, copies_are_parts)
{
    struct listed l = decompose_begin();
    struct bp_channel_shuffle_attrs shuffle = bp_channel_shuffle_defaults();
    struct bp_rot90_attrs turn = bp_rot90_defaults();

    shuffle.groups = 3;
    PARTS("reshape:i32 transpose:i32 assign:i32 reshape:i32 assign:i32 ", &l, "channel_shuffle",
          BP_I32, 1, &shuffle);
    turn.k = 1;
    PARTS("swapaxes:i32 flip:i32 ", &l, "rot90", BP_I32, 1, &turn);
    decompose_finish(&l);
}
