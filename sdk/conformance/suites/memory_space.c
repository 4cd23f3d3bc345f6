/* SPDX-License-Identifier: Apache-2.0 */
/* memory_space.c: checks that a kernel reads data that the host writes to pinned and managed
 * memory, and the host data that a kernel writes. */
#include "suites.h"
#include "async_fixture.h"

enum {
    N = 5003,
    FIRST = 7
};

static bool has_space(struct check *c, uint32_t space)
{
    struct bp_buffer *buffer = NULL;
    enum bp_status status = bp_buffer_create(c->fixture->device, NULL, space, 64, &buffer);

    if (status == BP_ERR_UNSUPPORTED)
        check_unsupported(c, "the device has no memory of space %u", space);
    else check_ok(c, status, "bp_buffer_create");
    bp_buffer_destroy(buffer);
    return status == BP_OK;
}

static bool space_make(struct work *w, uint32_t space, struct bp_tensor **out)
{
    struct bp_tensor_options o = {.size = sizeof o,
                                  .dtype = BP_F32,
                                  .rank = 1,
                                  .space = space,
                                  .shape = (const int64_t[]){N},
                                  .stream = w->stream[0]};

    return check_ok(w->c, bp_tensor_create_with(w->device, &o, out), "bp_tensor_create_with");
}

static bool space_map(struct work *w, struct bp_tensor *t, float **out)
{
    void *data = NULL;

    if (!check_ok(w->c, bp_tensor_map(t, &data), "bp_tensor_map") ||
        !check_that(w->c, data != NULL, "bp_tensor_map answered no address"))
        return false;
    *out = data;
    return true;
}

static bool is_sum(struct work *w, struct bp_tensor *t, int first, int n)
{
    float *v;

    if (!space_map(w, t, &v)) return false;
    for (int i = 0; i < n; i++)
        if (!check_that(w->c, v[i] == (float)(2 * (first + i)),
                        "element %d of a sum, read by the "
                        "host, is %g, expected %d",
                        first + i, (double)v[i], 2 * (first + i)))
            return false;
    return true;
}

/* The host writes x and reads y, behind work that takes a long time; a view of y begins at a later
 * element. */
static void in_space(struct check *c, uint32_t space)
{
    struct bp_tensor *x = NULL, *y = NULL, *view = NULL;
    struct work_load load = {0};
    struct work w;
    float *v;

    work_init(&w, c);
    if (work_adds(c) && has_space(c, space) && work_stream(&w, 0, 0) && space_make(&w, space, &x) &&
        space_make(&w, space, &y) && space_map(&w, x, &v)) {
        for (int i = 0; i < N; i++) v[i] = (float)i;
        if (work_load_init(&w, 0, &load) && work_load_give(&w, 0, &load) &&
            work_launch(&w, 0, x, x, &y) && is_sum(&w, y, 0, N) &&
            check_ok(c, bp_tensor_slice(y, 0, FIRST, N, 1, &view), "bp_tensor_slice") &&
            is_sum(&w, view, FIRST, N - FIRST))
            work_has(&w, 0, y, 2, 0, "the sum, copied to the host");
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(view);
    work_load_finish(&load);
    work_finish(&w);
}

static void space_pinned(struct check *c, const int64_t *arg)
{
    (void)arg;
    in_space(c, BP_SPACE_PINNED);
}

static void space_managed(struct check *c, const int64_t *arg)
{
    (void)arg;
    in_space(c, BP_SPACE_MANAGED);
}

const struct check_case suite_memory_space[] = {
    {"space/pinned", space_pinned},
    {"space/managed", space_managed},
    {NULL, NULL},
};
