/* SPDX-License-Identifier: Apache-2.0 */
/* stress.c: makes the kernel cases of the suite stress: launches of more teams of lanes than a
 * device runs at the same time, and lines far longer than a team has lanes. One dtype is enough,
 * because the division of work does not depend on it. */
#include <ops/common/cases.h>
#include "stress.h"
#include <string.h>

/* More than 2^22 elements or teams. The extents are primes, so that no block size divides them.
 * Sums are exact, because a lost term could otherwise hide within the tolerance of a sum of so many
 * terms. */
static const struct grid {
    const char *op, *variant, *shapes;
    int n; /* number of reduced axes, for sum and max */
    int64_t axis;
    enum data data;
} grids[] = {
    {"add", "wide", "16777259+scalar", 0, 0, DATA_PLAIN},
    {"add", "columns", "4194319x3+3", 0, 0, DATA_PLAIN},
    {"relu", "wide", "16777259", 0, 0, DATA_PLAIN},
    {"where", "wide", "4194319x1+4194319x3+3", 0, 0, DATA_PLAIN},
    {"assign", "wide", "4194319x3", 0, 0, DATA_PLAIN},
    {"concat", "wide", "4194319x1+4194319x2", 0, 1, DATA_PLAIN},
    {"sum", "teams", "4194319x3", 1, 1, DATA_EXACT},
    {"sum", "columns", "3x4194319", 1, 0, DATA_EXACT},
    {"sum", "deep", "8388617", 0, 0, DATA_EXACT},
    {"sum", "deep.columns", "1048583x3", 1, 0, DATA_EXACT},
    {"max", "teams", "4194319x3", 1, 1, DATA_PLAIN},
    {"argmax", "teams", "4194319x3", 0, 0, DATA_PLAIN},
    {"argmax", "deep", "2x1048583", 0, 0, DATA_PLAIN},
    {"softmax", "teams", "4194319x3", 0, 0, DATA_PLAIN},
    {"softmax", "deep", "2x1048583", 0, 0, DATA_PLAIN},
    {"log_softmax", "teams", "4194319x3", 0, 0, DATA_PLAIN},
    {"layer_norm", "teams", "4194319x3+3+3", 0, 0, DATA_POSITIVE},
    {"cumsum", "teams", "1048583x3", 0, 0, DATA_EXACT},
    {"cumsum", "deep", "2x32771", 0, 0, DATA_EXACT},
    {"argsort", "teams", "1048583x3", 0, 0, DATA_PLAIN},
    {"argsort", "deep", "2x262147", 0, 0, DATA_PLAIN},
    {"matmul", "batches", "70001x1x3+70001x3x2", 0, 0, DATA_EXACT},
    {"matmul", "tall", "1048583x3+3x2", 0, 0, DATA_EXACT},
    {"matmul", "flat", "2x3+3x1048583", 0, 0, DATA_EXACT},
    {"matmul", "deep", "2x262147+262147x3", 0, 0, DATA_EXACT},
    {"conv", "batches", "70001x1x3x3+2x1x3x3+-", 0, 0, DATA_EXACT},
    {"conv", "flat", "1x1x3x1048583+2x1x3x3+-", 0, 0, DATA_EXACT},
};

static void stress_make(struct case_builder *builder, const struct grid *g)
{
    struct kernel_case *made = case_begin(builder, g->shapes);

    case_data(made, g->data);
    if (case_is(builder, "sum")) made->attrs.sum.axes = case_dims(made, 0, g->n, &g->axis);
    if (case_is(builder, "max")) made->attrs.max.axes = case_dims(made, 0, g->n, &g->axis);
    if (case_is(builder, "concat")) made->attrs.concat.axis = g->axis;
    if (case_is(builder, "where")) made->in[0].dtype = BP_BOOL;
    if (case_is(builder, "layer_norm")) case_parts(builder, made, 3, g->variant);
    else case_end(builder, made, "%s", g->variant);
}

void cases_stress(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(grids); i++)
        if (case_is(builder, grids[i].op)) stress_make(builder, &grids[i]);
}
