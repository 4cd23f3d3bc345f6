/* SPDX-License-Identifier: Apache-2.0 */
/* kit.c: implements the host, the launches and the child processes of the tests of plugins/gpu; see
 * kit.h. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include "kit.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char error_text[65536], log_text[65536];
_Atomic int host_live;
int host_doomed, unmet;
static int cases, failed;

void expect_no_error(void)
{
    *error_text = *log_text = 0;
}

static void kit_take_text(char into[sizeof error_text], const char *text)
{
    size_t used = strlen(into);

    snprintf(into + used, sizeof error_text - used, "%s\n", text);
}

static void kit_host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    kit_take_text(level <= BP_LOG_WARN ? error_text : log_text, text);
}

static enum bp_status kit_host_fail(void *ctx, uint32_t status, const char *text)
{
    (void)ctx;
    kit_take_text(error_text, text);
    return (enum bp_status)status;
}

static void *kit_host_allocate(void *ctx, size_t size, size_t alignment)
{
    void *memory = NULL;

    (void)ctx;
    if (host_doomed && !--host_doomed) return NULL;
    if (alignment < sizeof(void *)) alignment = sizeof(void *);
    if (posix_memalign(&memory, alignment, size)) return NULL;
    host_live++;
    return memory;
}

static void kit_host_release(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    (void)size;
    host_live -= memory != NULL;
    free(memory);
}

const struct bp_host *host(void)
{
    static const struct bp_host h = {
        .size = sizeof h, .abi_major = BP_ABI_MAJOR, .abi_minor = BP_ABI_MINOR, .log = kit_host_log,
        .fail = kit_host_fail, .allocate = kit_host_allocate, .release = kit_host_release};

    return &h;
}

static void *kit_symbol(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;

    expect(found != NULL, "%s of %s: %s", name, path, found ? "" : dlerror());
    return found;
}

const struct bp_plugin *load(const char *path)
{
    const struct bp_plugin *(*entry)(void) = NULL;

    *(void **)&entry = kit_symbol(path, "bp_plugin_get");
    return entry ? entry() : NULL;
}

size_t driver_live(const char *path)
{
    size_t (*live)(void) = NULL;

    *(void **)&live = kit_symbol(path, "sim_live");
    return live ? live() : 1;
}

size_t driver_computed(const char *path)
{
    size_t (*computed)(void) = NULL;

    *(void **)&computed = kit_symbol(path, "sim_computed");
    return computed ? computed() : 0;
}

size_t driver_spun(const char *path)
{
    size_t (*spun)(void) = NULL;

    *(void **)&spun = kit_symbol(path, "sim_spun");
    return spun ? spun() : 1;
}

static struct {
    int (*get)(void **out);
    int (*set)(void *context);
    int (*release)(int device);
    int device;
    void *context;
} caller;

void caller_begin(const char *path, int device)
{
    int (*initialise)(unsigned) = NULL, (*retain)(void **, int) = NULL;

    *(void **)&initialise = kit_symbol(path, "sim_initialise");
    *(void **)&retain = kit_symbol(path, "sim_context_retain");
    *(void **)&caller.get = kit_symbol(path, "sim_context_get");
    *(void **)&caller.set = kit_symbol(path, "sim_context_set");
    *(void **)&caller.release = kit_symbol(path, "sim_context_release");
    caller.device = device;
    caller.context = NULL;
    expect(!initialise(0) && (device < 0 || !retain(&caller.context, device)) &&
               !caller.set(caller.context),
           "the caller cannot have a context of its own");
}

void caller_stays(const char *when)
{
    void *now = NULL;

    expect(!caller.get(&now) && now == caller.context, "%s: another context is current", when);
    caller.set(caller.context);
}

void caller_end(void)
{
    if (caller.device >= 0) caller.release(caller.device);
}

const struct bp_kernel *find_named(const struct world *w, const char *name)
{
    const struct bp_kernels *k = w->plugin->kernels;

    for (size_t i = 0; i < k->count; i++) {
        const struct bp_kernel *row = (const void *)((const char *)k->first + i * k->stride);
        if (!strcmp(row->name, name)) return row;
    }
    expect(false, "there is no row %s", name);
    return NULL;
}

static struct bp_view kit_view(void *data, uint8_t dtype, const int64_t *shape)
{
    static const int64_t one[1] = {1};

    return (struct bp_view){.data = data, .shape = shape, .stride = one, .count = shape[0],
                            .dtype = dtype, .rank = 1};
}

static enum bp_status launch_take(struct world *w, const char *row)
{
    const int64_t shape[1] = {ELEMENTS};
    const struct bp_gather_attrs attrs = {.size = sizeof attrs};
    struct bp_view x = kit_view(w->x.data, BP_I32, shape),
                   index = kit_view(w->index.data, BP_I64, shape),
                   y = kit_view(w->y.data, BP_I32, shape);
    const struct bp_view *in[] = {&x, &index}, *out[] = {&y};
    struct bp_launch l = {.self = w->self, .in = in, .out = out, .n_in = 2, .n_out = 1,
                          .attrs = &attrs, .stream = w->stream[0], .width = 1,
                          .kernel = find_named(w, row)};

    return l.kernel->launch(&l);
}

enum bp_status launch_gather(struct world *w)
{
    return launch_take(w, "sim_gather");
}

enum bp_status launch_select(struct world *w)
{
    return launch_take(w, "sim_index_select");
}

enum bp_status launch_count(struct world *w, int64_t *result)
{
    const int64_t shape[1] = {ELEMENTS};
    struct bp_view x = kit_view(w->x.data, BP_I32, shape),
                   mask = kit_view(w->index.data, BP_BOOL, shape),
                   y = kit_view(w->y.data, BP_I32, shape);
    const struct bp_view *in[] = {&x, &mask}, *out[] = {&y};
    struct bp_launch l = {.self = w->self, .in = in, .out = out, .n_in = 2, .n_out = 1,
                          .workspace = w->workspace.data, .workspace_size = 4096, .result = result,
                          .stream = w->stream[0], .width = 1,
                          .kernel = find_named(w, "sim_masked_select")};

    return l.kernel->launch(&l);
}

enum bp_status put(struct world *w, struct bp_memory to, const void *from, uint64_t size)
{
    return w->r->copy_in(w->self, 0, w->stream[0],
                         &(struct bp_copy){to.handle, to.data, NULL, from, size});
}

enum bp_status get(struct world *w, void *to, struct bp_memory from, uint64_t size)
{
    return w->r->copy_out(w->self, 0, w->stream[0],
                          &(struct bp_copy){NULL, to, from.handle, from.data, size});
}

static enum bp_status kit_take(struct world *w, uint64_t size, struct bp_memory *out)
{
    return w->r->memory_allocate(w->self, 0, BP_SPACE_DEVICE, size, out);
}

enum bp_status world_make(struct world *w, const struct bp_plugin *plugin)
{
    enum bp_status status;

    *w = (struct world){.plugin = plugin, .r = plugin->runtime, .g = plugin->captures};
    status = plugin->create(host(), &w->self);
    for (int i = 0; i < STREAMS && status == BP_OK; i++)
        status = w->r->stream_create(w->self, 0, &w->stream[i]);
    if (status == BP_OK) status = kit_take(w, 4096, &w->x);
    if (status == BP_OK) status = kit_take(w, 4096, &w->index);
    if (status == BP_OK) status = kit_take(w, 4096, &w->y);
    if (status == BP_OK) status = kit_take(w, 4096, &w->workspace);
    return status;
}

void world_end(struct world *w)
{
    struct bp_memory *far[] = {&w->large, &w->x, &w->index, &w->y, &w->workspace, &w->memory[0]};

    if (!w->self) return;
    if (w->recording) w->g->recording_destroy(w->self, 0, w->recording);
    for (int i = 0; i < STREAMS; i++)
        if (w->stream[i]) w->r->stream_destroy(w->self, 0, w->stream[i]);
    if (w->other) w->r->stream_destroy(w->self, 1, w->other);
    if (w->event) w->r->event_destroy(w->self, 0, w->event);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++)
        if (far[i]->data) w->r->memory_free(w->self, 0, BP_SPACE_DEVICE, far[i]);
    if (w->there.data) w->r->memory_free(w->self, 1, BP_SPACE_DEVICE, &w->there);
    for (uint32_t i = 1; i < 3; i++)
        if (w->memory[i].data) w->r->memory_free(w->self, 0, i, &w->memory[i]);
    w->plugin->destroy(w->self);
    w->self = NULL;
}

bool expect(bool good, const char *format, ...)
{
    char text[4096];
    va_list args;

    if (good) return true;
    unmet++;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' '; /* in TAP each line of a comment begins with # */
    printf("# %s\n", text);
    return false;
}

int run_child(void (*body)(const void *arg), const void *arg)
{
    int status = 0;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (!child) {
        alarm(60);
        body(arg);
        exit(unmet != 0);
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("# ended by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + status;
}

void report(bool good, const char *name)
{
    failed += !good;
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++cases, name);
}

/* A call that fails returns an error to the thread that made it, at each place alike: two places of
 * a call do for ThreadSanitizer, which takes several times as long. Other builds run all places. */
#ifdef __SANITIZE_THREAD__
enum { PLACES = 2 };
#else
enum { PLACES = 100000 };
#endif

void each_place(const char *call, int code, void (*body)(const void *place), void (*before)(void))
{
    struct failing_call place = {call, 0, code};
    char name[128];
    int status;

    do {
        place.n++;
        if (before) before();
        status = run_child(body, &place);
    } while (status == 0 && place.n < PLACES);
    if (status == NOT_REACHED) place.n--;
    snprintf(name, sizeof name, "%s fails at %s %d places", call,
             status == NOT_REACHED ? "each of" : "the first", place.n);
    report(place.n > 0 && (status == NOT_REACHED || status == 0), name);
}

void run_case(const char *name, void (*body)(const void *arg), const void *arg)
{
    report(run_child(body, arg) == 0, name);
}

int cases_end(void)
{
    printf("1..%d\n", cases);
    return failed != 0;
}
