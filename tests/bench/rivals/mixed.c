/* SPDX-License-Identifier: Apache-2.0 */
/* mixed.c: compares attention with the three operators that it replaces, and a product and a
 * convolution that alternate with each of them alone. */
#include "rival.h"
#include <stdio.h>

struct three {
    struct ready call[3];
};

static void run_three(void *ctx)
{
    struct three *t = ctx;

    for (int i = 0; i < 3; i++) ready_run(&t->call[i]);
}

static void mixed_attention(const struct ring *ring)
{
    static const int64_t shape[] = {1, 8, 1024, 64}, square[] = {1, 8, 1024, 1024};
    struct bp_matmul_attrs turn = bp_matmul_defaults();
    struct three t;
    struct ready ours;

    if (!ring_wants(ring, "attention 8x1024x64")) return;
#define T(s) ring_tensor(ring, BP_F32, 4, s)
    if (!ready_init(ring, &ours, "attention", NULL,
                    (struct bp_tensor *[]){T(shape), T(shape), T(shape)}, 3))
        return;
    turn.transpose_b = 1;
    if (ready_init(ring, &t.call[0], "matmul", &turn,
                   (struct bp_tensor *[]){T(shape), T(shape)}, 2) &&
        ready_init(ring, &t.call[1], "softmax", NULL, (struct bp_tensor *[]){T(square)}, 1) &&
        ready_init(ring, &t.call[2], "matmul", NULL,
                   (struct bp_tensor *[]){T(square), T(shape)}, 2))
        duel(ring, &(struct duel){.name = "attention 8x1024x64", .ours = ready_run,
                                  .ours_ctx = &ours, .theirs = run_three, .theirs_ctx = &t,
                                  .target = 0.8, .less = true,
                                  .rival = "matmul, softmax, matmul"});
#undef T
    for (int i = 0; i < 3; i++) ready_finish(&t.call[i]);
    ready_finish(&ours);
}

enum { TURNS = 16 };
struct pair {
    struct ready product, conv;
};

static void in_turns(void *ctx)
{
    struct pair *p = ctx;

    for (int i = 0; i < TURNS; i++) {
        ready_run(&p->product);
        ready_run(&p->conv);
    }
}

static void each_alone(void *ctx)
{
    struct pair *p = ctx;

    for (int i = 0; i < TURNS; i++) ready_run(&p->product);
    for (int i = 0; i < TURNS; i++) ready_run(&p->conv);
}

static void mixed_turns(const struct ring *ring)
{
    static const int64_t a[] = {256, 256}, x[] = {1, 64, 56, 56}, w[] = {64, 64, 3, 3};
    struct bp_conv_attrs attrs = bp_conv_defaults();
    struct bp_tensor *weights;
    struct pair p;

    if (!ring_wants(ring, "matmul 256 and conv in turns")) return;
    attrs.pad[0] = attrs.pad[1] = attrs.pad[3] = attrs.pad[4] = 1;
    weights = ring_tensor(ring, BP_F32, 4, w);
    MUST(bp_tensor_freeze(weights));
    if (!ready_init(ring, &p.product, "matmul", NULL,
                    (struct bp_tensor *[]){ring_tensor(ring, BP_F32, 2, a),
                                           ring_tensor(ring, BP_F32, 2, a)},
                    2) ||
        !ready_init(ring, &p.conv, "conv", &attrs,
                    (struct bp_tensor *[]){ring_channels_last(ring, BP_F32, x), weights, NULL}, 3))
        return;
    duel(ring, &(struct duel){.name = "matmul 256 and conv in turns", .ours = in_turns,
                              .ours_ctx = &p, .theirs = each_alone, .theirs_ctx = &p,
                              .target = 1.05, .less = true, .rival = "each alone"});
    ready_finish(&p.product);
    ready_finish(&p.conv);
}

void rival_mixed(const struct ring *ring)
{
    mixed_attention(ring);
    mixed_turns(ring);
}
