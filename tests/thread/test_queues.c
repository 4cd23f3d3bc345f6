/* SPDX-License-Identifier: Apache-2.0 */
/* test_queues.c: threads with their own queues write columns of one matrix and copy them, by
 * streams that are created and destroyed, with callbacks whose reads are refused. Queue threads
 * also end and start again. A plain program, for ThreadSanitizer. Silent on success. */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 60, ROWS = 300, REST = 600000 /* us: longer than a thread lasts */ };

static struct bp_device *device;
static struct bp_tensor *matrix;

static void queues_need(enum bp_status status, enum bp_status expected, const char *what)
{
    if (status == expected) return;
    fprintf(stderr, "%s: %s: %s\n", what, bp_status_name(status), bp_error_message());
    exit(1);
}

struct refused {
    struct bp_stream *stream;
    struct bp_tensor *tensor;
    float got[ROWS]; /* of a refused call, so the core must not write here */
};

static void read_inside(void *ctx, enum bp_status status)
{
    struct refused *r = ctx;

    queues_need(status, BP_OK, "the work before");
    queues_need(bp_tensor_read(r->stream, r->tensor, r->got, sizeof r->got), BP_ERR_INVALID,
                "read");
    r->got[0] += 1;
}

static void go_round(int me, int round)
{
    struct refused r = {.got = {0}};
    struct bp_tensor *other, *transposed, *copy, *back;
    float data[ROWS], got[ROWS];

    for (int i = 0; i < ROWS; i++) data[i] = (float)(me * ROUNDS + round);
    queues_need(bp_stream_create_with(device, BP_STREAM_ASYNC, &r.stream), BP_OK, "stream");
    queues_need(bp_tensor_slice(matrix, 1, me, me + 1, 1, &r.tensor), BP_OK, "slice");
    queues_need(bp_tensor_transpose(r.tensor, NULL, &transposed), BP_OK, "transpose");
    queues_need(bp_tensor_create(device, BP_F32, 2, (int64_t[]){1, ROWS}, &copy), BP_OK, "create");
    queues_need(bp_tensor_create(device, BP_F32, 2, (int64_t[]){ROWS, 2}, &other), BP_OK, "create");
    queues_need(bp_tensor_slice(other, 1, 1, 2, 1, &back), BP_OK, "slice");
    queues_need(bp_tensor_write(r.stream, r.tensor, data, sizeof data), BP_OK, "write");
    queues_need(bp_tensor_copy(r.stream, copy, transposed), BP_OK, "copy");
    queues_need(bp_tensor_copy(r.stream, back, r.tensor), BP_OK, "copy");
    queues_need(bp_stream_callback(r.stream, read_inside, &r), BP_OK, "callback");
    bp_tensor_destroy(other);
    queues_need(bp_tensor_read(r.stream, round % 2 ? copy : back, got, sizeof got), BP_OK, "read");
    for (int i = 0; i < ROWS; i++)
        if (got[i] != data[0] || r.got[0] != 1)
            queues_need(BP_ERR_INTERNAL, BP_OK, "what was read");
    bp_tensor_destroy(transposed);
    bp_tensor_destroy(copy);
    bp_tensor_destroy(back);
    bp_tensor_destroy(r.tensor);
    bp_stream_destroy(r.stream);
}

static void *queues_work(void *arg)
{
    int me = *(int *)arg;

    for (int round = 0; round < ROUNDS; round++) {
        go_round(me, round);
        if (round % 20 == 19) usleep(REST);
    }
    return NULL;
}

int main(void)
{
    static float all[ROWS * THREADS];
    struct bp_core *core;
    struct bp_stream *stream;
    pthread_t thread[THREADS];
    int number[THREADS];

    queues_need(bp_core_create(NULL, &core), BP_OK, "core");
    queues_need(bp_device_create(core, "cpu:0", &device), BP_OK, "device");
    queues_need(bp_stream_create(device, &stream), BP_OK, "stream");
    queues_need(bp_tensor_create(device, BP_F32, 2, (int64_t[]){ROWS, THREADS}, &matrix), BP_OK,
                "create");
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread[i], NULL, queues_work, &number[i])) return 1;
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    queues_need(bp_tensor_read(stream, matrix, all, sizeof all), BP_OK, "read");
    for (int i = 0; i < ROWS * THREADS; i++)
        if (all[i] != (float)(i % THREADS * ROUNDS + ROUNDS - 1))
            queues_need(BP_ERR_INTERNAL, BP_OK, "the matrix");
    bp_tensor_destroy(matrix);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
