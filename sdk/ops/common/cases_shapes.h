/* SPDX-License-Identifier: Apache-2.0 */
/* cases_shapes.h: lists shapes at which elementwise kernels change their code path. */
#ifndef BP_OPS_COMMON_CASES_SHAPES_H
#define BP_OPS_COMMON_CASES_SHAPES_H

#include <stdbool.h>

static const struct case_shape {
    const char *variant, *shape;
    bool quick;
} case_shapes[] = {
    {"empty", "0", false},     {"empty", "3x0x2", true}, {"scalar", "scalar", true},
    {"one", "1", false},       {"prime", "1031", true},  {"width", "15", false},
    {"width", "16", false},    {"width", "17", false},   {"width", "31", false},
    {"width", "33", false},    {"width", "63", false},   {"width", "64", false},
    {"width", "65", true},     {"rank5", "2x3x2x3x5", true},
    {"rank8", "1x2x1x2x1x2x1x3", false},                 {"rows", "129x257", false},
    {"long", "70001", false},
};
enum { CASE_SHAPES = sizeof case_shapes / sizeof *case_shapes };

#endif
