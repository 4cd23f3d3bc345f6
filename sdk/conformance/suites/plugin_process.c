/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_process.c: what a plugin does to the process that opens its device, and whether it says
 * the same of its devices when it is asked again. */
#include "suites.h"
#include <backplane/plugin.h>
#include <fenv.h>
#include <locale.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FOUND = 600, PATIENCE_MS = 2000, DEVICES = 64 };

/* State of the process that all of its code shares. */
struct state {
    sigset_t mask;
    char locale[256], folder[PATH_MAX];
    struct itimerval timer[3];
    mode_t umask;
    int rounding;
    bool subnormals;
};

static bool keeps_subnormals(void)
{
    volatile float least = 0x1p-126f, half = 0.5f, product = least * half;

    return product != 0;
}

static void read_state(struct state *s)
{
    static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

    memset(s, 0, sizeof *s);
    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    if (!getcwd(s->folder, sizeof s->folder)) *s->folder = 0;
    for (int i = 0; i < 3; i++) getitimer(timers[i], &s->timer[i]);
    s->umask = umask(0);
    umask(s->umask);
    s->rounding = fegetround();
    s->subnormals = keeps_subnormals();
}

static bool same_mask(const sigset_t *a, const sigset_t *b, int *out_signal)
{
    for (int i = 1; i < NSIG; i++)
        if (sigismember(a, i) != sigismember(b, i)) {
            *out_signal = i;
            return false;
        }
    return true;
}

static bool is_set(const struct itimerval *t)
{
    return t->it_value.tv_sec || t->it_value.tv_usec;
}

/* The first difference, in words; when: at which moment. */
static bool compare_states(const struct state *a, const struct state *b, const char *when,
                           char *found)
{
    int number = 0;

    if (!same_mask(&a->mask, &b->mask, &number))
        snprintf(found, FOUND, "%s: the signal mask of the thread has changed: signal %d (%s)",
                 when, number, strsignal(number));
    else if (strcmp(a->locale, b->locale))
        snprintf(found, FOUND, "%s: the locale was '%.60s', is '%.60s'", when, a->locale,
                 b->locale);
    else if (strcmp(a->folder, b->folder))
        snprintf(found, FOUND, "%s: the working directory was %.200s, is %.200s", when, a->folder,
                 b->folder);
    else if (is_set(&b->timer[0]) || is_set(&b->timer[1]) || is_set(&b->timer[2]))
        snprintf(found, FOUND,
                 "%s: an alarm is set: its signal will end the app (alarm, setitimer)", when);
    else if (a->umask != b->umask)
        snprintf(found, FOUND, "%s: the umask was 0%03o, is 0%03o", when, a->umask, b->umask);
    else if (a->rounding != b->rounding)
        snprintf(found, FOUND, "%s: the rounding mode was %d, is %d (fegetround)", when,
                 a->rounding, b->rounding);
    else if (a->subnormals != b->subnormals)
        snprintf(found, FOUND, "%s: subnormal numbers have become zero in the calling thread",
                 when);
    else return true;
    return false;
}

/* Opens the device in a core of its own. false: the case has failed. */
static bool open_device(struct check *c, struct bp_core **core, uint32_t *plugin,
                        struct bp_device **device)
{
    return check_ok(c, bp_core_create(NULL, core), "bp_core_create") &&
           check_ok(c, bp_core_load_path(*core, c->place->library, plugin),
                    "bp_core_load_path") &&
           check_ok(c, bp_device_create_at(*core, *plugin, 0, device), "bp_device_create_at");
}

/* One copy to the device and back, so that its streams have worked. */
static void use_device(struct bp_device *device)
{
    struct bp_device_properties p = {.size = sizeof p};
    int64_t n = 64;
    unsigned char bytes[64 * 16] = {0};
    struct bp_stream *stream = NULL;
    struct bp_tensor *t = NULL;
    uint32_t dtype = 0;

    if (bp_device_properties(device, &p) || bp_stream_create(device, &stream)) return;
    while (dtype < 63 && !(p.dtypes >> dtype & 1)) dtype++;
    if (!bp_tensor_create(device, dtype, 1, &n, &t)) {
        uint64_t size = (uint64_t)n * bp_dtype_bits(dtype) / 8;
        if (!bp_tensor_write(stream, t, bytes, size)) bp_tensor_read(stream, t, bytes, size);
    }
    bp_tensor_destroy(t);
    bp_stream_destroy(stream);
}

/* Processes that the plugin has started and not ended, or that it left to nobody. */
static bool no_children(char *found)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000000};
    pid_t pid = 1;

    for (int ms = 0; ms < PATIENCE_MS && pid >= 0; ms += pid ? 0 : 10) {
        pid = waitpid(-1, NULL, WNOHANG);
        if (!pid) nanosleep(&pause, NULL);
    }
    if (pid < 0) return true;
    snprintf(found, FOUND,
             "%.1f s after the device was closed a process that the plugin started is still there",
             PATIENCE_MS / 1e3);
    return false;
}

/* Ends what no_children has found: they are processes of the plugin under test. */
static void end_children(void)
{
    char path[64];
    int pid;
    FILE *file;

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "r");
    while (file && fscanf(file, "%d", &pid) == 1) kill((pid_t)pid, SIGKILL);
    if (file) fclose(file);
}

/* In a process of its own: timers and children there are none but the plugin's. */
static void watch(struct check *c, char *found)
{
    struct state before, now;
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    uint32_t plugin;
    bool same;

    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    read_state(&before);
    if (open_device(c, &core, &plugin, &device)) {
        read_state(&now);
        same = compare_states(&before, &now, "when the device had been opened", found);
        use_device(device);
        read_state(&now);
        same = same && compare_states(&before, &now, "when the device had been used", found);
        bp_device_destroy(device);
        bp_core_destroy(core);
        read_state(&now);
        same = same && compare_states(&before, &now, "when the device had been closed", found);
        if (!no_children(same ? found : now.folder)) end_children();
        return;
    }
    snprintf(found, FOUND, "%.*s", FOUND - 1, c->result->message);
}

void plugin_process(struct check *c, const int64_t *arg)
{
    char *found = mmap(NULL, FOUND, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    pid_t child;

    (void)arg;
    if (!check_that(c, found != MAP_FAILED, "no memory to share")) return;
    child = fork();
    if (!child) {
        setpgid(0, 0);
        watch(c, found);
        _exit(0);
    }
    if (check_that(c, child > 0 && waitpid(child, &status, 0) == child, "no process to look at"))
        check_that(c, !*found, "%s", found);
    if (!*found && status)
        check_skip(c, "the process that opened the device ended with status %d: plugin/quiet says "
                      "more",
                   status);
    munmap(found, FOUND);
}

/* What the plugin says of its devices. */
struct said {
    uint32_t devices;
    struct bp_device_properties properties;
};

static bool ask(struct check *c, struct said *out)
{
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    uint32_t plugin;
    bool ok = open_device(c, &core, &plugin, &device);

    memset(out, 0, sizeof *out);
    out->properties.size = sizeof out->properties;
    ok = ok && check_ok(c, bp_device_properties(device, &out->properties), "bp_device_properties");
    bp_device_destroy(device);
    for (device = NULL; ok && out->devices < DEVICES; out->devices++) {
        if (bp_device_create_at(core, plugin, out->devices, &device)) break;
        bp_device_destroy(device);
        device = NULL;
    }
    bp_core_destroy(core);
    return ok;
}

/* The plugin is destroyed between two answers. */
void plugin_again(struct check *c, const int64_t *arg)
{
    struct said first, second;
    const struct bp_device_properties *a = &first.properties, *b = &second.properties;

    (void)arg;
    if (!ask(c, &first) || !ask(c, &second)) return;
    check_that(c, first.devices == second.devices,
               "the plugin had %u devices, and when it was asked again %u: device_count changes",
               first.devices, second.devices);
    check_that(c,
               !strcmp(a->name, b->name) && !strcmp(a->driver, b->driver) &&
                   a->memory == b->memory && a->dtypes == b->dtypes &&
                   a->alignment == b->alignment && a->max_alloc == b->max_alloc &&
                   a->units == b->units && a->flags == b->flags &&
                   a->dlpack_type == b->dlpack_type,
               "device_properties says something else when it is asked again: %s, %u units, %llu "
               "bytes; then %s, %u units, %llu bytes",
               a->name, a->units, (unsigned long long)a->memory, b->name, b->units,
               (unsigned long long)b->memory);
}
