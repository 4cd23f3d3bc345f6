/* SPDX-License-Identifier: Apache-2.0 */
/* run_weights.c: generates weights of a model from a seed. */
#include "run_model.h"
#include <math.h>

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t weights_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static double weights_uniform(uint64_t *state)
{
    return ((double)(weights_next(state) >> 11) + 0.5) * 0x1p-53;
}

/* Box and Muller 1958. */
static double weights_normal(uint64_t *state)
{
    double r = sqrt(-2 * log(weights_uniform(state)));

    return r * cos(6.283185307179586 * weights_uniform(state));
}

void run_weights(void *ctx, const char *name, uint32_t rank, const int64_t *shape, int64_t fan_in,
                 float *data, int64_t count)
{
    uint64_t state = *(const uint64_t *)ctx;
    double size = sqrt(2 / (double)(fan_in > 0 ? fan_in : 1));

    (void)shape;
    for (; *name; name++) state = (state ^ (unsigned char)*name) * 0x100000001b3;
    if (rank < 2) { /* a bias, a scale or a statistic: near 1, which is valid as a variance */
        for (int64_t i = 0; i < count; i++) data[i] = (float)(0.5 + weights_uniform(&state));
        return;
    }
    for (int64_t i = 0; i < count; i++) data[i] = (float)(weights_normal(&state) * size);
}
