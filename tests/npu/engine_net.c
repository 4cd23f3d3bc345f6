/* SPDX-License-Identifier: Apache-2.0 */
/* engine_net.c: runs a small network as a program on npu:0 twice, and prints how many nodes the
 * program has, why engines left groups to kernels, and the results.
 *
 *     engine_net            the program and its cache are set by the environment */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    IMAGE = 2 * 3 * 8 * 8,
    FILTERS = 4 * 3 * 3 * 3,
    WEIGHTS = 5 * 16,
    CLASSES = 5,
    IMAGES = 2
};
static struct bp_core *core;
static struct bp_device *device;
static struct bp_stream *stream;

static void net_need(enum bp_status status, const char *what)
{
    if (!status) return;
    printf("%s: %s: %s\n", what, bp_status_name(status), bp_error_message());
    exit(1);
}

static struct bp_tensor *net_tensor(uint32_t rank, const int64_t *shape, int64_t count, double step)
{
    float *numbers = malloc((size_t)count * sizeof *numbers);
    struct bp_tensor *t = NULL;

    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(step * (double)((i * 7919) % 31 - 15) / 15);
    net_need(bp_tensor_create(device, BP_F32, rank, shape, &t), "tensor");
    net_need(bp_tensor_write(stream, t, numbers, (size_t)count * sizeof *numbers), "write");
    free(numbers);
    return t;
}

/* softmax(max_pool(relu(conv(x, w, b))) as vectors, times v transposed). */
static struct bp_program *net_record(struct bp_graph *graph, const int64_t *shape)
{
    struct bp_conv_attrs conv = bp_conv_defaults();
    struct bp_max_pool_attrs pool = bp_max_pool_defaults();
    struct bp_matmul_attrs product = bp_matmul_defaults();
    const int64_t vectors[] = {IMAGES, 16};
    struct bp_reshape_attrs flat = {.size = sizeof flat, .shape = {vectors, 2}};
    struct bp_scope *scope = bp_graph_scope(graph);
    struct bp_tensor *w = net_tensor(4, (const int64_t[]){4, 3, 3, 3}, FILTERS, 0.2);
    struct bp_tensor *b = net_tensor(1, (const int64_t[]){4}, 4, 0.1);
    struct bp_tensor *v = net_tensor(2, (const int64_t[]){CLASSES, 16}, WEIGHTS, 0.5);
    struct bp_tensor *t[8] = {NULL};
    struct bp_program *program = NULL;

    conv.pad[0] = conv.pad[1] = conv.pad[3] = conv.pad[4] = 1;
    conv.stride[0] = conv.stride[1] = 2;
    pool.window[0] = pool.window[1] = pool.stride[0] = pool.stride[1] = 2;
    product.transpose_b = 1;
    net_need(bp_tensor_freeze(w), "freeze");
    net_need(bp_tensor_freeze(b), "freeze");
    net_need(bp_tensor_freeze(v), "freeze");
    net_need(bp_graph_input(graph, "x", BP_F32, 4, shape, &t[0]), "input");
    net_need(bp_op_conv(scope, t[0], w, b, &conv, &t[1]), "conv");
    net_need(bp_op_relu(scope, t[1], &t[2]), "relu");
    net_need(bp_op_max_pool(scope, t[2], &pool, &t[3]), "max_pool");
    net_need(bp_op_reshape(scope, t[3], NULL, &flat, &t[4]), "reshape");
    net_need(bp_op_matmul(scope, t[4], v, &product, &t[5]), "matmul");
    net_need(bp_op_softmax(scope, t[5], NULL, &t[6]), "softmax");
    net_need(bp_graph_output(graph, t[6], "y"), "output");
    net_need(bp_program_create(graph, device, &program), "program");
    for (int i = 0; i < 7; i++) bp_tensor_destroy(t[i]);
    bp_tensor_destroy(w);
    bp_tensor_destroy(b);
    bp_tensor_destroy(v);
    return program;
}

static void net_run(struct bp_program *program, struct bp_tensor *x)
{
    float numbers[IMAGES * CLASSES];
    struct bp_tensor *y = NULL;

    net_need(bp_program_run(program, stream, &x, 1, &y, 1), "run");
    net_need(bp_tensor_read(stream, y, numbers, sizeof numbers), "read");
    bp_tensor_destroy(y);
    printf("results");
    for (int i = 0; i < IMAGES * CLASSES; i++) printf(" %.6f", (double)numbers[i]);
    printf("\n");
}

int main(void)
{
    const int64_t shape[] = {2, 3, 8, 8};
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program;
    struct bp_graph *graph;
    struct bp_tensor *x;

    net_need(bp_core_create(NULL, &core), "core");
    net_need(bp_device_create(core, "npu:0", &device), "device");
    net_need(bp_stream_create(device, &stream), "stream");
    net_need(bp_graph_create(core, &graph), "graph");
    x = net_tensor(4, shape, IMAGE, 1);
    program = net_record(graph, shape);
    net_run(program, x);
    net_run(program, x);
    net_need(bp_program_get_info(program, &info), "info");
    printf("nodes %u of %u, cache '%s'\nengines '%s'\n", info.nodes, info.recorded_nodes,
           info.cache, info.engines);
    bp_program_destroy(program);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
