/* SPDX-License-Identifier: Apache-2.0 */
/* cases_slices.c: lists the slices with which slice, its gradient and set_value are tested. */
#include "cases_slices.h"

const struct case_slice case_slices[CASE_SLICES] = {
    {"middle", "7", "3", 1, {2}, {5}, {0}, {NO_AXES}, true, false},
    {"from-end", "7", "2", 1, {-5}, {-1}, {2}, {0}, true, false},
    {"both", "5x6", "2x2", 2, {1, 0}, {4, 6}, {2, 3}, {NO_AXES}, true, false},
    {"last", "5x6", "5x5", 1, {1}, {INT64_MAX}, {1}, {-1}, false, false},
    {"first", "5x6", "3x6", 1, {-100}, {3}, {0}, {0}, false, false},
    {"turned", "3x4x5", "2x4x3", 2, {0, 1}, {5, 3}, {2, 1}, {2, 0}, true, true},
    {"whole", "4x3", "4x3", 0, {0}, {0}, {0}, {NO_AXES}, false, false},
    {"scalar", "scalar", "scalar", 0, {0}, {0}, {0}, {NO_AXES}, false, false},
    {"none", "5", "0", 1, {3}, {3}, {0}, {0}, true, false},
    {"beyond", "5", "0", 1, {9}, {12}, {0}, {0}, false, false},
    {"backward", "5", "0", 1, {4}, {2}, {3}, {0}, false, false},
    {"empty", "0x3", "0x2", 1, {1}, {3}, {0}, {1}, true, false},
    {"one", "7x3", "1x3", 1, {-1}, {INT64_MAX}, {5}, {0}, false, false},
    {"rank8", "1x2x1x3x1x2x1x4", "1x2x1x2x1x2x1x2", 2, {1, 0}, {3, 4}, {1, 2}, {3, 7}, false,
     false},
    {"long", "70001", "30000", 1, {1}, {60001}, {2}, {0}, false, false},
};

const struct case_slice case_slices_down[CASE_SLICES_DOWN] = {
    {"turned-round", "7", "7", 1, {-1}, {INT64_MIN}, {-1}, {0}, true, false},
    {"down", "7", "2", 1, {5}, {1}, {-2}, {0}, true, false},
    {"down-end", "7", "4", 1, {100}, {-5}, {-1}, {NO_AXES}, false, false},
    {"down-nothing", "7", "0", 1, {2}, {5}, {-1}, {0}, true, false},
    {"down-leap", "5x6", "5x1", 1, {4}, {INT64_MIN}, {-1000000007}, {1}, false, false},
    {"down-up", "5x6", "2x2", 2, {1, -1}, {4, 0}, {2, -3}, {NO_AXES}, true, false},
    {"down-empty", "0x3", "0x3", 1, {5}, {-5}, {-1}, {0}, false, false},
    {"down-planes", "3x4x5", "2x4x2", 2, {-1, 2}, {0, -9}, {-2, -2}, {2, 0}, true, true},
    {"down-long", "70001", "9999", 1, {70000}, {9}, {-7}, {0}, false, false},
};

void case_slice_attrs(struct kernel_case *made, const struct case_slice *s)
{
    struct bp_slice_attrs *a = &made->attrs.slice;

    a->starts = case_dims(made, 0, s->n, s->starts);
    a->ends = case_dims(made, 1, s->n, s->ends);
    a->axes = case_dims(made, 2, s->axes[0] == NO_AXES ? 0 : s->n, s->axes);
    a->steps = case_dims(made, 3, s->steps[0] ? s->n : 0, s->steps);
}
