/* SPDX-License-Identifier: Apache-2.0 */
/* sum_grad.c: the gradient of sum repeats dy over the summed axes. It moves elements and
 * computes nothing, so one row serves all dtypes, by their size. */
#include "axes.h"
#include "cpu.h"
#include "dtype.h"
#include "kernels.h"
#include "walk.h"
#include <string.h>

struct repeat {
    struct walk walk; /* dx, dy */
    char *dx;
    const char *dy;
    int size; /* of an element */
};

/* size is a constant wherever this is inlined: the copy becomes a load and a store. */
static inline void repeat_elements(char *dx, const char *dy, int64_t n, int64_t to, int64_t from,
                                   size_t size)
{
    for (int64_t i = 0; i < n; i++)
        memcpy(dx + i * to * (int64_t)size, dy + i * from * (int64_t)size, size);
}

static void repeat_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct repeat *r = ctx;
    int last = r->walk.rank - 1;
    int64_t to = r->walk.stride[0][last], from = r->walk.stride[1][last], size = (int64_t)r->size;
    char *dx = r->dx + at[0] * size;
    const char *dy = r->dy + at[1] * size;

    if (to == 1 && from == 1) {
        memcpy(dx, dy, (size_t)(n * size));
        return;
    }
    switch (size) {
    case 1: repeat_elements(dx, dy, n, to, from, 1); break;
    case 2: repeat_elements(dx, dy, n, to, from, 2); break;
    case 4: repeat_elements(dx, dy, n, to, from, 4); break;
    case 8: repeat_elements(dx, dy, n, to, from, 8); break;
    default: repeat_elements(dx, dy, n, to, from, 16); break;
    }
}

enum bp_status cpu_sum_grad(const struct bp_launch *launch)
{
    const struct bp_sum_grad_attrs *attrs = launch->attrs;
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    struct repeat repeat = {.dx = dx->data, .dy = dy->data, .size = dtype_size(dx->dtype)};
    uint64_t summed = axes_mask(&attrs->axes, dx->rank);

    walk_init(&repeat.walk, 0, NULL);
    for (int a = 0, from = 0; a < dx->rank; a++) {
        int64_t stride[2] = {dx->stride[a], 0};
        if (summed >> a & 1) from += attrs->keep != 0;
        else stride[1] = dy->stride[from++];
        walk_append(&repeat.walk, dx->shape[a], stride, 2);
    }
    walk_sort(&repeat.walk, 0);
    walk_collapse(&repeat.walk);
    walk_run(&repeat.walk, launch, repeat_span, &repeat);
    return BP_OK;
}
