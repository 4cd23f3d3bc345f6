/* SPDX-License-Identifier: Apache-2.0 */
/* test_reload.c: tests that weights lose their memory while kernels read packed copies only, and
 * that they are read again from the files of the model. */
#include "../unit/fixture.h"
#include <backplane/model.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    N = 256,
    BYTES = N * N * 4,
    ROOM = BYTES + 1024
};

#define NO_PACKS "no row packs weights here: oneDNN is not installed, or off"

/* ---- the model y = x w, of f32 [rows, N] and [N, N] ---- */

/* Where w is: in the model's file, in another file, or in the model's file and transposed there. */
enum place {
    INSIDE,
    OUTSIDE,
    TRANSPOSED,
    PLACES
};

struct message {
    unsigned char at[ROOM];
    size_t n;
};

static void message_number(struct message *m, uint64_t value)
{
    for (; value >> 7; value >>= 7) m->at[m->n++] = (unsigned char)(value | 128);
    m->at[m->n++] = (unsigned char)value;
}

static void message_field(struct message *m, unsigned number, const void *data, size_t n)
{
    message_number(m, number << 3 | 2);
    message_number(m, n);
    memcpy(m->at + m->n, data, n);
    m->n += n;
}

static void message_value(struct message *m, unsigned number, uint64_t value)
{
    message_number(m, number << 3);
    message_number(m, value);
}

static float reload_weight(int i)
{
    return (float)(i % 7) - 3;
}

static void reload_weights(float *w, enum place place)
{
    for (int i = 0; i < N * N; i++)
        w[i] = reload_weight(place == TRANSPOSED ? i % N * N + i / N : i);
}

/* The initialiser, with its data in the message or behind 4096 bytes of the file "data". */
static void message_weight(struct message *graph, enum place place)
{
    static const char location[] = "\x0a\x08location\x12\x04"
                                   "data",
                      offset[] = "\x0a\x06offset\x12\x04"
                                 "4096";
    struct message *t = calloc(1, sizeof *t);
    float *w = malloc(BYTES);

    reload_weights(w, place);
    message_value(t, 1, N); /* dims */
    message_value(t, 1, N);
    message_value(t, 2, 1); /* data_type: float */
    message_field(t, 8, "w", 1);
    if (place != OUTSIDE) message_field(t, 9, w, BYTES);
    if (place == OUTSIDE) {
        message_field(t, 13, location, sizeof location - 1);
        message_field(t, 13, offset, sizeof offset - 1);
        message_value(t, 14, 1); /* data_location: external */
    }
    message_field(graph, 5, t->at, t->n);
    free(t);
    free(w);
}

static struct message *reload_model(enum place place)
{
    static const char node[] = "\x0a\x01x\x0a\x01w\x12\x01y\"\x06MatMul",
                      transpose[] = "\x0a\x01w\x12\x01t\"\x09Transpose",
                      other[] = "\x0a\x01x\x0a\x01t\x12\x01y\"\x06MatMul",
                      x[] = "\x0a\x01x\x12\x10\x0a\x0e\x08\x01\x12\x0a\x0a\x03\x12\x01r\x0a\x03"
                            "\x08\x80\x02",
                      y[] = "\x0a\x01y\x12\x02\x0a\x00";
    struct message *model = calloc(1, sizeof *model), *graph = calloc(1, sizeof *graph);

    if (place == TRANSPOSED) message_field(graph, 1, transpose, sizeof transpose - 1);
    message_field(graph, 1, place == TRANSPOSED ? other : node, sizeof node - 1);
    message_field(graph, 2, "g", 1);
    message_weight(graph, place);
    message_field(graph, 11, x, sizeof x - 1);
    message_field(graph, 12, y, sizeof y - 1);
    message_value(model, 1, 8); /* ir_version */
    message_field(model, 7, graph->at, graph->n);
    message_field(model, 8, "\x10\x0d", 2); /* opset 13 */
    free(graph);
    return model;
}

/* ---- files ---- */

struct reloaded {
    struct fixture f;
    char folder[32], path[64], data[64];
    struct bp_model *model;
};

static void reload_write(const char *path, size_t skip, const void *data, size_t n)
{
    int file = open(path, O_WRONLY | O_CREAT, 0600);

    cr_assert_geq(file, 0);
    cr_assert_eq(pwrite(file, data, n, (off_t)skip), (ssize_t)n);
    close(file);
}

static struct reloaded reloaded_init(enum place place, uint32_t keep_weights)
{
    struct bp_model_options options = {.size = sizeof options, .keep_weights = keep_weights};
    struct message *model = reload_model(place);
    struct reloaded r = {.f = fixture_init(), .folder = "/tmp/bp-reload-XXXXXX"};
    float *w = malloc(BYTES);

    cr_assert(mkdtemp(r.folder));
    snprintf(r.path, sizeof r.path, "%s/model", r.folder);
    snprintf(r.data, sizeof r.data, "%s/data", r.folder);
    reload_write(r.path, 0, model->at, model->n);
    reload_weights(w, place);
    if (place == OUTSIDE) reload_write(r.data, 4096, w, BYTES);
    OK(bp_model_load(r.f.device, r.path, &options, &r.model));
    free(w);
    free(model);
    return r;
}

static void reloaded_finish(struct reloaded *r)
{
    bp_model_destroy(r->model);
    unlink(r->path);
    unlink(r->data);
    cr_expect_eq(rmdir(r->folder), 0);
    fixture_finish(&r->f);
}

static struct bp_model_info reloaded_info(struct reloaded *r)
{
    struct bp_model_info info = {.size = sizeof info};

    OK(bp_model_get_info(r->model, &info));
    return info;
}

static struct bp_tensor *reload_x(struct reloaded *r, int64_t rows)
{
    float *x = malloc((size_t)rows * N * sizeof *x);
    struct bp_tensor *t;

    for (int64_t i = 0; i < rows * N; i++) x[i] = (float)(i % 3);
    t = tensor_of(&r->f, BP_F32, 2, SHAPE(rows, N), x);
    free(x);
    return t;
}

/* Checks the last row; all sums are exact. */
static void reload_check(struct reloaded *r, int64_t rows, struct bp_tensor *y)
{
    float *got = malloc((size_t)rows * N * sizeof *got);

    OK(bp_tensor_read(r->f.stream, y, got, (uint64_t)rows * N * sizeof *got));
    for (int k = 0; k < N; k++) {
        float sum = 0;
        for (int i = 0; i < N; i++)
            sum += (float)(((rows - 1) * N + i) % 3) * reload_weight(i * N + k);
        cr_assert_eq(got[(rows - 1) * N + k], sum, "column %d", k);
    }
    free(got);
}

static void reload_run(struct reloaded *r, int64_t rows)
{
    struct bp_tensor *x = reload_x(r, rows), *y;

    OK(bp_model_run(r->model, r->f.stream, &x, 1, &y, 1));
    reload_check(r, rows, y);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
}

/* Runs the nodes of the model one by one, which read the weights themselves. */
static enum bp_status reload_run_nodes(struct reloaded *r, int64_t rows)
{
    struct bp_tensor *x = reload_x(r, rows), *y = NULL;
    struct bp_graph *graph;
    enum bp_status status;

    OK(bp_model_planned(r->model, &x, 1, &graph));
    status = bp_graph_run(graph, r->f.stream, &x, 1, &y, 1);
    if (status == BP_OK) reload_check(r, rows, y);
    bp_tensor_destroy(x);
    if (status == BP_OK) bp_tensor_destroy(y);
    return status;
}

static void reload_weight_is(struct reloaded *r, enum place place)
{
    float *expected = malloc(BYTES), *got = malloc(BYTES);
    struct bp_tensor *w;

    reload_weights(expected, place);
    OK(bp_model_weight(r->model, "w", &w));
    OK(bp_tensor_read(r->f.stream, w, got, BYTES));
    cr_expect_arr_eq(got, expected, BYTES);
    bp_tensor_destroy(w);
    free(expected);
    free(got);
}

Test(reload, packed_weights_lose_their_memory_and_are_read_again)
{
    for (enum place place = INSIDE; place < PLACES; place++) {
        struct reloaded r = reloaded_init(place, 0);
        cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
        reload_run(&r, 64);
        if (!reloaded_info(&r).dropped_bytes) cr_skip(NO_PACKS);
        cr_expect_eq(reloaded_info(&r).dropped_bytes, BYTES);
        reload_run(&r, 96); /* another shape finds the packed copy */
        reload_run(&r, 64);
        cr_expect_eq(reloaded_info(&r).dropped_bytes, BYTES);
        cr_expect_eq(reloaded_info(&r).restores, 0);
        unlink(r.path); /* the open file stays */
        unlink(r.data);
        OK(reload_run_nodes(&r, 64));
        cr_expect_eq(reloaded_info(&r).restores, 1);
        cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
        reload_run(&r, 128); /* frees them again */
        cr_expect_eq(reloaded_info(&r).dropped_bytes, BYTES);
        reload_weight_is(&r, place);
        cr_expect_eq(reloaded_info(&r).restores, 2);
        reload_run(&r, 160); /* weights that the app has stay */
        cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
        reloaded_finish(&r);
    }
}

Test(reload, a_file_that_was_overwritten_is_not_read)
{
    static const char other[100] = "other bytes";

    for (enum place place = INSIDE; place < PLACES; place++) {
        struct reloaded r = reloaded_init(place, 0);
        const char *path = place == OUTSIDE ? r.data : r.path;
        reload_run(&r, 64);
        if (!reloaded_info(&r).dropped_bytes) cr_skip(NO_PACKS);
        cr_assert_eq(truncate(path, 0), 0);
        reload_write(path, 0, other, sizeof other);
        FAILS(BP_ERR_INVALID,
              place == OUTSIDE ? "data was changed since" : "model was changed since",
              reload_run_nodes(&r, 64));
        reload_run(&r, 64); /* reads the packed copy */
        reloaded_finish(&r);
    }
}

Test(reload, weights_stay_where_the_app_wants_them)
{
    struct reloaded r = reloaded_init(INSIDE, 1);
    struct message *model = reload_model(INSIDE);

    reload_run(&r, 64);
    cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
    bp_model_destroy(r.model);
    OK(bp_model_load_memory(r.f.device, model->at, model->n, NULL, &r.model));
    reload_run(&r, 64);
    cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
    free(model);
    reloaded_finish(&r);
}

/* The app's tensor takes the place of a weight in a file, so the file is no source of it. */
Test(reload, tensors_of_the_app_stay)
{
    struct reloaded r = reloaded_init(INSIDE, 0);
    struct bp_model_constant of = {.name = "w"};
    const struct bp_model_options options = {
        .size = sizeof options, .constant = &of, .n_constant = 1};
    float *w = malloc(BYTES);

    cr_assert(w);
    reload_weights(w, INSIDE);
    of.tensor = tensor_of(&r.f, BP_F32, 2, SHAPE(N, N), w);
    bp_model_destroy(r.model);
    OK(bp_model_load(r.f.device, r.path, &options, &r.model));
    reload_run(&r, 64);
    cr_expect_eq(reloaded_info(&r).dropped_bytes, 0);
    unlink(r.path);
    reload_run(&r, 96);
    reload_weight_is(&r, INSIDE);
    cr_expect_eq(reloaded_info(&r).restores, 0);
    bp_tensor_destroy(of.tensor);
    free(w);
    reloaded_finish(&r);
}
