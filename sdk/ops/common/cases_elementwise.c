/* SPDX-License-Identifier: Apache-2.0 */
/* cases_elementwise.c: builds the conformance cases of operators of two inputs that broadcast, and
 * of conversions. */
#include "cases.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <string.h>

cases_fn cases_binary, cases_cast, cases_bit_cast;

static const struct {
    const char *variant, *shapes;
    bool quick;
} binary[] = {
    {"empty", "0x3+0x3", true},
    {"empty-broadcast", "0x3+1x1", false},
    {"empty-broadcast-right", "3+4x0x3", false},
    {"scalar", "scalar+scalar", true},
    {"one", "1+1", true},
    {"prime", "1031+1031", true},
    {"below-7", "7+7", false},
    {"below-8", "8+8", false},
    {"width", "15+15", false},
    {"width", "16+16", false},
    {"width", "17+17", false},
    {"width", "31+31", false},
    {"width", "33+33", false},
    {"width", "63+63", false},
    {"width", "64+64", false},
    {"width", "65+65", true},
    {"broadcast-left", "1x5+7x5", true},
    {"broadcast-left", "scalar+7x5", false},
    {"broadcast-left", "5+7x5", false},
    {"broadcast-left", "7x1+7x5", false},
    {"broadcast-right", "7x5+1x5", true},
    {"broadcast-right", "7x5+scalar", false},
    {"broadcast-right", "7x5+5", false},
    {"broadcast-right", "7x65+7x1", false},
    {"broadcast-both", "7x1+1x5", true},
    {"broadcast-both", "7x1x33+4x1", false},
    {"rank5", "2x3x2x3x5+2x1x2x1x5", true},
    {"rank6", "2x1x2x3x1x4+3x2x1x1x4", false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1", true},
    {"rows", "129x257+129x257", false},
    {"long", "70001+70001", false},
};

void cases_binary(struct case_builder *builder)
{
    struct kernel_case *made;
    char shapes[64];

    case_gradient(builder, "2x3+2x3", DATA_POSITIVE, 2);
    case_gradient(builder, "3+4x1", DATA_POSITIVE, 2);
    case_gradient(builder, "2x1x3+scalar", DATA_POSITIVE, 2);
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
        made = case_begin(builder, binary[i].shapes);
        made->quick = binary[i].quick;
        case_end(builder, made, "%s", binary[i].variant);
    }
    snprintf(shapes, sizeof shapes, "%dx%d+%d", (int)case_drawn(builder, 0, 1, 40),
             (int)case_drawn(builder, 1, 1, 900), (int)case_drawn(builder, 1, 1, 900));
    case_end(builder, case_begin(builder, shapes), "drawn");
    case_extents(builder, case_begin(builder, "1+1"), "sweep");
    case_large(builder, case_begin(builder, "257+257"), "large");
    made = case_begin(builder, "5x6x7+5x6x7");
    case_layouts(builder, made, "rank3", true);
    if (builder->row_flags & BP_KERNEL_IN_PLACE) {
        made = case_begin(builder, "7x33+33");
        made->in_place = true;
        case_end(builder, made, "broadcast-right.inplace");
    }
    /* Products and quotients of complex numbers may overflow in an intermediate result, which
     * depends on the kernel: they get no special values. */
    if (!case_is_complex(builder) ||
        (strcmp(builder->op->name, "mul") && strcmp(builder->op->name, "div"))) {
        made = case_begin(builder, "257+257");
        case_data(made, DATA_SPECIAL);
        made->quick = true;
        case_end(builder, made, "special");
    }
    if (!case_is_float(builder)) return;
    made = case_begin(builder, "259+259");
    case_data(made, DATA_NONFINITE);
    made->quick = true;
    case_end(builder, made, "nonfinite");
    if (case_is_complex(builder)) return;
    made = case_begin(builder, "67+67");
    case_data(made, DATA_ZERO);
    made->quick = true;
    case_end(builder, made, "zeros");
    made = case_begin(builder, "1031+1031");
    case_data(made, DATA_RANGE);
    made->quick = true;
    case_end(builder, made, "range");
}

static const struct {
    const char *variant, *shapes;
    enum data data;
    bool quick;
} casts[] = {
    {"empty", "0", DATA_PLAIN, false},  {"scalar", "scalar", DATA_PLAIN, false},
    {"one", "1", DATA_PLAIN, false},    {"special", "331", DATA_SPECIAL, true},
    {"width", "15", DATA_WIDE, false},  {"width", "16", DATA_WIDE, false},
    {"width", "65", DATA_WIDE, false},  {"rank5", "2x3x2x3x5", DATA_WIDE, false},
    {"long", "4099", DATA_WIDE, false}, {"range", "1031", DATA_RANGE, false},
    {"rank8", "1x2x1x2x1x2x3x2", DATA_WIDE, false},
};

/* The largest numbers of the f8 types, the ties beyond them, and the neighbours of these; then ties
 * between normal numbers, and between subnormal ones. */
static const double near_ends[] = {448, 449, 463, 464, 465, 479, 480, 512, 57344, 57345, 61439,
                                   61440, 61441, 65535, 65536, 1e30, -448, -464, -465, -57344,
                                   -61439, -61440, -1e30, 127, -127, 240, 241, 247, 248, 249, 255,
                                   256, -240, -247, -248, -249, 17, 19, -17, -19, 9, 11, -9,
                                   0x1p-10, 0x1.8p-9, 0x1p-11, 0x1.8p-10, -0x1.8p-10, 0x1p-17,
                                   0x1.8p-16, 0x1p-18, 0x1.8p-17, -0x1p-18};
/* The ends of f8e8m0, middles of powers of two, and the neighbours of these. */
static const double near_powers[] = {0, 1, 1.4375, 1.5, 1.5625, 2, 3, 5, 6, 7, 12, 100, 127, 96,
                                     0.75, 0.70, 0x1.8p-14, 0x1.7p-14, 0x1p-14, 0x1p-24,
                                     0x1.8p126, 0x1.7p126, 0x1p127, 0x1.02p127, 0x1.8p127,
                                     0x1.fep127, 0x1p128, 0x1p-126, 0x1.8p-127, 0x1.7p-127,
                                     0x1.02p-127, 0x1p-127, 0x1.fp-128, 0x1p-133, 0x1p-149,
                                     0x1p-160, -1, -0.0, -0x1p-127};
static const struct {
    const char *variant;
    enum data data;
} ends[] = {{"ends", DATA_LIST}, {"large", DATA_LARGE}, {"nonfinite", DATA_NONFINITE}};

/* Each way of rounding to powers of two, with and without saturation. */
static void cases_powers(struct case_builder *builder)
{
    static const char *const rounds[] = {"nearest", "up", "down"};

    for (int saturate = 0; saturate < 2; saturate++)
        for (int64_t round = BP_CAST_ROUND_NEAREST; round <= BP_CAST_ROUND_DOWN; round++)
            for (int data = 0; data < 1 + case_is_float(builder); data++) {
                struct kernel_case *made = case_begin(builder, "1031");
                made->attrs.cast.to = builder->dtype[1];
                made->attrs.cast.overflow = !saturate;
                made->attrs.cast.round = round;
                if (data) case_list(made, 0, COUNT(near_powers), near_powers);
                else case_data(made, DATA_RANGE);
                made->quick = data && builder->dtype[0] == BP_F32;
                case_end(builder, made, "%s.%s%s", data ? "powers" : "range", rounds[round],
                         saturate ? "" : ".open");
            }
}

void cases_cast(struct case_builder *builder)
{
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        made = case_begin(builder, casts[i].shapes);
        made->attrs.cast.to = builder->dtype[1];
        case_data(made, casts[i].data);
        case_smooth(made, 2);
        made->quick = casts[i].quick && (builder->dtype[0] + builder->dtype[1]) % 3 == 0;
        case_end(builder, made, "%s", casts[i].variant);
    }
    made = case_begin(builder, "3x5x7");
    made->attrs.cast.to = builder->dtype[1];
    case_layouts(builder, made, "rank3", false);
    if (!(BP_MASK_F8 >> builder->dtype[1] & 1)) return;
    for (int saturate = 0; saturate < 2; saturate++)
        for (int i = 0; i < COUNT(ends); i++) {
            made = case_begin(builder, "1031");
            made->attrs.cast.to = builder->dtype[1];
            made->attrs.cast.overflow = !saturate;
            if (ends[i].data == DATA_LIST) case_list(made, 0, COUNT(near_ends), near_ends);
            else case_data(made, ends[i].data);
            case_end(builder, made, "%s%s", ends[i].variant, saturate ? "" : ".open");
        }
    if (builder->dtype[1] == BP_F8E8M0) cases_powers(builder);
}

/* A row has all pairs of dtypes; those of one width have cases. */
void cases_bit_cast(struct case_builder *builder)
{
    struct kernel_case *made;

    if (num_type(builder->dtype[0])->size != num_type(builder->dtype[1])->size) return;
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        made = case_begin(builder, casts[i].shapes);
        made->attrs.bit_cast.to = builder->dtype[1];
        case_data(made, casts[i].data);
        made->quick = casts[i].quick;
        case_end(builder, made, "%s", casts[i].variant);
    }
    made = case_begin(builder, "3x5x7");
    made->attrs.bit_cast.to = builder->dtype[1];
    case_layouts(builder, made, "rank3", false);
}
