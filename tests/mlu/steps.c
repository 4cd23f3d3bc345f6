/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: runs steps on a device, in one stream, and prints a line for each step: its name, its
 * status, and the message if it failed.
 *
 *     steps DEVICE STEP...
 *
 *     abs        x becomes |x|
 *     gather     selects rows of x by good indices
 *     bad        selects rows of x by an index past its end
 *     sync       synchronizes the stream
 *     read       reads x
 *     check      reads x, and checks that each number is |x|, if abs was run
 *     write      writes x, more than a pinned buffer holds
 *     record, query, wait    records an event, queries it, waits for it
 *     allocate   allocates a large tensor
 *     renew      makes the stream, the event and x anew
 *     reopen     destroys the device and all that belongs to it, and makes them anew */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 1000,
    WIDTH = 100,
    N = ROWS * WIDTH
};
static struct bp_core *core;
static const char *device_name;
static struct bp_device *device;
static struct bp_stream *stream;
static struct bp_event *event;
static struct bp_tensor *x, *good, *bad, *more;
static float numbers[N];
static bool positive;

static enum bp_status steps_index(int32_t last, struct bp_tensor **out)
{
    const int64_t two = 2;
    const int32_t index[] = {0, last};
    enum bp_status status = bp_tensor_create(device, BP_I32, 1, &two, out);

    return status ? status : bp_tensor_write(stream, *out, index, sizeof index);
}

static enum bp_status steps_open(void)
{
    static const int64_t shape[] = {ROWS, WIDTH};
    enum bp_status status = bp_device_create(core, device_name, &device);

    positive = false;
    if (!status) status = bp_stream_create(device, &stream);
    if (!status) status = bp_event_create(device, &event);
    if (!status) status = bp_tensor_create(device, BP_F32, 2, shape, &x);
    if (!status) status = bp_tensor_write(stream, x, numbers, sizeof numbers);
    if (!status) status = steps_index(ROWS - 1, &good);
    if (!status) status = steps_index(ROWS, &bad);
    return status;
}

static void steps_close(void)
{
    bp_tensor_destroy(x);
    bp_tensor_destroy(good);
    bp_tensor_destroy(bad);
    bp_tensor_destroy(more);
    bp_event_destroy(event);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    x = good = bad = more = NULL;
    event = NULL;
    stream = NULL;
    device = NULL;
}

static enum bp_status steps_reopen(void)
{
    steps_close();
    return steps_open();
}

static enum bp_status steps_abs(void)
{
    struct bp_tensor *y = NULL;
    enum bp_status status = bp_op_abs(bp_stream_scope(stream), x, &y);

    if (status) return status;
    bp_tensor_destroy(x);
    x = y;
    positive = true;
    return BP_OK;
}

static enum bp_status steps_gather(struct bp_tensor *index)
{
    struct bp_gather_attrs attrs = {.size = sizeof attrs};
    struct bp_tensor *y = NULL;
    enum bp_status status = bp_op_gather(bp_stream_scope(stream), x, index, &attrs, &y);

    if (status == BP_OK) bp_tensor_destroy(y);
    return status;
}

static enum bp_status steps_check(void)
{
    static float read[N];
    enum bp_status status = bp_tensor_read(stream, x, read, sizeof read);

    for (int i = 0; i < N && !status; i++)
        if (read[i] != (positive && numbers[i] < 0 ? -numbers[i] : numbers[i]))
            return BP_ERR_INTERNAL;
    return status;
}

static enum bp_status steps_allocate(int64_t n)
{
    bp_tensor_destroy(more);
    more = NULL;
    return bp_tensor_create(device, BP_F32, 1, &n, &more);
}

/* A failure stays with its stream. */
static enum bp_status steps_renew(void)
{
    static const int64_t shape[] = {ROWS, WIDTH};
    enum bp_status status;

    bp_tensor_destroy(x);
    bp_tensor_destroy(good);
    bp_event_destroy(event);
    bp_stream_destroy(stream);
    x = good = NULL;
    event = NULL;
    stream = NULL;
    positive = false;
    status = bp_stream_create(device, &stream);
    if (!status) status = bp_event_create(device, &event);
    if (!status) status = bp_tensor_create(device, BP_F32, 2, shape, &x);
    if (!status) status = bp_tensor_write(stream, x, numbers, sizeof numbers);
    if (!status) status = steps_index(ROWS - 1, &good);
    return status;
}

static enum bp_status step_run(const char *step)
{
    static float read[N];

    if (!strcmp(step, "abs")) return steps_abs();
    if (!strcmp(step, "gather")) return steps_gather(good);
    if (!strcmp(step, "bad")) return steps_gather(bad);
    if (!strcmp(step, "sync")) return bp_stream_synchronize(stream);
    if (!strcmp(step, "read")) return bp_tensor_read(stream, x, read, sizeof read);
    if (!strcmp(step, "check")) return steps_check();
    if (!strcmp(step, "write")) return bp_tensor_write(stream, x, numbers, sizeof numbers);
    if (!strcmp(step, "record")) return bp_event_record(event, stream);
    if (!strcmp(step, "query")) return bp_event_query(event);
    if (!strcmp(step, "wait")) return bp_event_wait(event, UINT64_C(5000000000));
    if (!strcmp(step, "allocate")) return steps_allocate(256 << 20);
    if (!strcmp(step, "renew")) return steps_renew();
    if (!strcmp(step, "reopen")) return steps_reopen();
    fprintf(stderr, "steps: no step %s\n", step);
    exit(2);
}

static void step_report(const char *step, enum bp_status status)
{
    printf("%s %s%s%s\n", step, bp_status_name(status), status ? ": " : "",
           status ? bp_error_message() : "");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    enum bp_status status;

    if (argc < 2) return 2;
    device_name = argv[1];
    for (int i = 0; i < N; i++) numbers[i] = (float)(i % 7 - 3);
    status = bp_core_create(NULL, &core);
    if (!status) status = steps_open();
    step_report("begin", status);
    for (int i = 2; i < argc && core && (device || !strcmp(argv[i], "reopen")); i++)
        step_report(argv[i], step_run(argv[i]));
    steps_close();
    bp_core_destroy(core);
    return 0;
}
