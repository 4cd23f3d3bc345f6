/* SPDX-License-Identifier: Apache-2.0 */
/* busy.c: ends a process while its threads launch work on inline streams and on queues, and prepare
 * new shapes for which libraries build plans. Must end with exit status 7 and print nothing; run.py
 * runs it.
 *
 *   busy exit|shutdown SEED */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STATUS = 7, THREADS = 4 };

static struct bp_device *device;
static atomic_int working; /* threads that have completed a round */

/* Whether the call succeeded. After the shutdown has begun, every call is refused. */
static int busy_fine(enum bp_status status, const char *what)
{
    if (status == BP_OK) return 1;
    if (status == BP_ERR_SHUTDOWN) return 0;
    fprintf(stderr, "%s: %s: %s\n", what, bp_status_name(status), bp_error_message());
    _exit(1);
}

static struct bp_tensor *busy_tensor(uint32_t rank, const int64_t *shape)
{
    struct bp_tensor *t = NULL;

    return busy_fine(bp_tensor_create(device, BP_F32, rank, shape, &t), "create") ? t : NULL;
}

/* Runs a matrix product, its softmax and a convolution, all with new shapes, for which the plugin
 * uses a library if it has one. */
static int work_once(struct bp_stream *stream, int64_t n)
{
    const int64_t a[2] = {n % 61 + 64, n % 53 + 64}, b[2] = {n % 53 + 64, n % 47 + 64};
    const int64_t image[4] = {1, 16, n % 19 + 8, n % 23 + 8}, filter[4] = {16, 16, 3, 3};
    struct bp_tensor *in[4] = {busy_tensor(2, a), busy_tensor(2, b), busy_tensor(4, image),
                               busy_tensor(4, filter)};
    struct bp_scope *scope = bp_stream_scope(stream);
    struct bp_tensor *c = NULL, *d = NULL, *e = NULL;
    int good = in[0] && in[1] && in[2] && in[3] && scope &&
               busy_fine(bp_op_matmul(scope, in[0], in[1], NULL, &c), "matmul") &&
               busy_fine(bp_op_softmax(scope, c, NULL, &d), "softmax") &&
               busy_fine(bp_op_conv(scope, in[2], in[3], NULL, NULL, &e), "conv") &&
               (n % 5 || busy_fine(bp_stream_synchronize(stream), "synchronize"));

    for (int i = 0; i < 4; i++) bp_tensor_destroy(in[i]);
    bp_tensor_destroy(c);
    bp_tensor_destroy(d);
    bp_tensor_destroy(e);
    return good;
}

/* Creates and destroys streams as well. Continues after calls are refused, because a process may
 * take time to end. */
static void *busy_work(void *arg)
{
    int me = *(int *)arg;
    struct bp_stream *stream = NULL;
    int64_t n = me * 1000003;

    for (;;) {
        uint32_t flags = me % 2 ? BP_STREAM_ASYNC : BP_STREAM_INLINE;
        if (!busy_fine(bp_stream_create_with(device, flags, &stream), "stream")) stream = NULL;
        for (int i = 0; stream && i < 8; i++)
            if (work_once(stream, n++) && !i) working++;
        bp_stream_destroy(stream);
        stream = NULL;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static int number[THREADS];
    struct bp_core *core;
    pthread_t thread;

    if (argc != 3) return 2;
    if (!busy_fine(bp_core_create(NULL, &core), "core") ||
        !busy_fine(bp_device_create(core, "cpu", &device), "device"))
        return 1;
    for (int i = 0; i < THREADS; i++) {
        number[i] = i;
        if (pthread_create(&thread, NULL, busy_work, &number[i])) return 3;
    }
    while (working < THREADS) usleep(200);
    usleep((useconds_t)(atoi(argv[2]) * 7919 % 3000));
    if (!strcmp(argv[1], "shutdown") &&
        !busy_fine(bp_shutdown(UINT64_C(4000000000)), "bp_shutdown"))
        return 4;
    exit(STATUS);
}
