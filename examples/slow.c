/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c: an app with three planted faults, which docs/profiling.md finds: in each step it copies
 * weights that do not change, waits for the device, and multiplies small parts one by one. "fast"
 * as argument avoids the faults. */
#include <backplane/backplane.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 20, WEIGHTS = 1 << 18, PARTS = 50, PART = 64 };

static float weights[WEIGHTS];

struct slow {
    struct bp_stream *stream;
    struct bp_tensor *w, *x, *part;
    bool is_fast;
};

/* w + w, after a copy of w to the device; then many small products. */
static enum bp_status slow_step(const struct slow *s)
{
    struct bp_tensor *sum = NULL;
    enum bp_status status = BP_OK;

    bp_range_begin("load weights");
    if (!s->is_fast) status = bp_tensor_write(s->stream, s->w, weights, sizeof weights);
    bp_range_end();
    bp_range_begin("compute");
    if (!status) status = bp_op_add(bp_stream_scope(s->stream), s->w, s->w, &sum);
    bp_tensor_destroy(sum);
    if (!status && !s->is_fast) status = bp_stream_synchronize(s->stream);
    bp_range_end();
    bp_range_begin("small parts");
    for (int i = 0; !status && i < (s->is_fast ? 1 : PARTS); i++) {
        struct bp_tensor *y = NULL, *a = s->is_fast ? s->x : s->part;
        status = bp_op_mul(bp_stream_scope(s->stream), a, a, &y);
        bp_tensor_destroy(y);
    }
    bp_range_end();
    return status;
}

int main(int argc, char **argv)
{
    const int64_t n = WEIGHTS, part = PART, all = PARTS * PART;
    struct slow s = {.is_fast = argc > 1 && !strcmp(argv[1], "fast")};
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    int failed = bp_core_create(NULL, &core) || bp_device_create(core, "cpu", &device)
        || bp_stream_create(device, &s.stream) || bp_tensor_create(device, BP_F32, 1, &n, &s.w)
        || bp_tensor_create(device, BP_F32, 1, &all, &s.x)
        || bp_tensor_create(device, BP_F32, 1, &part, &s.part)
        || bp_tensor_write(s.stream, s.w, weights, sizeof weights)
        || bp_tensor_write(s.stream, s.x, weights, sizeof(float) * PARTS * PART)
        || bp_tensor_write(s.stream, s.part, weights, sizeof(float) * PART);

    for (int i = 0; !failed && i < STEPS; i++) failed = slow_step(&s) != BP_OK;
    if (!failed) failed = bp_stream_synchronize(s.stream) != BP_OK;
    if (failed) fprintf(stderr, "%s\n", bp_error_message());
    bp_tensor_destroy(s.w), bp_tensor_destroy(s.x), bp_tensor_destroy(s.part);
    bp_stream_destroy(s.stream), bp_device_destroy(device), bp_core_destroy(core);
    return failed;
}
