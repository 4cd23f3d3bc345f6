/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: every real dtype and bool to every other; cast_run.c converts. */
#include "cast.h"
#include "cpu.h"
#include "dtype.h"
#include "kernels.h"
#include "past.h"
#include "walk.h"

cpu_cast_fn cpu_cast_run, cpu_cast_run_avx2, cpu_cast_run_avx512;

struct cast {
    struct walk walk; /* y, x */
    struct cpu_cast how;
    cpu_cast_fn *run;
    char *y;
    const char *x;
};

static void cast_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct cast *c = ctx;
    int last = c->walk.rank - 1;

    c->run(&c->how, c->y + at[0] * (int64_t)c->how.y_size, c->walk.stride[0][last],
           c->x + at[1] * (int64_t)c->how.x_size, c->walk.stride[1][last], n);
}

enum bp_status cpu_cast(const struct bp_launch *launch)
{
    static cpu_cast_fn *const run[] = {
        cpu_cast_run,
#ifdef CPU_LEVELS
        cpu_cast_run_avx2,
        cpu_cast_run_avx512,
#endif
    };
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct cast c = {.how = {.from = x->dtype, .to = y->dtype}, .y = y->data, .x = x->data};

    c.run = run[cpu_level(launch->kernel)];
    c.how.x_size = (size_t)dtype_size(x->dtype);
    c.how.y_size = (size_t)dtype_size(y->dtype);
    c.how.past = past_pays(y->count * (int64_t)c.how.y_size);
    walk_init(&c.walk, y->rank, y->shape);
    walk_broadcast(&c.walk, 0, y->rank, y->shape, y->stride);
    walk_broadcast(&c.walk, 1, x->rank, x->shape, x->stride);
    walk_sort(&c.walk, 0);
    walk_collapse(&c.walk);
    walk_run(&c.walk, launch, cast_span, &c);
    return BP_OK;
}
