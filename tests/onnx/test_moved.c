/* SPDX-License-Identifier: Apache-2.0 */
/* test_moved.c: tests that a network runs on the device: only weights (at load), constants that the
 * compiler looks at (once), inputs and outputs are copied between host and device. This device is
 * the cpu with memory that the host may not access (tests/plugins/counted.c), so data can only move
 * by copies. */
#include "../../examples/networks.h"
#include "../plugins/counted.h"
#include "../unit/fixture.h"
#include <backplane/model.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static const struct counted *counted;

/* Checks the bytes copied since `before`, and updates `before`. */
static void expect_moved(struct counted *before, uint64_t in, uint64_t out, const char *what)
{
    cr_expect(counted->in - before->in == in && counted->out - before->out == out,
              "%s: %llu bytes went in and %llu out, expected %llu and %llu", what,
              (unsigned long long)(counted->in - before->in),
              (unsigned long long)(counted->out - before->out), (unsigned long long)in,
              (unsigned long long)out);
    *before = *counted;
}

static struct bp_device *moved_open_device(struct bp_core *core)
{
    struct bp_device *device;
    uint32_t index;
    void *library;

    OK(bp_core_load_path(core, COUNTED_PLUGIN, &index));
    OK(bp_device_create_at(core, index, 0, &device));
    library = dlopen(COUNTED_PLUGIN, RTLD_NOW | RTLD_NOLOAD);
    cr_assert_not_null(library, "%s", dlerror());
    counted = dlsym(library, "counted");
    cr_assert_not_null(counted);
    dlclose(library);
    return device;
}

/* Runs the model once, with an input from the host and the output back to the host. */
static void moved_run(struct bp_model *model, struct bp_stream *stream, uint64_t *out_in,
                      uint64_t *out_out)
{
    struct bp_model_port port = {.size = sizeof port};
    struct bp_tensor_info x_info = {.size = sizeof x_info}, y_info = {.size = sizeof y_info};
    struct bp_tensor *x, *y;
    float *data;

    OK(bp_model_input(model, 0, &port));
    OK(bp_tensor_create(bp_stream_device(stream), port.dtype, port.rank, port.shape, &x));
    OK(bp_tensor_get_info(x, &x_info));
    data = calloc(1, x_info.bytes);
    cr_assert_not_null(data);
    for (int64_t i = 0; i < x_info.count; i++) data[i] = (float)i / (float)x_info.count;
    OK(bp_tensor_write(stream, x, data, x_info.bytes));
    OK(bp_model_run(model, stream, &x, 1, &y, 1));
    OK(bp_tensor_get_info(y, &y_info));
    data = realloc(data, y_info.bytes);
    cr_assert_not_null(data);
    OK(bp_tensor_read(stream, y, data, y_info.bytes));
    *out_in = x_info.bytes;
    *out_out = y_info.bytes;
    free(data);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

/* The first run compiles the model, which reads the factors of norms and numbers of patterns: few
 * bytes compared with the weights. */
static void expect_compiled(struct counted *before, uint64_t in, uint64_t out,
                            const struct bp_model_info *info, const char *name)
{
    uint64_t more = counted->out - before->out - out;

    cr_expect(counted->out - before->out >= out && more <= info->weight_bytes / 100,
              "%s: the compiler reads %llu bytes of %llu bytes of weights", name,
              (unsigned long long)more, (unsigned long long)info->weight_bytes);
    before->out += more;
    expect_moved(before, in, out, name);
}

static void check_network(const char *name, void (*build)(struct network *n))
{
    char path[] = "/tmp/bp_moved_XXXXXX";
    struct bp_model_info info = {.size = sizeof info};
    struct network *n = calloc(1, sizeof *n);
    struct bp_model *model;
    struct counted before;
    struct bp_core *core;
    uint64_t in, out;

    setenv("BP_FALLBACK", "deny", 1);
    OK(bp_core_create(NULL, &core));
    cr_assert(n && close(mkstemp(path)) == 0);
    OK(network_init(n, moved_open_device(core), 1));
    build(n);
    OK(n->status);
    OK(bp_model_export(n->graph, &n->output, 1, n->stream, path));
    before = *counted;
    OK(bp_model_load(n->device, path, NULL, &model));
    unlink(path);
    OK(bp_model_get_info(model, &info));
    cr_expect(info.weight_bytes > 1 << 20);
    expect_moved(&before, info.weight_bytes, 0, name);
    for (int i = 0; i < 3; i++) {
        moved_run(model, n->stream, &in, &out);
        if (i) expect_moved(&before, in, out, name);
        else expect_compiled(&before, in, out, &info, name);
    }
    bp_model_destroy(model);
    bp_device_destroy(n->device);
    network_finish(n);
    free(n);
    bp_core_destroy(core);
}

static void moved_resnet50(struct network *n)
{
    network_resnet50(n, 64);
}

static void moved_bert(struct network *n)
{
    network_bert(n, 1, 16);
}

Test(moved, moved_resnet50)
{
    check_network("resnet50", moved_resnet50);
}

Test(moved, moved_bert)
{
    check_network("bert", moved_bert);
}
