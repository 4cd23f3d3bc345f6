/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: compares attention with the three operator calls that it replaces, on the same
 * device. */
#include "rival.h"
#include <stdio.h>

/* q k^T, its softmax, and the product of the softmax with v. */
struct three {
    struct ready scores, softmax, product;
};

static void run_three(void *ctx)
{
    struct three *t = ctx;

    ready_run(&t->scores);
    ready_run(&t->softmax);
    ready_run(&t->product);
}

/* Another view of the same memory. */
static struct bp_tensor *attention_again(struct bp_tensor *t, const int64_t *shape)
{
    int64_t stride[] = {shape[1] * shape[2], shape[2], 1};
    struct bp_tensor *view;

    MUST(bp_tensor_view(t, 0, 3, shape, stride, &view));
    return view;
}

static void attention_measure(const struct ring *ring, int64_t heads, int64_t length, int64_t depth)
{
    struct bp_matmul_attrs across = bp_matmul_defaults();
    struct bp_tensor *in[3], *part[2];
    int64_t shape[] = {heads, length, depth}, square[] = {heads, length, length};
    struct ready ours;
    struct three three;
    char name[64];

    snprintf(name, sizeof name, "attention %dx%dx%d", (int)heads, (int)length, (int)depth);
    if (!ring_wants(ring, name)) return;
    for (int i = 0; i < 3; i++) in[i] = ring_tensor(ring, BP_F32, 3, shape);
    across.transpose_b = 1;
    for (int i = 0; i < 2; i++) part[i] = attention_again(in[i], shape);
    if (!ready_init(ring, &three.scores, "matmul", &across, part, 2)) return;
    part[0] = attention_again(three.scores.out[0], square);
    if (!ready_init(ring, &three.softmax, "softmax", NULL, part, 1)) return;
    part[0] = attention_again(three.softmax.out[0], square);
    part[1] = attention_again(in[2], shape);
    if (!ready_init(ring, &three.product, "matmul", NULL, part, 2)) return;
    if (!ready_init(ring, &ours, "attention", NULL, in, 3)) return;
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                              .theirs = run_three, .theirs_ctx = &three, .target = 0.8,
                              .less = true, .rival = "three calls"});
    ready_finish(&ours);
    ready_finish(&three.product);
    ready_finish(&three.softmax);
    ready_finish(&three.scores);
}

void rival_attention(const struct ring *ring)
{
    attention_measure(ring, 8, 1024, 64);
    attention_measure(ring, 8, 4096, 64);
    attention_measure(ring, 32, 128, 128);
}
