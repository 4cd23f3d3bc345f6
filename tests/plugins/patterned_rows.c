/* SPDX-License-Identifier: Apache-2.0 */
/* patterned_rows.c: patterns of each kind: what is found equals the result. Values of a pattern are
 * numbered from 0. */
#include "patterned.h"

#define ANY {0}
#define FLOAT {.dtypes = BP_M(F32)}

/* leaky_relu(x) > 0 of slopes up to 1: the factor of scale becomes what the plugin says. */
static enum bp_status patterned_accepts(void *self, const struct bp_match *match)
{
    const struct bp_data_value *x =
        BP_ROW(struct bp_data_value, match->graph->value, match->graph->value_stride,
               match->value[0]);
    const struct bp_data_node *node = BP_ROW(struct bp_data_node, match->graph->node,
                                             match->graph->node_stride, match->node[0]);
    double *factor = (double *)((char *)match->attrs[0] + 8);

    if (!self || x->rank != 3 || x->shape[0] != 4 || !(x->flags & BP_DATA_INPUT) ||
        match->n_attrs != 1 || node->n_in != 1 || match->graph->n_out != 1)
        return BP_ERR_UNSUPPORTED;
    *factor = -*factor;
    return BP_OK;
}

static enum bp_status patterned_never(void *self, const struct bp_match *match)
{
    (void)self, (void)match;
    return BP_ERR_UNSUPPORTED;
}

static const int64_t last_axis[] = {-1};

static const struct bp_pattern right[] = {
    /* Own operator, a number taken from a constant, inputs in either order. */
    {.name = "axpy", .priority = 200,
     VALUES(FLOAT, {.flags = BP_WANT_ALIKE | BP_WANT_ONE}, FLOAT,
            {.flags = BP_WANT_NOT_OUTPUT}, {.flags = BP_WANT_LIKE, .like = 0}),
     FIND({.op = "mul", IN(0, 1), OUT(3)}, {.op = "add", IN(3, 2), OUT(4)}),
     GIVE({.op = "patterned.axpy", IN(0, 2), OUT(4),
           ATTRS({.name = "alpha", .from = BP_GIVE_ELEMENT, .of = 1})}),
     OUT(4)},
    /* Two nodes that only their input connects; two results. */
    {.name = "pair", .priority = 200, VALUES(FLOAT, ANY, ANY),
     FIND({.op = "neg", IN(0), OUT(1)}, {.op = "exp", IN(0), OUT(2)}),
     GIVE({.op = "patterned.pair", IN(0), OUT(1, 2)}), OUT(1, 2)},
    /* Two results, the second one computed from the first. */
    {.name = "wide", .priority = 200, VALUES(ANY, ANY, ANY, ANY),
     FIND({.op = "neg", IN(0), OUT(1)}, {.op = "add", IN(0, 2), OUT(3)}),
     GIVE({.op = "neg", IN(0), OUT(1)}, {.op = "sub", IN(2, 1), OUT(3)}), OUT(1, 3)},
    /* One value in two places; two values of one shape. */
    {.name = "twice", .priority = 65, VALUES(ANY, ANY), FIND({.op = "mul", IN(0, 0), OUT(1)}),
     GIVE({.op = "square", IN(0), OUT(1)}), OUT(1)},
    {.name = "like", .priority = 65,
     VALUES(ANY, {.flags = BP_WANT_LIKE, .like = 0}, ANY), FIND({.op = "sub", IN(0, 1), OUT(2)}),
     GIVE({.op = "neg", IN(1), OUT(3)}, {.op = "add", IN(0, 3), OUT(2)}), OUT(2), .n_between = 1},
    /* The one of docs/plugin-guide.md. */
    {.name = "shift", .priority = 65,
     VALUES(FLOAT,
            {.flags = BP_WANT_FROZEN | BP_WANT_ONE | BP_WANT_RANGE, .least = -10, .most = 10},
            {.flags = BP_WANT_LIKE, .like = 0}, ANY),
     FIND({.op = "add", IN(0, 1), OUT(2)},
          {.op = "softmax", IN(2), OUT(3), TESTS({.name = "axis", .test = BP_TEST_ANY})}),
     GIVE({.op = "softmax", IN(0), OUT(3),
           ATTRS({.name = "axis", .from = BP_GIVE_ATTR, .other = "axis", .of = 1})}),
     OUT(3)},
    /* A node that may be absent, in the middle and at the end. */
    {.name = "middle", .priority = 65, VALUES(ANY, ANY, ANY),
     FIND({.op = "abs", IN(0), OUT(1), .flags = BP_NODE_OPTIONAL}, {.op = "square", IN(1), OUT(2)}),
     GIVE({.op = "mul", IN(0, 0), OUT(2)}), OUT(2)},
    {.name = "end", .priority = 65, VALUES(ANY, ANY, ANY),
     FIND({.op = "sigmoid", IN(0), OUT(1)},
          {.op = "relu", IN(1), OUT(2), .flags = BP_NODE_OPTIONAL}),
     GIVE({.op = "neg", IN(0), OUT(3)}, {.op = "exp", IN(3), OUT(4)},
          {.op = "scale", IN(4), OUT(5), ATTRS({.name = "bias", .value = 1})},
          {.op = "reciprocal", IN(5), OUT(2)}),
     OUT(2), .n_between = 3},
    /* Alternatives. */
    {.name = "either", .priority = 65, VALUES(ANY, ANY, ANY),
     FIND({.op = "exp", IN(0), OUT(1)}, {.op = "relu|abs|none", IN(1), OUT(2)}),
     GIVE({.op = "exp", IN(0), OUT(2)}), OUT(2)},
    /* All tensors of a group. */
    {.name = "rest", .priority = 65, VALUES(ANY, ANY, ANY, ANY),
     FIND({.op = "concat", IN(0, BP_REST), OUT(1),
           TESTS({.name = "axis", .test = BP_TEST_ANY})},
          {.op = "neg", IN(1), OUT(2)}, {.op = "neg", IN(2), OUT(3)}),
     GIVE({.op = "concat", IN(0, BP_REST), OUT(3),
           ATTRS({.name = "axis", .from = BP_GIVE_ATTR, .other = "axis", .of = 0})}),
     OUT(3)},
    /* A list, copied. */
    {.name = "list", .priority = 65, VALUES(ANY, ANY, ANY),
     FIND({.op = "sum", IN(0), OUT(1),
           TESTS({.name = "axes", .test = BP_TEST_LIST, .list = last_axis, .n_list = 1},
                 {.name = "keep", .test = BP_TEST_ANY})},
          {.op = "neg", IN(1), OUT(2)}),
     GIVE({.op = "neg", IN(0), OUT(3)},
          {.op = "sum", IN(3), OUT(2),
           ATTRS({.name = "axes", .from = BP_GIVE_ATTR, .other = "axes", .of = 0},
                 {.name = "keep", .from = BP_GIVE_ATTR, .other = "keep", .of = 0})}),
     OUT(2), .n_between = 1},
    /* Numbers within bounds; one that is computed from another. */
    {.name = "number", .priority = 65, VALUES(ANY, ANY),
     FIND({.op = "leaky_relu", IN(0), OUT(1),
           TESTS({.name = "slope", .test = BP_TEST_LEAST, .value = 0},
                 {.name = "slope", .test = BP_TEST_MOST, .value = 1},
                 {.name = "slope", .test = BP_TEST_NOT, .value = 0.5, .within = 1e-6})}),
     GIVE({.op = "scale", IN(0), OUT(2),
           ATTRS({.name = "factor", .from = BP_GIVE_ATTR, .other = "slope", .of = 0})},
          {.op = "maximum", IN(0, 2), OUT(1)}),
     OUT(1), .n_between = 1},
    /* Equal attributes of two nodes. */
    {.name = "same", .priority = 65, VALUES(ANY, ANY, ANY),
     FIND({.op = "clip", IN(0), OUT(1),
           TESTS({.name = "min", .test = BP_TEST_ANY}, {.name = "max", .test = BP_TEST_ANY})},
          {.op = "clip", IN(1), OUT(2),
           TESTS({.name = "min", .test = BP_TEST_SAME, .other = "min", .of = 0},
                 {.name = "max", .test = BP_TEST_SAME, .other = "max", .of = 0})}),
     GIVE({.op = "clip", IN(0), OUT(2),
           ATTRS({.name = "min", .from = BP_GIVE_ATTR, .other = "min", .of = 0},
                 {.name = "max", .from = BP_GIVE_ATTR, .other = "max", .of = 0})}),
     OUT(2)},
    /* Elements within bounds, and a rank. */
    {.name = "range", .priority = 200,
     VALUES({.rank_min = 2, .rank_max = 3},
            {.flags = BP_WANT_FROZEN | BP_WANT_RANGE, .least = 2, .most = 3, .within = 0.01}, ANY),
     FIND({.op = "maximum", IN(0, 1), OUT(2)}),
     GIVE({.op = "sub", IN(0, 1), OUT(3)}, {.op = "relu", IN(3), OUT(4)},
          {.op = "add", IN(4, 1), OUT(2)}),
     OUT(2), .n_between = 2},
    /* Inputs in any order that do not commute by themselves. */
    {.name = "order", .priority = 200, VALUES(ANY, {.flags = BP_WANT_CONSTANT}, ANY, ANY),
     FIND({.op = "equal", IN(0, 1), OUT(2), .flags = BP_NODE_ANY_ORDER},
          {.op = "logical_not", IN(2), OUT(3)}),
     GIVE({.op = "not_equal", IN(0, 1), OUT(3)}), OUT(3)},
    /* The plugin decides, and sets an attribute. */
    {.name = "asked", .priority = 65, .accepts = patterned_accepts, VALUES(ANY, ANY, ANY),
     FIND({.op = "scale", IN(0), OUT(1), TESTS({.name = "factor", .test = BP_TEST_ANY})},
          {.op = "neg", IN(1), OUT(2)}),
     GIVE({.op = "scale", IN(0), OUT(2),
           ATTRS({.name = "factor", .from = BP_GIVE_ATTR, .other = "factor", .of = 0})}),
     OUT(2)},
    /* An operator for which the device has kernels of f32 only. */
    {.name = "declined", .priority = 200, VALUES(ANY, ANY, ANY),
     FIND({.op = "exp", IN(0), OUT(1)}, {.op = "reciprocal", IN(1), OUT(2)}),
     GIVE({.op = "patterned.pair", IN(0), OUT(3, BP_NO_INDEX)}, {.op = "exp", IN(3), OUT(2)}),
     OUT(2), .n_between = 1},
};

const struct bp_passes patterned_passes = {sizeof patterned_passes, right,
                                           sizeof right / sizeof *right, sizeof *right};

/* ---- lies ---- */

#define ROOT .priority = 200, VALUES(ANY, ANY, ANY, ANY)
#define SINH FIND({.op = "sinh", IN(0), OUT(1)})
#define COSH GIVE({.op = "cosh", IN(0), OUT(1)})

static const struct bp_pattern lies[] = {
    {.name = "sound", ROOT, FIND({.op = "neg", IN(0), OUT(1)}, {.op = "neg", IN(1), OUT(2)}),
     GIVE({.op = "relu", IN(0), OUT(4)}, {.op = "sub", IN(0, 4), OUT(5)},
          {.op = "add", IN(4, 5), OUT(2)}),
     OUT(2), .n_between = 2},
    /* At run time: another shape; another dtype; its own result. */
    {.name = "shape", ROOT, SINH, GIVE({.op = "sum", IN(0), OUT(1)}), OUT(1)},
    {.name = "dtype", ROOT, FIND({.op = "cosh", IN(0), OUT(1)}),
     GIVE({.op = "isnan", IN(0), OUT(1)}), OUT(1)},
    {.name = "endless", ROOT, FIND({.op = "tan", IN(0), OUT(1)}),
     GIVE({.op = "tan", IN(0), OUT(1)}), OUT(1)},
    {.name = "view", ROOT,
     FIND({.op = "log", IN(0), OUT(1)}, {.op = "exp", IN(1), OUT(2)}),
     GIVE({.op = "reshape", IN(0), OUT(2),
           ATTRS({.name = "shape", .from = BP_GIVE_LIST, .list = (const int64_t[]){4, 4, 4},
                  .n_list = 3})}),
     OUT(2)},
    /* Found by the conformance suite: other values. */
    {.name = "value", ROOT, FIND({.op = "atan", IN(0), OUT(1)}),
     GIVE({.op = "tanh", IN(0), OUT(1)}), OUT(1)},
    {.name = "sides", ROOT, FIND({.op = "hypot", IN(0, 1), OUT(2)}),
     GIVE({.op = "atan2", IN(1, 0), OUT(2)}), OUT(2)},
    {.name = "broad", ROOT,
     FIND({.op = "leaky_relu", IN(0), OUT(1), TESTS({.name = "slope", .test = BP_TEST_ANY})}),
     GIVE({.op = "relu", IN(0), OUT(1)}), OUT(1)},
    {.name = "factor", ROOT,
     FIND({.op = "scale", IN(0), OUT(1), TESTS({.name = "factor", .test = BP_TEST_ANY})}),
     GIVE({.op = "leaky_relu", IN(0), OUT(1),
           ATTRS({.name = "slope", .from = BP_GIVE_ATTR, .other = "factor", .factor = 1.01})}),
     OUT(1)},
    {.name = "skipped", ROOT,
     FIND({.op = "sign", IN(0), OUT(1), .flags = BP_NODE_OPTIONAL},
          {.op = "square", IN(1), OUT(2)}),
     GIVE({.op = "mul", IN(0, 0), OUT(2)}), OUT(2)},
    {.name = "either", ROOT, FIND({.op = "abs|relu", IN(0), OUT(1)}),
     GIVE({.op = "neg", IN(0), OUT(4)}, {.op = "maximum", IN(0, 4), OUT(1)}), OUT(1),
     .n_between = 1},
    {.name = "never", ROOT, .accepts = patterned_never, FIND({.op = "cos", IN(0), OUT(1)}),
     GIVE({.op = "sin", IN(0), OUT(1)}), OUT(1)},
    /* Found when the plugin is loaded. */
    {.name = "sound", ROOT, SINH, COSH, OUT(1)},
    {.name = "a name", ROOT, SINH, COSH, OUT(1)},
    {.name = "input", ROOT, FIND({.op = "sinh", IN(4), OUT(1)}), COSH, OUT(1)},
    {.name = "output", ROOT, FIND({.op = "sinh", IN(0), OUT(7)}), COSH, OUT(1)},
    {.name = "later", ROOT, FIND({.op = "sinh", IN(2), OUT(1)}, {.op = "sinh", IN(1), OUT(2)}),
     COSH, OUT(2)},
    {.name = "twice", ROOT, FIND({.op = "sinh", IN(0), OUT(1)}, {.op = "sinh", IN(0), OUT(1)}),
     COSH, OUT(1)},
    {.name = "apart", ROOT, FIND({.op = "sinh", IN(0), OUT(1)}, {.op = "sinh", IN(2), OUT(3)}),
     GIVE({.op = "cosh", IN(0), OUT(3)}), OUT(3)},
    {.name = "unknown", ROOT, FIND({.op = "shine", IN(0), OUT(1)}), COSH, OUT(1)},
    {.name = "random", ROOT, FIND({.op = "dropout", IN(0), OUT(1)}), COSH, OUT(1)},
    {.name = "result", ROOT, SINH, GIVE({.op = "shine", IN(0), OUT(1)}), OUT(1)},
    {.name = "inner", ROOT, FIND({.op = "sinh", IN(0), OUT(1)}, {.op = "sinh", IN(1), OUT(2)}),
     GIVE({.op = "cosh", IN(1), OUT(2)}), OUT(2)},
    {.name = "lacks", ROOT, FIND({.op = "sinh", IN(0), OUT(1)}, {.op = "sinh", IN(1), OUT(2)}),
     GIVE({.op = "cosh", IN(0), OUT(2)}), OUT(1, 2)},
    {.name = "last", ROOT, FIND({.op = "sinh", IN(0), OUT(1)}, {.op = "sinh", IN(1), OUT(2)}),
     COSH, OUT(1)},
    {.name = "attribute", ROOT,
     FIND({.op = "sinh", IN(0), OUT(1), TESTS({.name = "slope"})}), COSH, OUT(1)},
    {.name = "given", ROOT, SINH,
     GIVE({.op = "cosh", IN(0), OUT(1), ATTRS({.name = "slope"})}), OUT(1)},
    {.name = "like", .priority = 200, VALUES({.flags = BP_WANT_LIKE, .like = 9}, ANY), SINH, COSH,
     OUT(1)},
    {.name = "optional", ROOT,
     FIND({.op = "sinh", IN(BP_NO_INDEX), OUT(1), .flags = BP_NODE_OPTIONAL}), COSH, OUT(1)},
    {.name = "empty", ROOT, COSH, OUT(1)},
    {.name = "many", .value = (const void *)1, .n_value = 65, .value_stride = 40, SINH, COSH,
     OUT(1)},
    {.name = "stride", .value = (const void *)1, .n_value = 2, .value_stride = 12, SINH, COSH,
     OUT(1)},
    {.name = "null", .n_value = 2, .value_stride = 40, SINH, COSH, OUT(1)},
};

const struct bp_passes patterned_lies = {sizeof patterned_lies, lies, sizeof lies / sizeof *lies,
                                         sizeof *lies};
