/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: compares products with an epilogue with the separate calls that they replace, on the
 * same device. The separate calls write over the product's result, as in a plan of memory. */
#include "rival.h"
#include <stdio.h>
#include <string.h>

/* Another tensor for the same memory. */
static struct bp_tensor *fused_again(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *view;

    MUST(bp_tensor_get_info(t, &info));
    MUST(bp_tensor_view(t, 0, info.rank, info.shape, info.stride, &view));
    return view;
}

/* The product, and the calls after it. */
enum { CHAIN = 4 };
struct chain {
    struct ready call[CHAIN];
    int n;
};

static void chain_run(void *ctx)
{
    struct chain *c = ctx;

    for (int i = 0; i < c->n; i++) ready_run(&c->call[i]);
}

static void chain_finish(struct chain *c)
{
    while (c->n) ready_finish(&c->call[--c->n]);
}

/* Adds a call over the result of the call before it; `with` is a second input or NULL. */
static void chain_add(const struct ring *ring, struct chain *c, const char *op,
                      struct bp_tensor *with)
{
    struct bp_tensor *y = c->call[c->n - 1].out[0], *in[] = {fused_again(y), with};
    struct ready *next = &c->call[c->n];

    if (!ready_init(ring, next, op, NULL, in, with ? 2 : 1)) return;
    bp_tensor_destroy(next->out[0]);
    next->out[0] = fused_again(y);
    c->n++;
}

/* Lets y lie in the residual's memory, which is input 3. */
static void fused_in_place(struct ready *r)
{
    bp_tensor_destroy(r->out[0]);
    r->out[0] = fused_again(r->in[3]);
}

static struct bp_tensor *fused_weights(const struct ring *ring, uint32_t rank,
                                       const int64_t *shape)
{
    struct bp_tensor *t = ring_tensor(ring, BP_F32, rank, shape);

    MUST(bp_tensor_freeze(t));
    return t;
}

struct epilogue {
    const char *op, *text;
    int64_t activation;
    bool residual;
};

static void fused_duel(const struct ring *ring, const char *name, struct ready *ours,
                       struct chain *theirs, const struct epilogue *e)
{
    if (e->residual) fused_in_place(ours);
    duel(ring, &(struct duel){.name = name, .ours = ready_run, .ours_ctx = ours,
                              .theirs = chain_run, .theirs_ctx = theirs, .target = 1.02,
                              .less = true, .rival = "separate calls"});
    ready_finish(ours);
    chain_finish(theirs);
}

static void fused_conv(const struct ring *ring, const int64_t *x, const int64_t *w, int64_t groups,
                       const struct epilogue *e)
{
    struct bp_fused_conv_attrs attrs = bp_fused_conv_defaults();
    struct bp_conv_attrs plain = bp_conv_defaults();
    int64_t pad = w[2] / 2, y[] = {x[0], w[0], x[2], x[3]};
    struct bp_tensor *in[] = {ring_channels_last(ring, BP_F32, x), fused_weights(ring, 4, w),
                              fused_weights(ring, 1, w),
                              e->residual ? ring_channels_last(ring, BP_F32, y) : NULL};
    struct bp_tensor *again[] = {fused_again(in[0]), fused_weights(ring, 4, w),
                                 fused_again(in[2])};
    struct chain theirs = {.n = 1};
    struct ready ours;
    char name[96];

    snprintf(name, sizeof name, "fused conv %dx%d %d to %d%s %dx%dx%d%s", (int)w[2], (int)w[3],
             (int)x[1], (int)w[0], groups > 1 ? " depthwise" : "", (int)x[0], (int)x[2], (int)x[3],
             e->text);
    attrs.groups = plain.groups = groups;
    for (int i = 0; i < 2; i++)
        attrs.pad[i] = attrs.pad[i + 3] = plain.pad[i] = plain.pad[i + 3] = pad;
    attrs.activation = e->activation;
    if (!ready_init(ring, &ours, "fused_conv", &attrs, in, e->residual ? 4 : 3) ||
        !ready_init(ring, &theirs.call[0], "conv", &plain, again, 3))
        return;
    if (e->residual) chain_add(ring, &theirs, "add", ring_channels_last(ring, BP_F32, y));
    if (e->op) chain_add(ring, &theirs, e->op, NULL);
    fused_duel(ring, name, &ours, &theirs, e);
}

static void fused_matmul(const struct ring *ring, int64_t m, int64_t k, int64_t n,
                         const struct epilogue *e)
{
    struct bp_fused_matmul_attrs attrs = bp_fused_matmul_defaults();
    int64_t a[] = {m, k}, b[] = {k, n}, c[] = {m, n};
    struct bp_tensor *in[] = {ring_tensor(ring, BP_F32, 2, a), fused_weights(ring, 2, b),
                              fused_weights(ring, 1, &n),
                              e->residual ? ring_tensor(ring, BP_F32, 2, c) : NULL};
    struct bp_tensor *again[] = {fused_again(in[0]), fused_weights(ring, 2, b)};
    struct chain theirs = {.n = 1};
    struct ready ours;
    char name[96];

    snprintf(name, sizeof name, "fused matmul %dx%dx%d%s", (int)m, (int)k, (int)n, e->text);
    attrs.activation = e->activation;
    if (!ready_init(ring, &ours, "fused_matmul", &attrs, in, e->residual ? 4 : 3) ||
        !ready_init(ring, &theirs.call[0], "matmul", NULL, again, 2))
        return;
    chain_add(ring, &theirs, "add", fused_again(in[2]));
    if (e->residual) chain_add(ring, &theirs, "add", ring_tensor(ring, BP_F32, 2, c));
    if (e->op) chain_add(ring, &theirs, e->op, NULL);
    fused_duel(ring, name, &ours, &theirs, e);
}

void rival_fused(const struct ring *ring)
{
    static const struct epilogue relu = {"relu", ", relu", BP_ACTIVATION_RELU, false},
                                 add = {NULL, ", add", BP_ACTIVATION_NONE, true},
                                 add_relu = {"relu", ", add, relu", BP_ACTIVATION_RELU, true},
                                 silu = {"silu", ", silu", BP_ACTIVATION_SILU, false},
                                 gelu = {"gelu", ", gelu", BP_ACTIVATION_GELU, false};
    static const int64_t x64[] = {1, 64, 56, 56}, x256[] = {1, 256, 56, 56},
                         x144[] = {1, 144, 56, 56}, many[] = {16, 64, 56, 56};
    static const int64_t w3[] = {64, 64, 3, 3}, in[] = {64, 256, 1, 1}, out[] = {256, 64, 1, 1},
                         each[] = {144, 1, 3, 3};

    if (ring->only && !strstr(ring->only, "fused")) return;
    fused_conv(ring, x64, w3, 1, &relu);
    fused_conv(ring, x64, w3, 1, &add_relu);
    fused_conv(ring, x64, w3, 1, &silu);
    fused_conv(ring, x256, in, 1, &relu);
    fused_conv(ring, x64, out, 1, &add_relu);
    fused_conv(ring, x144, each, 144, &relu);
    fused_conv(ring, x144, each, 144, &silu);
    fused_conv(ring, many, out, 1, &relu);
    fused_conv(ring, many, out, 1, &add_relu);
    fused_matmul(ring, 128, 768, 3072, &gelu);
    fused_matmul(ring, 128, 3072, 768, &add);
    fused_matmul(ring, 128, 768, 768, &add);
}
