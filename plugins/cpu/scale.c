/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: runs scale and sgd, which multiply by one number, for one float dtype (elem.h). */
#include "cpu.h"
#include "kernels.h"
#include "stream_line.h"
#include <backplane/attrs.h>
#include <dialect/elem.h>

struct scale {
    struct loop loop;
    acc factor, bias;
};

static __attribute__((noinline)) void scale_run(const struct loop *loop, int64_t n, void *to,
                                                const void *const *in)
{
    const struct scale *s = (const struct scale *)loop;
    acc factor = s->factor, bias = s->bias;
    const elem *x = in[0];
    elem *y = to, line[LINE];
    int64_t nt = lines_count(loop, y, n);

    for (int64_t i = 0; i < nt; i += LINE) {
#pragma omp simd
        for (int j = 0; j < LINE; j++) line[j] = elem_put(elem_get(x[i + j]) * factor + bias);
        line_put(y + i, line);
    }
#pragma omp simd
    for (int64_t i = nt; i < n; i++) y[i] = elem_put(elem_get(x[i]) * factor + bias);
}

cpu_span NAME(scale_span);
void NAME(scale_span)(int formula, int64_t n, void *y, const void *const *x, const double *v)
{
    struct scale s;

    (void)formula;
    s.loop.nt = false;
    s.factor = (acc)v[0];
    s.bias = (acc)v[1];
    scale_run(&s.loop, n, y, x);
}

static void sgd_run(const struct loop *loop, int64_t n, void *to, const void *const *in)
{
    acc rate = ((const struct scale *)loop)->factor;
    const elem *param = in[0], *grad = in[1];
    elem *y = to;

#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = elem_put(elem_get(param[i]) - rate * elem_get(grad[i]));
}

enum bp_status NAME(scale)(const struct bp_launch *launch)
{
    const struct bp_scale_attrs *attrs = launch->attrs;
    struct scale s = {.loop = {.run = scale_run, .lines = true},
                      .factor = (acc)attrs->factor,
                      .bias = (acc)attrs->bias};

    cpu_loop_run(&s.loop, launch, launch->out[0], launch->in, 1);
    return BP_OK;
}

/* Reads the value of a one-element tensor of any float dtype. */
static acc scale_number_of(const struct bp_view *v)
{
    switch (v->dtype) {
    case BP_F16: return (acc)f16_to_f32(*(const uint16_t *)v->data);
    case BP_BF16: return (acc)bf16_to_f32(*(const uint16_t *)v->data);
    case BP_F32: return (acc)*(const float *)v->data;
    default: return (acc)*(const double *)v->data;
    }
}

/* The parameters are input 0 and the output; they may or may not share memory. */
enum bp_status NAME(sgd)(const struct bp_launch *launch)
{
    struct scale s = {.loop.run = sgd_run, .factor = scale_number_of(launch->in[2])};

    cpu_loop_run(&s.loop, launch, launch->out[0], launch->in, 2);
    return BP_OK;
}
