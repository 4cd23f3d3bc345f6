/* SPDX-License-Identifier: Apache-2.0 */
/* harness.c: implements the test harness for plugins without a core (harness.h). */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include "harness.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static _Thread_local char message[1024];
static atomic_int failures; /* of the running test; its threads count too */
static int tests, failed_tests;

/* --- the host --- */

static void harness_host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    printf("# log %u: %s\n", level, text);
}

static enum bp_status harness_host_fail(void *ctx, uint32_t status, const char *text)
{
    (void)ctx;
    snprintf(message, sizeof message, "%s", text);
    return (enum bp_status)status;
}

static void *harness_host_allocate(void *ctx, size_t size, size_t alignment)
{
    struct harness *h = ctx;
    void *memory = NULL;

    if (h->no_memory) return NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&memory, alignment, size ? size : 1)) return NULL;
    memset(memory, 0xcd, size); /* contents are undefined */
    h->live++;
    return memory;
}

static void harness_host_release(void *ctx, void *memory, size_t size)
{
    struct harness *h = ctx;

    memset(memory, 0xdd, size); /* shows a wrong size under a sanitizer */
    free(memory);
    h->live--;
}

const struct bp_plugin *harness_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    *(void **)&get = dlsym(library, "bp_plugin_get");
    if (!get) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    return get();
}

void harness_init(struct harness *h, const struct bp_plugin *plugin)
{
    memset(h, 0, sizeof *h);
    h->plugin = plugin;
    h->runtime = plugin->runtime;
    h->host = (struct bp_host){
        .size = sizeof h->host,
        .abi_major = BP_ABI_MAJOR,
        .abi_minor = BP_ABI_MINOR,
        .ctx = h,
        .log = harness_host_log,
        .fail = harness_host_fail,
        .allocate = harness_host_allocate,
        .release = harness_host_release,
    };
    if (!CHECK(plugin->create(&h->host, &h->self) == BP_OK)) abort();
}

void harness_finish(struct harness *h)
{
    h->plugin->destroy(h->self);
    CHECK(h->live == 0);
}

const char *harness_message(void)
{
    return message;
}

void harness_clear(void)
{
    message[0] = 0;
}

/* --- tensors and launches --- */

void tensor_init(struct tensor *t, struct harness *h, const int64_t *shape)
{
    uint8_t rank = 0;

    memset(t, 0, sizeof *t);
    while (shape[rank] >= 0) rank++;
    t->view = (struct bp_view){
        .shape = t->shape, .stride = t->stride, .count = 1, .dtype = BP_F32, .rank = rank};
    for (int axis = rank - 1; axis >= 0; axis--) {
        t->shape[axis] = shape[axis];
        t->stride[axis] = t->view.count;
        t->view.count *= shape[axis];
    }
    if (t->view.count == 0) return;
    CHECK(h->runtime->memory_allocate(h->self, 0, BP_SPACE_DEVICE, (uint64_t)t->view.count * 4,
                                      &t->memory) == BP_OK);
    t->view.memory = t->memory.handle;
    t->view.data = t->memory.data;
}

void tensor_finish(struct tensor *t, struct harness *h)
{
    if (t->memory.data) h->runtime->memory_free(h->self, 0, BP_SPACE_DEVICE, &t->memory);
}

void tensor_write(struct tensor *t, struct harness *h, const float *from)
{
    struct bp_copy copy = {t->memory.handle, t->memory.data, NULL, from,
                           (uint64_t)t->view.count * 4};

    CHECK(h->runtime->copy_in(h->self, 0, NULL, &copy) == BP_OK);
}

void tensor_read(struct tensor *t, struct harness *h, float *to)
{
    struct bp_copy copy = {NULL, to, t->memory.handle, t->memory.data, (uint64_t)t->view.count * 4};

    CHECK(h->runtime->copy_out(h->self, 0, NULL, &copy) == BP_OK);
}

static const struct bp_kernel *find_row(const struct bp_kernels *kernels, const char *name)
{
    for (size_t i = 0; i < kernels->count; i++) {
        const struct bp_kernel *row = (const void *)((const char *)kernels->first +
                                                     i * kernels->stride);
        if (!strcmp(row->name, name)) return row;
    }
    printf("Bail out! no row %s\n", name);
    exit(1);
}

/* Frees and overwrites all memory of the launch before it returns, so that a plugin must not use it
 * later. */
enum bp_status harness_launch(struct harness *h, const char *name, const void *attrs,
                              struct tensor *out, struct tensor *in0, struct tensor *in1)
{
    const struct bp_kernel *row = find_row(h->plugin->kernels, name);
    struct tensor copy[3] = {*in0, in1 ? *in1 : *in0, *out};
    const struct bp_view *in[2], *outs[1];
    uint64_t attrs_copy[16] = {0};
    uint16_t in_at[3] = {0, 1, 2}, out_at[2] = {0, 1};
    struct bp_launch launch = {
        .self = h->self, .kernel = row, .in = in, .out = outs, .in_at = in_at, .out_at = out_at,
        .n_in = in1 ? 2 : 1, .n_out = 1, .attrs = attrs ? attrs_copy : NULL, .width = 1,
    };
    enum bp_status status;

    for (int i = 0; i < 3; i++) {
        copy[i].view.shape = copy[i].shape;
        copy[i].view.stride = copy[i].stride;
    }
    in[0] = &copy[0].view;
    in[1] = &copy[1].view;
    outs[0] = &copy[2].view;
    if (attrs) memcpy(attrs_copy, attrs, row->attrs_size);
    status = row->launch(&launch);
    memset(copy, 0xee, sizeof copy);
    memset(attrs_copy, 0xee, sizeof attrs_copy);
    memset(&launch, 0xee, sizeof launch);
    in[0] = in[1] = outs[0] = NULL;
    __asm__ volatile(""
                     :
                     : "r"(copy), "r"(attrs_copy), "r"(&launch), "r"(in), "r"(outs)
                     : "memory");
    return status;
}

/* --- tests --- */

bool harness_check(bool good, const char *text, const char *file, int line)
{
    if (!good) {
        printf("# %s:%d: not true: %s (last message: %s)\n", file, line, text, message);
        failures++;
    }
    return good;
}

void harness_test(const char *name, void (*test)(struct harness *h), const struct bp_plugin *plugin)
{
    struct harness h;

    failures = 0;
    harness_clear();
    harness_init(&h, plugin);
    test(&h);
    harness_finish(&h);
    printf("%s %d - %s\n", failures ? "not ok" : "ok", ++tests, name);
    failed_tests += failures != 0;
    fflush(stdout);
}

int harness_end(void)
{
    printf("1..%d\n", tests);
    return failed_tests != 0;
}

int harness_death(const struct bp_plugin *plugin, void (*test)(struct harness *h))
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child < 0) {
        printf("Bail out! fork\n");
        exit(1);
    }
    if (child == 0) {
        struct harness h;
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        signal(SIGSEGV, SIG_DFL); /* otherwise a sanitizer would report and exit */
        harness_init(&h, plugin);
        test(&h);
        _exit(0);
    }
    while (waitpid(child, &status, 0) < 0) continue;
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
