/* SPDX-License-Identifier: Apache-2.0 */
/* late.c: ends a process while one operation is in progress, and prints which operations completed;
 * run.py knows the expected output. Exit status 7.
 *
 *   late exit|shutdown|callback|prepare|read GATED.so, late fork HANGS.so
 *     exit      a queue runs a callback, and has another one that must not begin
 *     shutdown  the same with bp_shutdown: both callbacks must run
 *     callback  the callback itself calls exit
 *     prepare   a plan is being built
 *     read      threads read by queues, and free their memory when the call returns
 *     fork      forks while a thread hangs in the loader; the child must work */
#include <backplane/backplane.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS = 7, A_WHILE = 150000 /* us */ };

static sem_t begun;

static void late_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    _exit(1);
}

static void late_report(const char *text)
{
    if (write(1, text, strlen(text)) < 0) _exit(2);
}

static void late_first(void *ctx, enum bp_status status)
{
    (void)ctx;
    (void)status;
    sem_post(&begun);
    usleep(A_WHILE);
    late_report("first\n");
}

static void late_second(void *ctx, enum bp_status status)
{
    (void)ctx;
    (void)status;
    late_report("second\n");
}

static void late_leave(void *ctx, enum bp_status status)
{
    (void)ctx;
    (void)status;
    exit(STATUS);
}

static struct bp_stream *open_stream(const char *library)
{
    struct bp_core *made;
    struct bp_device *device;
    struct bp_stream *stream;
    uint32_t index;

    late_need(bp_core_create(NULL, &made), "core");
    if (library) {
        late_need(bp_core_load_path(made, library, &index), "plugin");
        late_need(bp_device_create_at(made, index, 0, &device), "device");
    } else {
        late_need(bp_device_create(made, "cpu", &device), "device");
    }
    late_need(bp_stream_create_with(device, BP_STREAM_ASYNC, &stream), "stream");
    return stream;
}

/* Prepares a kernel that takes long to prepare, and prints a line at its end. */
static void *late_prepare(void *stream)
{
    const int64_t shape[1] = {4};
    struct bp_tensor *x, *y = NULL;

    late_need(bp_tensor_create(bp_stream_device(stream), BP_F32, 1, shape, &x), "tensor");
    sem_post(&begun);
    bp_op_cast(bp_stream_scope(stream), x, NULL, &y);
    pause();
    return NULL;
}

/* Reads again and again until a read is refused. The buffer is large enough for free to return it
 * to the kernel. */
static void *read_and_free(void *tensor)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = BP_OK;
    struct bp_stream *stream;

    late_need(bp_tensor_get_info(tensor, &info), "info");
    late_need(bp_stream_create_with(info.device, BP_STREAM_ASYNC, &stream), "stream");
    while (status == BP_OK) {
        void *memory = malloc(info.bytes);
        sem_post(&begun);
        status = bp_tensor_read(stream, tensor, memory, info.bytes);
        free(memory);
    }
    pause();
    return NULL;
}

static void read_at_exit(struct bp_stream *stream)
{
    const int64_t shape[2] = {4096, 8192};
    struct bp_tensor *dense, *transposed;
    pthread_t thread;
    void *data;

    late_need(bp_tensor_create(bp_stream_device(stream), BP_F32, 2, shape, &dense), "tensor");
    late_need(bp_tensor_map(dense, &data), "map");
    memset(data, 1, sizeof(float) * 4096 * 8192);
    late_need(bp_tensor_transpose(dense, NULL, &transposed), "transpose");
    pthread_create(&thread, NULL, read_and_free, dense);
    pthread_create(&thread, NULL, read_and_free, transposed);
    for (int i = 0; i < 6; i++) sem_wait(&begun);
    usleep(5000);
    exit(STATUS);
}

static struct bp_core *core;

static void *open_hanging(void *library)
{
    sem_post(&begun);
    bp_core_load_path(core, library, NULL);
    return NULL;
}

/* Afterwards the parent cannot load any plugin, nor end by exit. */
static void fork_while_opening(char *library)
{
    pthread_t thread;
    int status;

    late_need(bp_core_create(NULL, &core), "core");
    pthread_create(&thread, NULL, open_hanging, library);
    sem_wait(&begun);
    usleep(A_WHILE);
    if (!fork()) {
        alarm(10);
        late_need(bp_stream_synchronize(open_stream(NULL)), "the child's stream");
        late_report("child\n");
        _exit(0);
    }
    wait(&status);
    _exit(WIFEXITED(status) ? STATUS : 4);
}

int main(int argc, char **argv)
{
    struct bp_stream *stream;
    pthread_t thread;

    if (argc != 3) return 3;
    sem_init(&begun, 0, 0);
    if (!strcmp(argv[1], "fork")) fork_while_opening(argv[2]);
    stream = open_stream(strcmp(argv[1], "prepare") ? NULL : argv[2]);
    if (!strcmp(argv[1], "read")) read_at_exit(stream);
    if (!strcmp(argv[1], "callback")) {
        late_need(bp_stream_callback(stream, late_leave, NULL), "callback");
        pause();
    }
    if (!strcmp(argv[1], "prepare")) {
        pthread_create(&thread, NULL, late_prepare, stream);
        sem_wait(&begun);
        usleep(A_WHILE);
        exit(STATUS);
    }
    late_need(bp_stream_callback(stream, late_first, NULL), "callback");
    late_need(bp_stream_callback(stream, late_second, NULL), "callback");
    sem_wait(&begun);
    if (!strcmp(argv[1], "shutdown")) late_need(bp_shutdown(UINT64_MAX), "bp_shutdown");
    exit(STATUS);
}
