/* SPDX-License-Identifier: Apache-2.0 */
/* test_rtc.c: tests kernels of `fused` that plugins/gpu compiles at run time, on stand-ins for
 * NVRTC and hiprtc: what is compiled once, kept on disk, damaged or refused, and failures of calls.
 *
 *   test_rtc PLUGIN DRIVER NVRTC HIPRTC */
#include "kit.h"
#include "libraries_work.h"
#include <backplane/fused.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

enum {
    WORDS = 1 + 2 * BP_FUSED_STEP_WORDS
};

/* y = x0 * x1 + x0, and with sub in place of add. */
static int64_t code[WORDS], other_code[WORDS];
static struct bp_fused_attrs attrs = {.size = sizeof attrs}, other_attrs = {.size = sizeof attrs};

static const struct recipe fused[] = {
    {"sim_fused_nvrtc",
     &attrs,
     2,
     {{2, 3}, {3}, {2, 3}},
     .n_result = 6,
     .result = {2, 6, 12, 8, 15, 24}},
    {"sim_fused_nvrtc", &attrs, 2, {{2, 2}, {2}, {2, 2}}, .n_result = 4, .result = {2, 6, 6, 12}},
    {"sim_fused_nvrtc",
     &attrs,
     2,
     {{6}, {6}, {6}},
     SIM_BF16,
     .n_result = 6,
     .result = {2, 6, 12, 20, 30, 42}},
    {"sim_fused_nvrtc", &other_attrs, 2, {{4}, {4}, {4}}, .n_result = 4, .result = {0, 2, 6, 12}},
    {"sim_fused_hiprtc",
     &attrs,
     2,
     {{2, 3}, {3}, {2, 3}},
     .n_result = 6,
     .result = {2, 6, 12, 8, 15, 24}},
};
enum {
    FUSED = sizeof fused / sizeof *fused,
    OTHER = 3,
    HIPRTC = 4
};

static void code_make(int64_t *word, struct bp_fused_attrs *out, const char *second)
{
    struct bp_fused_step mul = {"mul", BP_FUSED_R, {0, 1, BP_FUSED_NONE}, 0, {0}},
                         last = {"", BP_FUSED_Y, {BP_FUSED_R, 0, BP_FUSED_NONE}, 0, {0}};

    snprintf(last.op, sizeof last.op, "%s", second);
    word[0] = bp_fused_head(2, 1, 1);
    bp_fused_put(word, 0, &mul);
    bp_fused_put(word, 1, &last);
    out->code = (struct bp_dims){word, WORDS};
}

/* ---- the folder of the cache ---- */

static char folder[64];

/* Calls `use` for each program in the folder; returns how many there are. */
static int files_each(void (*use)(const char *path))
{
    DIR *dir = opendir(folder);
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[sizeof folder + sizeof e->d_name + 2];
        if (e->d_name[0] == '.') continue;
        n++;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (use) use(path);
    }
    if (dir) closedir(dir);
    return n;
}

static void file_remove(const char *path)
{
    unlink(path);
}

static void file_shorten(const char *path)
{
    expect(!truncate(path, 1000), "%s is not shortened", path);
}

static void file_damage(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unsigned char byte = 0;

    expect(pread(fd, &byte, 1, 5000) == 1, "%s is short", path);
    byte ^= 1;
    expect(pwrite(fd, &byte, 1, 5000) == 1, "%s is not damaged", path);
    close(fd);
}

/* Runs recipe 0 in a new process, with these failures. */
struct attempt {
    const char *failures;
    enum outcome outcome;
    const char *message; /* a part of what is said; NULL: nothing is said */
};

static void attempt_run(const void *arg)
{
    const struct attempt *a = arg;
    enum outcome outcome;
    struct world w;

    setenv("BP_SIM_FAIL", a->failures, 1);
    begin(&w);
    outcome = run_recipe(&w, &fused[0]);
    expect(outcome == a->outcome, "outcome %d: %s", outcome, error_text);
    end(&w);
    if (!a->message) expect(!*error_text, "it said: %s", error_text);
    else expect(strstr(error_text, a->message) != NULL, "it said: %s", error_text);
}

static const char no_compiler[] = "nvrtcCompileProgram:1:6";

static void attempt_expect(const char *failures, enum outcome outcome, const char *message)
{
    const struct attempt a = {failures, outcome, message};

    expect(run_child(attempt_run, &a) == 0, "with '%s'", failures);
}

/* ---- cases ---- */

static void all_compile(const void *arg)
{
    struct world w;

    (void)arg;
    begin(&w);
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < FUSED; i++)
            expect(run_recipe(&w, &fused[i]) == WORKS, "recipe %d: %s", i, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
    expect(files_each(NULL) == 4, "%d programs are kept", files_each(NULL));
}

/* Calls of other extents use the same kernel; other code has another one. */
static void compiled_once(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "nvrtcCompileProgram:2:6", 1);
    begin(&w);
    for (int i = 0; i < 4; i++) expect(run_recipe(&w, &fused[i % 2]) == WORKS, "%s", error_text);
    expect(!*error_text, "it said: %s", error_text);
    expect(run_recipe(&w, &fused[OTHER]) == PASSED_OVER, "other code is not compiled");
    expect(strstr(error_text, "answers 6") != NULL, "it said: %s", error_text);
    expect_no_error();
    expect(run_recipe(&w, &fused[OTHER]) == PASSED_OVER && !*error_text, "it said again: %s",
           error_text);
    end(&w);
}

static void kept_on_disk(const void *arg)
{
    (void)arg;
    attempt_expect("", WORKS, NULL);
    attempt_expect(no_compiler, WORKS, NULL);
    files_each(file_remove);
    attempt_expect(no_compiler, PASSED_OVER, "nvrtcCompileProgram answers 6");
    expect(files_each(NULL) == 0, "a program that was not compiled is kept");
}

static void compiled_again(const void *arg)
{
    void (*const *damage)(const char *path) = arg;

    attempt_expect("", WORKS, NULL);
    files_each(*damage);
    attempt_expect(no_compiler, PASSED_OVER, "answers 6");
    attempt_expect("", WORKS, NULL);
    attempt_expect(no_compiler, WORKS, NULL);
}

/* The driver refuses the kept program, then the new one too. */
static void driver_refuses(const void *arg)
{
    (void)arg;
    attempt_expect("", WORKS, NULL);
    attempt_expect("module_load:1:209", WORKS, NULL);
    attempt_expect(no_compiler, WORKS, NULL);
    attempt_expect("module_load:1:209,module_load:1:222", PASSED_OVER,
                   "answers 222 to code of NVRTC 12.4 (--gpu-architecture=sm_20)");
    expect(files_each(NULL) == 0, "a program that the driver refuses is kept");
}

static void no_cache(const void *arg)
{
    (void)arg;
    setenv("BP_SIM_CACHE", "", 1);
    attempt_expect("", WORKS, NULL);
    attempt_expect(no_compiler, PASSED_OVER, "answers 6");
    expect(files_each(NULL) == 0, "programs are kept");
}

/* The device is newer than all architectures of the library, which then writes PTX of an older
 * one. */
static void ptx_for_newer(const void *arg)
{
    (void)arg;
    setenv("BP_SIM_ARCH", "21", 1);
    attempt_expect("nvrtcGetCUBIN:1:4", WORKS, NULL);
    files_each(file_remove);
    attempt_expect("nvrtcGetPTX:1:4", PASSED_OVER, "nvrtcGetPTX answers 4");
}

static void is_absent(const void *arg)
{
    const struct bp_kernel *row;
    struct world w;

    (void)arg;
    setenv("BP_SIM_NVRTC", "off", 1);
    begin(&w);
    row = find_named(&w, fused[0].row);
    expect(w.plugin->kernels->usable(w.self, row) == BP_ERR_UNSUPPORTED &&
               strstr(error_text, "there is no library NVRTC") &&
               strstr(error_text, "BP_SIM_NVRTC"),
           "it said: %s", error_text);
    expect_no_error();
    expect(run_recipe(&w, &fused[0]) == PASSED_OVER && strstr(error_text, "BP_SIM_NVRTC is off"),
           "it said: %s", error_text);
    expect(run_recipe(&w, &fused[HIPRTC]) == WORKS, "%s", error_text);
    end(&w);
}

/* A plan is made while its stream is recorded; the launch is replayed after the plan's end. */
static void is_recorded(const void *arg)
{
    const struct recipe *r = &fused[0];
    struct views v = {.port = {0, 1, 2, 3}};
    struct bp_plan plan = {.size = sizeof plan};
    struct world w;

    (void)arg;
    begin(&w);
    struct bp_launch launch = {.self = w.self,
                               .kernel = find_named(&w, r->row),
                               .in = v.at,
                               .out = v.at + 2,
                               .in_at = v.port,
                               .out_at = v.port,
                               .n_in = 2,
                               .n_out = 1,
                               .attrs = r->attrs,
                               .stream = w.stream[0],
                               .width = 1};
    make_views(&v, r);
    place_views(&w, &v, r);
    expect(write_inputs(&w, &v, r), "%s", error_text);
    expect(w.g->capture_begin(w.self, 0, w.stream[0]) == BP_OK, "%s", error_text);
    expect(make_plan(&w, r, &v, &plan) == BP_OK, "%s", error_text);
    launch.plan = plan.plan;
    expect(launch.kernel->launch(&launch) == BP_OK, "%s", error_text);
    expect(w.g->capture_end(w.self, 0, w.stream[0], &w.recording) == BP_OK, "%s", error_text);
    launch.kernel->plan_destroy(w.self, launch.kernel, plan.plan);
    expect(w.g->replay(w.self, 0, w.recording, w.stream[0]) == BP_OK, "%s", error_text);
    expect(w.r->synchronize(w.self, 0, w.stream[0]) == BP_OK, "%s", error_text);
    compare(&w, &v, r);
    w.g->recording_destroy(w.self, 0, w.recording);
    w.recording = NULL;
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

static void *thread_plans(void *arg)
{
    struct world *w = arg;
    uint64_t workspace;

    return plan_recipe(w, &fused[0], &workspace) == BP_OK ? NULL : w;
}

static void threads_share(const void *arg)
{
    enum {
        THREADS = 4
    };
    pthread_t id[THREADS];
    struct world w;
    void *failed;

    (void)arg;
    setenv("BP_SIM_FAIL", "nvrtcCompileProgram:2:6", 1);
    begin(&w);
    for (int i = 0; i < THREADS; i++)
        expect(!pthread_create(&id[i], NULL, thread_plans, &w), "no thread");
    for (int i = 0; i < THREADS; i++)
        expect(!pthread_join(id[i], &failed) && !failed, "thread %d: %s", i, error_text);
    end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

static void caller_keeps_its_context(const void *arg)
{
    struct world w;

    (void)arg;
    setenv("BP_SIM_DEVICES", "2", 1);
    caller_begin(driver_path, 1);
    begin(&w);
    for (int i = 0; i < FUSED; i++) {
        expect(run_recipe(&w, &fused[i]) == WORKS, "%s", error_text);
        caller_stays(fused[i].row);
    }
    world_end(&w);
    caller_stays("destroy");
    caller_end();
}

/* ---- failures ---- */

/* A failure of the library, or of memory, passes the row over and leaves nothing behind; other code
 * and another instance compile. */
static void call_fails(const void *arg)
{
    const struct failing_call *f = arg;
    struct world w, again;
    char text[96];
    enum outcome outcome;

    snprintf(text, sizeof text, "%s:%d:999", f->call, f->n);
    setenv("BP_SIM_FAIL", text, 1);
    begin(&w);
    outcome = run_recipe(&w, &fused[f->code]);
    if (outcome == WORKS && !*error_text) {
        end(&w);
        exit(NOT_REACHED);
    }
    expect(outcome == PASSED_OVER || !strcmp(f->call, "nvrtcDestroyProgram") ||
               !strcmp(f->call, "hiprtcDestroyProgram"),
           "outcome %d: %s", outcome, error_text);
    snprintf(text, sizeof text, "%s answers 999: a failure", f->call);
    expect(strstr(error_text, text) != NULL, "expected '%s', it said: %s", text, error_text);
    end(&w);
    unsetenv("BP_SIM_FAIL");
    expect_no_error();
    begin(&again);
    expect(run_recipe(&again, &fused[f->code]) == WORKS && !*error_text, "afterwards: %s",
           error_text);
    end(&again);
}

/* ---- what follows a convolution ---- */

static const struct bp_fused_conv_attrs conv_clip = {
    .size = sizeof conv_clip, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1,
    .activation = BP_ACTIVATION_CLIP, .alpha = 49, .beta = 100};
#define WITH_RESIDUAL \
    4, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}, {1, 2, 1, 2}}
#define WITHOUT_RESIDUAL \
    3, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}}

/* A call of fused_conv, and how many kernels and library calls it takes with a compiler and without
 * one. */
static const struct conv_launches {
    struct recipe recipe;
    size_t compiled, portable;
} conv_launches[] = {
    {{"sim_fused_conv_f32_cudnn", &conv_clip, WITH_RESIDUAL, .n_result = 4,
      .result = {49, 50, 90, 100}}, 2, 4},
    {{"sim_fused_conv_f32_cudnn", &conv_relu, WITHOUT_RESIDUAL, .n_result = 4,
      .result = {38, 48, 87, 113}}, 2, 3},
    {{"sim_fused_conv_f32_cudnn", &conv_sum, WITHOUT_RESIDUAL, .n_result = 4,
      .result = {38, 48, 87, 113}}, 2, 2},
    {{"sim_fused_conv_bf16_cudnn", &conv_relu, WITH_RESIDUAL, SIM_BF16, .n_result = 4,
      .result = {39, 50, 90, 117}}, 1, 1},
    {{"sim_fused_conv_bf16_cudnn", &conv_relu, WITHOUT_RESIDUAL, SIM_BF16, .n_result = 4,
      .result = {38, 48, 87, 113}}, 1, 1},
    {{"sim_fused_conv_f16_cudnn", &conv_clip, WITH_RESIDUAL, SIM_F16, .n_result = 4,
      .result = {49, 50, 90, 100}}, 2, 2},
    /* The library gets no unaligned bias: it is copied, as the other four tensors and the
     * result. */
    {{"sim_fused_conv_f16_cudnn", &conv_relu, WITH_RESIDUAL, SIM_F16, .n_result = 4,
      .result = {39, 50, 90, 117}, .apart = true}, 6, 6},
};

static void conv_is_launched(const void *arg)
{
    const bool compiles = arg != NULL;

    if (!compiles) setenv("BP_SIM_NVRTC", "off", 1);
    if (!compiles) setenv("BP_SIM_HIPRTC", "off", 1);
    for (size_t i = 0; i < sizeof conv_launches / sizeof *conv_launches; i++) {
        const struct conv_launches *c = &conv_launches[i];
        size_t wanted = compiles ? c->compiled : c->portable, before;
        struct world w;
        begin(&w);
        before = driver_computed(driver_path);
        expect(run_recipe(&w, &c->recipe) == WORKS, "%s: %s", c->recipe.row, error_text);
        before = driver_computed(driver_path) - before;
        expect(before == wanted, "%s (%zu): %zu launches, not %zu", c->recipe.row, i, before,
               wanted);
        end(&w);
    }
    expect(!*error_text, "it said: %s", error_text);
}

/* Kernels that cannot be compiled, with the bias and without it, are replaced by portable ones. */
static void conv_without_kernel(const void *arg)
{
    const struct conv_launches *c = &conv_launches[0];
    size_t before;
    struct world w;

    (void)arg;
    setenv("BP_SIM_FAIL", "nvrtcCompileProgram:1:6,nvrtcCompileProgram:1:6", 1);
    begin(&w);
    before = driver_computed(driver_path);
    expect(run_recipe(&w, &c->recipe) == WORKS, "%s: %s", c->recipe.row, error_text);
    expect(driver_computed(driver_path) - before == c->portable, "%zu launches",
           driver_computed(driver_path) - before);
    end(&w);
}

static void rtc_forget(void)
{
    files_each(file_remove);
}

/* Runs a case with an empty cache. */
static void rtc_case(const char *name, void (*body)(const void *arg), const void *arg)
{
    files_each(file_remove);
    run_case(name, body, arg);
}

static void all_cases(void)
{
    static void (*const shorten)(const char *path) = file_shorten;
    static void (*const damage)(const char *path) = file_damage;
    static const char *const calls[] = {"Version", "CreateProgram", "CompileProgram",
                                        "DestroyProgram"};
    char call[64];

    rtc_case("kernels are compiled by both libraries", all_compile, NULL);
    rtc_case("a kernel is compiled once for a process", compiled_once, NULL);
    rtc_case("a kernel is kept on disk", kept_on_disk, NULL);
    rtc_case("a file that is too short is replaced", compiled_again, &shorten);
    rtc_case("a damaged file is replaced", compiled_again, &damage);
    rtc_case("a program that the driver refuses is replaced", driver_refuses, NULL);
    rtc_case("without a cache", no_cache, NULL);
    rtc_case("PTX for a device that is newer than the library", ptx_for_newer, NULL);
    rtc_case("without the library", is_absent, NULL);
    rtc_case("compiled while a stream is recorded", is_recorded, NULL);
    rtc_case("threads that need the same kernel", threads_share, NULL);
    rtc_case("the caller's context stays", caller_keeps_its_context, NULL);
    rtc_case("fused_conv: launches with a compiler", conv_is_launched, "");
    rtc_case("fused_conv: launches without a compiler", conv_is_launched, NULL);
    rtc_case("fused_conv: a kernel that cannot be compiled", conv_without_kernel, NULL);
    for (int i = 0; i < 4; i++) {
        snprintf(call, sizeof call, "nvrtc%s", calls[i]);
        each_place(call, 0, call_fails, rtc_forget);
        snprintf(call, sizeof call, "hiprtc%s", calls[i]);
        each_place(call, HIPRTC, call_fails, rtc_forget);
    }
    each_place("nvrtcGetNumSupportedArchs", 0, call_fails, rtc_forget);
    each_place("nvrtcGetSupportedArchs", 0, call_fails, rtc_forget);
    each_place("nvrtcGetCUBINSize", 0, call_fails, rtc_forget);
    each_place("nvrtcGetCUBIN", 0, call_fails, rtc_forget);
    each_place("hiprtcGetCodeSize", HIPRTC, call_fails, rtc_forget);
    each_place("hiprtcGetCode", HIPRTC, call_fails, rtc_forget);
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    setenv("BP_SIM_NVRTC", argv[3], 1);
    setenv("BP_SIM_HIPRTC", argv[4], 1);
    code_make(code, &attrs, "add");
    code_make(other_code, &other_attrs, "sub");
    snprintf(folder, sizeof folder, "/tmp/bp-rtc-XXXXXX");
    if (!mkdtemp(folder)) return 2;
    setenv("BP_SIM_CACHE", folder, 1);
    all_cases();
    files_each(file_remove);
    rmdir(folder);
    return cases_end();
}
