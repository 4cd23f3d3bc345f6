/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of the operator matmul. */
#include "../common/cases.h"
#include <stdio.h>

cases_fn cases_matmul;

static const struct {
    const char *variant, *shapes;
    int transpose_a, transpose_b;
    bool quick;
} products[] = {
    {"empty-rows", "0x4+4x5", 0, 0, false},
    {"empty-columns", "3x4+4x0", 0, 0, false},
    {"empty-sum", "3x0+0x5", 0, 0, true},
    {"empty-batch", "0x3x4+0x4x5", 0, 0, false},
    {"one", "1x1+1x1", 0, 0, true},
    {"dot", "17+17", 0, 0, true},
    {"row", "17+17x5", 0, 0, true},
    {"column", "5x17+17", 0, 0, true},
    {"batched-row", "17+3x17x5", 0, 0, false},
    {"batched-column", "3x5x17+17", 0, 0, false},
    {"outer", "17x1+1x13", 0, 0, false},
    {"small", "3x4+4x5", 0, 0, true},
    {"prime", "13x31+31x7", 0, 0, true},
    {"width", "15x16+16x17", 0, 0, false},
    {"width", "16x16+16x16", 0, 0, false},
    {"width", "17x33+33x31", 0, 0, false},
    {"width", "63x64+64x65", 0, 0, false},
    {"width", "1x65+65x64", 0, 0, false},
    {"width", "64x65+65x1", 0, 0, false},
    {"transpose-a", "31x13+31x7", 1, 0, true},
    {"transpose-b", "13x31+7x31", 0, 1, true},
    {"transpose-ab", "31x13+7x31", 1, 1, true},
    {"transpose-a", "2x5x4+2x5x3", 1, 0, false},
    {"transpose-b", "2x4x5+2x3x5", 0, 1, false},
    {"transpose-ab", "2x5x4+1x3x5", 1, 1, false},
    {"transpose-a", "2x4x2+4x3", 1, 0, false},
    {"transpose-b", "3x2+2x4x2", 0, 1, false},
    {"transpose-ab", "2x4x2+3x4", 1, 1, false},
    {"row", "4+2x4x3", 0, 0, false},
    {"column", "2x3x4+4", 0, 0, false},
    {"batched", "2x3x4+2x4x5", 0, 0, true},
    {"batched", "7x17x9+7x9x11", 0, 0, false},
    {"broadcast-left", "3x4+2x4x5", 0, 0, true},
    {"broadcast-right", "2x3x4+4x5", 0, 0, true},
    {"broadcast-both", "2x1x3x4+3x4x5", 0, 0, true},
    {"broadcast-both", "3x1x3x4+1x2x4x5", 0, 0, false},
    {"rank5", "2x1x2x3x4+1x3x1x4x5", 0, 0, true},
    {"rank8", "1x2x1x2x1x2x3x4+2x1x2x1x2x1x4x3", 0, 0, false},
    {"tall", "301x17+17x3", 0, 0, false},
    {"wide", "3x17+17x301", 0, 0, false},
    {"deep", "5x1031+1031x3", 0, 0, false},
    {"blocks", "129x130+130x131", 0, 0, false},
    {"blocks", "2x70x20+2x20x150", 0, 0, true},
    {"blocks.transpose-ab", "2x67x140+1x130x67", 1, 1, true},
    {"line", "1x37+37x2100", 0, 0, true},
    {"line", "3x1x9+3x9x2050", 0, 0, false},
    {"line", "2100x37+37", 0, 0, false},
    {"line.split", "1x331+331x203", 0, 0, true},
    {"line.split", "1x129+129x1100", 0, 0, false},
    {"line.transpose-a", "38x2100+38x1", 1, 0, false},
    {"line.transpose-b", "1x131+35x131", 0, 1, true},
    {"line.transpose-b", "2x1x131+2x35x131", 0, 1, false},
};

static void product_data(const struct case_builder *builder, const char *shapes, enum data data,
                         const char *what)
{
    struct kernel_case *made = case_begin(builder, shapes);

    case_data(made, data);
    made->quick = true;
    case_end(builder, made, "%s", what);
}

/* Adds cases with extents that the list `products` lacks: drawn ones, and each number of terms up
 * to a limit. Their data is not numbers of any exponent: whether a partial sum overflows depends on
 * the order of the additions. */
static void more_extents(const struct case_builder *builder)
{
    int rows = (int)case_drawn(builder, 0, 1, 60), terms = (int)case_drawn(builder, 1, 1, 200),
        columns = (int)case_drawn(builder, 2, 1, 60);
    struct kernel_case *made;
    char shapes[64];

    for (int transposed = 0; transposed < 2; transposed++) {
        snprintf(shapes, sizeof shapes, "%dx%d+%dx%d", rows, terms, transposed ? columns : terms,
                 transposed ? terms : columns);
        made = case_begin(builder, shapes);
        made->attrs.matmul.transpose_b = transposed;
        case_end(builder, made, "drawn");
    }
    made = case_begin(builder, "3x1+5x1");
    made->attrs.matmul.transpose_b = 1;
    case_extents(builder, made, "sweep");
}

void cases_matmul(struct case_builder *builder)
{
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        made = case_begin(builder, products[i].shapes);
        made->attrs.matmul.transpose_a = products[i].transpose_a;
        made->attrs.matmul.transpose_b = products[i].transpose_b;
        case_smooth(made, 2);
        made->quick = products[i].quick;
        case_end(builder, made, "%s", products[i].variant);
    }
    for (int t = 0; t < 6; t++) { /* cases 4 and 5: one b for all of the batch, and two batch
                                   * axes */
        static const char *const name[] = {"nn", "nt", "tn", "tt", "one-b", "grid"};
        static const char *const shapes[] = {"3x9x17+3x17x5", "3x9x17+3x5x17", "3x17x9+3x17x5",
                                             "3x17x9+3x5x17", "3x9x17+17x5", "2x3x9x17+2x3x17x5"};

        made = case_begin(builder, shapes[t]);
        if (t > 3) {
            case_layouts(builder, made, name[t], false);
            continue;
        }
        made->attrs.matmul.transpose_a = t >> 1;
        made->attrs.matmul.transpose_b = t & 1;
        case_layouts(builder, made, name[t], false);
    }
    for (int t = 0; t < 2; t++) { /* weights, which a kernel's plan may pack */
        made = case_begin(builder, t ? "9x65+63x65" : "9x65+65x63");
        made->attrs.matmul.transpose_b = t;
        made->in[1].frozen = true;
        case_end(builder, made, "frozen");
    }
    case_real(builder, case_begin(builder, "67x129+129x97"), 1, "real");
    case_real(builder, case_begin(builder, "3x40x65+3x65x31"), 1, "real.batches");
    case_real(builder, case_begin(builder, "1x771+771x130"), 1, "real.line");
    made = case_begin(builder, "67x129+97x129");
    made->attrs.matmul.transpose_b = 1;
    case_real(builder, made, 1, "real.transpose-b");
    more_extents(builder);
    product_data(builder, "13x31+31x17", DATA_ZERO, "zeros");
    product_data(builder, "17x257+257x19", DATA_EXACT, "exact");
    product_data(builder, "3x2053+2053x5", DATA_POSITIVE, "positive");
    if (!case_is_float(builder)) product_data(builder, "7x19+19x5", DATA_SPECIAL, "special");
    /* The languages that define complex numbers leave a product of complex infinities open. */
    else if (!case_is_complex(builder))
        product_data(builder, "17x19+19x5", DATA_NONFINITE, "nonfinite");
}
