/* SPDX-License-Identifier: Apache-2.0 */
/* test_program_random.c: tests which programs with random nodes are recorded: those whose kernels
 * have BP_KERNEL_RNG, on devices whose memory has addresses. Each run draws the next numbers, be it
 * a replay or not. */
#include "fixture.h"

enum { N = 16, SEED = 3, RUNS = 3 };

static struct fixture random_open(const char *path)
{
    struct fixture f;
    uint32_t index;

    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, path, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

/* y = x + uniform */
static struct bp_program *random_program(struct fixture *f)
{
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_tensor *x, *u = NULL, *y = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    attrs.shape = (struct bp_dims){SHAPE(N), 1};
    attrs.dtype = BP_F32;
    OK(bp_graph_create(f->core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(N), &x));
    OK(bp_op_uniform(bp_graph_scope(graph), NULL, &attrs, &u));
    OK(bp_op_add(bp_graph_scope(graph), x, u, &y));
    OK(bp_graph_output(graph, y, NULL));
    OK(bp_program_create(graph, f->device, &program));
    bp_tensor_destroy(x), bp_tensor_destroy(u), bp_tensor_destroy(y);
    bp_graph_destroy(graph);
    return program;
}

/* Runs the program on the device's library; its kernels count from the seed and block. why: a part
 * of the reason for no replays, or "" where the last two of three runs are replays. */
static void random_check(const char *path, const char *why)
{
    struct fixture f = random_open(path);
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program = random_program(&f);
    struct bp_generator *generator;
    struct bp_tensor *x;
    float zero[N] = {0};

    x = tensor_of(&f, BP_F32, 1, SHAPE(N), zero);
    OK(bp_generator_create(SEED, &generator));
    OK(bp_stream_set_generator(f.stream, generator));
    for (int run = 0; run < RUNS; run++) {
        struct bp_tensor *y = NULL;
        float got[N];
        OK(bp_program_run(program, f.stream, &x, 1, &y, 1));
        OK(bp_tensor_read(f.stream, y, got, sizeof got));
        bp_tensor_destroy(y);
        for (int i = 0; i < N; i++)
            cr_assert_eq(got[i], (float)(SEED + 64 * run * (N / 4) + i), "run %d, element %d: %g",
                         run, i, (double)got[i]);
    }
    OK(bp_program_get_info(program, &info));
    cr_expect_eq(info.replays, *why ? 0 : RUNS - 1, "%d replays", (int)info.replays);
    cr_expect(*why ? strstr(info.reason, why) != NULL : !*info.reason, "expected '%s', got '%s'",
              why, info.reason);
    cr_expect(!*why || !info.bytes, "%d bytes stay recorded", (int)info.bytes);
    bp_generator_destroy(generator);
    bp_program_destroy(program);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

Test(program_random, kernels_that_use_launch_rng_are_recorded)
{
    random_check(HOSTILE_DIR "/bp_random.so", "");
}

Test(program_random, other_kernels_are_not_recorded)
{
    random_check(HOSTILE_DIR "/bp_random_plain.so",
                 "its kernel random_plain_uniform does not use launch->rng");
}

Test(program_random, devices_with_handles_do_not_record_them)
{
    random_check(HOSTILE_DIR "/bp_random_offsets.so", "the device's memory has handles");
}
