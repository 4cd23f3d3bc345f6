/* SPDX-License-Identifier: Apache-2.0 */
/* test_custom.c: tests operators that plugins bring (the fake device, custom): they are called,
 * recorded and refused like other operators, and the core does not register a faulty one. */
#include "fixture.h"
#include <stdio.h>

struct repeat_attrs {
    size_t size;
    int64_t times;
    double factor;
};

struct place {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
};

static struct place custom_place_of(const char *library)
{
    struct place p;
    uint32_t index;

    setenv("BP_FALLBACK", "deny", 1);
    OK(bp_core_create(NULL, &p.core));
    OK(bp_core_load_path(p.core, library, &index));
    OK(bp_device_create_at(p.core, index, 0, &p.device));
    OK(bp_stream_create(p.device, &p.stream));
    return p;
}

static void place_finish(struct place *p)
{
    bp_stream_destroy(p->stream);
    bp_device_destroy(p->device);
    bp_core_destroy(p->core);
}

static struct bp_tensor *custom_floats(struct place *p, uint32_t rank, const int64_t *shape,
                                       const float *data, size_t size)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(p->device, BP_F32, rank, shape, &t));
    OK(bp_tensor_write(p->stream, t, data, size));
    return t;
}

static enum bp_status custom_repeat(struct bp_scope *scope, const char *op, struct bp_tensor *x,
                                    int64_t times, double factor, struct bp_tensor **out)
{
    const struct repeat_attrs attrs = {sizeof attrs, times, factor};
    const struct bp_arg in = {&x, 1};
    const struct bp_call call = {.size = sizeof call, .op = op, .in = &in, .n_in = 1,
                                 .attrs = &attrs};

    *out = NULL;
    return bp_call_run(scope, &call, out, 1, NULL);
}

static void custom_expect(struct place *p, struct bp_tensor *y, const float *expected)
{
    struct bp_tensor_info info = {.size = sizeof info};
    float got[12];

    OK(bp_tensor_get_info(y, &info));
    cr_assert(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 6);
    OK(bp_tensor_read(p->stream, y, got, sizeof got));
    cr_expect_arr_eq(got, expected, sizeof got);
    bp_tensor_destroy(y);
}

static const float numbers[] = {1, 2, 3, 4},
                   twice[] = {2, 4, 2, 4, 2, 4, 6, 8, 6, 8, 6, 8},
                   thrice[] = {3, 6, 3, 6, 3, 6, 9, 12, 9, 12, 9, 12};

Test(custom, is_called)
{
    const struct bp_opinfo *op = bp_opinfo_find("acme.Repeat");
    struct place p;
    struct bp_tensor *x, *y;

    cr_expect(!op, "it is there before its plugin");
    p = custom_place_of(HOSTILE_DIR "/bp_custom.so");
    op = bp_opinfo_find("acme.Repeat");
    cr_assert(op && op->n_attr == 2 && op->attr[1].offset == 16);
    x = custom_floats(&p, 2, SHAPE(2, 2), numbers, sizeof numbers);
    OK(custom_repeat(bp_stream_scope(p.stream), "acme.Repeat", x, 3, 2, &y));
    custom_expect(&p, y, twice);
    OK(custom_repeat(bp_stream_scope(p.stream), "acme.Repeat", x, 3, 3,
                     &y)); /* the same call, from the call cache */
    custom_expect(&p, y, thrice);
    bp_tensor_destroy(x);
    place_finish(&p);
}

Test(custom, is_recorded)
{
    struct place p = custom_place_of(HOSTILE_DIR "/bp_custom.so");
    struct bp_tensor *x = custom_floats(&p, 2, SHAPE(2, 2), numbers, sizeof numbers), *symbol, *z,
                     *y;
    struct bp_graph *graph;

    OK(bp_graph_create(p.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(2, 2), &symbol));
    OK(custom_repeat(bp_graph_scope(graph), "acme.Repeat", symbol, 3, 2, &z));
    OK(bp_graph_output(graph, z, "y"));
    for (int i = 0; i < 2; i++) {
        y = NULL;
        OK(bp_graph_run(graph, p.stream, &x, 1, &y, 1));
        custom_expect(&p, y, twice);
    }
    bp_tensor_destroy(z);
    bp_tensor_destroy(symbol);
    bp_tensor_destroy(x);
    bp_graph_destroy(graph);
    place_finish(&p);
}

Test(custom, is_refused)
{
    struct place p = custom_place_of(HOSTILE_DIR "/bp_custom.so");
    struct bp_scope *scope = bp_stream_scope(p.stream);
    struct bp_tensor *x = custom_floats(&p, 2, SHAPE(2, 2), numbers, sizeof numbers), *other, *y;
    struct bp_device *cpu;
    struct bp_stream *stream;

    FAILS(BP_ERR_INVALID, "do not go together", custom_repeat(scope, "acme.Repeat", x, 0, 1, &y));
    FAILS(BP_ERR_INVALID, "63 bits", custom_repeat(scope, "acme.Repeat", x, INT64_MAX / 2, 1, &y));
    FAILS(BP_ERR_INVALID, "x is NULL", custom_repeat(scope, "acme.Repeat", NULL, 1, 1, &y));
    FAILS(BP_ERR_NOT_FOUND, "acme.Nothing", custom_repeat(scope, "acme.Nothing", x, 1, 1, &y));
    OK(bp_tensor_create(p.device, BP_F64, 2, SHAPE(2, 2), &other));
    FAILS(BP_ERR_INVALID, "f64", custom_repeat(scope, "acme.Repeat", other, 1, 1, &y));
    bp_tensor_destroy(other);
    OK(bp_device_create(p.core, "cpu", &cpu)); /* cpu has no row for it */
    OK(bp_stream_create(cpu, &stream));
    OK(bp_tensor_create(cpu, BP_F32, 2, SHAPE(2, 2), &other));
    FAILS(BP_ERR_NO_KERNEL, "acme.Repeat",
          custom_repeat(bp_stream_scope(stream), "acme.Repeat", other, 1, 1, &y));
    bp_tensor_destroy(other);
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    bp_device_destroy(cpu);
    place_finish(&p);
}

Test(custom, of_two_cores_and_two_plugins)
{
    struct place a = custom_place_of(HOSTILE_DIR "/bp_custom.so");
    struct place b = custom_place_of(HOSTILE_DIR "/bp_custom.so");
    struct bp_tensor *x = custom_floats(&b, 2, SHAPE(2, 2), numbers, sizeof numbers), *y;
    uint32_t index;

    place_finish(&a);
    OK(custom_repeat(bp_stream_scope(b.stream), "acme.Repeat", x, 3, 2, &y));
    custom_expect(&b, y, twice);
    FAILS(BP_ERR_PLUGIN, "another plugin brings another one",
          bp_core_load_path(b.core, HOSTILE_DIR "/bp_custom_other.so", &index)
              ? BP_ERR_PLUGIN
              : bp_device_create_at(b.core, index, 0, &a.device));
    bp_tensor_destroy(x);
    place_finish(&b);
}

Test(custom, wrong_inference)
{
    struct place p = custom_place_of(HOSTILE_DIR "/bp_custom_rank.so");
    struct bp_tensor *x = custom_floats(&p, 2, SHAPE(2, 2), numbers, sizeof numbers), *y;

    FAILS(BP_ERR_PLUGIN, "9 axes",
          custom_repeat(bp_stream_scope(p.stream), "acme.Wrong", x, 1, 1, &y));
    bp_tensor_destroy(x);
    place_finish(&p);
}

Test(custom, invalid_operators_are_refused)
{
    static const struct {
        const char *library, *word;
    } bad[] = {
        {"name", "(\"Repeat\") cannot be taken: its name is not DOMAIN.NAME"},
        {"dots", "its name is not DOMAIN.NAME"},
        {"outputs", "it has no output"},
        {"size", "attrs_size, or the size in defaults"},
        {"kind", "of a kind that its place does not allow"},
        {"dtypes", "a port has no dtypes"},
        {"share", "an input that is not there"},
        {"attribute", "a kind, time or count that is none"},
        {"flags", "flags and alias are not for it"},
        {"stride", "its operators cannot be walked"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct bp_device *device = NULL;
        struct bp_core *core;
        char path[4096];
        uint32_t index;
        enum bp_status status;
        OK(bp_core_create(NULL, &core));
        snprintf(path, sizeof path, "%s/bp_custom_%s.so", HOSTILE_DIR, bad[i].library);
        status = bp_core_load_path(core, path, &index);
        if (status == BP_OK) status = bp_device_create_at(core, index, 0, &device);
        cr_expect_eq(status, BP_ERR_PLUGIN, "%s: %s", bad[i].library, bp_status_name(status));
        cr_expect(strstr(bp_error_message(), bad[i].word), "%s: %s", bad[i].library,
                  bp_error_message());
        bp_core_destroy(core);
    }
    cr_expect(!bp_opinfo_find("acme.Repeat") && !bp_opinfo_find("Repeat"));
}
