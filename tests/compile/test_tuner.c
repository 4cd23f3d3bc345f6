/* SPDX-License-Identifier: Apache-2.0 */
/* test_tuner.c: tests that programs choose kernel rows by measured time, on a device whose rows
 * differ in speed on purpose (../plugins/tuned.c), and that later programs take kept choices. */
#include "../unit/fixture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/bp-tuner-XXXXXX";

static void tuner_begin(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    cr_assert(mkdtemp(folder));
    setenv("BP_TUNED_FIRST", "300", 1);
    setenv("BP_TUNED_SECOND", "150", 1);
}

static void tuner_finish(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(tuner, .init = tuner_begin, .fini = tuner_finish);

/* y = x + x on the device of the tuned plugin. */
struct sum {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_graph *graph;
    struct bp_tensor *x;
    int *launches; /* of each row */
};

static struct sum sum_begin(int64_t n)
{
    struct sum s = {0};
    struct bp_tensor *x, *y = NULL;
    uint32_t plugin;
    float *number = calloc((size_t)n, sizeof *number);
    void *library = dlopen(TUNED_PLUGIN, RTLD_NOW | RTLD_LOCAL);

    OK(bp_core_create(NULL, &s.core));
    OK(bp_core_load_path(s.core, TUNED_PLUGIN, &plugin));
    OK(bp_device_create_at(s.core, plugin, 0, &s.device));
    OK(bp_stream_create_with(s.device, BP_STREAM_INLINE, &s.stream));
    OK(bp_tensor_create(s.device, BP_F32, 1, &n, &s.x));
    for (int64_t i = 0; i < n; i++) number[i] = (float)i;
    OK(bp_tensor_write(s.stream, s.x, number, (size_t)n * sizeof *number));
    OK(bp_graph_create(s.core, &s.graph));
    OK(bp_graph_input(s.graph, "x", BP_F32, 1, &n, &x));
    OK(bp_op_add(bp_graph_scope(s.graph), x, x, &y));
    OK(bp_graph_output(s.graph, y, "y"));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    free(number);
    cr_assert(library);
    s.launches = dlsym(library, "tuned_launches");
    cr_assert(s.launches);
    return s;
}

static void sum_finish(struct sum *s)
{
    bp_tensor_destroy(s->x);
    bp_graph_destroy(s->graph);
    bp_stream_destroy(s->stream);
    bp_device_destroy(s->device);
    bp_core_destroy(s->core);
}

/* Compiles a program with these flags and the folder, and expects its kernel row, and whether rows
 * were timed. Runs the program once. */
static void sum_expect(struct sum *s, uint32_t flags, const char *kernel, uint32_t tuned,
                       bool measured)
{
    const struct bp_program_options o = {.size = sizeof o, .flags = flags, .cache = folder};
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_tensor *y = NULL, *head;
    struct bp_program *p;
    int before = s->launches[0] + s->launches[1] + s->launches[2];
    float got[2];

    OK(bp_program_create_with(s->graph, s->device, &o, &p));
    OK(bp_program_compile(p));
    cr_assert_eq(s->launches[0] + s->launches[1] + s->launches[2] > before, measured);
    OK(bp_program_launch(p, 0, &launch));
    cr_assert_str_eq(launch.kernel, kernel);
    cr_assert_eq(launch.tuned, tuned);
    OK(bp_program_run(p, s->stream, &s->x, 1, &y, 1));
    OK(bp_tensor_slice(y, 0, 0, 2, 1, &head));
    OK(bp_tensor_read(s->stream, head, got, sizeof got));
    cr_assert(got[0] == 0 && got[1] == 2);
    bp_tensor_destroy(head);
    bp_tensor_destroy(y);
    bp_program_destroy(p);
}

Test(tuner, without_the_flag_the_priority_decides)
{
    struct sum s = sum_begin(64);

    sum_expect(&s, 0, "tuned_add_first", 0, false);
    sum_finish(&s);
}

Test(tuner, the_faster_row_is_chosen_and_kept)
{
    struct sum s = sum_begin(64), other = sum_begin(65);

    sum_expect(&s, BP_PROGRAM_TUNE, "tuned_add_last", 1, true);
    sum_expect(&s, BP_PROGRAM_TUNE, "tuned_add_last", 1, false);
    sum_expect(&s, 0, "tuned_add_last", 1, false);
    sum_expect(&other, 0, "tuned_add_first", 0, false); /* other shape */
    sum_finish(&s);
    sum_finish(&other);
}

/* The last row has the lower median, but the quartiles of the rows overlap. */
Test(tuner, a_row_within_the_spread_is_not_chosen)
{
    struct sum s = sum_begin(64);

    setenv("BP_TUNED_FIRST", "300,300,100", 1);
    setenv("BP_TUNED_SECOND", "900", 1);
    setenv("BP_TUNED_LAST", "200,200,500", 1);
    sum_expect(&s, BP_PROGRAM_TUNE | BP_PROGRAM_NO_PASSES, "tuned_add_first", 0, true);
    sum_expect(&s, BP_PROGRAM_TUNE | BP_PROGRAM_NO_PASSES, "tuned_add_first", 0, false);
    sum_finish(&s);
}

static void choices_damage(bool truncates)
{
    char command[200];

    snprintf(command, sizeof command, "for f in %s/*.choices; do %s; done", folder,
             truncates ? "head -c 60 $f > $f.x; mv $f.x $f" : "printf x >> $f");
    cr_assert_eq(system(command), 0);
}

/* A damaged file is replaced at the next measurement. */
Test(tuner, damaged_choices_are_ignored)
{
    struct sum s = sum_begin(64);

    for (int truncates = 0; truncates < 2; truncates++) {
        sum_expect(&s, BP_PROGRAM_TUNE | BP_PROGRAM_NO_PASSES, "tuned_add_last", 1, true);
        sum_expect(&s, BP_PROGRAM_NO_PASSES, "tuned_add_last", 1, false);
        choices_damage(truncates);
        sum_expect(&s, BP_PROGRAM_TUNE | BP_PROGRAM_NO_PASSES, "tuned_add_last", 1, true);
        choices_damage(truncates);
    }
    sum_finish(&s);
}
