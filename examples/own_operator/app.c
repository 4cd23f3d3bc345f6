/* SPDX-License-Identifier: Apache-2.0 */
/* app.c: calls an operator that a plugin brings, mydev.cube, by its name. */
#include <backplane/backplane.h>
#include <stdio.h>

int main(void)
{
    const float numbers[4] = {1, 2, 3, -4};
    const int64_t shape[1] = {4};
    float cubes[4];
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    struct bp_stream *stream = NULL;
    struct bp_tensor *x = NULL, *y = NULL;
    struct bp_arg in = {&x, 1};
    struct bp_call cube = {.size = sizeof cube, .op = "mydev.cube", .in = &in, .n_in = 1};

    int failed = bp_core_create(NULL, &core) || bp_device_create(core, "mydev", &device)
        || bp_stream_create(device, &stream) || bp_tensor_create(device, BP_F32, 1, shape, &x)
        || bp_tensor_write(stream, x, numbers, sizeof numbers)
        || bp_call_run(bp_stream_scope(stream), &cube, &y, 1, NULL)
        || bp_tensor_read(stream, y, cubes, sizeof cubes);
    if (failed) fprintf(stderr, "%s\n", bp_error_message());
    else printf("mydev: %g %g %g %g\n", cubes[0], cubes[1], cubes[2], cubes[3]);

    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_stream_destroy(stream), bp_device_destroy(device), bp_core_destroy(core);
    return failed;
}
