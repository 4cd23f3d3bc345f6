/* SPDX-License-Identifier: Apache-2.0 */
/* test_cancel.c: cancels runs of models from another thread: a loop of nodes that only the host
 * computes, which would take years, and a model that becomes a graph. A plain program, for
 * ThreadSanitizer. Silent on success. */
#include "thread_models.h"
#include <backplane/model.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WIDTH = 4,
    TIME_S = 60,
    DELAY_NS = 20000000
};

/* y = x after 2^40 rounds of a Loop, whose body has two Identity nodes. */
static const char model_endless[] =
    "\x08\x08:\xcc\x01\x0a\x8b\x01\x0a\x01m\x0a\x00\x0a\x01x\x12\x01y\x1a\x07\x65ndless\"\x04"
    "Loop*o\x0a\x04\x62ody2d\x0a\x10\x0a\x01\x63\x12\x01\x64\"\x08Identity\x0a\x10\x0a\x01"
    "\x61\x12\x01\x62\"\x08Identity\x12\x01\x62Z\x0b\x0a\x01i\x12\x06\x0a\x04\x08\x07\x12\x00"
    "Z\x0b\x0a\x01\x63\x12\x06\x0a\x04\x08\x09\x12\x00Z\x09\x0a\x01\x61\x12\x04\x0a\x02\x08"
    "\x01\x62\x0b\x0a\x01\x64\x12\x06\x0a\x04\x08\x09\x12\x00\x62\x09\x0a\x01\x62\x12\x04\x0a"
    "\x02\x08\x01\xa0\x01\x05\x12\x01g*\x0d\x10\x07:\x06\x80\x80\x80\x80\x80 B\x01mZ\x14\x0a"
    "\x01x\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x04\x62\x14\x0a\x01y"
    "\x12\x0f\x0a\x0d\x08\x01\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x04\x42\x04\x0a\x00\x10"
    "\x11";

static struct bp_device *device;
static struct bp_stream *stream;
static struct bp_tensor *x;

static void cancel_need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static void *cancel_soon(void *arg)
{
    const struct timespec delay = {0, DELAY_NS};

    nanosleep(&delay, NULL);
    cancel_need(!bp_stream_cancel(arg), "bp_stream_cancel");
    return NULL;
}

static struct bp_model *cancel_load(const char *data, size_t size)
{
    struct bp_model_options options = {.size = sizeof options, .rounds = UINT64_MAX};
    struct bp_model *model;

    cancel_need(!bp_model_load_memory(device, data, size, &options, &model), "load");
    return model;
}

/* The run ends with BP_ERR_CANCELLED, and no output is made. */
static void expect_cancelled(struct bp_model *model, const char *node)
{
    struct bp_tensor *y = NULL;
    enum bp_status status = bp_model_run(model, stream, &x, 1, &y, 1);

    cancel_need(status == BP_ERR_CANCELLED && !y, "a cancelled run");
    cancel_need(strstr(bp_error_message(), "bp_stream_cancel") != NULL,
                "the message has no reason");
    cancel_need(strstr(bp_error_message(), node) != NULL, "the message names no node");
}

static void expect_product(struct bp_model *model)
{
    float got[WIDTH];
    struct bp_tensor *y = NULL;

    cancel_need(!bp_model_run(model, stream, &x, 1, &y, 1), "a run after bp_stream_resume");
    cancel_need(!bp_tensor_read(stream, y, got, sizeof got), "read");
    cancel_need(got[0] == 2 && got[1] == 1 && got[2] == 1 && got[3] == 1, "a wrong result");
    bp_tensor_destroy(y);
}

int main(void)
{
    const int64_t shape[] = {1, WIDTH};
    const float ones[WIDTH] = {1, 1, 1, 1};
    struct bp_model *planned, *endless;
    struct bp_core *core;
    pthread_t thread;

    alarm(TIME_S);
    cancel_need(!bp_core_create(NULL, &core), "core");
    cancel_need(!bp_device_create(core, "cpu:0", &device), "device");
    cancel_need(!bp_stream_create(device, &stream), "stream");
    cancel_need(!bp_tensor_create(device, BP_F32, 2, shape, &x), "create");
    cancel_need(!bp_tensor_write(stream, x, ones, sizeof ones), "write");
    planned = cancel_load(model_planned, sizeof model_planned - 1);
    endless = cancel_load(model_endless, sizeof model_endless - 1);
    for (int i = 0; i < 3; i++) {
        cancel_need(!pthread_create(&thread, NULL, cancel_soon, stream), "thread");
        expect_cancelled(endless, "endless");
        pthread_join(thread, NULL);
        expect_cancelled(planned, "");
        cancel_need(!bp_stream_resume(stream), "bp_stream_resume");
        expect_product(planned);
    }
    bp_model_destroy(planned);
    bp_model_destroy(endless);
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
