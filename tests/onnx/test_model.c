/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c: tests the API of models, and that data that is no valid model is refused with a
 * message and without a crash. */
#include "../unit/comma_locale.h"
#include "../unit/fixture.h"
#include "small_models.h"
#include <backplane/model.h>
#include <stdlib.h>
#include <stddef.h>

static const char *const small[] = {SMALL_MODELS};
enum { PRODUCT, SHAPES, LOOP };

static enum bp_status model_read(struct fixture *f, const void *data, size_t size,
                                 struct bp_model **out)
{
    return bp_model_load_memory(f->device, data, size, NULL, out);
}

/* Expects that loading fails with a status, and a word in the message. */
static void model_refused(struct fixture *f, const void *data, size_t size, enum bp_status expected,
                          const char *word)
{
    struct bp_model *model = NULL;
    enum bp_status status = model_read(f, data, size, &model);

    cr_expect_eq(status, expected, "%s: expected %s, got %s: %s", word, bp_status_name(expected),
                 bp_status_name(status), bp_error_message());
    cr_expect(!model);
    cr_expect(strstr(bp_error_message(), word), "'%s' is not in: %s", word, bp_error_message());
}

/* LeakyRelu without alpha: by default 0.01. */
#define LEAKY_MODEL                                                                                \
    "\x08\x08:8\x0a\x11\x0a\x01x\x12\x01y\"\x09LeakyRelu\x12\x01gZ\x0f\x0a\x01x\x12\x0a"          \
    "\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x02\x62\x0f\x0a\x01y\x12\x0a\x0a\x08\x08\x01\x12"        \
    "\x04\x0a\x02\x08\x02\x42\x02\x10\x0d"

Test(model, defaults_are_the_same_where_numbers_have_commas)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(-3, 5)), *y = NULL;
    struct bp_model *model;
    float got[2];

    comma_locale_set();
    OK(model_read(&f, LEAKY_MODEL, sizeof LEAKY_MODEL - 1, &model));
    OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f.stream, y, got, sizeof got));
    cr_expect_float_eq(got[0], -0.03f, 1e-7f, "%g", (double)got[0]);
    cr_expect_eq(got[1], 5);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(model, product_is_a_graph)
{
    const int64_t shape[] = {2, 2}, x_data[] = {1, 2, 3, 4}, expected[] = {8, 12, 18, 26};
    struct bp_model_info info = {.size = sizeof info};
    struct bp_model_port port = {.size = sizeof port};
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_I64, 2, shape, x_data), *y;
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_program *program = NULL;
    struct bp_graph *graph = NULL;
    struct bp_model *model;
    int64_t got[4];

    OK(model_read(&f, small[PRODUCT], strlen(small[PRODUCT]), &model));
    OK(bp_model_get_info(model, &info));
    cr_expect(info.opset == 13 && info.nodes == 2 && info.weights == 1 && info.weight_bytes == 32);
    OK(bp_model_input(model, 0, &port));
    cr_expect_str_eq(port.name, "x");
    cr_expect(port.kind == BP_MODEL_TENSOR && port.dtype == BP_I64 && port.rank == 2 &&
              port.shape[0] == 2);
    OK(bp_model_planned(model, &x, 1, &graph));
    cr_expect(graph);
    OK(bp_model_program(model, &x, 1, &program));
    OK(bp_program_compile(program));
    OK(bp_program_launch(program, 0, &launch));
    cr_expect_str_eq(launch.op, "matmul");
    for (int i = 0; i < 2; i++) {
        OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
        OK(bp_tensor_read(f.stream, y, got, sizeof got));
        cr_expect_arr_eq(got, expected, sizeof got);
        bp_tensor_destroy(y);
    }
    bp_tensor_destroy(x);
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(model, open_extents_take_any)
{
    struct bp_model_info missing = {.size = sizeof missing};
    const int64_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct bp_model_port port = {.size = sizeof port};
    struct fixture f = fixture_init();
    struct bp_model *model;
    struct bp_tensor *x, *y;

    OK(model_read(&f, small[SHAPES], strlen(small[SHAPES]), &model));
    OK(bp_model_input(model, 0, &port));
    cr_expect(port.rank == 2 && port.shape[0] == -1 && port.shape[1] == 2);
    for (int round = 0; round < 2; round++) { /* the second run finds the plan */
        const int64_t shape[] = {2, 2};
        struct bp_tensor_info info = {.size = sizeof info};
        x = tensor_of(&f, BP_I64, 2, shape, data);
        OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
        OK(bp_tensor_get_info(y, &info));
        cr_expect(info.rank == 2 && info.shape[0] == 4 && info.shape[1] == 1);
        bp_tensor_destroy(y);
        bp_tensor_destroy(x);
    }
    x = tensor_of(&f, BP_I64, 2, (const int64_t[]){4, 2}, data);
    cr_expect_eq(bp_model_run(model, f.stream, &x, 1, &y, 1), BP_ERR_INVALID);
    cr_expect(strstr(bp_error_message(), "node y (Reshape)"), "%s", bp_error_message());
    bp_tensor_destroy(x);
    OK(bp_model_get_info(model, &missing));
    cr_expect_str_eq(missing.reason, "it failed");
    x = tensor_of(&f, BP_I64, 2, (const int64_t[]){2, 2}, data);
    OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
    OK(bp_model_get_info(model, &missing));
    cr_expect(!strstr(missing.reason, "failed"), "%s", missing.reason);
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    x = tensor_of(&f, BP_I64, 1, (const int64_t[]){8}, data);
    cr_expect_eq(bp_model_run(model, f.stream, &x, 1, &y, 1), BP_ERR_INVALID);
    cr_expect(strstr(bp_error_message(), "1 axes, expected 2"), "%s", bp_error_message());
    bp_tensor_destroy(x);
    bp_model_destroy(model);
    fixture_finish(&f);
}

Test(model, loop_is_unrolled)
{
    const int64_t shape[] = {2}, data[] = {1, -3}, expected[] = {8, -24};
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_I64, 1, shape, data), *y;
    struct bp_graph *graph = NULL;
    struct bp_model *model;
    int64_t got[2];

    OK(model_read(&f, small[LOOP], strlen(small[LOOP]), &model));
    OK(bp_model_planned(model, &x, 1, &graph));
    cr_expect(graph);
    OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f.stream, y, got, sizeof got));
    cr_expect_arr_eq(got, expected, sizeof got);
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    bp_model_destroy(model);
    fixture_finish(&f);
}

/* y = Gemm(Gemm(x a, b, transB), c): a is [2, 3], b and c are [5, 3]. */
static const char products[] =
    "\x08\x08:\xa8\x02\x0a\x11\x0a\x01x\x0a\x01\x61\x12\x01p\"\x06MatMul\x0a\x1e\x0a\x01p\x0a\x01"
    "\x62\x12\x01q\"\x04Gemm*\x0d\x0a\x06transB\x18\x01\xa0\x01\x02\x0a\x0f\x0a\x01q\x0a\x01\x63"
    "\x12\x01y\"\x04Gemm\x12\x01g*#\x08\x02\x08\x03\x10\x01\x42\x01\x61J\x18\x01\x01\x01\x01\x01"
    "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01*G\x08\x05\x08"
    "\x03\x10\x01\x42\x01\x62J<\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
    "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
    "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01*G\x08"
    "\x05\x08\x03\x10\x01\x42\x01\x63J<\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
    "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"
    "\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01Z"
    "\x13\x0a\x01x\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x01\x0a\x02\x08\x02\x62\x13\x0a\x01"
    "y\x12\x0e\x0a\x0c\x08\x01\x12\x08\x0a\x02\x08\x01\x0a\x02\x08\x03\x42\x02\x10\x0d";

static void note_fan(void *ctx, const char *name, uint32_t rank, const int64_t *shape,
                     int64_t fan_in, float *data, int64_t count)
{
    ((int64_t *)ctx)[*name - 'a'] = fan_in;
    cr_expect(rank == 2 && count == shape[0] * shape[1]);
    for (int64_t i = 0; i < count; i++) data[i] = 1;
}

Test(model, weights_know_their_fan_in)
{
    int64_t fan_in[3] = {0}, expected[] = {2, 3, 5};
    const struct bp_model_options options = {.size = sizeof options, .weights = note_fan,
                                             .weights_ctx = fan_in};
    struct fixture f = fixture_init();
    const float one[] = {1, 1};
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, (const int64_t[]){1, 2}, one), *y;
    struct bp_model *model;
    float got[3];

    OK(bp_model_load_memory(f.device, products, sizeof products - 1, &options, &model));
    cr_expect_arr_eq(fan_in, expected, sizeof fan_in);
    OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f.stream, y, got, sizeof got));
    cr_expect(got[0] == 30 && got[2] == 30, "%g", (double)got[0]);
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    bp_model_destroy(model);
    fixture_finish(&f);
}

/* y = x + x of [n, 2] */
static const char doubled[] =
    "\x08\x08:\x3f\x0a\x0e\x0a\x01x\x0a\x01x\x12\x01y\"\x03\x41\x64\x64\x12\x01gZ\x14\x0a\x01x\x12"
    "\x0f\x0a\x0d\x08\x07\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x02\x62\x14\x0a\x01y\x12\x0f\x0a"
    "\x0d\x08\x07\x12\x09\x0a\x03\x12\x01n\x0a\x02\x08\x02\x42\x02\x10\x0d";

/* The same model, but x declares the extents -1 and 2, and y the extents -7 and 2. */
static const char doubled_negative[] =
    "\x08\x08:O\x0a\x0e\x0a\x01x\x0a\x01x\x12\x01y\x22\x03\x41\x64\x64\x12\x01gZ\x1c\x0a\x01x"
    "\x12\x17\x0a\x15\x08\x07\x12\x11\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x0a\x02"
    "\x08\x02\x62\x1c\x0a\x01y\x12\x17\x0a\x15\x08\x07\x12\x11\x0a\x0b\x08\xf9\xff\xff\xff\xff"
    "\xff\xff\xff\xff\x01\x0a\x02\x08\x02\x42\x02\x10\x0d";

/* Runs one batch and checks the results. Returns how often its plan was run. */
static uint64_t run_batch(struct fixture *f, struct bp_model *model, int64_t batch)
{
    struct bp_model_info info = {.size = sizeof info};
    const int64_t shape[] = {batch, 2};
    int64_t data[18], got[18];
    struct bp_tensor *x, *y;

    for (int i = 0; i < 18; i++) data[i] = i + 100 * batch;
    x = tensor_of(f, BP_I64, 2, shape, data);
    OK(bp_model_run(model, f->stream, &x, 1, &y, 1));
    OK(bp_tensor_read(f->stream, y, got, (size_t)batch * 16));
    for (int64_t i = 0; i < 2 * batch; i++)
        cr_expect_eq(got[i], 2 * data[i], "batch %lld", (long long)batch);
    OK(bp_model_get_info(model, &info));
    bp_tensor_destroy(y);
    bp_tensor_destroy(x);
    return info.runs;
}

/* Each set of input types has its plan; the ninth replaces the least recently used plan. Programs
 * that are not compiled make no templates, so that each plan is recorded. */
Test(model, batches_have_plans_of_their_own)
{
    struct fixture f = fixture_init();
    struct bp_model *model;

    setenv("BP_PASSES", "uncompiled", 1);
    OK(model_read(&f, doubled, sizeof doubled - 1, &model));
    for (uint64_t round = 1; round <= 2; round++)
        for (int64_t batch = 1; batch <= 8; batch++)
            cr_expect_eq(run_batch(&f, model, batch), round);
    cr_expect_eq(run_batch(&f, model, 9), 1);
    cr_expect_eq(run_batch(&f, model, 3), 3, "it is still there");
    cr_expect_eq(run_batch(&f, model, 1), 1, "it made place for the ninth");
    cr_expect_eq(run_batch(&f, model, 2), 1, "it made place for the first");
    cr_expect_eq(run_batch(&f, model, 9), 2);
    bp_model_destroy(model);
    fixture_finish(&f);
}

/* Some exporters write -1 for an extent that is open. */
Test(model, negative_extents_are_open)
{
    struct bp_model_port in = {.size = sizeof in}, out = {.size = sizeof out};
    struct fixture f = fixture_init();
    struct bp_model *model;

    OK(model_read(&f, doubled_negative, sizeof doubled_negative - 1, &model));
    OK(bp_model_input(model, 0, &in));
    OK(bp_model_output(model, 0, &out));
    cr_expect(in.rank == 2 && in.shape[0] == -1 && in.shape[1] == 2);
    cr_expect(out.rank == 2 && out.shape[0] == -1 && out.shape[1] == 2);
    cr_expect_eq(run_batch(&f, model, 3), 1);
    cr_expect_eq(run_batch(&f, model, 5), 1);
    bp_model_destroy(model);
    fixture_finish(&f);
}

/* Inlining stops at a limit before memory runs out: a graph of a thousand bytes means 2^18
 * calls. */
Test(model, functions_that_double, .timeout = 20)
{
    struct fixture f = fixture_init();

    model_refused(&f, DOUBLING_MODEL, sizeof DOUBLING_MODEL - 1, BP_ERR_INVALID,
                  "functions are called more than 16384 times");
    fixture_finish(&f);
}

/* A truncated file is refused, or is another valid model, for each length. */
Test(model, cut_at_every_byte)
{
    struct fixture f = fixture_init();

    for (size_t m = 0; m < sizeof small / sizeof *small; m++)
        for (size_t size = 0; size < strlen(small[m]); size++) {
            char *exact = malloc(size + 1);
            struct bp_model *model = NULL;
            memcpy(exact, small[m], size);
            if (!model_read(&f, exact, size, &model)) bp_model_destroy(model);
            else cr_expect(!model && *bp_error_message());
            free(exact);
        }
    fixture_finish(&f);
}

/* Flips each bit of each byte. */
Test(model, every_bit)
{
    struct fixture f = fixture_init();

    for (size_t m = 0; m < sizeof small / sizeof *small; m++)
        for (size_t bit = 0; bit < 8 * strlen(small[m]); bit++) {
            char *other = strdup(small[m]);
            struct bp_model *model = NULL;
            other[bit / 8] ^= (char)(1 << bit % 8);
            if (!model_read(&f, other, strlen(small[m]), &model)) bp_model_destroy(model);
            else cr_expect(!model && *bp_error_message());
            free(other);
        }
    fixture_finish(&f);
}

/* Wraps size bytes of data in a field with a tag and a length. Returns the new size. */
static size_t model_wrap(char tag, char *data, size_t size)
{
    memmove(data + 3, data, size);
    data[0] = tag;
    data[1] = (char)(size | 128);
    data[2] = (char)(size >> 7);
    return size + 3;
}

/* Nests graphs in attributes of nodes of graphs, 60 times. */
Test(model, nested_without_end)
{
    struct fixture f = fixture_init();
    char deep[4096] = "";
    size_t size = 0;

    for (int level = 0; level < 60; level++) {
        size = model_wrap('\x32', deep, size); /* AttributeProto.g */
        size = model_wrap('\x2a', deep, size); /* NodeProto.attribute */
        size = model_wrap('\x0a', deep, size); /* GraphProto.node */
    }
    size = model_wrap('\x3a', deep, size);
    model_refused(&f, deep, size, BP_ERR_INVALID, "nested more than 128 deep");
    fixture_finish(&f);
}

#define REFUSED(bytes, status, word) model_refused(&f, bytes, sizeof bytes - 1, status, word)

Test(model, files_that_are_no_models)
{
    struct fixture f = fixture_init();

    REFUSED("", BP_ERR_INVALID, "it is empty");
    REFUSED("hello", BP_ERR_INVALID, "it is text, and ONNX models are binary files");
    REFUSED("<!DOCTYPE html>", BP_ERR_INVALID, "it looks like a web page");
    REFUSED("version https://git-lfs.github.com/spec/v1", BP_ERR_INVALID, "git lfs pull");
    REFUSED("PK\3\4\x14\0\0\0", BP_ERR_INVALID, "it is a zip archive");
    REFUSED("\x1f\x8b\x08\0", BP_ERR_INVALID, "it is compressed by gzip");
    REFUSED("\x7f" "ELF\x02", BP_ERR_INVALID, "it is a program or a library");
    REFUSED("\xff\xfe\xfd", BP_ERR_INVALID, "the file is damaged, or no ONNX file");
    REFUSED("\x3a\x7f", BP_ERR_INVALID, "it has 127 bytes, but 0 follow; the file is incomplete");
    REFUSED("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", BP_ERR_INVALID, "longer");
    REFUSED("\x38\x01", BP_ERR_INVALID, "field graph of ModelProto has wire type 0, expected 2");
    REFUSED("\x0a\x01\x61", BP_ERR_INVALID, "ir_version");
    REFUSED("\x08\x08", BP_ERR_INVALID, "it has no graph");
    /* a length that declares 10^9 nodes */
    REFUSED("\x3a\x0a\x0a\x80\x94\xeb\xdc\x03\x22\x03\x41\x62\x73", BP_ERR_INVALID, "longer");
    /* graph { node { input: "x" output: "y" op_type: "Abs" } }: no node sets x */
    REFUSED("\x3a\x0d\x0a\x0b\x0a\x01x\x12\x01y\x22\x03" "Abs", BP_ERR_INVALID,
            "'x' is made by nobody");
    /* two nodes that each read the other's output */
    REFUSED("\x3a\x1a\x0a\x0b\x0a\x01x\x12\x01y\x22\x03" "Abs\x0a\x0b\x0a\x01y\x12\x01x\x22\x03"
            "Abs", BP_ERR_INVALID, "nodes form a cycle: y, x;");
    /* a node that reads its own output */
    REFUSED("\x3a\x0d\x0a\x0b\x0a\x01x\x12\x01x\x22\x03" "Abs", BP_ERR_INVALID,
            "nodes form a cycle: x;");
    /* the same name from two nodes */
    REFUSED("\x3a\x1f\x5a\x03\x0a\x01x\x0a\x0b\x0a\x01x\x12\x01y\x22\x03" "Abs\x0a\x0b\x0a\x01x\x12"
            "\x01y\x22\x03" "Abs", BP_ERR_INVALID, "'y' is made twice");
    /* an output that no node sets */
    REFUSED("\x3a\x05\x62\x03\x0a\x01q", BP_ERR_INVALID, "output 'q' is made by nobody");
    REFUSED("\x3a\x12\x5a\x03\x0a\x01x\x0a\x0b\x0a\x01x\x12\x01y\x22\x03" "Foo",
            BP_ERR_UNSUPPORTED, "operator Foo of opset 1");
    /* initialisers: dims -1, 2^32 x 2^32, too few numbers */
    REFUSED("\x3a\x12\x2a\x10\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x07" "B\x01w",
            BP_ERR_INVALID, "extent 0 is -1");
    REFUSED("\x3a\x13\x2a\x11\x08\x80\x80\x80\x80\x10\x08\x80\x80\x80\x80\x10\x10\x07" "B\x01w",
            BP_ERR_INVALID, "overflow");
    REFUSED("\x3a\x0c\x2a\x0a\x08\x05\x10\x07:\x01\x04" "B\x01w", BP_ERR_INVALID,
            "data for 1 elements, expected 5");
    REFUSED("\x3a\x09\x2a\x07\x08\x01\x10\x08" "B\x01w", BP_ERR_UNSUPPORTED, "string");
    fixture_finish(&f);
}

/* A loop of 3 iterations with limits of 2 and of 3; and options of the size before limits
 * existed. */
Test(model, limits_are_options)
{
    struct bp_model_options options = {.size = sizeof options, .rounds = 2};
    const int64_t shape[] = {2}, x_data[] = {1, 2};
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_I64, 1, shape, x_data), *y = NULL;
    struct bp_model *model;

    OK(bp_model_load_memory(f.device, small[LOOP], strlen(small[LOOP]), &options, &model));
    for (int i = 0; i < 2; i++) /* each run counts from 0 */
        FAILS(BP_ERR_UNSUPPORTED, "rounds of bp_model_options",
              bp_model_run(model, f.stream, &x, 1, &y, 1));
    cr_expect(!y);
    bp_model_destroy(model);
    options.rounds = 3;
    OK(bp_model_load_memory(f.device, small[LOOP], strlen(small[LOOP]), &options, &model));
    for (int i = 0; i < 2; i++) {
        OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
        bp_tensor_destroy(y);
    }
    bp_model_destroy(model);
    options = (struct bp_model_options){.size = offsetof(struct bp_model_options, fold_bytes),
                                        .fold_bytes = 1, .run_bytes = 1, .rounds = 1};
    OK(bp_model_load_memory(f.device, small[LOOP], strlen(small[LOOP]), &options, &model));
    OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
    bp_tensor_destroy(y);
    bp_model_destroy(model);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* A run that would exceed its memory limit fails, and so does planning it. The memory of one run
 * does not count in the next run. */
Test(model, memory_of_a_run_is_limited)
{
    struct bp_model_options options = {.size = sizeof options, .run_bytes = 1 << 20};
    const int64_t few[] = {2, 2}, many[] = {1 << 16, 2};
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_I64, 2, few, NULL), *large = NULL, *y = NULL;
    struct bp_graph *graph = NULL;
    struct bp_model *model;

    OK(bp_model_load_memory(f.device, small[SHAPES], strlen(small[SHAPES]), &options, &model));
    OK(bp_tensor_create(f.device, BP_I64, 2, many, &large));
    for (int i = 0; i < 20; i++) {
        FAILS(BP_ERR_MEMORY, "run_bytes of bp_model_options",
              bp_model_planned(model, &large, 1, &graph));
        FAILS(BP_ERR_MEMORY, "run_bytes of bp_model_options",
              bp_model_run(model, f.stream, &large, 1, &y, 1));
        OK(bp_model_run(model, f.stream, &x, 1, &y, 1));
        bp_tensor_destroy(y);
        y = NULL;
    }
    cr_expect(!graph);
    bp_model_destroy(model);
    bp_tensor_destroy(large);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}
