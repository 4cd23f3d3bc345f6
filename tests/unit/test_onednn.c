/* SPDX-License-Identifier: Apache-2.0 */
/* test_onednn.c: tests which implementation of oneDNN the plans of the cpu plugin use, by the
 * library's own log (DNNL_VERBOSE): never the reference implementation, for any order of the axes
 * in memory; and how many threads plans use. */
#include "fixture.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { AXES = 5 };

/* Redirects standard output to a file, from begin to end. */
struct log {
    FILE *file;
    int stdout_was;
};

static struct log onednn_listen(void)
{
    struct log t = {tmpfile(), dup(STDOUT_FILENO)};

    cr_assert(t.file && t.stdout_was >= 0);
    fflush(stdout);
    dup2(fileno(t.file), STDOUT_FILENO);
    return t;
}

/* Restores standard output; the file can be read from its begin. */
static void onednn_listened(struct log *t)
{
    fflush(stdout);
    dup2(t->stdout_was, STDOUT_FILENO);
    close(t->stdout_was);
    rewind(t->file);
}

/* Returns how many primitives were created, and expects that none is a reference implementation. */
static int expect_no_reference(struct log *t, const char *what)
{
    char line[1024];
    int made = 0;

    onednn_listened(t);
    while (fgets(line, sizeof line, t->file)) {
        const char *kind = strstr(line, ",cpu,"), *name = kind ? strchr(kind + 5, ',') : NULL;
        if (!name || !strstr(line, "create")) continue;
        made++;
        cr_expect(strncmp(name, ",ref", 4) && !memmem(name, strcspn(name + 1, ",") + 1, ":ref", 4),
                  "%s: %s", what, line);
    }
    fclose(t->file);
    return made;
}

/* Creates a tensor whose axes have this order in memory, outermost first. */
static struct bp_tensor *onednn_laid(struct fixture *f, uint32_t dtype, uint32_t rank,
                                     const int64_t *shape, const int *order)
{
    struct bp_transpose_attrs a = bp_transpose_defaults();
    int64_t lies[AXES], perm[AXES];
    struct bp_tensor *base, *view = NULL;

    for (uint32_t i = 0; i < rank; i++) lies[i] = shape[order[i]];
    for (uint32_t i = 0; i < rank; i++) perm[order[i]] = i;
    a.perm = (struct bp_dims){perm, rank};
    OK(bp_tensor_create(f->device, dtype, rank, lies, &base));
    OK(bp_op_transpose(f->scope, base, &a, &view));
    bp_tensor_destroy(base);
    return view;
}

static int onednn_factorial(int n)
{
    return n < 2 ? 1 : n * onednn_factorial(n - 1);
}

/* Computes order number k of n axes, of n! orders. */
static void order_of(int k, int n, int *order)
{
    bool taken[AXES] = {false};

    for (int i = 0; i < n; i++) {
        int choices = onednn_factorial(n - 1 - i), skip = k / choices, axis = 0;
        k %= choices;
        while (taken[axis] || skip-- > 0) axis++;
        taken[axis] = true;
        order[i] = axis;
    }
}

/* Convolutions that are large enough for the library: of the suite `kernel`, and of models. */
static const struct geometry {
    int rank;
    int64_t x[AXES], w[AXES], stride, dilation, pad, groups;
} geometries[] = {
    {4, {1, 64, 28, 28}, {64, 64, 3, 3}, 1, 1, 1, 1},
    {4, {2, 64, 14, 14}, {96, 64, 1, 1}, 1, 1, 0, 1},
    {4, {1, 3, 32, 32}, {16, 3, 7, 7}, 2, 1, 3, 1},
    {4, {1, 32, 16, 16}, {32, 1, 3, 3}, 1, 1, 1, 32},
    {4, {1, 32, 15, 17}, {48, 8, 3, 3}, 1, 2, 2, 4},
    {4, {3, 13, 11, 7}, {17, 13, 3, 3}, 1, 1, 1, 1},
    {4, {1, 33, 8, 8}, {31, 33, 1, 1}, 1, 1, 0, 1},
    {4, {1, 66, 9, 10}, {70, 66, 2, 2}, 1, 1, 0, 1},
    {4, {2, 6, 7, 9}, {280, 3, 3, 3}, 1, 1, 1, 2},
    {3, {2, 40, 100}, {64, 40, 5}, 1, 1, 2, 1},
    {5, {1, 16, 5, 6, 7}, {16, 16, 3, 3, 3}, 1, 1, 1, 1},
};

static struct bp_conv_attrs attrs_of(const struct geometry *g)
{
    struct bp_conv_attrs a = bp_conv_defaults();

    for (int d = 0; d < g->rank - 2; d++) {
        a.stride[d] = g->stride;
        a.dilation[d] = g->dilation;
        a.pad[d] = a.pad[3 + d] = g->pad;
    }
    a.groups = g->groups;
    return a;
}

static void prepare_conv(struct fixture *f, const struct geometry *g, uint32_t dtype,
                         const int *x_order, const int *w_order, bool frozen)
{
    struct bp_tensor *x = onednn_laid(f, dtype, (uint32_t)g->rank, g->x, x_order);
    struct bp_tensor *w = onednn_laid(f, dtype, (uint32_t)g->rank, g->w, w_order);
    struct bp_conv_attrs attrs = attrs_of(g);
    struct bp_arg in[2] = {{&x, 1}, {&w, 1}};
    struct bp_call call = {.size = sizeof call, .op = "conv", .in = in, .n_in = 2, .attrs = &attrs};
    struct bp_prepared *p;

    if (frozen) OK(bp_tensor_freeze(w));
    OK(bp_prepared_create(f->device, &call, NULL, 0, &p));
    bp_prepared_destroy(p);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
}

static struct fixture onednn_begin(void)
{
    setenv("DNNL_VERBOSE", "2", 1); /* 2: logs creations too */
    return fixture_init();
}

Test(onednn, convolutions_never_run_its_reference)
{
    static const int straight[AXES] = {0, 1, 2, 3, 4};
    struct fixture f = onednn_begin();
    int made = 0;

    for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
        const struct geometry *g = &geometries[i];
        for (int k = 0; k < onednn_factorial(g->rank); k += g->rank > 4 ? 7 : 1) {
            char what[80];
            int order[AXES];
            struct log log = onednn_listen();
            order_of(k, g->rank, order);
            for (int d = 0; d < 2; d++) {
                uint32_t dtype = d ? BP_BF16 : BP_F32;
                prepare_conv(&f, g, dtype, order, straight, false);
                if (i % 4 == 0) prepare_conv(&f, g, dtype, straight, order, true);
            }
            snprintf(what, sizeof what, "convolution %zu, axes in order number %d", i, k);
            made += expect_no_reference(&log, what);
        }
    }
    if (!made) cr_skip("no plan is of oneDNN here: it is not installed, or off");
    fixture_finish(&f);
}

Test(onednn, products_never_run_its_reference)
{
    const int64_t shape[2][3] = {{2, 48, 40}, {2, 40, 56}};
    struct fixture f = onednn_begin();
    struct log log = onednn_listen();
    int order[2][AXES];

    for (int k = 0; k < 6 * 6 * 2; k++) {
        struct bp_tensor *a, *b;
        struct bp_arg in[2] = {{&a, 1}, {&b, 1}};
        struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2};
        struct bp_prepared *p;
        for (int frozen = 0; frozen < 2; frozen++) {
            order_of(k % 6, 3, order[0]);
            order_of(k / 6 % 6, 3, order[1]);
            a = onednn_laid(&f, k < 36 ? BP_F32 : BP_BF16, 3, shape[0], order[0]);
            b = onednn_laid(&f, k < 36 ? BP_F32 : BP_BF16, 3, shape[1], order[1]);
            if (frozen) OK(bp_tensor_freeze(b));
            OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
            bp_prepared_destroy(p);
            bp_tensor_destroy(a);
            bp_tensor_destroy(b);
        }
    }
    if (!expect_no_reference(&log, "products of matrices"))
        cr_skip("no plan is of oneDNN here: it is not installed, or off");
    fixture_finish(&f);
}

/* Creates numbers whose sums are exact. */
static struct bp_tensor *small_numbers(struct fixture *f, const int64_t *shape)
{
    int64_t count = shape[0] * shape[1] * shape[2] * shape[3];
    float *data = malloc((size_t)count * sizeof *data);
    struct bp_tensor *t;

    for (int64_t i = 0; i < count; i++) data[i] = (float)(i * 37 % 101 % 9 - 4);
    t = tensor_of(f, BP_F32, 4, shape, data);
    free(data);
    return t;
}

static void read_conv(struct fixture *f, const struct geometry *g, struct bp_tensor *x, float *to)
{
    struct bp_tensor *w = small_numbers(f, g->w), *y = NULL, *dense;
    struct bp_conv_attrs attrs = attrs_of(g);
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_op_conv(f->scope, x, w, NULL, &attrs, &y));
    OK(bp_tensor_get_info(y, &info));
    OK(bp_tensor_create(f->device, BP_F32, 4, info.shape, &dense));
    OK(bp_tensor_copy(f->stream, dense, y));
    OK(bp_tensor_read(f->stream, dense, to, info.bytes));
    bp_tensor_destroy(w), bp_tensor_destroy(y), bp_tensor_destroy(dense);
}

Test(onednn, the_order_of_axes_does_not_change_a_convolution)
{
    enum { ELEMENTS = 64 * 28 * 28 };
    const struct geometry *g = &geometries[0];
    float *expected = malloc(ELEMENTS * sizeof *expected), *got = malloc(ELEMENTS * sizeof *got);
    struct fixture f = fixture_init();
    struct bp_tensor *x = small_numbers(&f, g->x), *transposed;
    int order[AXES];

    read_conv(&f, g, x, expected);
    for (int k = 1; k < onednn_factorial(4); k++) {
        order_of(k, 4, order);
        transposed = onednn_laid(&f, BP_F32, 4, g->x, order);
        OK(bp_tensor_copy(f.stream, transposed, x));
        read_conv(&f, g, transposed, got);
        cr_expect_arr_eq(got, expected, ELEMENTS * sizeof *got, "axes in order number %d", k);
        bp_tensor_destroy(transposed);
    }
    free(expected);
    free(got);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* ---- the number of threads ---- */

static int onednn_threads(void)
{
    DIR *threads = opendir("/proc/self/task");
    int n = 0;

    cr_assert(threads);
    for (const struct dirent *e; (e = readdir(threads));) n += e->d_name[0] != '.';
    closedir(threads);
    return n;
}

enum { TERMS = 64, COLUMNS = 64 };

/* Multiplies by w in the row of oneDNN, and checks the product of `rows` rows, whose sums are
 * exact. false: the row is not there. */
static bool onednn_multiply(struct fixture *f, struct bp_tensor *w, const float *w_value, int rows)
{
    struct bp_tensor *x = small_numbers(f, SHAPE(1, 1, rows, TERMS)), *y = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&w, 1}};
    struct bp_call call = {.size = sizeof call, .op = "matmul", .in = in, .n_in = 2,
                           .kernel = "cpu_matmul_f32_dnnl"};
    float *x_value = malloc((size_t)rows * TERMS * sizeof *x_value),
          *got = malloc((size_t)rows * COLUMNS * sizeof *got);
    enum bp_status status = bp_call_run(f->scope, &call, &y, 1, NULL);
    int wrong = 0;

    cr_assert(x_value && got);
    if (status != BP_ERR_NO_KERNEL) {
        OK(status);
        OK(bp_tensor_read(f->stream, x, x_value, (size_t)rows * TERMS * sizeof *x_value));
        OK(bp_tensor_read(f->stream, y, got, (size_t)rows * COLUMNS * sizeof *got));
    }
    for (int i = 0; y && i < rows * COLUMNS; i++) {
        float sum = 0;
        for (int k = 0; k < TERMS; k++)
            sum += x_value[i / COLUMNS * TERMS + k] * w_value[k * COLUMNS + i % COLUMNS];
        wrong += got[i] != sum;
    }
    cr_expect_eq(wrong, 0, "of %d rows, %d elements are wrong", rows, wrong);
    free(x_value), free(got);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    return status == BP_OK;
}

/* The plans of both products share the packed w, that of the small product made it. */
Test(onednn, a_small_product_uses_one_thread)
{
    static float w_value[TERMS * COLUMNS];
    struct bp_tensor *w;
    struct fixture f;
    int threads;

    setenv("BP_THREADS", "3", 1);
    f = fixture_init();
    w = small_numbers(&f, SHAPE(1, 1, TERMS, COLUMNS));
    OK(bp_tensor_read(f.stream, w, w_value, sizeof w_value));
    OK(bp_tensor_freeze(w));
    threads = onednn_threads();
    if (!onednn_multiply(&f, w, w_value, 32))
        cr_skip("no plan is of oneDNN here: it is not installed, or off");
    cr_expect_eq(onednn_threads(), threads, "32 x 64 x 64 started threads");
    cr_expect(onednn_multiply(&f, w, w_value, 1024));
    cr_expect_eq(onednn_threads(), threads + 2, "1024 x 64 x 64 did not use three threads");
    cr_expect(onednn_multiply(&f, w, w_value, 32));
    bp_tensor_destroy(w);
    fixture_finish(&f);
}

/* ---- Winograd's algorithm ---- */

enum { IMAGE = 64 * 20 * 20 };

/* A convolution of images of size x size pixels. */
struct winograd_shape {
    int64_t channels, filters, size;
};
static const struct winograd_shape winograd_small = {64, 64, 20};

/* The convolutions by Winograd's algorithm that oneDNN created, and whether it has the
 * algorithm: version 2 with AVX-512. */
struct winograd_seen {
    int created;
    bool has;
};

static struct winograd_seen winograd_log(struct log *t)
{
    struct winograd_seen seen = {0};
    char line[1024];
    bool two = false, wide = false;

    onednn_listened(t);
    while (fgets(line, sizeof line, t->file)) {
        two |= strstr(line, "info,oneDNN v2") != NULL;
        wide |= strstr(line, "info,cpu,isa:") && strstr(line, "AVX-512");
        seen.created += strstr(line, "create") && strstr(line, "alg:convolution_winograd");
    }
    fclose(t->file);
    seen.has = two && wide;
    return seen;
}

/* relu(conv(x, w)) as a program. */
static struct bp_program *winograd_program(struct fixture *f, const struct winograd_shape *s,
                                           uint32_t flags)
{
    const struct bp_program_options options = {.size = sizeof options, .flags = flags};
    struct bp_conv_attrs pad = bp_conv_defaults();
    struct bp_tensor *w, *x, *c = NULL, *y = NULL;
    struct bp_program *program;
    struct bp_graph *graph;
    int64_t n = s->filters * s->channels * 9;
    float *value = malloc((size_t)n * sizeof *value);

    for (int64_t i = 0; i < n; i++) value[i] = (float)sin(i) / 24;
    for (int i = 0; i < 6; i++) pad.pad[i] = i % 3 < 2;
    w = tensor_of(f, BP_F32, 4, SHAPE(s->filters, s->channels, 3, 3), value);
    free(value);
    OK(bp_tensor_freeze(w));
    OK(bp_graph_create(f->core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 4, SHAPE(1, s->channels, s->size, s->size), &x));
    OK(bp_op_conv(bp_graph_scope(graph), x, w, NULL, &pad, &c));
    OK(bp_op_relu(bp_graph_scope(graph), c, &y));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_program_create_with(graph, f->device, &options, &program));
    bp_graph_destroy(graph);
    bp_tensor_destroy(w), bp_tensor_destroy(x), bp_tensor_destroy(c), bp_tensor_destroy(y);
    return program;
}

/* Runs the program with flags under BP_ALLOW=`allow`. */
static struct winograd_seen winograd_run(const char *allow, uint32_t flags, float *out)
{
    struct log log = onednn_listen();
    static float image[IMAGE];
    struct bp_tensor *x, *y = NULL;
    struct bp_program *program;
    struct fixture f;

    setenv("BP_ALLOW", allow, 1);
    f = onednn_begin();
    for (int i = 0; i < IMAGE; i++) image[i] = (float)cos(3 * i);
    x = tensor_of(&f, BP_F32, 4, SHAPE(1, 64, 20, 20), image);
    program = winograd_program(&f, &winograd_small, flags);
    OK(bp_program_run(program, f.stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f.stream, y, out, IMAGE * sizeof *out));
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_program_destroy(program);
    fixture_finish(&f);
    return winograd_log(&log);
}

/* The processes of tests are separate, so that the version is logged in the first run. */
Test(onednn, winograd_is_used_only_if_it_is_allowed)
{
    static float direct[IMAGE], by[IMAGE], by_flag[IMAGE];
    struct winograd_seen without = winograd_run("none", 0, direct), with;
    double error = 0;

    with = winograd_run("winograd", 0, by);
    winograd_run("none", BP_PROGRAM_WINOGRAD, by_flag);
    cr_expect_eq(without.created, 0);
    cr_expect_eq(with.created > 0, without.has, "%d created", with.created);
    cr_expect(!memcmp(by, by_flag, sizeof by), "the flag allows what the variable allows");
    for (int i = 0; i < IMAGE; i++) error = fmax(error, fabs((double)direct[i] - by[i]));
    cr_expect(error < 1e-4, "results differ by %g", error);
    cr_expect_eq(error > 0, without.has, "roundings of another algorithm differ: %g", error);
}

Test(onednn, winograd_is_used_where_it_is_faster)
{
    static const struct {
        struct winograd_shape shape;
        bool expected;
    } cases[] = {
        {{3, 64, 32}, false},    {{16, 64, 32}, true},     {{512, 512, 7}, true},
        {{1024, 512, 8}, false}, {{512, 1024, 16}, true}, {{1024, 512, 32}, true},
    };
    bool has = false;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct winograd_shape *s = &cases[i].shape;
        struct log log = onednn_listen();
        size_t n = (size_t)(s->channels * s->size * s->size);
        float *image = calloc(n, sizeof *image);
        struct fixture f = onednn_begin();
        struct bp_tensor *x = tensor_of(&f, BP_F32, 4, SHAPE(1, s->channels, s->size, s->size),
                                        image), *y = NULL;
        struct bp_program *program = winograd_program(&f, s, BP_PROGRAM_WINOGRAD);
        struct winograd_seen seen;

        OK(bp_program_run(program, f.stream, &x, 1, &y, 1));
        free(image);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
        bp_program_destroy(program);
        fixture_finish(&f);
        seen = winograd_log(&log);
        has |= seen.has; /* in the log of the first run */
        cr_expect_eq(seen.created > 0, has && cases[i].expected, "%lld channels, %lld filters",
                     (long long)s->channels, (long long)s->filters);
    }
}
