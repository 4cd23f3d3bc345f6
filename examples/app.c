/* SPDX-License-Identifier: Apache-2.0 */
/* app.c: computes (x + y) y for two small matrices, on the device named as argument, or "cpu". */
#include <backplane/backplane.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "cpu";
    const float a[4] = {1, 2, 3, 4}, b[4] = {10, 20, 30, 40};
    const int64_t shape[2] = {2, 2};
    float c[4];
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    struct bp_stream *stream = NULL;
    struct bp_tensor *x = NULL, *y = NULL, *sum = NULL, *product = NULL;

    int failed = bp_core_create(NULL, &core) || bp_device_create(core, name, &device)
        || bp_stream_create(device, &stream) || bp_tensor_create(device, BP_F32, 2, shape, &x)
        || bp_tensor_create(device, BP_F32, 2, shape, &y) || bp_tensor_write(stream, x, a, sizeof a)
        || bp_tensor_write(stream, y, b, sizeof b) || bp_op_add(bp_stream_scope(stream), x, y, &sum)
        || bp_op_matmul(bp_stream_scope(stream), sum, y, NULL, &product)
        || bp_tensor_read(stream, product, c, sizeof c);
    if (failed) fprintf(stderr, "%s\n", bp_error_message());
    else printf("%s: %g %g %g %g\n", bp_device_name(device), c[0], c[1], c[2], c[3]);

    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(sum), bp_tensor_destroy(product);
    bp_stream_destroy(stream), bp_device_destroy(device), bp_core_destroy(core);
    return failed;
}
