/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of grid_sample, affine_grid and their gradients. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_grid_sample, cases_affine_grid;

static const struct {
    const char *variant, *x, *grid, *y;
    enum data data; /* values of grid */
    bool small, layouts;
} images[] = {
    {"small", "1x2x3x2", "1x1x3x2", "1x2x1x3", DATA_UNIT, true, false},
    {"small.3d", "1x1x2x2x3", "1x1x2x1x3", "1x1x1x2x1", DATA_UNIT, true, false},
    {"2d", "2x3x5x7", "2x4x6x2", "2x3x4x6", DATA_UNIT, false, true},
    {"2d.outside", "2x3x5x4", "2x9x5x2", "2x3x9x5", DATA_PLAIN, false, false},
    {"2d.far", "1x2x3x5", "1x7x11x2", "1x2x7x11", DATA_WIDE, false, false},
    {"2d.one", "1x1x1x1", "1x3x3x2", "1x1x3x3", DATA_PLAIN, false, false},
    {"2d.channels", "1x65x4x3", "1x2x3x2", "1x65x2x3", DATA_UNIT, false, true},
    {"2d.width", "3x2x9x17", "3x1x131x2", "3x2x1x131", DATA_UNIT, false, false},
    {"2d.empty", "0x3x4x4", "0x2x2x2", "0x3x2x2", DATA_UNIT, false, false},
    {"2d.no-points", "2x3x4x4", "2x0x2x2", "2x3x0x2", DATA_UNIT, false, false},
    {"3d", "2x3x4x5x3", "2x3x2x4x3", "2x3x3x2x4", DATA_PLAIN, false, false},
};

/* Coordinates away from all kinks, for axes of two or three elements. */
static const double smooth[] = {-0.891, 0.15, -0.442, 0.427, 1.147, -0.818, -0.101, -1.188, 1.251};
static const double between[] = {-0.31, 0.15, -0.442, 0.427, 0.247, -0.118};
static const double edges[] = {-1, 1, 0, 0.5, -0.5, 1.25, -1.25, 3, 0.25};

static struct kernel_case *grid_sample_cases_begin(const struct case_builder *builder, size_t i,
                                                   int mode, int padding, bool align)
{
    bool input = !strcmp(builder->op->name, "grid_sample_grad_input");
    bool grid = !strcmp(builder->op->name, "grid_sample_grad_grid");
    char shapes[96];
    struct kernel_case *made;
    int at = grid ? 2 : 1;

    if (input)
        snprintf(shapes, sizeof shapes, "%s+%s+%s", images[i].y, images[i].grid, images[i].x);
    else if (grid)
        snprintf(shapes, sizeof shapes, "%s+%s+%s", images[i].y, images[i].x, images[i].grid);
    else snprintf(shapes, sizeof shapes, "%s+%s", images[i].x, images[i].grid);
    made = case_begin(builder, shapes);
    made->in[at].data = images[i].data;
    made->attrs.grid_sample.mode = mode; /* the gradients have this layout */
    made->attrs.grid_sample.padding = padding;
    made->attrs.grid_sample.align_corners = align;
    if (input && !builder->gradients) made->in[2].data = DATA_UNREAD;
    made->quick = i < 3;
    return made;
}

/* Adds the cases of grid_sample and its gradients. */
void cases_grid_sample(struct case_builder *builder)
{
    static const char *const mode[] = {"linear", "nearest", "cubic"};
    static const char *const padding[] = {"zeros", "border", "reflection"};
    bool to_grid = !strcmp(builder->op->name, "grid_sample_grad_grid");
    struct kernel_case *made;
    char name[64];

    for (int i = 0; i < COUNT(images); i++)
        for (int how = 0; how < 18; how++) {
            int m = how % 3, p = how / 3 % 3;
            if (!images[i].small && (how + (int)i) % 4 && how != (int)i) continue;
            if (images[i].small && builder->dtype[0] != BP_F64 && (how + i) % 3) continue;
            made = grid_sample_cases_begin(builder, i, m, p, how >= 9);
            if (images[i].small) case_list(made, to_grid ? 2 : 1, 9, smooth);
            if (images[i].small && !to_grid) made->gradient = 1;
            snprintf(name, sizeof name, "%s.%s.%s%s", images[i].variant, mode[m], padding[p],
                     how >= 9 ? ".corners" : "");
            if (images[i].layouts && how == (int)i) case_layouts(builder, made, name, false);
            else case_end(builder, made, "%s", name);
        }
    /* Values that are not finite in x (or dy) are sampled where no weight is 0: it is undefined
     * whether 0 times infinity is added. In grid, NaN is a position far before x. */
    for (int how = 0; how < 18; how++) {
        made = grid_sample_cases_begin(builder, 1, how % 3, how / 3 % 3, how >= 9);
        made->in[to_grid ? 2 : 1].data = DATA_NONFINITE;
        if (how % 2) case_list(made, to_grid ? 2 : 1, COUNT(between), between);
        if (how % 2) made->in[to_grid].data = DATA_NONFINITE;
        case_end(builder, made, "nonfinite.%s.%s%s", mode[how % 3], padding[how / 3 % 3],
                 how >= 9 ? ".corners" : "");
    }
    /* Exactly at positions of elements of x, rounding decides from which side the slope is
     * taken. */
    for (int how = 0; how < 18 && !to_grid; how++) {
        made = grid_sample_cases_begin(builder, how % 2 ? 3 : 2, how % 3, how / 3 % 3, how >= 9);
        case_list(made, 1, 9, edges);
        case_end(builder, made, "edges.%s.%s%s", mode[how % 3], padding[how / 3 % 3],
                 how >= 9 ? ".corners" : "");
    }
}

static const struct {
    const char *variant, *theta, *grid;
    int64_t sizes[5];
    int n;
    bool small;
} affine[] = {
    {"small", "1x2x3", "1x2x3x2", {1, 1, 2, 3}, 4, true},
    {"small.3d", "1x3x4", "1x1x2x2x3", {1, 1, 1, 2, 2}, 5, true},
    {"2d", "3x2x3", "3x5x7x2", {3, 2, 5, 7}, 4, false},
    {"2d.few", "131x2x3", "131x1x3x2", {131, 1, 1, 3}, 4, false},
    {"2d.one", "1x2x3", "1x1x1x2", {1, 1, 1, 1}, 4, false},
    {"2d.width", "2x2x3", "2x3x65x2", {2, 1, 3, 65}, 4, false},
    {"2d.empty", "0x2x3", "0x3x4x2", {0, 1, 3, 4}, 4, false},
    {"2d.no-points", "2x2x3", "2x0x4x2", {2, 1, 0, 4}, 4, false},
    {"3d", "2x3x4", "2x3x4x5x3", {2, 1, 3, 4, 5}, 5, false},
    {"nonfinite", "31x2x3", "31x2x2x2", {31, 1, 2, 2}, 4, false},
};

/* Adds the cases of affine_grid and its gradient. */
void cases_affine_grid(struct case_builder *builder)
{
    bool grad = !strcmp(builder->op->name, "affine_grid_grad");

    for (int i = 0; i < COUNT(affine); i++)
        for (int align = 0; align < 2; align++) {
            struct kernel_case *made = case_begin(builder, grad ? affine[i].grid : affine[i].theta);
            if (grad) {
                made->attrs.affine_grid_grad.align_corners = align;
            } else {
                made->attrs.affine_grid.align_corners = align;
                made->attrs.affine_grid.sizes = case_dims(made, 0, affine[i].n, affine[i].sizes);
            }
            if (!grad && i == 2) made->host = align ? BP_I64 : BP_I32;
            if (i == 3 || i == 5) case_data(made, DATA_POSITIVE);
            if (i == 9) case_data(made, DATA_NONFINITE);
            if (affine[i].small) made->gradient = 2;
            made->quick = i < 3;
            if (i == 8) case_layouts(builder, made, align ? "3d.corners" : "3d", false);
            else case_end(builder, made, "%s%s", affine[i].variant, align ? ".corners" : "");
        }
}
