/* SPDX-License-Identifier: Apache-2.0 */
/* demo_network.c: runs a small network, built from a seed through the app API, and checks each node
 * against the reference of the conformance suite. The device and the reference get the same inputs,
 * and their results may differ by the operator's tolerance (docs/accuracy.md). Exit status 1: a
 * node is wrong.
 *
 *   demo_network [DEVICE]
 *
 * x (8 pictures of 3 x 16 x 16) -> conv 3x3 -> conv 3x3, stride 2 -> sum over pixels -> matmul ->
 * add -> softmax */
#include "../sdk/conformance/compare.h"

#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>

struct demo {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    uint64_t seed;
    bool wrong;
    double worst;
    struct bp_tensor *made[16]; /* destroyed at the end */
    int n_made;
};

static void demo_network_stop(const char *what)
{
    fprintf(stderr, "demo_network: %s: %s\n", what, bp_error_message());
    exit(1);
}

static struct bp_tensor *demo_network_keep(struct demo *d, struct bp_tensor *t)
{
    return d->made[d->n_made++] = t;
}

/* Makes a tensor of f32 with values in [-scale, scale). */
static struct bp_tensor *random_tensor(struct demo *d, uint32_t rank, const int64_t *shape,
                                       float scale)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *t;
    float *values;

    if (bp_tensor_create(d->device, BP_F32, rank, shape, &t) || bp_tensor_get_info(t, &info))
        demo_network_stop("input");
    values = malloc(info.bytes);
    if (!values) demo_network_stop("no memory");
    for (int64_t i = 0; i < info.count; i++) {
        d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
        values[i] = scale * ((float)(d->seed >> 40) / 8388608.0f - 1);
    }
    if (bp_tensor_write(d->stream, t, values, info.bytes)) demo_network_stop("input");
    free(values);
    return demo_network_keep(d, t);
}

/* Reads the tensor into the form that the reference uses; also returns its bytes, if out_bytes is
 * given. */
static struct ref_array demo_network_fetch(struct demo *d, struct bp_tensor *t, void **out_bytes)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct ref_array array;
    void *bytes;

    if (bp_tensor_get_info(t, &info)) demo_network_stop("fetch");
    bytes = malloc(info.bytes);
    if (!bytes || bp_tensor_read(d->stream, t, bytes, info.bytes)) demo_network_stop("fetch");
    ref_array_init(&array, info.dtype, (int)info.rank, info.shape);
    ref_array_decode(&array, bytes);
    if (out_bytes) *out_bytes = bytes;
    else free(bytes);
    return array;
}

static void demo_network_check(struct demo *d, const struct bp_call *call, struct bp_tensor *y)
{
    const struct conform_op *op = conform_op(call->op);
    struct ref_array in[CASE_PORTS] = {{0}}, expected, got;
    struct comparison c;
    char text[256] = "";
    void *bytes;

    for (size_t i = 0; i < call->n_in; i++) in[i] = demo_network_fetch(d, call->in[i].at[0], NULL);
    op->reference(in, call->attrs ? call->attrs : bp_opinfo_find(call->op)->defaults, &expected);
    got = demo_network_fetch(d, y, &bytes);
    c = compare(op, &expected, bytes);
    if (c.wrong) compare_describe(&c, &expected, bytes, text, sizeof text);
    printf("  %-8s %-16s error %.3f of what is allowed%s%s\n", call->op,
           got.rank == 4 ? "pictures" : "rows", c.worst, c.wrong ? "  WRONG: " : "", text);
    d->wrong |= c.wrong != 0;
    if (c.worst > d->worst) d->worst = c.worst;
    for (size_t i = 0; i < call->n_in; i++) ref_array_finish(&in[i]);
    ref_array_finish(&expected);
    ref_array_finish(&got);
    free(bytes);
}

/* Runs one node and checks it. */
static struct bp_tensor *demo_network_node(struct demo *d, const char *op,
                                           struct bp_tensor *const *in, size_t n, const void *attrs)
{
    struct bp_arg args[3];
    struct bp_call call = {.size = sizeof call, .op = op, .in = args, .n_in = n, .attrs = attrs};
    struct bp_tensor *y = NULL;

    for (size_t i = 0; i < n; i++) args[i] = (struct bp_arg){&in[i], 1};
    if (bp_call_run(bp_stream_scope(d->stream), &call, &y, 1, NULL)) demo_network_stop(op);
    demo_network_check(d, &call, y);
    return demo_network_keep(d, y);
}

static struct bp_tensor *demo_network_build(struct demo *d)
{
    struct bp_conv_attrs conv = bp_conv_defaults();
    struct bp_sum_attrs sum = bp_sum_defaults();
    static const int64_t pixels[] = {2, 3};
    struct bp_tensor *x = random_tensor(d, 4, (const int64_t[]){8, 3, 16, 16}, 1);
    struct bp_tensor *w1 = random_tensor(d, 4, (const int64_t[]){16, 3, 3, 3}, 0.3f);
    struct bp_tensor *b1 = random_tensor(d, 1, (const int64_t[]){16}, 0.1f);
    struct bp_tensor *w2 = random_tensor(d, 4, (const int64_t[]){32, 16, 3, 3}, 0.1f);
    struct bp_tensor *b2 = random_tensor(d, 1, (const int64_t[]){32}, 0.1f);
    struct bp_tensor *w3 = random_tensor(d, 2, (const int64_t[]){32, 10}, 0.1f);
    struct bp_tensor *b3 = random_tensor(d, 1, (const int64_t[]){10}, 0.1f);

    for (int i = 0; i < 2; i++) conv.pad[i] = conv.pad[i + 3] = 1;
    x = demo_network_node(d, "conv", (struct bp_tensor *[]){x, w1, b1}, 3, &conv);
    conv.stride[0] = conv.stride[1] = 2;
    x = demo_network_node(d, "conv", (struct bp_tensor *[]){x, w2, b2}, 3, &conv);
    sum.axes = (struct bp_dims){pixels, 2};
    x = demo_network_node(d, "sum", &x, 1, &sum);
    x = demo_network_node(d, "matmul", (struct bp_tensor *[]){x, w3}, 2, NULL);
    x = demo_network_node(d, "add", (struct bp_tensor *[]){x, b3}, 2, NULL);
    return demo_network_node(d, "softmax", &x, 1, NULL);
}

static void print_result(struct demo *d, struct bp_tensor *y)
{
    float p[8 * 10];

    if (bp_tensor_read(d->stream, y, p, sizeof p)) demo_network_stop("result");
    printf("  picture 0 is");
    for (int i = 0; i < 10; i++) printf(" %.3f", (double)p[i]);
    printf(
        "\n%s: 6 nodes, worst error %.3f of what is allowed (correct rounding may use all of it)\n",
        d->wrong ? "WRONG" : "ok", d->worst);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cpu";
    struct demo d = {.seed = 2026};

    if (bp_core_create(NULL, &d.core) || bp_device_create(d.core, name, &d.device) ||
        bp_stream_create(d.device, &d.stream))
        demo_network_stop(name);
    printf("network from seed 2026 on %s\n", bp_device_name(d.device));
    print_result(&d, demo_network_build(&d));
    while (d.n_made) bp_tensor_destroy(d.made[--d.n_made]);
    bp_stream_destroy(d.stream);
    bp_device_destroy(d.device);
    bp_core_destroy(d.core);
    return d.wrong;
}
