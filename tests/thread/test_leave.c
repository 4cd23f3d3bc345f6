/* SPDX-License-Identifier: Apache-2.0 */
/* test_leave.c: exits a process while another thread closes a device whose work has not ended. The
 * thread gives up, and the device remains allocated. AddressSanitizer's leak check, which runs
 * after all other exit handlers, must still find the device reachable. Silent on success. */
#include "../devices/fake.h"

#include <backplane/backplane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { A_WHILE = 100000 /* us */ };

static struct fake *gate;

static void leave_need(enum bp_status status, const char *what)
{
    if (status == BP_OK) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    _exit(1);
}

static void *close_device(void *stream)
{
    struct bp_device *device = bp_stream_device(stream);
    struct bp_core *core = bp_device_core(device);

    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return NULL;
}

static void *open_gate(void *unused)
{
    (void)unused;
    usleep(2 * A_WHILE);
    gate->open();
    return NULL;
}

/* Registered before the core registers its handler, and therefore called after it, so that the
 * threads have time to end. */
static void wait_for_threads(void)
{
    usleep(2 * A_WHILE);
}

static struct bp_device *leave_open_device(const char *path)
{
    struct bp_device *device;
    struct bp_core *core;
    uint32_t index;

    leave_need(bp_core_create(NULL, &core), "bp_core_create");
    leave_need(bp_core_load_path(core, path, &index), "bp_core_load_path");
    leave_need(bp_device_create_at(core, index, 0, &device), "bp_device_create_at");
    gate = fake_of(path);
    if (!gate) _exit(1);
    return device;
}

static void leave_begin(void *(*run)(void *ctx), void *ctx)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, ctx)) _exit(1);
    pthread_detach(thread);
}

int main(void)
{
    const int64_t n = 4;
    float zeros[4] = {0};
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *tensor;

    atexit(wait_for_threads);
    device = leave_open_device(HOSTILE_DIR "/bp_gated.so");
    leave_need(bp_stream_create(device, &stream), "bp_stream_create");
    leave_need(bp_tensor_create(device, BP_F32, 1, &n, &tensor), "bp_tensor_create");
    gate->hold(1);
    leave_need(bp_tensor_write(stream, tensor, zeros, sizeof zeros), "bp_tensor_write");
    bp_tensor_destroy(tensor);
    leave_begin(close_device, stream);
    leave_begin(open_gate, NULL);
    usleep(A_WHILE);
    return 0;
}
