/* SPDX-License-Identifier: Apache-2.0 */
/* conv_point.c: computes convolutions whose images and windows have one point, for f32: products of
 * a few vectors with a matrix, in the packed order of conv_own.h. The speed of memory decides: each
 * panel is read once from memory, in one stream. */
#include "conv_own.h"
#include <dialect/elem.h>

typedef float vec __attribute__((vector_size(VECTOR)));
typedef float vec_any __attribute__((vector_size(VECTOR), aligned(sizeof(float)), may_alias));
enum {
    WIDTH = VECTOR / (int)sizeof(float)
};

/* y = the sums of x[k] panel[k]; n: the vectors of the panel, a constant wherever this is
 * inlined. Two sums of each result hide the latency of additions. */
static inline __attribute__((always_inline)) void point_sums(const float *panel, const float *x,
                                                             int64_t k, int n, float *y)
{
    vec even[CONV_OWN_PANEL], odd[CONV_OWN_PANEL];
    const vec_any *at = (const vec_any *)panel;

    for (int i = 0; i < n; i++) even[i] = odd[i] = (vec){0};
    for (; k > 1; k -= 2, at += 2 * n, x += 2)
        for (int i = 0; i < n; i++) {
            even[i] += x[0] * at[i];
            odd[i] += x[1] * at[n + i];
        }
    if (k)
        for (int i = 0; i < n; i++) even[i] += x[0] * at[i];
    for (int i = 0; i < n; i++) ((vec_any *)y)[i] = even[i] + odd[i];
}

conv_own_task NAME(conv_point);
void NAME(conv_point)(void *arg, int64_t task)
{
    enum {
        WIDE = CONV_OWN_PANEL * WIDTH
    };
    const struct conv_own_run *run = arg;
    const struct conv_own *p = run->plan;
    int64_t first = task * WIDE, left = p->filters - first, n = left < WIDE ? left : WIDE;
    const float *panel = run->packed + first * p->channels;
    _Alignas(64) float sums[WIDE];

    for (int64_t image = 0; image < p->images; image++) {
        const float *x = run->x + image * p->x_image;
        float *y = run->y + image * p->y_image + first;

        switch ((n + WIDTH - 1) / WIDTH) {
        case 1: point_sums(panel, x, p->channels, 1, sums); break;
        case 2: point_sums(panel, x, p->channels, 2, sums); break;
        case 3: point_sums(panel, x, p->channels, 3, sums); break;
        default: point_sums(panel, x, p->channels, CONV_OWN_PANEL, sums);
        }
        for (int64_t i = 0; i < n; i++) y[i] = sums[i] + (run->bias ? run->bias[first + i] : 0);
        conv_own_activate(p, n, y);
    }
}
