/* SPDX-License-Identifier: Apache-2.0 */
/* memory_folded.c: checks that programs find the contents of a constant that the compiler computed,
 * also after the core has freed them (memory_discard of runtime.h): where a plan has packed the
 * constant, no launch reads it, until another program does. */
#include "async_fixture.h"
#include "suites.h"
#include <stdlib.h>

/* The constant m = a + b of N x N floats is large enough to be freed. */
enum { N = 160, ROWS = 48 };

struct folded {
    struct work w;
    struct bp_tensor *a, *b;
    float *m, *x, *y; /* expected contents of m; of the input and output of a run */
};

/* Integers, whose products and sums are exact. */
static float folded_number(int seed, int64_t i)
{
    return (float)((i * 37 + seed * 11) % 101 % 9 - 4);
}

static bool folded_tensor(struct folded *f, int64_t rows, int seed, struct bp_tensor **out)
{
    const int64_t shape[] = {rows, N};

    for (int64_t i = 0; i < rows * N; i++) f->x[i] = folded_number(seed, i);
    return check_ok(f->w.c, bp_tensor_create(f->w.device, BP_F32, 2, shape, out),
                    "bp_tensor_create") &&
           check_ok(f->w.c,
                    bp_tensor_write(f->w.stream[0], *out, f->x, (size_t)(rows * N) * sizeof *f->x),
                    "bp_tensor_write");
}

static bool folded_begin(struct folded *f, struct check *c)
{
    *f = (struct folded){.m = malloc(N * N * sizeof *f->m),
                         .x = malloc(N * N * sizeof *f->x),
                         .y = malloc(N * N * sizeof *f->y)};
    work_init(&f->w, c);
    if (!check_that(c, f->m && f->x && f->y, "no memory") || !work_adds(c) ||
        !work_stream(&f->w, 0, 0))
        return false;
    for (int64_t i = 0; i < N * N; i++) f->m[i] = folded_number(1, i) + folded_number(2, i);
    return folded_tensor(f, N, 1, &f->a) && folded_tensor(f, N, 2, &f->b) &&
           check_ok(c, bp_tensor_freeze(f->a), "bp_tensor_freeze") &&
           check_ok(c, bp_tensor_freeze(f->b), "bp_tensor_freeze");
}

static void folded_finish(struct folded *f)
{
    bp_tensor_destroy(f->a);
    bp_tensor_destroy(f->b);
    free(f->m);
    free(f->x);
    free(f->y);
    work_finish(&f->w);
}

/* Records y = x m for an input of so many rows, or y = x + m for N rows. */
static bool folded_record(struct folded *f, struct bp_graph *graph, int64_t rows)
{
    struct bp_scope *scope = bp_graph_scope(graph);
    struct bp_tensor *x = NULL, *m = NULL, *y = NULL;
    struct check *c = f->w.c;
    bool good = check_ok(c, bp_graph_input(graph, "x", BP_F32, 2, (int64_t[]){rows, N}, &x),
                         "bp_graph_input") &&
                check_ok(c, bp_op_add(scope, f->a, f->b, &m), "bp_op_add") &&
                check_ok(c,
                         rows == N ? bp_op_add(scope, x, m, &y)
                                   : bp_op_matmul(scope, x, m, NULL, &y),
                         rows == N ? "bp_op_add" : "bp_op_matmul") &&
                check_ok(c, bp_graph_output(graph, y, "y"), "bp_graph_output");

    bp_tensor_destroy(x);
    bp_tensor_destroy(m);
    bp_tensor_destroy(y);
    return good;
}

/* The program of folded_record. */
static bool folded_compile(struct folded *f, int64_t rows, struct bp_program **out)
{
    struct bp_graph *graph = NULL;
    bool good = check_ok(f->w.c, bp_graph_create(f->w.c->fixture->core, &graph),
                         "bp_graph_create") &&
                folded_record(f, graph, rows) &&
                check_ok(f->w.c, bp_program_create(graph, f->w.device, out), "bp_program_create");

    bp_graph_destroy(graph);
    return good;
}

static float folded_expected(const struct folded *f, int64_t rows, int64_t i)
{
    float sum = 0;

    if (rows == N) return f->x[i] + f->m[i];
    for (int64_t k = 0; k < N; k++) sum += f->x[i / N * N + k] * f->m[k * N + i % N];
    return sum;
}

/* Runs a program and checks its output. */
static bool folded_run(struct folded *f, struct bp_program *program, int64_t rows, const char *what)
{
    struct bp_tensor *x = NULL, *y = NULL;
    struct check *c = f->w.c;
    bool good = folded_tensor(f, rows, 3, &x) &&
                check_ok(c, bp_program_run(program, f->w.stream[0], &x, 1, &y, 1),
                         "bp_program_run") &&
                check_ok(c,
                         bp_tensor_read(f->w.stream[0], y, f->y,
                                        (size_t)(rows * N) * sizeof *f->y),
                         "bp_tensor_read");

    for (int64_t i = 0; good && i < rows * N; i++)
        good = check_that(c, f->y[i] == folded_expected(f, rows, i),
                          "%s: element %lld is %g, expected %g", what, (long long)i,
                          (double)f->y[i], (double)folded_expected(f, rows, i));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    return good;
}

/* Whether the device computes products. */
static bool folded_multiplies(struct folded *f)
{
    struct bp_tensor *y = NULL;
    enum bp_status status = bp_op_matmul(bp_stream_scope(f->w.stream[0]), f->a, f->b, NULL, &y);

    bp_tensor_destroy(y);
    return status != BP_ERR_NO_KERNEL;
}

/* Programs that may read a packed copy, before and after programs that read the contents. */
static void folded_again(struct check *c, const int64_t *arg)
{
    struct bp_program *product = NULL, *larger = NULL, *sum = NULL, *last = NULL;
    struct folded f;

    (void)arg;
    if (folded_begin(&f, c)) {
        int64_t few = folded_multiplies(&f) ? ROWS / 2 : N, many = few == N ? N : ROWS;
        if (folded_compile(&f, few, &product) &&
            folded_run(&f, product, few, "the first program") &&
            folded_compile(&f, many, &larger) &&
            folded_run(&f, larger, many, "a program of another shape") &&
            folded_compile(&f, N, &sum) && folded_run(&f, sum, N, "a program that adds") &&
            folded_run(&f, product, few, "the first program, again")) {
            bp_program_destroy(product);
            product = NULL;
            if (folded_run(&f, sum, N, "the sum, again") && folded_compile(&f, few, &last) &&
                folded_run(&f, last, few, "a last program"))
                folded_run(&f, larger, many, "the program of another shape, again");
        }
    }
    bp_program_destroy(product);
    bp_program_destroy(larger);
    bp_program_destroy(sum);
    bp_program_destroy(last);
    folded_finish(&f);
}

const struct check_case suite_memory_folded[] = {
    {"folded/again", folded_again},
    {NULL, NULL},
};
