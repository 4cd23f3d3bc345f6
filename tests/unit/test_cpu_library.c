/* SPDX-License-Identifier: Apache-2.0 */
/* test_cpu_library.c: tests the warnings of the cpu plugin about the files of oneDNN and OpenBLAS
 * that environment variables name. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The warnings that a core has logged. */
struct warnings {
    int n;
    char text[2000];
};

static void library_note(void *ctx, uint32_t level, const char *text)
{
    struct warnings *w = ctx;
    size_t used = strlen(w->text);

    if (level != BP_LOG_WARN) return;
    w->n++;
    snprintf(w->text + used, sizeof w->text - used, "%s\n", text);
}

static struct fixture library_open(const char *variable, const char *value, struct warnings *w)
{
    struct bp_core_options options = {.size = sizeof options, .log = library_note, .log_ctx = w};
    struct fixture f;

    unsetenv("BP_CPU_DNNL");
    unsetenv("BP_CPU_OPENBLAS");
    if (value) setenv(variable, value, 1);
    OK(bp_core_create(&options, &f.core));
    OK(bp_device_create(f.core, "cpu:0", &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

/* The first element of a convolution of ones, of a size for which oneDNN has the best row. */
static float library_convolve(struct fixture *f)
{
    struct bp_tensor *x = tensor_of(f, BP_F32, 4, SHAPE(1, 16, 32, 32), NULL), *y = NULL;
    struct bp_tensor *w = tensor_of(f, BP_F32, 4, SHAPE(16, 16, 3, 3), NULL);
    struct bp_fill_attrs one = bp_fill_defaults();
    float got[16 * 30 * 30];

    one.value = 1;
    OK(bp_op_fill(f->scope, x, &one, &x));
    OK(bp_op_fill(f->scope, w, &one, &w));
    OK(bp_op_conv(f->scope, x, w, NULL, NULL, &y));
    OK(bp_tensor_read(f->stream, y, got, sizeof got));
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    bp_tensor_destroy(y);
    return got[0];
}

Test(cpu_library, warns_of_a_path_that_names_no_file)
{
    static const struct {
        const char *variable, *value, *cause;
    } bad[] = {
        {"BP_CPU_DNNL", "/nowhere/libdnnl.so.2", "No such file or directory"},
        {"BP_CPU_DNNL", "libdnnl.so.2", "not absolute"},
        {"BP_CPU_OPENBLAS", "/nowhere/libopenblas.so.0", "No such file or directory"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct warnings w = {0, ""};
        struct fixture f = library_open(bad[i].variable, bad[i].value, &w);
        char setting[200];

        snprintf(setting, sizeof setting, "%s=%s", bad[i].variable, bad[i].value);
        cr_assert_eq(w.n, 1, "%s", w.text);
        cr_assert(strstr(w.text, setting) && strstr(w.text, bad[i].cause), "%s", w.text);
        cr_assert_eq(library_convolve(&f), 16 * 9);
        cr_assert_eq(w.n, 1, "%s", w.text);
        fixture_finish(&f);
    }
}

Test(cpu_library, does_not_warn_if_off_empty_or_unset)
{
    static const char *const good[] = {"off", "", NULL};

    for (int i = 0; i < 3; i++) {
        struct warnings w = {0, ""};
        struct fixture f = library_open("BP_CPU_DNNL", good[i], &w);

        cr_assert_eq(w.n, 0, "%s", w.text);
        fixture_finish(&f);
    }
}

/* The file can be read, but not loaded: the plan that needs it first warns. */
Test(cpu_library, warns_of_a_file_that_is_no_library)
{
    char path[] = "/tmp/bp-no-library-XXXXXX";
    int file = mkstemp(path);
    struct warnings w = {0, ""};
    struct fixture f;

    cr_assert(file >= 0);
    f = library_open("BP_CPU_DNNL", path, &w);
    cr_assert_eq(w.n, 0, "%s", w.text);
    for (int i = 0; i < 2; i++) cr_assert_eq(library_convolve(&f), 16 * 9);
    unlink(path);
    close(file);
    cr_assert_eq(w.n, 1, "%s", w.text);
    cr_assert(strstr(w.text, "BP_CPU_DNNL") && strstr(w.text, path), "%s", w.text);
    fixture_finish(&f);
}
