/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c: compares attention, with and without a soft cap, with the operator calls that it
 * replaces, and a window with the same mask, on the same device. */
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

/* A window is read as such; the same keys by a mask are not left out. */
static void attention_measure_window(const struct ring *ring, int64_t length, int64_t seen)
{
    struct bp_attention_attrs attrs = bp_attention_defaults();
    int64_t shape[] = {8, length, 64}, window[] = {seen - 1, 0};
    struct bp_tensor *in[4], *same[3];
    struct ready ours, masked;
    uint8_t *mask;
    char name[64];

    snprintf(name, sizeof name, "attention window %d of %d", (int)seen, (int)length);
    if (!ring_wants(ring, name)) return;
    for (int i = 0; i < 3; i++) {
        in[i] = ring_tensor(ring, BP_F32, 3, shape);
        same[i] = attention_again(in[i], shape);
    }
    in[3] = ring_tensor(ring, BP_BOOL, 2, (const int64_t[]){length, length});
    mask = ring_data(in[3]);
    for (int64_t i = 0; i < length * length; i++) {
        int64_t before = i / length - i % length;
        mask[i] = before >= 0 && before < seen;
    }
    if (!ready_init(ring, &masked, "attention", NULL, in, 4)) return;
    attrs.window = (struct bp_dims){window, 2};
    if (!ready_init(ring, &ours, "attention", &attrs, same, 3)) return;
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                              .theirs = ready_run, .theirs_ctx = &masked, .target = 0.25,
                              .less = true, .rival = "the same mask"});
    ready_finish(&ours);
    ready_finish(&masked);
}

enum { CAPPED_CALLS = 6 };

static void run_capped(void *ctx)
{
    struct ready *calls = ctx;

    for (int i = 0; i < CAPPED_CALLS; i++) ready_run(&calls[i]);
}

/* A product, a scale, tanh, a scale, a softmax, and the product with v. */
static bool capped_init(const struct ring *ring, struct ready *calls, double softcap,
                        struct bp_tensor *const *in, const int64_t *shape)
{
    static const char *const op[] = {"matmul", "scale", "tanh", "scale", "softmax", "matmul"};
    struct bp_matmul_attrs across = bp_matmul_defaults();
    struct bp_scale_attrs small = bp_scale_defaults(), large = bp_scale_defaults();
    const void *attrs[] = {&across, &small, NULL, &large, NULL, NULL};
    int64_t square[] = {shape[0], shape[1], shape[1]};

    across.transpose_b = 1;
    small.factor = 0.125 / softcap;
    large.factor = softcap;
    for (int i = 0; i < CAPPED_CALLS; i++) {
        struct bp_tensor *part[2];
        if (i) part[0] = attention_again(calls[i - 1].out[0], square);
        else part[0] = attention_again(in[0], shape);
        if (i == 0 || i == 5) part[1] = attention_again(in[i ? 2 : 1], shape);
        if (!ready_init(ring, &calls[i], op[i], attrs[i], part, i == 0 || i == 5 ? 2 : 1))
            return false;
    }
    return true;
}

static void attention_measure_capped(const struct ring *ring, int64_t heads, int64_t length)
{
    struct bp_attention_attrs attrs = bp_attention_defaults();
    int64_t shape[] = {heads, length, 64};
    struct ready ours, calls[CAPPED_CALLS];
    struct bp_tensor *in[3];
    char name[64];

    snprintf(name, sizeof name, "attention softcap %dx%dx64", (int)heads, (int)length);
    if (!ring_wants(ring, name)) return;
    attrs.softcap = 3;
    for (int i = 0; i < 3; i++) in[i] = ring_tensor(ring, BP_F32, 3, shape);
    if (!capped_init(ring, calls, attrs.softcap, in, shape)) return;
    if (!ready_init(ring, &ours, "attention", &attrs, in, 3)) return;
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = &ours,
                              .theirs = run_capped, .theirs_ctx = calls, .target = 0.9,
                              .less = true, .rival = "six calls"});
    ready_finish(&ours);
    for (int i = CAPPED_CALLS - 1; i >= 0; i--) ready_finish(&calls[i]);
}

void rival_attention(const struct ring *ring)
{
    attention_measure(ring, 8, 1024, 64);
    attention_measure(ring, 8, 4096, 64);
    attention_measure(ring, 32, 128, 128);
    attention_measure_window(ring, 2048, 256);
    attention_measure_capped(ring, 8, 1024);
}
