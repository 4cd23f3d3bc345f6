/* SPDX-License-Identifier: Apache-2.0 */
/* cases_uniform.c: builds cases of uniform random numbers. Element i has its own number, whatever
 * the shape. */
#include "../common/cases.h"
#include <backplane/kernel.h>

cases_fn cases_uniform;

static const struct {
    const char *variant;
    int rank;
    int64_t shape[REF_RANK];
    double low, high;
    uint64_t seed, offset;
    bool quick, wide; /* wide: for f64 only */
} draws[] = {
    {"scalar", 0, {0}, 0, 1, 1, 0, true, false},
    {"empty", 2, {2, 0}, 0, 1, 1, 0, true, false},
    {"1", 1, {1}, 0, 1, 0, 0, false, false},
    {"3", 1, {3}, 0, 1, 2, 1, false, false},
    {"4", 1, {4}, 0, 1, 2, 1, false, false},
    {"5", 1, {5}, 0, 1, 2, 1, false, false},
    {"17", 1, {17}, -2, 3.5, 3, 100, false, false},
    {"255", 1, {255}, 0, 1, 4, 0, false, false},
    {"257", 1, {257}, 0, 1, 4, 0, true, false},
    {"3x5x7", 3, {3, 5, 7}, -1, 0, 5, 7, true, false},
    {"rank8", 8, {1, 2, 1, 3, 1, 2, 1, 3}, -1, 1, 5, 7, false, false},
    {"seed", 1, {259}, 0, 1, UINT64_C(0xfedcba9876543210), 12, true, false},
    {"carry", 1, {259}, 0, 1, 6, UINT64_C(0xfffffffe), true, false},
    {"wraps", 1, {259}, 0, 1, 6, UINT64_MAX - 2, false, false},
    {"narrow", 1, {1031}, 1, 1.01, 7, 0, true, false},
    {"narrow-negative", 1, {1031}, -1.01, -1, 7, 0, false, false},
    {"one-step", 1, {1031}, 1, 1.00000011920928955, 7, 0, true, false},
    {"one-step-f64", 1, {1031}, 1, 1.0000000000000002220, 7, 0, true, true},
    {"same-ends", 1, {67}, 1.5, 1.5, 7, 0, true, false},
    {"odd-ends", 1, {1031}, 0.1, 0.3, 8, 0, true, false},
    {"huge", 1, {67}, -1e30, 1e30, 8, 0, false, false},
    {"rows", 2, {129, 257}, 0, 1, 9, 3, false, false},
    {"long", 1, {70001}, 0, 1, 9, 3, true, false},
};

/* Extents that are no multiples of a block of four elements, in an output with gaps. */
static void uniform_cases_gaps(struct case_builder *builder)
{
    static const int64_t shape[] = {5, 3, 7};

    if (!(builder->row_flags & BP_KERNEL_STRIDED)) return;
    for (int l = 0; l < 2; l++) {
        struct kernel_case *made = case_begin(builder, "-");
        made->attrs.uniform.shape = case_dims(made, 0, 3, shape);
        made->attrs.uniform.dtype = builder->dtype[0];
        made->out = l ? LAYOUT_GAPS : LAYOUT_PERMUTED;
        made->seed = 13;
        case_end(builder, made, "rank3.out-%s", l ? "gaps" : "permuted");
    }
}

void cases_uniform(struct case_builder *builder)
{
    uniform_cases_gaps(builder);
    for (size_t i = 0; i < sizeof draws / sizeof *draws; i++)
        for (int form = 0; form < 3; form++) {
            static const char *const name[] = {"", ".host-i64", ".host-i32"};
            struct kernel_case *made;
            if (draws[i].wide && builder->dtype[0] != BP_F64) continue;
            if (form && (!draws[i].quick || !draws[i].rank)) continue;
            made = case_begin(builder, "-");
            made->attrs.uniform.shape = case_dims(made, 0, draws[i].rank, draws[i].shape);
            made->attrs.uniform.dtype = builder->dtype[0];
            made->attrs.uniform.low = draws[i].low;
            made->attrs.uniform.high = draws[i].high;
            made->seed = draws[i].seed;
            made->offset = draws[i].offset;
            made->host = form == 1 ? BP_I64 : form == 2 ? BP_I32 : 0;
            made->quick = draws[i].quick;
            case_end(builder, made, "%s%s", draws[i].variant, name[form]);
        }
}
