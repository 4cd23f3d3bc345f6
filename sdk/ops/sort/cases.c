/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of sorting, selection, unique values, search, histograms and non-maximum
 * suppression. */
#include "../common/cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_sort, cases_topk, cases_kthvalue, cases_mode, cases_unique, cases_searchsorted,
    cases_bucketize, cases_histogram, cases_nms, cases_non_max_suppression;

/* Lengths near those of the blocks in which lines are sorted: 16, 1024, and twice 1024. */
static const struct {
    const char *shape;
    int64_t axis;
    enum data data;
    bool quick;
} lines[] = {
    {"0", 0, DATA_PLAIN, true},          {"3x0", 0, DATA_PLAIN, false},
    {"0x3", 0, DATA_PLAIN, false},       {"1", 0, DATA_PLAIN, false},
    {"7", -1, DATA_PLAIN, true},         {"15", 0, DATA_EXACT, false},
    {"16", 0, DATA_SPECIAL, false},      {"17", 0, DATA_NONFINITE, true},
    {"33", 0, DATA_SPARSE, false},       {"97", 0, DATA_SPECIAL, true},
    {"3x4", 1, DATA_SHUFFLED, true},     {"3x4", 0, DATA_SHUFFLED, true},
    {"5x7x3", 1, DATA_EXACT, false},     {"2x3x2x3x5", 3, DATA_PLAIN, false},
    {"1x2x1x2x1x5x1x3", 5, DATA_PLAIN, false}, {"67x31", 0, DATA_SPARSE, false},
    {"31x67", 1, DATA_NONFINITE, false}, {"1024", 0, DATA_EXACT, false},
    {"1025", 0, DATA_PLAIN, false},      {"2x2047", 1, DATA_SPARSE, false},
    {"2049x2", 0, DATA_EXACT, false},    {"4500", 0, DATA_NONFINITE, false},
};
enum { SMOOTH = 10, LAYOUTS = 12 }; /* cases for gradients; for layouts */

/* Cases of sort and argsort. */
void cases_sort(struct case_builder *builder)
{
    bool both = !strcmp(builder->op->name, "sort");

    for (int i = 0; i < COUNT(lines); i++)
        for (int down = 0; down < 2; down++) {
            struct kernel_case *made;
            char variant[32];
            if (down && i % 2 && i != LAYOUTS - 1) continue;
            made = case_begin(builder, lines[i].shape);
            made->attrs.sort.axis = lines[i].axis; /* one layout for both operators */
            made->attrs.sort.descending = down;
            case_data(made, lines[i].data);
            made->quick = lines[i].quick;
            made->gradient = both && (i == SMOOTH || i == SMOOTH + 1) ? 2 : 0;
            snprintf(variant, sizeof variant, "%s", down ? "down" : "up");
            if (both && i > LAYOUTS && i % 2) case_end(builder, made, "%s.alone", variant);
            else if (i == LAYOUTS) case_layouts(builder, made, variant, false);
            else if (both) case_parts(builder, made, 2, variant);
            else case_end(builder, made, "%s", variant);
        }
}

static void sort_cases_top(const struct case_builder *builder, size_t i, int64_t k, bool smallest,
                           uint32_t host)
{
    struct kernel_case *made = case_begin(builder, lines[i].shape);
    char variant[48];

    made->attrs.topk.k = k;
    made->attrs.topk.axis = lines[i].axis;
    made->attrs.topk.smallest = smallest;
    case_data(made, lines[i].data);
    made->quick = lines[i].quick;
    made->host = host;
    made->gradient = i == SMOOTH || i == SMOOTH + 1 ? 2 : 0;
    snprintf(variant, sizeof variant, "%s%lld%s", smallest ? "least" : "most", (long long)k,
             !host ? "" : host == BP_I64 ? ".host-i64" : ".host-i32");
    if (i == LAYOUTS) case_part_layouts(builder, made, 2, variant);
    else case_parts(builder, made, 2, variant);
}

static int64_t sort_cases_extent_of(size_t i)
{
    int64_t shape[REF_RANK], rank = 0;

    for (char *at = (char *)lines[i].shape; *at; at += *at == 'x')
        shape[rank++] = strtoll(at, &at, 10);
    return shape[lines[i].axis < 0 ? lines[i].axis + rank : lines[i].axis];
}

/* topk picks few values (up to 16) in one pass, and sorts for more. */
void cases_topk(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(lines); i++) {
        int64_t n = sort_cases_extent_of(i);
        if (i % 2 || n <= 16) sort_cases_top(builder, i, n < 3 ? n : 3, i % 2, 0);
        if (n > 16) sort_cases_top(builder, i, n < 40 ? n : i % 2 ? 17 : 40, i % 2 == 0, 0);
        if (i == 9) sort_cases_top(builder, i, 16, false, 0);
    }
    sort_cases_top(builder, 4, 0, false, 0);
    sort_cases_top(builder, 4, 2, false, BP_I64);
    sort_cases_top(builder, 4, 2, true, BP_I32);
}

/* kthvalue with the first value, one in the middle, and the last. */
void cases_kthvalue(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(lines); i++)
        for (int part = 0; part < 3; part++) {
            int64_t n = sort_cases_extent_of(i), k = part == 0 ? 1 : part == 1 ? n / 2 + 1 : n;
            struct kernel_case *made;
            char variant[48];
            if (!n || (part && n < 3) || (n > 40 && part != (int)i % 3)) continue;
            made = case_begin(builder, lines[i].shape);
            made->attrs.kthvalue.k = k;
            made->attrs.kthvalue.axis = lines[i].axis;
            made->attrs.kthvalue.keep = i % 2;
            case_data(made, lines[i].data);
            made->quick = lines[i].quick;
            made->host = i == 4 ? part ? BP_I64 : BP_I32 : 0;
            made->gradient = part == 1 && (i == SMOOTH || i == SMOOTH + 1) ? 2 : 0;
            snprintf(variant, sizeof variant, "k%lld%s%s", (long long)k, i % 2 ? ".keep" : "",
                     made->host ? ".host" : "");
            if (i == LAYOUTS && part == 1) case_part_layouts(builder, made, 2, variant);
            else case_parts(builder, made, 2, variant);
        }
}

void cases_mode(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(lines); i++) {
        struct kernel_case *made;
        if (!sort_cases_extent_of(i) || sort_cases_extent_of(i) > 600) continue;
        made = case_begin(builder, lines[i].shape);
        made->attrs.mode.axis = lines[i].axis;
        made->attrs.mode.keep = i % 2;
        case_data(made, lines[i].data == DATA_PLAIN ? DATA_EXACT : lines[i].data);
        made->quick = lines[i].quick;
        made->gradient = i == SMOOTH || i == SMOOTH + 1 ? 2 : 0;
        if (i == LAYOUTS) case_part_layouts(builder, made, 2, "layouts");
        else case_parts(builder, made, 2, i % 2 ? "keep" : "line");
    }
}

/* Cases of unique and unique_consecutive, also without the optional outputs. */
void cases_unique(struct case_builder *builder)
{
    int n = !strcmp(builder->op->name, "unique") ? 4 : 3;
    struct kernel_case *made;

    for (int i = 0; i < COUNT(lines); i++) {
        made = case_begin(builder, lines[i].shape);
        case_data(made, lines[i].data);
        made->quick = lines[i].quick;
        if (i % 3 == 0) case_end(builder, made, "alone");
        else case_parts(builder, made, n, "all");
    }
    made = case_begin(builder, "scalar");
    case_parts(builder, made, n, "all");
    made = case_begin(builder, "5x6x7");
    case_data(made, DATA_EXACT);
    case_layouts(builder, made, "rank3", false);
    made = case_begin(builder, "9001"); /* three parts with one value */
    case_data(made, DATA_ZERO);
    case_parts(builder, made, n, "zeros");
    made = case_begin(builder, "9001");
    case_data(made, DATA_SHUFFLED);
    case_end(builder, made, "long");
}

static const double ascending[] = {0, 1, 1, 2, 3, 3, 3, 5, 8, 13, 21, 34};
static const double infinite[] = {-INFINITY, -2, -1,       -0.0,     0,   0.5,
                                  1,         8,  INFINITY, INFINITY, NAN, NAN};

static const struct {
    const char *sorted, *x;
    bool quick;
} searches[] = {
    {"12", "0", true},        {"0", "5", true},           {"1", "7", false},
    {"12", "scalar", true},   {"12", "31", true},         {"12", "4x5", false},
    {"3x12", "3x7", true},    {"2x3x12", "2x3x1", false}, {"3x0", "3x2", false},
    {"12", "2x3x2x3x5", false}, {"12", "1031", false},    {"7x12", "7x129", false},
};

static void sort_cases_search(const struct case_builder *builder, size_t i, bool right,
                              bool swapped, const double *list, int n, enum data data)
{
    struct kernel_case *made;
    char shapes[64];
    int first = swapped ? 1 : 0;

    snprintf(shapes, sizeof shapes, "%s+%s", swapped ? searches[i].x : searches[i].sorted,
             swapped ? searches[i].sorted : searches[i].x);
    made = case_begin(builder, shapes);
    case_data(made, data);
    case_list(made, first, n, list);
    made->quick = searches[i].quick;
    if (swapped) {
        made->attrs.bucketize.right = right;
        made->attrs.bucketize.dtype = builder->dtype[2];
    } else {
        made->attrs.searchsorted.right = right;
        made->attrs.searchsorted.dtype = builder->dtype[2];
    }
    if (i == (swapped ? 5 : 6) && data == DATA_EXACT) /* of rank 2 */
        case_layouts(builder, made, right ? "right" : "left", false);
    else
        case_end(builder, made, "%s%s", right ? "right" : "left",
                 list == infinite       ? ".infinite"
                 : data == DATA_SPECIAL ? ".special"
                                        : "");
}

static void searches_of(const struct case_builder *builder, bool swapped)
{
    for (int i = 0; i < COUNT(searches); i++)
        for (int right = 0; right < 2; right++) {
            if (swapped && strchr(searches[i].sorted, 'x')) continue;
            sort_cases_search(builder, i, right, swapped, ascending, (int)COUNT(ascending),
                              DATA_EXACT);
        }
    for (int right = 0; right < 2; right++) {
        sort_cases_search(builder, 10, right, swapped, ascending, (int)COUNT(ascending),
                          DATA_SPECIAL);
        if (!case_is_float(builder)) continue;
        sort_cases_search(builder, 4, right, swapped, infinite, (int)COUNT(infinite), DATA_SPECIAL);
    }
}

void cases_searchsorted(struct case_builder *builder)
{
    searches_of(builder, false);
}

void cases_bucketize(struct case_builder *builder)
{
    searches_of(builder, true);
}

void cases_histogram(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int64_t bins;
        double low, high;
        enum data data;
        uint32_t host;
    } some[] = {
        {"0", 4, 0, 0, DATA_PLAIN, 0},        {"scalar", 3, 0, 0, DATA_EXACT, 0},
        {"31", 5, 0, 0, DATA_EXACT, 0},       {"31", 7, -2, 2, DATA_EXACT, 0},
        {"5x13", 1, 0, 0, DATA_EXACT, 0},     {"3x4x5", 9, -3, 3, DATA_EXACT, 0},
        {"129", 6, -1.5, 1.25, DATA_PLAIN, 0}, {"31", 5, -2, 2, DATA_EXACT, BP_I64},
        {"31", 5, -2, 2, DATA_EXACT, BP_I32}, {"1031", 100, 0, 0, DATA_WIDE, 0},
        {"1031", 33, -30, 31.5, DATA_WIDE, 0}, {"97", 10, -40, 40, DATA_SPARSE, 0},
        {"97", 10, -2, 2, DATA_NONFINITE, 0}, {"70001", 17, -20, 20, DATA_WIDE, 0},
        {"70001", 40, 0, 0, DATA_WIDE, 0},
    };

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        made->attrs.histogram.bins = some[i].bins;
        made->attrs.histogram.low = some[i].low;
        made->attrs.histogram.high = some[i].high;
        case_data(made, some[i].data);
        made->host = some[i].host;
        made->quick = i < 4;
        if (i == 5) case_layouts(builder, made, "range", false);
        else
            case_end(builder, made, "%s%lld%s", some[i].low < some[i].high ? "range" : "data",
                     (long long)some[i].bins,
                     !some[i].host            ? ""
                     : some[i].host == BP_I64 ? ".host-i64"
                                              : ".host-i32");
    }
}

/* Returns boxes of integers that every float type can hold. */
static const double *sort_cases_boxes(void)
{
    static double list[4 * 301];
    uint32_t state = 1;

    for (int i = 0; i < 4 * 301; i += 4)
        for (int k = 0; k < 2; k++) {
            state = state * 1664525 + 1013904223;
            list[i + k] = (state >> 16) % 40;
            list[i + k + 2] = list[i + k] + 3 + (state >> 8) % 29;
        }
    return list;
}

/* Returns the same boxes, with the corners of every third one exchanged. Read as centre and
 * extents, these boxes overlap others, too. */
static const double *rotated_boxes(void)
{
    static double list[4 * 301];
    const double *from = sort_cases_boxes();

    for (int i = 0; i < 4 * 301; i++) list[i] = from[i / 4 % 3 ? i : i ^ 2];
    return list;
}

void cases_nms(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shapes;
        double threshold;
        enum data scores;
    } some[] = {
        {"none", "0x4+0", 0.317, DATA_PLAIN},
        {"one", "1x4+1", 0.317, DATA_PLAIN},
        {"ordered", "17x4+-", 0.317, DATA_PLAIN},
        {"scores", "17x4+17", 0.317, DATA_PLAIN},
        {"equal", "31x4+31", 0.317, DATA_ZERO},
        {"few", "65x4+65", 0.0421, DATA_EXACT},
        {"many", "65x4+65", 0.873, DATA_SHUFFLED},
        {"layouts", "9x4+9", 0.317, DATA_PLAIN},
        {"unsound", "33x4+33", 0.317, DATA_NONFINITE},
        {"long", "301x4+301", 0.317, DATA_PLAIN},
        /* No share is above 1, that of a box in itself either. */
        {"whole", "17x4+17", 1, DATA_PLAIN},
    };

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shapes);
        made->attrs.nms.iou_threshold = some[i].threshold;
        case_list(made, 0, 4 * 301, sort_cases_boxes());
        made->in[1].data = some[i].scores;
        made->quick = i < 4;
        if (i == 7) case_layouts(builder, made, some[i].variant, false);
        else case_end(builder, made, "%s", some[i].variant);
    }
}

/* Two boxes that share exactly half of their union, and scores equal to the threshold. */
static void edges_of_suppression(const struct case_builder *builder)
{
    static const double halves[] = {0, 0, 2, 2, 4, 2, 0, 0};
    struct kernel_case *made = case_begin(builder, "1x2x4+1x3x2");

    made->attrs.non_max_suppression.max_boxes = 2;
    made->attrs.non_max_suppression.iou_threshold = 0.5;
    case_list(made, 0, 8, halves);
    made->in[1].data = DATA_SHUFFLED;
    made->quick = true;
    case_end(builder, made, "edge");
}

void cases_non_max_suppression(struct case_builder *builder)
{
    static const struct {
        const char *variant, *shapes;
        int64_t most;
        double iou, score;
        enum data scores;
        uint32_t host;
    } some[] = {
        {"one", "1x1x4+1x1x1", 1, 0.317, -INFINITY, DATA_PLAIN, 0},
        {"some", "1x17x4+1x1x17", 17, 0.317, -INFINITY, DATA_PLAIN, 0},
        {"classes", "2x17x4+2x3x17", 100, 0.317, -0.5, DATA_PLAIN, 0},
        {"few", "2x31x4+2x5x31", 3, 0.0421, 0.25, DATA_PLAIN, 0},
        {"layouts", "2x9x4+2x2x9", 4, 0.317, 0, DATA_PLAIN, 0},
        {"no-boxes", "2x0x4+2x3x0", 5, 0.317, 0, DATA_PLAIN, 0},
        {"no-classes", "2x5x4+2x0x5", 5, 0.317, 0, DATA_PLAIN, 0},
        {"no-batch", "0x5x4+0x3x5", 5, 0.317, 0, DATA_PLAIN, 0},
        {"none", "1x7x4+1x2x7", 0, 0.317, 0, DATA_PLAIN, 0},
        {"host-i64", "1x17x4+1x2x17", 4, 0.317, 0, DATA_PLAIN, BP_I64},
        {"host-i32", "1x17x4+1x2x17", 4, 0.317, 0, DATA_PLAIN, BP_I32},
        {"equal", "1x31x4+1x2x31", 31, 0.317, -INFINITY, DATA_ZERO, 0},
        {"limit", "1x31x4+1x2x31", 31, 0.317, 1, DATA_EXACT, 0},
        {"unsound", "1x33x4+1x4x33", 20, 0.317, 0.5, DATA_NONFINITE, 0},
        {"all", "1x33x4+1x4x33", 33, 0.873, -INFINITY, DATA_NONFINITE, 0},
        {"long", "3x301x4+3x7x301", 50, 0.317, 0.125, DATA_PLAIN, 0},
        {"longer", "1x601x4+1x2x601", 601, 0.981, -INFINITY, DATA_SPARSE, 0},
        {"whole", "1x17x4+1x2x17", 17, 1, -INFINITY, DATA_PLAIN, 0},
    };

    for (size_t i = 0; i < COUNT(some); i++)
        for (int centre = 0; centre < 2; centre++) {
            struct kernel_case *made = case_begin(builder, some[i].shapes);
            made->attrs.non_max_suppression.max_boxes = some[i].most;
            made->attrs.non_max_suppression.iou_threshold = some[i].iou;
            made->attrs.non_max_suppression.score_threshold = some[i].score;
            made->attrs.non_max_suppression.center_point_box = centre;
            case_list(made, 0, 4 * 301, rotated_boxes());
            made->in[1].data = some[i].scores;
            made->host = some[i].host;
            made->quick = i < 4;
            if (i == 4 && !centre) case_layouts(builder, made, some[i].variant, false);
            else case_end(builder, made, "%s%s", some[i].variant, centre ? ".centre" : "");
        }
    edges_of_suppression(builder);
}
