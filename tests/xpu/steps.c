/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c: runs steps on a device, in one stream, and prints a line for each step: its name, its
 * status, and the message if it failed.
 *
 *     steps DEVICE STEP...
 *
 *     add        adds 1 to each number of x; the result is a new tensor, which becomes x
 *     fused      does so by the operator fused
 *     sync       synchronizes the stream
 *     read       reads x
 *     check      reads x, and checks that each number is the number of steps that added
 *     record, query, wait    records an event, queries it, waits for it
 *     allocate   allocates another tensor
 *     pinned     allocates another tensor in pinned memory */
#include <backplane/backplane.h>
#include <backplane/fused_text.h>
#include <backplane/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };
static struct bp_device *device;
static struct bp_stream *stream;
static struct bp_event *event;
static struct bp_tensor *x, *one, *more;
static int sums; /* steps that added */
static const int64_t n = N;

static enum bp_status steps_begin(struct bp_core **out_core, const char *name)
{
    static const float zeros[N], number = 1;
    const int64_t single = 1;
    enum bp_status status = bp_core_create(NULL, out_core);

    if (!status) status = bp_device_create(*out_core, name, &device);
    if (!status) status = bp_stream_create(device, &stream);
    if (!status) status = bp_event_create(device, &event);
    if (!status) status = bp_tensor_create(device, BP_F32, 1, &n, &x);
    if (!status) status = bp_tensor_create(device, BP_F32, 1, &single, &one);
    if (!status) status = bp_tensor_write(stream, x, zeros, sizeof zeros);
    if (!status) status = bp_tensor_write(stream, one, &number, sizeof number);
    return status;
}

static enum bp_status steps_add(void)
{
    struct bp_tensor *sum = NULL;
    enum bp_status status = bp_op_add(bp_stream_scope(stream), x, one, &sum);

    if (status) return status;
    bp_tensor_destroy(x);
    x = sum;
    sums++;
    return BP_OK;
}

/* x becomes x + 1, computed by fused. */
static enum bp_status steps_fused(void)
{
    int64_t code[BP_FUSED_WORDS];
    struct bp_fused_attrs attrs = {.size = sizeof attrs};
    struct bp_tensor *operand[] = {x, one}, *sum = NULL;
    struct bp_arg in = {operand, 2};
    struct bp_call call = {.size = sizeof call, .op = "fused", .attrs = &attrs, .in = &in,
                           .n_in = 1};
    size_t length = 0;
    enum bp_status status = bp_fused_parse("y0 = add x0 x1", code, &length);

    attrs.code = (struct bp_dims){code, (int64_t)length};
    if (!status) status = bp_call_run(bp_stream_scope(stream), &call, &sum, 1, NULL);
    if (status) return status;
    bp_tensor_destroy(x);
    x = sum;
    sums++;
    return BP_OK;
}

/* Checks that each element of x is the number of additions. */
static enum bp_status steps_check(void)
{
    float numbers[N];
    enum bp_status status = bp_tensor_read(stream, x, numbers, sizeof numbers);

    for (int i = 0; i < N && !status; i++)
        if (numbers[i] != (float)sums) {
            fprintf(stderr, "steps: element %d is %g after %d sums\n", i, (double)numbers[i], sums);
            exit(2);
        }
    return status;
}

static enum bp_status steps_allocate(uint32_t space)
{
    const int64_t many = 1 << 20;
    struct bp_tensor_options options = {
        .size = sizeof options, .dtype = BP_F32, .rank = 1, .shape = &many, .space = space};

    bp_tensor_destroy(more);
    more = NULL;
    return bp_tensor_create_with(device, &options, &more);
}

static enum bp_status steps_take(const char *step)
{
    float numbers[N];

    if (!strcmp(step, "add")) return steps_add();
    if (!strcmp(step, "sync")) return bp_stream_synchronize(stream);
    if (!strcmp(step, "read")) return bp_tensor_read(stream, x, numbers, sizeof numbers);
    if (!strcmp(step, "check")) return steps_check();
    if (!strcmp(step, "fused")) return steps_fused();
    if (!strcmp(step, "record")) return bp_event_record(event, stream);
    if (!strcmp(step, "query")) return bp_event_query(event);
    if (!strcmp(step, "wait")) return bp_event_wait(event, UINT64_MAX);
    if (!strcmp(step, "allocate")) return steps_allocate(BP_SPACE_DEVICE);
    if (!strcmp(step, "pinned")) return steps_allocate(BP_SPACE_PINNED);
    fprintf(stderr, "steps: no step %s\n", step);
    exit(2);
}

static void steps_print(const char *step, enum bp_status status)
{
    printf("%s: %s%s%s\n", step, bp_status_name(status), status ? ": " : "",
           status ? bp_error_message() : "");
}

int main(int argc, char **argv)
{
    struct bp_core *core = NULL;
    enum bp_status status = argc > 1 ? steps_begin(&core, argv[1]) : BP_ERR_INVALID;

    steps_print("begin", status);
    for (int i = 2; i < argc && !status; i++) steps_print(argv[i], steps_take(argv[i]));
    bp_tensor_destroy(x);
    bp_tensor_destroy(one);
    bp_tensor_destroy(more);
    bp_event_destroy(event);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return status != BP_OK;
}
