/* SPDX-License-Identifier: Apache-2.0 */
/* work_add.c: launches for cases on order: sums of f32 tensors. */
#include "suites.h"
#include "async_fixture.h"
#include <stdlib.h>
#include <time.h>

bool work_adds(struct check *c)
{
    if (kernel_has_row(c->fixture->device, "add", BP_F32)) return true;
    check_unsupported(c, "the device has no row that adds f32");
    return false;
}

bool work_is_observed(struct check *c, int64_t kind)
{
    bool waits = bp_device_emulated(c->fixture->device) & BP_EMULATED_EVENTS &&
                 !(c->fixture->properties.flags & BP_DEVICE_INLINE);

    if (kind != BP_STREAM_INLINE && !waits) return true;
    check_unsupported(c, kind == BP_STREAM_INLINE
                             ? "an inline stream has done its work when a call "
                               "returns"
                             : "who asks for an event of the device waits");
    return false;
}

bool work_floats(struct work *w, int owner, int64_t n, struct bp_tensor **out)
{
    struct bp_tensor_options o = {.size = sizeof o, .dtype = BP_F32, .rank = 1, .shape = &n};

    if (owner != WORK_HOST) o.stream = w->stream[owner];
    return check_ok(w->c, bp_tensor_create_with(w->device, &o, out), "bp_tensor_create_with");
}

static float *host_floats(struct bp_tensor *t, int64_t *n)
{
    struct bp_tensor_info info = {.size = sizeof info};
    float *v;

    *n = bp_tensor_get_info(t, &info) ? 0 : info.count;
    v = malloc((size_t)*n * sizeof *v + 1);
    if (!v) abort();
    return v;
}

bool work_put(struct work *w, int stream, struct bp_tensor *t, int factor, int add)
{
    int64_t n;
    float *v = host_floats(t, &n);
    enum bp_status status;

    for (int64_t i = 0; i < n; i++) v[i] = (float)(i * factor + add);
    status = bp_tensor_write(w->stream[stream], t, v, (uint64_t)n * sizeof *v);
    free(v);
    return check_ok(w->c, status, "bp_tensor_write");
}

bool work_has(struct work *w, int stream, struct bp_tensor *t, int factor, int add,
              const char *what)
{
    int64_t n, i = 0;
    float *v = host_floats(t, &n);
    bool ok = check_ok(w->c, bp_tensor_read(w->stream[stream], t, v, (uint64_t)n * sizeof *v),
                       "bp_tensor_read");

    while (ok && i < n && v[i] == (float)(i * factor + add)) i++;
    ok = ok && check_that(w->c, i == n, "%s: element %d is %g, expected %d", what, (int)i,
                          (double)v[i < n ? i : 0], (int)(i * factor + add));
    free(v);
    return ok;
}

bool work_add(struct work *w, struct bp_scope *scope, struct bp_tensor *x, struct bp_tensor *y,
              struct bp_tensor **out)
{
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return check_ok(w->c, bp_call_run(scope, &call, out, 1, NULL), "bp_call_run of add");
}

bool work_launch(struct work *w, int stream, struct bp_tensor *x, struct bp_tensor *y,
                 struct bp_tensor **out)
{
    return work_add(w, bp_stream_scope(w->stream[stream]), x, y, out);
}

double work_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void work_load_finish(struct work_load *load)
{
    bp_tensor_destroy(load->x);
    bp_tensor_destroy(load->z);
    bp_tensor_destroy(load->copy);
    *load = (struct work_load){0};
}

/* Creates tensors of n elements. *out_seconds: duration of the second launch, which needs no
 * preparation any more. */
static bool load_of(struct work *w, int stream, int64_t n, struct work_load *out,
                    double *out_seconds)
{
    double began;

    if (!work_floats(w, stream, n, &out->x) || !work_floats(w, stream, n, &out->z) ||
        !work_put(w, stream, out->x, 0, 1) || !work_launch(w, stream, out->x, out->x, &out->z) ||
        !work_sync(w, stream))
        return false;
    began = work_seconds();
    if (!work_launch(w, stream, out->x, out->x, &out->z) || !work_sync(w, stream)) return false;
    *out_seconds = work_seconds() - began;
    return true;
}

enum {
    LOAD_LEAST = 64 << 10
};

/* The most elements of a load. On a small device three tensors, and as much again for an engine
 * that computes in memory of its own, take less than half of the memory. */
static int64_t load_most(const struct work *w, int64_t most)
{
    uint64_t memory = w->c->fixture->properties.memory, fits = memory / (16 * sizeof(float));

    if (!memory || fits >= (uint64_t)most) return most;
    return fits > LOAD_LEAST ? (int64_t)fits : LOAD_LEAST;
}

bool work_load_init(struct work *w, int stream, struct work_load *out)
{
    const int64_t most = load_most(w, 4 << 20);
    double took = 0;

    *out = (struct work_load){0};
    for (int64_t n = 16 << 10; n <= most && took < 2e-3; n *= 4) {
        work_load_finish(out);
        if (!load_of(w, stream, n, out, &took)) return false;
    }
    return true;
}

bool work_load_give(struct work *w, int stream, struct work_load *load)
{
    for (int i = 0; i < WORK_LAUNCHES; i++)
        if (!work_launch(w, stream, load->x, load->x, &load->z)) return false;
    return work_record(w, 0, stream);
}

/* Copies z to another tensor and back, so that z keeps its values. */
static bool copies_of(struct work *w, int stream, int64_t n, struct work_load *out,
                      double *out_seconds)
{
    double took;

    if (!load_of(w, stream, n, out, &took) || !work_floats(w, stream, n, &out->copy) ||
        !check_ok(w->c, bp_tensor_copy(w->stream[stream], out->copy, out->z), "bp_tensor_copy") ||
        !work_sync(w, stream))
        return false;
    *out_seconds = -work_seconds();
    if (!check_ok(w->c, bp_tensor_copy(w->stream[stream], out->copy, out->z), "bp_tensor_copy") ||
        !work_sync(w, stream))
        return false;
    *out_seconds += work_seconds();
    return true;
}

bool work_load_copy(struct work *w, int stream, struct work_load *load)
{
    const int64_t most = load_most(w, 16 << 20);
    double took = 0;
    bool first = !load->copy;

    for (int64_t n = LOAD_LEAST; first && n <= most && took < 2e-3; n *= 4) {
        work_load_finish(load);
        if (!copies_of(w, stream, n, load, &took)) return false;
    }
    for (int i = 0; i < WORK_LAUNCHES; i++)
        if (!check_ok(w->c,
                      bp_tensor_copy(w->stream[stream], i % 2 ? load->z : load->copy,
                                     i % 2 ? load->copy : load->z),
                      "bp_tensor_copy"))
            return false;
    return work_record(w, 0, stream);
}
