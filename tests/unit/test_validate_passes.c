/* SPDX-License-Identifier: Apache-2.0 */
/* test_validate_passes.c: tests that BP_VALIDATE=passes-values finds a pass that changes results:
 * with passes that are wrong on purpose. */
#include "fixture.h"

#include <exec/program.h>
#include <stdlib.h>

struct validated {
    struct fixture f;
    struct bp_graph *graph;
};

static struct validated validated_begin(void)
{
    struct validated v;

    setenv("BP_PLUGIN_PATH", CPU_PLUGINS, 1);
    v.f = fixture_init();
    OK(bp_graph_create(v.f.core, &v.graph));
    return v;
}

static void validated_finish(struct validated *v)
{
    bp_graph_destroy(v->graph);
    fixture_finish(&v->f);
}

/* Leaves out additions: their results become their first inputs. */
static enum bp_status pass_without_sums(struct bp_compilation *c)
{
    for (uint32_t n = c->ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &c->ir->node[n].call;
        next = c->ir->node[n].next;
        if (strcmp(node->row->info.name, "add")) continue;
        bp_ir_forward(c->ir, node->out[0], node->in[0]);
        bp_ir_kill(c->ir, n);
    }
    return BP_OK;
}

static enum bp_status pass_that_does_nothing(struct bp_compilation *c)
{
    (void)c;
    return BP_OK;
}

static const struct bp_pass passes[] = {
    {"idle", "does nothing", pass_that_does_nothing},
    {"sumless", "is wrong on purpose", pass_without_sums},
};

/* y = (x + x) * x of this dtype. */
static void record_sum(struct validated *v, uint32_t dtype)
{
    struct bp_scope *scope = bp_graph_scope(v->graph);
    struct bp_tensor *x, *sum = NULL, *y = NULL;

    OK(bp_graph_input(v->graph, "x", dtype, 1, SHAPE(16), &x));
    OK(bp_op_add(scope, x, x, &sum));
    OK(bp_op_mul(scope, sum, x, &y));
    OK(bp_graph_output(v->graph, y, "y"));
    bp_tensor_destroy(x), bp_tensor_destroy(sum), bp_tensor_destroy(y);
}

Test(validate_passes, the_wrong_pass_is_named)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_F16, BP_BF16, BP_C64, BP_I32};

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        struct validated v = validated_begin();
        record_sum(&v, dtypes[i]);
        OK(bp_passes_compare(v.graph, v.f.device, passes, 1));
        FAILS(BP_ERR_INTERNAL, "pass sumless changes y",
              bp_passes_compare(v.graph, v.f.device, passes, 2));
        validated_finish(&v);
    }
}

Test(validate_passes, the_passes_of_the_list_keep_results)
{
    struct validated v = validated_begin();

    record_sum(&v, BP_F32);
    OK(bp_passes_compare(v.graph, v.f.device, bp_pass_list, bp_pass_count));
    validated_finish(&v);
}

Test(validate_passes, each_run_draws_the_same_random_numbers)
{
    struct validated v = validated_begin();
    const struct bp_normal_attrs attrs = {
        .size = sizeof attrs, .shape = {SHAPE(64), 1}, .dtype = BP_F32, .std = 1};
    struct bp_tensor *x, *noise = NULL, *y = NULL;

    OK(bp_graph_input(v.graph, "x", BP_F32, 1, SHAPE(64), &x));
    OK(bp_op_normal(bp_graph_scope(v.graph), NULL, &attrs, &noise));
    OK(bp_op_mul(bp_graph_scope(v.graph), noise, x, &y));
    OK(bp_graph_output(v.graph, y, "y"));
    OK(bp_passes_compare(v.graph, v.f.device, passes, 1));
    bp_tensor_destroy(x), bp_tensor_destroy(noise), bp_tensor_destroy(y);
    validated_finish(&v);
}

/* An input that a node updates has its first elements in each run. */
Test(validate_passes, inputs_are_made_for_each_run)
{
    struct validated v = validated_begin();
    struct bp_scope *scope = bp_graph_scope(v.graph);
    struct bp_tensor *x, *old = NULL, *zero = NULL, *y = NULL;

    OK(bp_graph_input(v.graph, "x", BP_F32, 1, SHAPE(4), &x));
    OK(bp_op_exp(scope, x, &old));
    OK(bp_op_fill(scope, x, NULL, &zero));
    OK(bp_op_mul(scope, old, old, &y));
    OK(bp_graph_output(v.graph, y, "y"));
    OK(bp_passes_compare(v.graph, v.f.device, passes, 1));
    bp_tensor_destroy(x), bp_tensor_destroy(old), bp_tensor_destroy(zero), bp_tensor_destroy(y);
    validated_finish(&v);
}

/* The constant that a node updates is copied for each run. */
Test(validate_passes, constants_keep_their_elements)
{
    struct validated v = validated_begin();
    struct bp_scope *scope = bp_graph_scope(v.graph);
    struct bp_tensor *c = tensor_of(&v.f, BP_F32, 1, SHAPE(2), F32(5, 6));
    struct bp_fill_attrs three = bp_fill_defaults();
    struct bp_tensor *filled = NULL, *x, *y = NULL;

    three.value = 3;
    OK(bp_graph_input(v.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_fill(scope, c, &three, &filled));
    OK(bp_op_add(scope, filled, x, &y));
    OK(bp_graph_output(v.graph, y, "y"));
    OK(bp_passes_compare(v.graph, v.f.device, bp_pass_list, bp_pass_count));
    expect_bytes(&v.f, c, F32(5, 6), 8);
    FAILS(BP_ERR_INTERNAL, "pass sumless", bp_passes_compare(v.graph, v.f.device, passes, 2));
    bp_tensor_destroy(c), bp_tensor_destroy(filled), bp_tensor_destroy(x), bp_tensor_destroy(y);
    validated_finish(&v);
}
