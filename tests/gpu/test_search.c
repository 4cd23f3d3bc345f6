/* SPDX-License-Identifier: Apache-2.0 */
/* test_search.c: tests where plugins/gpu looks for the driver and for vendors' libraries, on the
 * simulator and its stand-in for cuDNN, with copies of both in a temporary folder.
 *
 *   test_search PLUGIN DRIVER PLUGIN_THAT_LOOKS_THERE CUDNN A_DRIVER_THAT_CANNOT_BE_OPENED
 *               THE_LIBRARY_THAT_IT_LACKS [CASE]
 *
 * PLUGIN_THAT_LOOKS_THERE has the name of a driver that does not exist, folders of drivers that
 * begin with $BP_TEST_FOLDER (meson.build), and cuda's folders of libraries. CASE: a case that must
 * run in a process that was started with LD_LIBRARY_PATH. */
#include "kit.h"
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DRIVER_NAME "libbp_simulator_elsewhere.so"
#define GONE_NAME "libbp_gone_since_the_build.so.1"
#define CUDNN_NAME "libbp_sim_cudnn.so"

enum { PATH = 512 };
static char **argument;
static const char *plugin_path, *driver_path, *other_path, *cudnn_path, *broken_path, *gone_path;
static char folder[PATH / 2]; /* the temporary folder with all files */

/* ---- files ---- */

/* Returns the path of a file in the folder, and makes the folders of that path. */
static const char *in_folder(char out[PATH], const char *part, const char *name)
{
    snprintf(out, PATH, "%s/%s/%s", folder, part, name);
    for (char *c = out + strlen(folder) + 1; (c = strchr(c, '/')) != NULL; *c++ = '/') {
        *c = 0;
        expect(!mkdir(out, 0755) || errno == EEXIST, "%s: %s", out, strerror(errno));
    }
    return out;
}

/* Copies a file there; returns the path of the copy. */
static const char *search_copy(char out[PATH], const char *from, const char *part, const char *name)
{
    FILE *in = fopen(from, "rb"), *to = fopen(in_folder(out, part, name), "wb");
    char buffer[65536];
    size_t n;

    if (expect(in && to, "%s to %s: %s", from, out, strerror(errno)))
        while ((n = fread(buffer, 1, sizeof buffer, in)) > 0)
            expect(fwrite(buffer, 1, n, to) == n, "%s: %s", out, strerror(errno));
    if (in) fclose(in);
    if (to) fclose(to);
    return out;
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *at)
{
    (void)what;
    (void)kind;
    (void)at;
    return remove(path);
}

static bool is_loaded(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_NOLOAD) != NULL;
}

/* ---- drivers ---- */

static void search_begin(struct world *w, const char *path)
{
    enum bp_status status = world_make(w, load(path));

    expect(status == BP_OK, "world_make answers %d: %s", status, error_text);
}

/* The dynamic loader finds no driver, but one lies in a folder where the vendor installs drivers:
 * the plugin must use it. arg: that folder, below the test's root. */
static void driver_in_a_folder(const void *arg)
{
    char path[PATH];
    struct world w;

    search_copy(path, driver_path, arg, DRIVER_NAME);
    search_begin(&w, other_path);
    expect(is_loaded(path), "%s is not used", path);
    world_end(&w);
}

static void drivers_of_two_versions(const void *arg)
{
    char old[PATH], new[PATH];
    struct world w;

    (void)arg;
    search_copy(new, driver_path, "rocm-10.1/lib", DRIVER_NAME);
    search_copy(old, driver_path, "rocm-7.2/lib", DRIVER_NAME);
    search_begin(&w, other_path);
    expect(is_loaded(new) && !is_loaded(old), "the older one is used");
    world_end(&w);
}

static void driver_by_its_setting(const void *arg)
{
    char path[PATH], other[PATH];
    struct world w;

    (void)arg;
    search_copy(other, driver_path, "rocm/lib", DRIVER_NAME);
    setenv("BP_SIM_DRIVER", search_copy(path, driver_path, "chosen", "driver.so"), 1);
    search_begin(&w, other_path);
    expect(is_loaded(path) && !is_loaded(other), "%s is not used", path);
    world_end(&w);
}

/* The expected failure for a driver that is missing or cannot be used. */
struct refusal {
    const char *setting; /* of BP_SIM_DRIVER; NULL: not set */
    enum bp_status status;
    const char *text[4];
};

static void search_refused(const struct refusal *r)
{
    void *self = NULL;
    enum bp_status status;

    if (r->setting) setenv("BP_SIM_DRIVER", r->setting, 1);
    status = load(other_path)->create(host(), &self);
    expect(status == r->status && !self, "create answers %d: %s", status, error_text);
    for (int i = 0; i < 4 && r->text[i]; i++)
        expect(strstr(error_text, r->text[i]) != NULL, "'%s' is not in: %s", r->text[i],
               error_text);
    expect(!host_live, "something is left");
}

static void no_driver(const void *arg)
{
    (void)arg;
    search_refused(&(struct refusal){NULL, BP_ERR_ABSENT, {"sim: no simulator (", "rocm*/lib",
                              "where the loader looks", "BP_SIM_DRIVER"}});
}

static void driver_is_off(const void *arg)
{
    char path[PATH];

    (void)arg;
    search_copy(path, driver_path, "rocm/lib", DRIVER_NAME);
    search_refused(
        &(struct refusal){"off", BP_ERR_ABSENT, {"no simulator (BP_SIM_DRIVER is off)"}});
}

/* arg: the value of the setting. */
static void setting_of_no_file(const void *arg)
{
    char path[PATH];

    search_copy(path, driver_path, "rocm/lib", DRIVER_NAME);
    expect(!chdir(folder), "chdir");
    search_refused(&(struct refusal){arg,
                                     BP_ERR_DEVICE,
                                     {"cannot be opened: there is no file that can "
                                      "be read where BP_SIM_DRIVER says",
                                      arg}});
}

static void broken_driver(const void *arg)
{
    char path[PATH];

    (void)arg;
    search_copy(path, broken_path, "rocm/lib", DRIVER_NAME);
    search_refused(&(struct refusal){NULL, BP_ERR_DEVICE, {path, "cannot be opened: libbp_gone"}});
}

/* A driver needs a library that the loader does not find, but that is in a folder of drivers, as
 * the driver of DCUs does: it is opened, and has too few functions. */
static void driver_lacks_a_library(const void *arg)
{
    char path[PATH], needed[PATH];

    (void)arg;
    search_copy(path, broken_path, "rocm/lib", DRIVER_NAME);
    search_copy(needed, gone_path, "dtk-24/hip/lib", GONE_NAME);
    search_refused(
        &(struct refusal){NULL, BP_ERR_DEVICE, {path, "has no function sim_driver_version"}});
    expect(is_loaded(needed), "%s is not used", needed);
}

/* The library that the driver needs cannot be opened either. */
static void broken_library_of_a_driver(const void *arg)
{
    char path[PATH], needed[PATH];

    (void)arg;
    search_copy(path, broken_path, "rocm/lib", DRIVER_NAME);
    search_copy(needed, "/dev/null", "dtk-24/hip/lib", GONE_NAME);
    search_refused(&(struct refusal){
        NULL, BP_ERR_DEVICE, {path, "cannot be opened: ", needed, "file too short"}});
}

/* ---- libraries ---- */

static struct bp_view search_view_of(const int64_t shape[4], int64_t stride[4], uint8_t rank)
{
    struct bp_view view = {.shape = shape, .stride = stride, .count = 1, .dtype = BP_F32,
                           .rank = rank};

    for (int i = rank; i-- > 0; view.count *= shape[i]) stride[i] = view.count;
    return view;
}

/* Makes a plan of a row of cuDNN, which opens the library. */
static void plan_conv(struct world *w)
{
    static const struct bp_conv_attrs conv = {.size = sizeof conv, .stride = {1, 1, 1},
                                              .dilation = {1, 1, 1}, .groups = 1};
    static const int64_t shape[4][4] = {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}};
    static const uint16_t port[4] = {0, 1, 2, 3};
    const struct bp_kernel *row = find_named(w, "sim_conv_f32_cudnn");
    int64_t stride[4][4];
    struct bp_view view[4];
    const struct bp_view *at[4];
    struct bp_plan plan = {.size = sizeof plan};
    enum bp_status status;

    for (int i = 0; i < 4; i++) view[i] = search_view_of(shape[i], stride[i], i == 2 ? 1 : 4);
    for (int i = 0; i < 4; i++) at[i] = &view[i];
    struct bp_prep prep = {.size = sizeof prep, .kernel = row, .in = at, .out = at + 3,
                           .in_at = port, .out_at = port, .n_in = 3, .n_out = 1, .attrs = &conv,
                           .width = 1};
    expect(w->plugin->kernels->usable(w->self, row) == BP_OK, "usable: %s", error_text);
    status = row->prepare(w->self, &prep, &plan);
    if (expect(status == BP_OK, "prepare answers %d: %s", status, error_text))
        row->plan_destroy(w->self, row, plan.plan);
}

/* Checks that the library of this path is opened, and that one message reports it, with its
 * version. */
static void expect_cudnn(const char *plugin, const char *path)
{
    char text[PATH + 64];
    struct world w;

    snprintf(text, sizeof text, "sim: cuDNN: version 91900, %s\n", path);
    search_begin(&w, plugin);
    plan_conv(&w);
    expect(!strcmp(log_text, text), "expected '%s', it told: %s", text, log_text);
    plan_conv(&w);
    expect(!strcmp(log_text, text), "it told once more: %s", log_text);
    world_end(&w);
    expect(!*error_text, "it said: %s", error_text);
}

/* A library that the process has loaded is used, although there are others in a folder and in
 * LD_LIBRARY_PATH. */
static void library_of_the_process(const void *arg)
{
    char path[PATH], other[PATH];

    (void)arg;
    search_copy(other, cudnn_path, "path", CUDNN_NAME);
    *strrchr(other, '/') = 0;
    setenv("LD_LIBRARY_PATH", other, 1);
    dlopen(driver_path, RTLD_NOW);
    search_copy(path, cudnn_path, "of the process", CUDNN_NAME);
    expect(dlopen(path, RTLD_NOW | RTLD_LOCAL) != NULL, "%s", dlerror());
    expect_cudnn(plugin_path, path);
    expect(!is_loaded(cudnn_path), "there are two");
}

/* The setting has precedence over a library that the process has loaded. */
static void library_by_its_setting(const void *arg)
{
    char path[PATH], chosen[PATH];

    (void)arg;
    dlopen(driver_path, RTLD_NOW);
    expect(dlopen(search_copy(path, cudnn_path, "of the process", CUDNN_NAME), RTLD_NOW) != NULL,
           "%s", dlerror());
    setenv("BP_SIM_CUDNN", search_copy(chosen, cudnn_path, "chosen", "cudnn.so"), 1);
    expect_cudnn(plugin_path, chosen);
}

/* A folder of cuda: a variable of the environment, and the path of the library from there. */
struct place {
    const char *variable, *root, *part;
};

static void library_in_a_folder(const void *arg)
{
    const struct place *p = arg;
    char path[PATH], part[PATH];

    setenv("BP_SIM_DRIVER", driver_path, 1);
    snprintf(part, sizeof part, "%s/%s", p->root, p->part);
    search_copy(path, cudnn_path, part, CUDNN_NAME);
    snprintf(part, sizeof part, "%s/%s", folder, p->root);
    setenv(p->variable, part, 1);
    expect_cudnn(other_path, path);
}

/* A folder that is not absolute is ignored. */
static void library_in_no_folder(const void *arg)
{
    char path[PATH];
    struct world w;

    (void)arg;
    setenv("BP_SIM_DRIVER", driver_path, 1);
    search_copy(path, cudnn_path, "conda/lib", CUDNN_NAME);
    expect(!chdir(folder), "chdir");
    setenv("CONDA_PREFIX", "conda", 1);
    search_begin(&w, other_path);
    expect(w.plugin->kernels->usable(w.self, find_named(&w, "sim_conv_f32_cudnn")) ==
               BP_ERR_UNSUPPORTED, "it is found");
    world_end(&w);
}

/* ---- the loader, which uses LD_LIBRARY_PATH as it was when the process began ---- */

static void driver_by_the_loader(const char *there)
{
    char path[PATH], other[PATH];
    struct world w;

    snprintf(path, sizeof path, "%s/" DRIVER_NAME, there);
    search_copy(other, driver_path, "rocm/lib", DRIVER_NAME);
    search_begin(&w, other_path);
    expect(is_loaded(path) && !is_loaded(other), "%s is not used", path);
    world_end(&w);
}

static void library_by_the_loader(const char *there)
{
    char path[PATH];

    setenv("BP_SIM_DRIVER", driver_path, 1);
    snprintf(path, sizeof path, "%s/" CUDNN_NAME, there);
    expect_cudnn(other_path, path);
}

static const struct of_loader {
    const char *name;
    void (*body)(const char *there);
} of_loader[] = {{"driver", driver_by_the_loader}, {"library", library_by_the_loader}};

/* Starts a new process with a folder that the plugin has no setting for. arg: an element of
 * of_loader. */
static void by_loader(const void *arg)
{
    const struct of_loader *c = arg;
    char path[PATH];

    search_copy(path, driver_path, "loader", DRIVER_NAME);
    search_copy(path, cudnn_path, "loader", CUDNN_NAME);
    *strrchr(path, '/') = 0;
    setenv("LD_LIBRARY_PATH", path, 1);
    fflush(stdout);
    execl("/proc/self/exe", argument[0], argument[1], argument[2], argument[3], argument[4],
          argument[5], argument[6], c->name, (char *)NULL);
    expect(false, "execl: %s", strerror(errno));
}

static int run_of_loader(const char *name)
{
    char there[PATH];

    snprintf(there, sizeof there, "%s", getenv("LD_LIBRARY_PATH"));
    snprintf(folder, sizeof folder, "%s", getenv("BP_TEST_FOLDER"));
    unsetenv("LD_LIBRARY_PATH");
    for (size_t i = 0; i < sizeof of_loader / sizeof *of_loader; i++)
        if (!strcmp(name, of_loader[i].name)) of_loader[i].body(there);
    return unmet != 0;
}

/* Each case begins with an empty folder. */
static void search_run(const char *name, void (*body)(const void *arg), const void *arg)
{
    snprintf(folder, sizeof folder, "%s/bp_search_XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR")
                                                                            : "/tmp");
    if (!mkdtemp(folder)) exit(2);
    setenv("BP_TEST_FOLDER", folder, 1);
    run_case(name, body, arg);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    if (argc < 7) return 2;
    argument = argv;
    plugin_path = argv[1];
    driver_path = argv[2];
    other_path = argv[3];
    cudnn_path = argv[4];
    broken_path = argv[5];
    gone_path = argv[6];
    if (argc > 7) return run_of_loader(argv[7]);
    if (getenv("LD_LIBRARY_PATH")) { /* the loader knows it, as long as this process lives */
        unsetenv("LD_LIBRARY_PATH");
        execv("/proc/self/exe", argv);
        return 2;
    }
    search_run("a driver in a folder", driver_in_a_folder, "rocm/lib");
    search_run("a driver in a folder that a pattern fits", driver_in_a_folder, "dtk-24/hip/lib");
    search_run("drivers of two versions", drivers_of_two_versions, NULL);
    search_run("a driver by its setting", driver_by_its_setting, NULL);
    search_run("no driver", no_driver, NULL);
    search_run("a driver that is off", driver_is_off, NULL);
    search_run("a driver's setting that names no file", setting_of_no_file, "/nowhere/driver.so");
    search_run("a driver's setting that is not absolute", setting_of_no_file,
               "rocm/lib/" DRIVER_NAME);
    search_run("a driver in a folder that cannot be opened", broken_driver, NULL);
    search_run("a driver that lacks a library of its folders", driver_lacks_a_library, NULL);
    search_run("a driver whose library is broken", broken_library_of_a_driver, NULL);
    search_run("a driver that the loader finds", by_loader, &of_loader[0]);
    search_run("a library that the process has", library_of_the_process, NULL);
    search_run("a library by its setting", library_by_its_setting, NULL);
    search_run(
        "a library of a virtual environment", library_in_a_folder,
        &(struct place){"VIRTUAL_ENV", "venv", "lib/python3.12/site-packages/nvidia/cudnn/lib"});
    search_run("a library of an environment whose name has signs of patterns", library_in_a_folder,
               &(struct place){"VIRTUAL_ENV", "a [b]*?\\c",
                               "lib/python3.9/site-packages/nvidia/cu13/lib"});
    search_run("a library of conda", library_in_a_folder,
               &(struct place){"CONDA_PREFIX", "conda", "lib"});
    search_run(
        "a library of Python in conda", library_in_a_folder,
        &(struct place){"CONDA_PREFIX", "conda", "lib/python3.11/site-packages/nvidia/cudnn/lib"});
    search_run("a folder that is not absolute", library_in_no_folder, NULL);
    search_run("a library that the loader finds", by_loader, &of_loader[1]);
    return cases_end();
}
