/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_training.c: tests compiled programs that train: random numbers, inputs that are read
 * for their shape only, gradients, and updates of parameters. */
#include "pass_kit.h"

#include <stdlib.h>

/* ---- random numbers ---- */

struct drawn {
    float value[2][256];
    uint64_t seed, offset; /* of the generator, afterwards */
};

static void keep_drawn(struct text_graph *g, struct bp_generator *generator,
                       struct bp_tensor **out, struct drawn *to)
{
    for (uint32_t o = 0; o < 2; o++) {
        OK(bp_tensor_read(g->f.stream, out[o], to->value[o], sizeof to->value[o]));
        bp_tensor_destroy(out[o]);
        out[o] = NULL;
    }
    OK(bp_generator_get(generator, &to->seed, &to->offset));
}

/* A program draws what bp_graph_run draws, other numbers in each run, also if the compiler removes
 * a random node before the others; and equal random nodes stay apart. */
Test(training, a_program_draws_the_numbers_of_a_run_node_by_node)
{
    struct text_graph g = text_begin();
    struct bp_tensor *out[2] = {NULL};
    struct drawn compiled[2], node_by_node[2];
    struct bp_program_info info = {.size = sizeof info};
    struct bp_generator *generator;
    struct bp_program *program;

    g.apart = true;
    text_record(&g, "a = dropout(x[16,16]; p=0.25, training=1)\n"
                    "b = dropout(x; p=0.5, training=1)\n"
                    "u = uniform(_; shape=3)\n"
                    "c = dropout(x; p=0.5, training=1)\n"
                    "return b, c");
    OK(bp_generator_create(7, &generator));
    OK(bp_generator_set(generator, 7, 11));
    OK(bp_stream_set_generator(g.f.stream, generator));
    OK(bp_program_create(g.graph, g.f.device, &program));
    for (int run = 0; run < 2; run++) {
        OK(bp_program_run(program, g.f.stream, g.in, g.n_in, out, 2));
        keep_drawn(&g, generator, out, &compiled[run]);
    }
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.compiled, 1, "%s", info.not_compiled);
    cr_assert_eq(info.launches, 2, "%u launches", info.launches);
    OK(bp_generator_set(generator, 7, 11));
    for (int run = 0; run < 2; run++) {
        OK(bp_graph_run(g.graph, g.f.stream, g.in, g.n_in, out, 2));
        keep_drawn(&g, generator, out, &node_by_node[run]);
    }
    for (int run = 0; run < 2; run++)
        cr_assert(!memcmp(&compiled[run], &node_by_node[run], sizeof *compiled), "run %d", run);
    cr_assert(memcmp(compiled[0].value, compiled[1].value, sizeof compiled[0].value),
              "the second run draws the same");
    cr_assert(memcmp(compiled[0].value[0], compiled[0].value[1], sizeof compiled[0].value[0]),
              "two nodes draw the same");
    bp_program_destroy(program);
    OK(bp_stream_set_generator(g.f.stream, NULL));
    bp_generator_destroy(generator);
    text_finish(&g);
}
