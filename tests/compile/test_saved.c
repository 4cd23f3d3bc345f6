/* SPDX-License-Identifier: Apache-2.0 */
/* test_saved.c: tests that a program's file gives the same program again, and that no other, stale
 * or damaged file is used. */
#include "pass_kit.h"

#include <backplane/ops.h>

#include <compile/saved.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/bp-saved-XXXXXX";

static void saved_begin(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    cr_assert(mkdtemp(folder));
}

static void saved_finish(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(saved, .init = saved_begin, .fini = saved_finish);

static const char *path_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* A convolution with its norm and activation, whose filters the compiler scales; and an expression
 * that becomes another operator if `half` is 0.5. */
struct net {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_tensor *x;
};

static struct bp_tensor *net_constant(struct net *n, uint32_t rank, const int64_t *shape,
                                      float first, float step)
{
    float number[64];
    struct bp_tensor *t;
    int64_t count = 1;

    for (uint32_t a = 0; a < rank; a++) count *= shape[a];
    for (int64_t i = 0; i < count; i++) number[i] = first + step * (float)i;
    t = tensor_of(&n->f, BP_F32, rank, shape, number);
    OK(bp_tensor_freeze(t));
    return t;
}

static struct bp_tensor *net_expression(struct net *n, struct bp_scope *scope, struct bp_tensor *x,
                                        float half)
{
    struct bp_tensor *c[3], *t[4] = {NULL}, *y = NULL;

    c[0] = net_constant(n, 0, NULL, 1.41421354f, 0);
    c[1] = net_constant(n, 0, NULL, 1, 0);
    c[2] = net_constant(n, 0, NULL, half, 0);
    OK(bp_op_div(scope, x, c[0], &t[0]));
    OK(bp_op_erf(scope, t[0], &t[1]));
    OK(bp_op_add(scope, t[1], c[1], &t[2]));
    OK(bp_op_mul(scope, x, t[2], &t[3]));
    OK(bp_op_mul(scope, t[3], c[2], &y));
    for (int i = 0; i < 3; i++) bp_tensor_destroy(c[i]);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(t[i]);
    return y;
}

static struct net net_begin(float weight, float half)
{
    struct net n = {.f = fixture_init()};
    const int64_t four[1] = {4}, filters[4] = {4, 1, 3, 3}, image[4] = {1, 1, 6, 6};
    struct bp_tensor *in, *w, *norm[4], *y[3] = {NULL}, *out;
    struct bp_scope *scope;
    float pixels[36];

    for (int i = 0; i < 36; i++) pixels[i] = (float)(i % 7) - 3;
    n.x = tensor_of(&n.f, BP_F32, 4, image, pixels);
    OK(bp_graph_create(n.f.core, &n.graph));
    scope = bp_graph_scope(n.graph);
    OK(bp_graph_input(n.graph, "x", BP_F32, 4, image, &in));
    w = net_constant(&n, 4, filters, weight, 0.125f);
    for (int i = 0; i < 4; i++) norm[i] = net_constant(&n, 1, four, 1 + (float)i, 0.25f);
    OK(bp_op_conv(scope, in, w, NULL, NULL, &y[0]));
    OK(bp_op_batch_norm(scope, y[0], norm[0], norm[1], norm[2], norm[3], NULL, &y[1]));
    OK(bp_op_relu(scope, y[1], &y[2]));
    out = net_expression(&n, scope, y[2], half);
    OK(bp_graph_output(n.graph, out, "out"));
    for (int i = 0; i < 4; i++) bp_tensor_destroy(norm[i]);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(y[i]);
    bp_tensor_destroy(in);
    bp_tensor_destroy(w);
    bp_tensor_destroy(out);
    return n;
}

static void net_finish(struct net *n)
{
    bp_tensor_destroy(n->x);
    bp_graph_destroy(n->graph);
    fixture_finish(&n->f);
}

static struct bp_program_info net_info(struct bp_program *p)
{
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_get_info(p, &info));
    return info;
}

enum {
    RESULTS = 4 * 16
};

/* Runs a compiled program, and expects the results of a run node by node. */
static void net_check(struct net *n, struct bp_program *p)
{
    struct bp_tensor *got = NULL, *expected = NULL;
    float a[RESULTS], b[RESULTS];

    OK(bp_program_run(p, n->f.stream, &n->x, 1, &got, 1));
    cr_assert_eq(net_info(p).compiled, 1, "not compiled: %s", net_info(p).not_compiled);
    OK(bp_graph_run(n->graph, n->f.stream, &n->x, 1, &expected, 1));
    OK(bp_tensor_read(n->f.stream, got, a, sizeof a));
    OK(bp_tensor_read(n->f.stream, expected, b, sizeof b));
    for (int i = 0; i < RESULTS; i++)
        cr_assert_float_eq(a[i], b[i], 1e-5f * (1 + fabsf(b[i])), "element %d: %g, expected %g", i,
                           (double)a[i], (double)b[i]);
    bp_tensor_destroy(got);
    bp_tensor_destroy(expected);
}

static struct bp_program *net_program(struct net *n, const struct bp_program_options *options)
{
    struct bp_program *p;

    OK(bp_program_create_with(n->graph, n->f.device, options, &p));
    return p;
}

static void net_save(struct net *n, const char *path)
{
    struct bp_program *p = net_program(n, NULL);

    FAILS(BP_ERR_NOT_READY, "bp_program_compile", bp_program_save(p, path));
    OK(bp_program_compile(p));
    OK(bp_program_save(p, path));
    bp_program_destroy(p);
}

/* ---- equal programs ---- */

Test(saved, a_loaded_program_is_the_compiled_one)
{
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_program *first = net_program(&n, NULL), *second = net_program(&n, NULL);
    struct bp_launch_info a = {.size = sizeof a}, b = {.size = sizeof b};

    OK(bp_program_compile(first));
    OK(bp_program_save(first, path_of("deep/er/file")));
    OK(bp_program_load(second, path_of("deep/er/file")));
    FAILS(BP_ERR_BUSY, "compiled already", bp_program_load(second, path_of("deep/er/file")));
    cr_assert_eq(net_info(first).loaded, 0);
    cr_assert_eq(net_info(second).loaded, 1);
    cr_assert_eq(net_info(second).launches, net_info(first).launches);
    cr_assert_eq(net_info(second).arena, net_info(first).arena);
    cr_assert_eq(net_info(second).folded, net_info(first).folded);
    cr_assert_gt(net_info(first).folded, 0, "the filters are not scaled in advance");
    for (uint32_t i = 0; i < net_info(first).launches; i++) {
        OK(bp_program_launch(first, i, &a));
        OK(bp_program_launch(second, i, &b));
        cr_assert_str_eq(a.kernel, b.kernel);
        cr_assert_str_eq(a.node, b.node);
        cr_assert_eq(a.sources, b.sources);
        for (uint32_t k = 0; k < a.sources; k++) cr_assert_str_eq(a.source[k], b.source[k]);
    }
    net_check(&n, second);
    bp_program_destroy(first);
    bp_program_destroy(second);
    net_finish(&n);
}

/* ---- changed constants ---- */

/* Filters decide nothing, so that the file is used, with the other filters. */
Test(saved, changed_weights_are_used)
{
    struct net n = net_begin(-0.5f, 0.5f), other = net_begin(0.75f, 0.5f);
    struct bp_program *p = net_program(&other, NULL);

    net_save(&n, path_of("file"));
    OK(bp_program_load(p, path_of("file")));
    net_check(&other, p);
    bp_program_destroy(p);
    net_finish(&n);
    net_finish(&other);
}

Test(saved, a_changed_number_of_a_pattern_makes_the_file_stale)
{
    struct net n = net_begin(-0.5f, 0.5f), other = net_begin(-0.5f, 0.25f);
    struct bp_program *p = net_program(&other, NULL);

    net_save(&n, path_of("file"));
    FAILS(BP_ERR_INVALID, "has other contents", bp_program_load(p, path_of("file")));
    net_check(&other, p);
    cr_assert_eq(net_info(p).loaded, 0);
    bp_program_destroy(p);
    net_finish(&n);
    net_finish(&other);
}

Test(saved, settings_make_the_file_stale)
{
    const struct bp_program_options plain = {.size = sizeof plain, .flags = BP_PROGRAM_NO_PASSES};
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_program *p = net_program(&n, &plain), *q = net_program(&n, NULL);

    net_save(&n, path_of("file"));
    FAILS(BP_ERR_INVALID, "stale", bp_program_load(p, path_of("file")));
    setenv("BP_PASSES", "-fuse", 1);
    FAILS(BP_ERR_INVALID, "stale", bp_program_load(q, path_of("file")));
    unsetenv("BP_PASSES");
    OK(bp_program_load(q, path_of("file")));
    OK(bp_program_compile(p));
    cr_assert_eq(net_info(p).launches, net_info(p).recorded_nodes);
    bp_program_destroy(p);
    bp_program_destroy(q);
    net_finish(&n);
}

/* ---- damaged files ---- */

struct file_bytes {
    unsigned char at[1 << 16];
    size_t n;
};

static struct file_bytes *file_read(const char *path)
{
    struct file_bytes *b = calloc(1, sizeof *b);
    FILE *from = fopen(path, "rb");

    cr_assert(b && from);
    b->n = fread(b->at, 1, sizeof b->at, from);
    fclose(from);
    cr_assert(b->n > 100 && b->n < sizeof b->at);
    return b;
}

static void file_write(const char *path, const struct file_bytes *b, size_t n)
{
    FILE *to = fopen(path, "wb");

    cr_assert(to && fwrite(b->at, 1, n, to) == n && !fclose(to));
}

Test(saved, each_changed_byte_and_each_truncation_is_refused, .timeout = 120)
{
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_program *p = net_program(&n, NULL);
    struct file_bytes *b;

    net_save(&n, path_of("file"));
    b = file_read(path_of("file"));
    for (size_t i = 0; i < b->n; i++) {
        b->at[i] ^= (unsigned char)(1 << i % 8);
        file_write(path_of("file"), b, b->n);
        cr_assert_eq(bp_program_load(p, path_of("file")), BP_ERR_INVALID, "byte %zu", i);
        b->at[i] ^= (unsigned char)(1 << i % 8);
        file_write(path_of("file"), b, i);
        cr_assert_eq(bp_program_load(p, path_of("file")), BP_ERR_INVALID, "%zu bytes", i);
    }
    file_write(path_of("file"), b, b->n + 1);
    FAILS(BP_ERR_INVALID, "truncated or damaged", bp_program_load(p, path_of("file")));
    FAILS(BP_ERR_NOT_FOUND, "No such file", bp_program_load(p, path_of("none")));
    FAILS(BP_ERR_INVALID, "no regular file", bp_program_load(p, folder));
    file_write(path_of("file"), b, b->n);
    cr_assert_eq(chmod(path_of("file"), 0666), 0);
    FAILS(BP_ERR_INVALID, "other users", bp_program_load(p, path_of("file")));
    cr_assert_eq(chmod(path_of("file"), 0600), 0);
    OK(bp_program_load(p, path_of("file")));
    net_check(&n, p);
    bp_program_destroy(p);
    free(b);
    net_finish(&n);
}

/* Contents that were changed on purpose have the digest of the changed contents, so that only the
 * reader of the contents can refuse them. A representation that is read is complete: a schedule of
 * it can be made, or is refused. */
Test(saved, hostile_contents_do_no_harm, .timeout = 240)
{
    static const unsigned char values[] = {0, 0x7f, 0xff};
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_kept_writer w = {0};
    struct bp_schedule *s, *again;
    uint32_t refused = 0, tried = 0;
    const struct bp_compile_options options = {0};

    OK(bp_compile(n.graph, n.f.device, &s));
    OK(bp_saved_write(s, n.graph, &w));
    for (size_t i = 0; i < w.n; i++)
        for (size_t k = 0; k <= sizeof values; k++) {
            unsigned char before = w.bytes[i];
            struct bp_ir *ir;
            w.bytes[i] = k < sizeof values ? values[k] : (unsigned char)(before ^ 4);
            tried++;
            if (bp_saved_read(n.graph, n.f.device, &options, w.bytes, w.n, &ir)) refused++;
            else if (!bp_schedule_create(ir, NULL, &again)) bp_schedule_destroy(again);
            w.bytes[i] = before;
        }
    for (size_t i = 0; i < w.n; i++) {
        struct bp_ir *ir;
        cr_assert_neq(bp_saved_read(n.graph, n.f.device, &options, w.bytes, i, &ir), BP_OK,
                      "%zu bytes", i);
    }
    cr_assert_gt(refused, tried / 4);
    cr_log_info("%u of %u changed contents were refused", refused, tried);
    bp_schedule_destroy(s);
    free(w.bytes);
    net_finish(&n);
}

/* ---- the folder ---- */

static void expect_cache(struct net *n, const struct bp_program_options *options, const char *what,
                         uint32_t loaded)
{
    struct bp_program *p = net_program(n, options);

    net_check(n, p);
    cr_assert(strstr(net_info(p).cache, what), "'%s' does not say '%s'", net_info(p).cache, what);
    cr_assert_eq(net_info(p).loaded, loaded);
    bp_program_destroy(p);
}

Test(saved, a_folder_keeps_programs)
{
    struct net n = net_begin(-0.5f, 0.5f), other = net_begin(-0.5f, 0.25f);
    char sub[128];
    struct bp_program_options o = {.size = sizeof o, .cache = sub};

    snprintf(sub, sizeof sub, "%s/a/b", folder);
    expect_cache(&n, &o, "saved", 0);
    expect_cache(&n, &o, "loaded", 1);
    expect_cache(&other, &o, "other contents", 0);
    expect_cache(&other, &o, "loaded", 1);
    o.cache = "";
    expect_cache(&n, &o, "", 0);
    setenv("BP_PROGRAM_CACHE", sub, 1);
    expect_cache(&other, NULL, "loaded", 1);
    expect_cache(&other, &o, "", 0);
    o.cache = "/proc/self/none"; /* no process can create this folder */
    expect_cache(&n, &o, "not saved", 0);
    unsetenv("BP_PROGRAM_CACHE");
    net_finish(&n);
    net_finish(&other);
}

static void child_writes(const char *path)
{
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_program *p = net_program(&n, NULL);
    bool good = !bp_program_compile(p);

    for (int i = 0; i < 200 && good; i++) good = !bp_program_save(p, path);
    _exit(!good);
}

Test(saved, a_reader_beside_two_writers_sees_whole_files, .timeout = 120)
{
    struct net n;
    pid_t writer[2];
    int status;

    for (int i = 0; i < 2; i++) {
        writer[i] = fork();
        cr_assert_geq(writer[i], 0);
        if (!writer[i]) child_writes(path_of("file"));
    }
    n = net_begin(-0.5f, 0.5f);
    for (int i = 0; i < 200; i++) {
        struct bp_program *p = net_program(&n, NULL);
        enum bp_status got = bp_program_load(p, path_of("file"));
        cr_assert(got == BP_OK || got == BP_ERR_NOT_FOUND, "%s", bp_error_message());
        bp_program_destroy(p);
    }
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(waitpid(writer[i], &status, 0), writer[i]);
        cr_assert_eq(status, 0);
    }
    net_finish(&n);
}

Test(saved, options_are_checked)
{
    struct net n = net_begin(-0.5f, 0.5f);
    struct bp_program_options o = {.size = 8};
    struct bp_program *p;

    FAILS(BP_ERR_INVALID, "options->size is 8",
          bp_program_create_with(n.graph, n.f.device, &o, &p));
    o = (struct bp_program_options){.size = sizeof o, .flags = 1u << 31};
    FAILS(BP_ERR_INVALID, "options->flags", bp_program_create_with(n.graph, n.f.device, &o, &p));
    net_finish(&n);
}
