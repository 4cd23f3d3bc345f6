/* SPDX-License-Identifier: Apache-2.0 */
/* data_parallel.c: trains a small network on all ranks of a job. Each rank has a part of the batch,
 * gradients are averaged over all ranks, and so each rank updates its weights in the same way.
 *
 *     bp launch -n 4 data_parallel [DEVICE]
 *
 * y = relu(x w1) w2, by gradient descent on the mean square of y - t. The gradients are recorded by
 * the operators' own rules. Rank 0 prints the loss; it is the mean over the whole batch. */
#include <backplane/backplane.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 240, INPUTS = 8, HIDDEN = 32, STEPS = 60 };

struct job {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_scope *scope;
    struct bp_comm *comm;
    uint32_t rank, size;
};

static void data_parallel_check(enum bp_status status)
{
    if (!status) return;
    fprintf(stderr, "%s\n", bp_error_message());
    exit(1);
}

static struct bp_tensor *data_parallel_tensor(struct job *j, int64_t rows, int64_t columns,
                                              const float *data)
{
    int64_t shape[2] = {rows, columns};
    struct bp_tensor *t;

    data_parallel_check(bp_tensor_create(j->device, BP_F32, 2, shape, &t));
    data_parallel_check(
        bp_tensor_write(j->stream, t, data, (uint64_t)(rows * columns) * sizeof *data));
    return t;
}

/* Generates numbers between -scale and scale; they are the same on all ranks. */
static void data_parallel_numbers(float *data, int n, unsigned seed, float scale)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        data[i] = ((float)(seed >> 8) / (float)(1 << 23) - 1) * scale;
    }
}

/* Makes this rank's rows of the batch. The function to be learnt is t = |x0 + x1| - x2. */
static void make_data(struct job *j, struct bp_tensor **out_x, struct bp_tensor **out_t)
{
    static float x[BATCH * INPUTS], t[BATCH];
    int rows = BATCH / (int)j->size, from = rows * (int)j->rank;

    data_parallel_numbers(x, BATCH * INPUTS, 1, 1);
    for (int i = 0; i < BATCH; i++) {
        const float *row = x + i * INPUTS;
        float sum = row[0] + row[1];
        t[i] = (sum < 0 ? -sum : sum) - row[2];
    }
    *out_x = data_parallel_tensor(j, rows, INPUTS, x + from * INPUTS);
    *out_t = data_parallel_tensor(j, rows, 1, t + from);
}

static struct bp_tensor *data_parallel_weights(struct job *j, int rows, int columns, unsigned seed)
{
    float data[INPUTS * HIDDEN];

    data_parallel_numbers(data, rows * columns, seed, 0.5f);
    return data_parallel_tensor(j, rows, columns, data);
}

/* Records a graph of x, t, w1, w2: it computes the loss, and the gradients of both weights. */
static struct bp_graph *data_parallel_record(struct job *j)
{
    int64_t rows = BATCH / (int64_t)j->size;
    int64_t x_shape[2] = {rows, INPUTS}, t_shape[2] = {rows, 1};
    int64_t w1_shape[2] = {INPUTS, HIDDEN}, w2_shape[2] = {HIDDEN, 1};
    struct bp_tensor *x, *t, *w[2], *h = NULL, *a = NULL, *y = NULL, *e = NULL, *square = NULL,
                                    *loss = NULL, *one, *dw[2];
    struct bp_graph *graph;
    struct bp_scope *s;

    data_parallel_check(bp_graph_create(j->core, &graph));
    s = bp_graph_scope(graph);
    data_parallel_check(bp_graph_input(graph, "x", BP_F32, 2, x_shape, &x));
    data_parallel_check(bp_graph_input(graph, "t", BP_F32, 2, t_shape, &t));
    data_parallel_check(bp_graph_input(graph, "w1", BP_F32, 2, w1_shape, &w[0]));
    data_parallel_check(bp_graph_input(graph, "w2", BP_F32, 2, w2_shape, &w[1]));
    data_parallel_check(bp_op_matmul(s, x, w[0], NULL, &h));
    data_parallel_check(bp_op_relu(s, h, &a));
    data_parallel_check(bp_op_matmul(s, a, w[1], NULL, &y));
    data_parallel_check(bp_op_sub(s, y, t, &e));
    data_parallel_check(bp_op_mul(s, e, e, &square));
    data_parallel_check(bp_op_mean(s, square, NULL, &loss));
    data_parallel_check(bp_tensor_create(j->device, BP_F32, 0, NULL, &one));
    data_parallel_check(bp_tensor_write(j->stream, one, &(float){1}, sizeof(float)));
    data_parallel_check(bp_graph_gradient(graph, &loss, &one, 1, w, 2, dw));
    data_parallel_check(bp_graph_output(graph, loss, "loss"));
    data_parallel_check(bp_graph_output(graph, dw[0], "dw1"));
    data_parallel_check(bp_graph_output(graph, dw[1], "dw2"));
    struct bp_tensor *const all[] = {x, t, w[0], w[1], h, a, y, e, square, loss, one, dw[0],
                                     dw[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) bp_tensor_destroy(all[i]);
    return graph;
}

/* Computes loss and gradients, averages them over the ranks, and updates the weights. Returns the
 * loss. */
static float data_parallel_step(struct job *j, struct bp_graph *graph, struct bp_tensor *const *in,
                                struct bp_tensor *rate)
{
    struct bp_tensor *out[3] = {NULL};
    float loss;

    data_parallel_check(bp_graph_run(graph, j->stream, in, 4, out, 3));
    for (int i = 0; i < 3; i++)
        data_parallel_check(
            bp_comm_all_reduce(j->comm, j->stream, out[i], out[i], BP_REDUCE_AVERAGE));
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *w = in[2 + i];
        data_parallel_check(bp_op_sgd(j->scope, w, out[1 + i], rate, &w)); /* updates w in place */
    }
    data_parallel_check(bp_tensor_read(j->stream, out[0], &loss, sizeof loss));
    for (int i = 0; i < 3; i++) bp_tensor_destroy(out[i]);
    return loss;
}

static void data_parallel_train(struct job *j)
{
    const float rate = 0.1f;
    struct bp_tensor *in[4], *lr;
    struct bp_graph *graph = data_parallel_record(j);

    make_data(j, &in[0], &in[1]);
    in[2] = data_parallel_weights(j, INPUTS, HIDDEN, 2);
    in[3] = data_parallel_weights(j, HIDDEN, 1, 3);
    data_parallel_check(bp_tensor_create(j->device, BP_F32, 0, NULL, &lr));
    data_parallel_check(bp_tensor_write(j->stream, lr, &rate, sizeof rate));
    for (int i = 0; i < STEPS; i++) {
        float loss = data_parallel_step(j, graph, in, lr);
        if (!j->rank && (i % 10 == 0 || i == STEPS - 1)) printf("step %2d: loss %.6f\n", i, loss);
    }
    for (int i = 0; i < 4; i++) bp_tensor_destroy(in[i]);
    bp_tensor_destroy(lr);
    bp_graph_destroy(graph);
}

int main(int argc, char **argv)
{
    struct bp_comm_id id;
    struct job j;

    data_parallel_check(bp_core_create(NULL, &j.core));
    data_parallel_check(bp_device_create(j.core, argc > 1 ? argv[1] : "cpu", &j.device));
    data_parallel_check(bp_stream_create(j.device, &j.stream));
    j.scope = bp_stream_scope(j.stream);
    data_parallel_check(bp_comm_id_of_job(&id, &j.rank, &j.size));
    data_parallel_check(bp_comm_create(j.device, &id, j.rank, j.size, &j.comm));
    data_parallel_train(&j);
    bp_comm_destroy(j.comm);
    bp_stream_destroy(j.stream);
    bp_device_destroy(j.device);
    bp_core_destroy(j.core);
    return 0;
}
