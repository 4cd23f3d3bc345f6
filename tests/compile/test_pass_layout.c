/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_layout.c: tests the pass `layout`, which lays images out channels-last: the copies that
 * are left in networks of each kind, the layouts of all images, and what must not be copied. */
#include "pass_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two convolutions, the second of sums of the first: 145 roundings of terms whose magnitudes add up
 * to at most 144 * 1.5 * (144 * 2.25 + 1.5) = 70308; further nodes add at most two such results. */
static const double layout_terms = 3 * 145 * 2 * 70308.0;

#define CONV(x) "conv(" x ", w![16,16,3,3], c![16]; pad=1_1_0_1_1_0)"
#define AGAIN(x) "conv(" x ", v![16,16,3,3], k![16]; pad=1_1_0_1_1_0)"
#define X "x[1,16,16,16]"

/* ---- launches and layouts ---- */

/* Whether a tensor is an image whose axes both orders would place differently. */
static bool is_image(const struct bp_view *v)
{
    return v->rank == 4 && v->shape[1] > 1 && v->shape[2] * v->shape[3] > 1;
}

/* Counts the launches that copy, and the images that other launches read or write row-major. */
static void count_layouts(const struct bp_schedule *s, uint32_t *out_copies, uint32_t *out_rows)
{
    *out_copies = *out_rows = 0;
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *l = &s->launch[n];
        bool copies = l->step->row == &bp_opdef[BP_ROW_assign];
        *out_copies += copies;
        for (uint32_t k = 0; k < l->step->launch.n_in + l->step->launch.n_out && !copies; k++) {
            const struct bp_scheduled_value *v =
                l->value[k] == BP_NO_VALUE ? NULL : s->value[l->value[k]];
            if (v && s->value[v->root]->source != BP_SOURCE_CONSTANT && is_image(&v->type.view) &&
                v->type.view.stride[1] != 1)
                ++*out_rows;
        }
    }
}

struct layout_case {
    const char *name, *text;
    uint32_t copies, rows;
};

/* Outputs of the graph are row-major. */
static void expect_outputs(const struct layout_case *c, uint32_t dtype)
{
    struct text_graph g = text_begin();

    g.dtype = dtype;
    text_record(&g, c->text);
    pass_expect_dense(&g, c->name);
    text_finish(&g);
}

static void expect_layouts(const struct layout_case *c)
{
    struct text_graph g = text_begin();
    uint32_t copies, rows;
    struct bp_schedule *s;

    text_record(&g, c->text);
    OK(bp_compile(g.graph, g.f.device, &s));
    count_layouts(s, &copies, &rows);
    cr_assert(copies == c->copies && rows == c->rows,
              "%s: %u copies and %u row-major images, expected %u and %u", c->name, copies, rows,
              c->copies, c->rows);
    bp_schedule_destroy(s);
    text_finish(&g);
    expect_outputs(c, BP_F32);
    expect_outputs(c, BP_F64); /* cpu has conv for f64, and no fused_conv */
    g = text_begin();
    g.dtype = BP_F64; /* whose tolerance is small */
    text_record(&g, c->text);
    pass_check_values(&g, layout_terms);
    text_finish(&g);
}

/* One copy is made where an image comes in, and one where it goes out. */
static const struct layout_case networks[] = {
    {"two convolutions", AGAIN(CONV(X)), 2, 0},
    {"an activation at the end", "relu(" AGAIN(CONV(X)) ")", 2, 0},
    {"an operator in front", AGAIN(CONV("mul(" X ", y[16,1,1])")), 2, 2},
    {"activations, a pool and a sum",
     "a = relu(" CONV(X) ")\nb = " AGAIN("a") "\nreturn max_pool(relu(add(b, a)); window=2_2_1)", 2,
     0},
    {"a residual of what is copied", "a = neg(" X ")\nb = " AGAIN("relu(" CONV("a") ")")
     "\nreturn add(a, b)", 2, 2},
    {"joined, as in DenseNet", "a = neg(" X ")\nb = " CONV("a") "\nd = concat(a, b; axis=1)\n"
     "return conv(tanh(d), u![64,32,1,1], _)", 2, 2},
    {"branches, as in Inception",
     "a = neg(" X ")\nb = " CONV("a") "\nd = " AGAIN("a") "\n"
     "e = max_pool(a; window=3_3_1, pad=1_1_0_1_1_0, stride=1_1_1)\n"
     "f = concat(b, d, e; axis=1)\nreturn conv(f, u![64,48,1,1], _)", 2, 2},
    {"a global pool at the end, as in ResNet",
     "global_avg_pool(relu(" AGAIN("relu(" CONV(X) ")") "))", 1, 0},
    {"a factor of the channels, as in squeeze blocks",
     "a = " CONV(X) "\nb = sigmoid(global_avg_pool(a))\nreturn global_avg_pool(" AGAIN("mul(a, b)")
     ")", 1, 0},
    {"resized, as in U-Net",
     "a = " CONV(X) "\nb = max_pool(a; window=2_2_1, stride=2_2_1)\n"
     "d = conv(b, v![32,16,3,3], k![32]; pad=1_1_0_1_1_0)\n"
     "e = resize(d; sizes=16_16)\nf = concat(a, e; axis=1)\n"
     "return conv(f, u![16,48,3,3], _; pad=1_1_0_1_1_0)", 2, 0},
    {"depthwise", "a = conv(x[1,64,32,32], w![64,1,3,3], _; groups=64, pad=1_1_0_1_1_0)\n"
     "return global_avg_pool(conv(a, v![16,64,1,1], _))", 1, 0},
    {"a shuffle of channels, as in ShuffleNet",
     "a = reshape(" CONV(X) "; shape=1_4_4_16_16)\nb = transpose(a; perm=0_2_1_3_4)\n"
     "return global_avg_pool(" AGAIN("reshape(b; shape=1_16_16_16)") ")", 2, 0},
    {"a shuffle of the channels of a batch",
     "a = transpose(reshape(" CONV("x[2,16,16,16]") "; shape=2_2_2_4_16_16); perm=0_3_1_2_4_5)\n"
     "return global_avg_pool(" AGAIN("reshape(a; shape=2_16_16_16)") ")", 2, 0},
    {"a shuffle behind places that are exchanged",
     "a = transpose(reshape(" CONV(X) "; shape=1_4_4_16_16); perm=0_2_1_4_3)\n"
     "return global_avg_pool(" AGAIN("reshape(a; shape=1_16_16_16)") ")", 1, 2},
    {"a batch", "global_avg_pool(" AGAIN(CONV("x[3,16,16,16]")) ")", 1, 0},
    {"two outputs", "a = " CONV(X) "\nb = " AGAIN("a") "\nreturn a, b, a", 3, 0},
};

Test(layout, images_are_copied_once)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) expect_layouts(&networks[i]);
}

/* ---- what stays as it is ---- */

static const struct layout_case misses[] = {
    {.name = "one convolution", .text = CONV(X)},
    {.name = "small convolutions",
     .text = "conv(conv(x[1,4,5,5], w![6,4,3,3], _), v![6,6,3,3], _)"},
    {.name = "a convolution and a small one",
     .text = "conv(" CONV(X) ", v![1,16,3,3], _; stride=4_4_1)"},
    {.name = "an image of one channel",
     .text = "conv(conv(x[1,1,32,32], w![64,1,3,3], _), v![16,64,1,1], _)"},
    {.name = "images of one place",
     .text = "conv(conv(x[64,128,1,1], w![128,128,1,1], _), v![128,128,1,1], _)"},
    {.name = "images of one axis",
     .text = "conv(conv(x[1,16,512], w![16,16,9], _), v![16,16,9], _)"},
    {.name = "a reshape between", .text = AGAIN("reshape(" CONV(X) "; shape=1_16_8_32)")},
    {.name = "a transpose between", .text = AGAIN("transpose(" CONV(X) "; perm=0_1_3_2)")},
    {.name = "a product between",
     .text = AGAIN("matmul(" CONV(X) ", m![16,16])")},
    {.name = "convolutions side by side",
     .text = "a = " CONV(X) "\nb = " AGAIN("x") "\nreturn add(a, b)"},
    {.name = "an image that is channels-last",
     .text = "a = transpose(x[1,16,16,16]; perm=0_3_1_2)\nreturn " AGAIN(CONV("a"))},
    {.name = "an image that is updated by a view",
     .text = "y = abs(" CONV(X) ")\nq = reshape(y; shape=1_4096)\nu = sgd(q, g[1,4096], 0.25~)\n"
             "return u, global_avg_pool(" AGAIN("y") ")"},
    {.name = "an image that is updated",
     .text = "y = neg(" X ")\na = " CONV("y") "\nu = sgd(y, g[1,16,16,16], 0.25~)\n"
             "return u, " AGAIN("a")},
    {.name = "an input that is updated",
     .text = "a = " CONV(X) "\nu = sgd(x, g[1,16,16,16], 0.25~)\nreturn u, " AGAIN("a")},
};

Test(layout, near_misses_are_not_copied)
{
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        pass_expect_unchanged(misses[i].text, bp_pass_layout, misses[i].name);
}

/* ---- copies that are removed ---- */

#define TURNED(x) "transpose(assign(transpose(" x "; perm=0_2_3_1)); perm=0_3_1_2)"

/* Compiles for a device with queues that prefers this order of images; cpu stands for the device,
 * in f64. With the kernels for any processor (`isa`: portable), no row has a priority, as is true
 * of portable kernels; `isa` NULL: the best kernels. Returns the copies, and the images that are
 * row-major. */
static void count_with_queues(const struct layout_case *c, const char *isa, uint32_t order,
                              uint32_t *out_copies, uint32_t *out_rows)
{
    struct text_graph g;
    struct bp_schedule *s;

    if (isa) setenv("BP_CPU_ISA", isa, 1);
    g = text_begin();
    g.dtype = BP_F64;
    text_record(&g, c->text);
    g.f.device->is_inline = false;
    g.f.device->properties.images = order;
    OK(bp_compile(g.graph, g.f.device, &s));
    g.f.device->is_inline = true;
    count_layouts(s, out_copies, out_rows);
    bp_schedule_destroy(s);
    text_finish(&g);
}

static const struct layout_case turned[] = {
    {"a convolution", CONV(TURNED(X)), 0, 2},
    {"two of them", "a = " TURNED(X) "\nreturn global_avg_pool(add(" CONV("a") ", " AGAIN("a") "))",
     0, 8},
    {"a copy that another operator reads", "a = " TURNED(X) "\nreturn add(a, " CONV("a") ")", 1, 0},
    {"a copy that is an output", "a = " TURNED(X) "\nreturn a, " CONV("a"), 1, 0},
    {"a copy of a result", CONV(TURNED("neg(" X ")")), 1, 2},
    {"other axes", CONV("transpose(assign(transpose(" X "; perm=0_3_2_1)); perm=0_3_2_1)"), 1, 0},
    {"an image that is not turned back", CONV("transpose(assign(transpose(" X
     "; perm=0_2_3_1)); perm=0_3_2_1)"), 1, 0},
    {"an input that is updated", "a = " TURNED(X) "\nu = sgd(x, g[1,16,16,16], 0.25~)\nreturn u, "
     CONV("a"), 1, 3},
};

Test(layout, channels_last_inputs_are_row_major_for_portable_kernels)
{
    for (size_t i = 0; i < sizeof turned / sizeof *turned; i++) {
        uint32_t copies, rows;
        count_with_queues(&turned[i], "portable", BP_IMAGES_UNKNOWN, &copies, &rows);
        cr_expect(copies == turned[i].copies && rows == turned[i].rows,
                  "%s: %u copies and %u row-major images, expected %u and %u", turned[i].name,
                  copies, rows, turned[i].copies, turned[i].rows);
    }
}

Test(layout, channels_last_inputs_stay_for_rows_of_priority)
{
    uint32_t copies, rows;

    count_with_queues(&turned[0], NULL, BP_IMAGES_UNKNOWN, &copies, &rows);
    cr_expect(copies == 1, "%u copies", copies);
}

Test(layout, a_device_that_prefers_row_major_images_gets_no_copies)
{
    uint32_t copies, rows;

    count_with_queues(&turned[0], NULL, BP_IMAGES_ROW_MAJOR, &copies, &rows);
    cr_expect(!copies && rows == 2, "%u copies, %u row-major images", copies, rows);
    count_with_queues(&networks[0], NULL, BP_IMAGES_ROW_MAJOR, &copies, &rows);
    cr_expect(!copies && rows == 4, "%u copies, %u row-major images", copies, rows);
}

Test(layout, a_device_that_prefers_channels_last_gets_copies)
{
    uint32_t copies, rows;

    count_with_queues(&networks[0], NULL, BP_IMAGES_UNKNOWN, &copies, &rows);
    cr_expect(!copies && rows == 4, "%u copies, %u row-major images", copies, rows);
    count_with_queues(&networks[0], NULL, BP_IMAGES_CHANNELS_LAST, &copies, &rows);
    cr_expect(copies == 2 && !rows, "%u copies, %u row-major images", copies, rows);
    count_with_queues(&turned[0], "portable", BP_IMAGES_CHANNELS_LAST, &copies, &rows);
    cr_expect(copies == 1, "%u copies", copies);
}

/* Compiles convolutions of a channels-last copy of an input for cpu, whose rows of conv take
 * contiguous tensors only if `strided` is not set. Returns the copies. */
static uint32_t count_with_rows(const char *text, bool strided)
{
    struct text_graph g = text_begin();
    struct bp_plugin_entry *entry = g.f.device->entry;
    uint32_t copies, rows;
    struct bp_schedule *s;

    for (uint32_t i = 0; i < entry->n_kernel && !strided; i++)
        if (!strcmp(entry->kernel[i].op, "conv")) entry->kernel[i].flags &= ~BP_KERNEL_STRIDED;
    g.dtype = BP_F64;
    text_record(&g, text);
    OK(bp_compile(g.graph, g.f.device, &s));
    count_layouts(s, &copies, &rows);
    bp_schedule_destroy(s);
    text_finish(&g);
    return copies;
}

Test(layout, rows_that_take_contiguous_images_get_no_copies)
{
    cr_expect_eq(count_with_rows(turned[0].text, true), 1);
    cr_expect_eq(count_with_rows(turned[0].text, false), 0);
    cr_expect_eq(count_with_rows(networks[0].text, false), 0);
}
