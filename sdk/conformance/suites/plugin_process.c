/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_process.c: checks how a plugin changes the process that opens its device, and whether it
 * reports the same devices when it is loaded again. */
#include "suites.h"
#include "../list.h"
#include "../case_fixture.h"
#include <backplane/plugin.h>
#include <dlfcn.h>
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

enum { IDS = 6, SIGNALS = 64 };

/* The action of the process on a signal. */
struct handling {
    void (*handler)(int);
    int flags;
};

/* State of the process that all code in it shares. */
struct state {
    sigset_t mask;
    struct handling on[SIGNALS + 1]; /* by signal number; all zero for signals without an action */
    char locale[256], folder[PATH_MAX];
    char **variables;   /* of the environment, owned copies, terminated by NULL */
    bool may_add;       /* whether new variables may be added later */
    const char *plugin; /* the file whose signal handlers count */
    struct itimerval timer[3];
    mode_t umask;
    int rounding;
    bool subnormals, dumpable;
    uid_t id[IDS]; /* real, effective and saved ids, first of the user, then of the group */
};

static bool keeps_subnormals(void)
{
    volatile float least = 0x1p-126f, half = 0.5f, product = least * half;

    return product != 0;
}

static void read_signals(struct state *s)
{
    struct sigaction action;

    pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
    for (int i = 1; i <= SIGNALS; i++)
        if (!sigaction(i, NULL, &action))
            s->on[i] = (struct handling){action.sa_handler, action.sa_flags};
}

static void read_variables(struct state *s)
{
    size_t n = 0;

    while (environ && environ[n]) n++;
    s->variables = calloc(n + 1, sizeof *s->variables);
    if (!s->variables) abort();
    for (size_t i = 0; i < n; i++)
        if (!(s->variables[i] = strdup(environ[i]))) abort();
}

static void finish_state(struct state *s)
{
    for (char **v = s->variables; *v; v++) free(*v);
    free(s->variables);
}

static void read_state(struct state *s)
{
    static const int timers[] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

    memset(s, 0, sizeof *s);
    read_signals(s);
    read_variables(s);
    snprintf(s->locale, sizeof s->locale, "%s", setlocale(LC_ALL, NULL));
    if (!getcwd(s->folder, sizeof s->folder)) *s->folder = 0;
    for (int i = 0; i < 3; i++) getitimer(timers[i], &s->timer[i]);
    s->umask = umask(0);
    umask(s->umask);
    s->rounding = fegetround();
    s->subnormals = keeps_subnormals();
    s->dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    getresuid(&s->id[0], &s->id[1], &s->id[2]);
    getresgid(&s->id[3], &s->id[4], &s->id[5]);
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

static const char *handling_name(const struct handling *h)
{
    return h->handler == SIG_DFL ? "the default" : h->handler == SIG_IGN ? "ignored" : "a handler";
}

/* Whether the handler is a function of a library other than the plugin's. Drivers load compilers
 * that set handlers themselves, so the plugin cannot prevent these. */
static bool is_of_others(const struct handling *h, const char *plugin)
{
    struct stat a, b;
    void *address;
    Dl_info info;

    if (h->handler == SIG_DFL || h->handler == SIG_IGN) return false;
    memcpy(&address, &h->handler, sizeof address); /* ISO C has no cast for this */
    return dladdr(address, &info) && !stat(info.dli_fname, &a) && !stat(plugin, &b) &&
           (a.st_dev != b.st_dev || a.st_ino != b.st_ino);
}

/* The first signal whose action has changed; 0: none. */
static int changed_signal(const struct state *a, const struct state *b, const char *plugin)
{
    for (int i = 1; i <= SIGNALS; i++) {
        const struct handling *before = &a->on[i], *now = &b->on[i];
        bool same = before->handler == now->handler && before->flags == now->flags;
        if (!same && !is_of_others(now, plugin)) return i;
    }
    return 0;
}

/* The functions compare_... return true if nothing has changed. Otherwise they describe the first
 * difference in `found`. when: the moment of the comparison, for the message. */

static bool compare_signals(const struct state *a, const struct state *b, const char *when,
                            char *found)
{
    int number = 0;

    if (!same_mask(&a->mask, &b->mask, &number)) {
        snprintf(found, FOUND, "%s: the signal mask of the thread has changed: signal %d (%s)",
                 when, number, strsignal(number));
        return false;
    }
    number = changed_signal(a, b, a->plugin);
    if (!number) return true;
    snprintf(found, FOUND,
             "%s: what signal %d (%s) does has changed: it was %s, is %s (sigaction)", when,
             number, strsignal(number), handling_name(&a->on[number]),
             handling_name(&b->on[number]));
    return false;
}

/* The first variable of one environment that has no equal in the other. NULL: there is none. */
static const char *variable_without(char *const *some, char *const *others)
{
    for (; *some; some++) {
        char *const *other = others;
        while (*other && strcmp(*some, *other)) other++;
        if (!*other) return *some;
    }
    return NULL;
}

/* While the device is opened, a variable that was not set before may be set, because some libraries
 * have settings that can only be given as environment variables. */
static bool compare_variables(const struct state *a, const struct state *b, const char *when,
                              char *found)
{
    const char *changed = variable_without(a->variables, b->variables);
    const char *one = changed;

    if (!one && !a->may_add) one = variable_without(b->variables, a->variables);
    if (!one) return true;
    snprintf(found, FOUND, "%s: variable %.*s of the environment %s (setenv, putenv, unsetenv)",
             when, (int)strcspn(one, "="), one,
             changed ? "has another value, or none" : "was set");
    return false;
}

/* Compares the floating-point state of the calling thread and the rights of the process. */
static bool compare_rights(const struct state *a, const struct state *b, const char *when,
                           char *found)
{
    if (a->rounding != b->rounding)
        snprintf(found, FOUND, "%s: the rounding mode was %d, is %d (fegetround)", when,
                 a->rounding, b->rounding);
    else if (a->subnormals != b->subnormals)
        snprintf(found, FOUND, "%s: subnormal numbers have become zero in the calling thread",
                 when);
    else if (memcmp(a->id, b->id, sizeof a->id))
        snprintf(found, FOUND,
                 "%s: the process ran as user %u and group %u, runs as %u and %u (effective ones)",
                 when, (unsigned)a->id[1], (unsigned)a->id[4], (unsigned)b->id[1],
                 (unsigned)b->id[4]);
    else if (a->dumpable != b->dumpable)
        snprintf(found, FOUND, "%s: the process %s be dumped and traced (PR_SET_DUMPABLE)", when,
                 b->dumpable ? "can" : "cannot");
    else return true;
    return false;
}

static bool process_is_set(const struct itimerval *t)
{
    return t->it_value.tv_sec || t->it_value.tv_usec;
}

static bool compare_states(const struct state *a, const struct state *b, const char *when,
                           char *found)
{
    if (strcmp(a->locale, b->locale))
        snprintf(found, FOUND, "%s: the locale was '%.60s', is '%.60s'", when, a->locale,
                 b->locale);
    else if (strcmp(a->folder, b->folder))
        snprintf(found, FOUND, "%s: the working directory was %.200s, is %.200s", when, a->folder,
                 b->folder);
    else if (process_is_set(&b->timer[0]) || process_is_set(&b->timer[1]) ||
             process_is_set(&b->timer[2]))
        snprintf(found, FOUND,
                 "%s: an alarm is set: its signal will end the app (alarm, setitimer)", when);
    else if (a->umask != b->umask)
        snprintf(found, FOUND, "%s: the umask was 0%03o, is 0%03o", when, a->umask, b->umask);
    else
        return compare_signals(a, b, when, found) && compare_variables(a, b, when, found) &&
               compare_rights(a, b, when, found);
    return false;
}

/* Opens the device in a new core. Returns false if the case has failed. */
static bool process_open_device(struct check *c, struct bp_core **core, uint32_t *plugin,
                                struct bp_device **device)
{
    return check_ok(c, bp_core_create(NULL, core), "bp_core_create") &&
           check_ok(c, bp_core_load_path(*core, c->fixture->library, plugin),
                    "bp_core_load_path") &&
           check_ok(c, bp_device_create_at(*core, *plugin, 0, device), "bp_device_create_at");
}

/* Copies once to the device and back, so that its streams have worked. */
static void use_device(struct bp_device *device)
{
    struct bp_device_properties p = {.size = sizeof p};
    int64_t n = 64;
    unsigned char bytes[64 * 16] = {0};
    struct bp_stream *stream = NULL;
    struct bp_tensor *t = NULL;
    uint32_t dtype = 0;

    if (bp_device_get_properties(device, &p) || bp_stream_create(device, &stream)) return;
    while (dtype < 63 && !(p.dtypes >> dtype & 1)) dtype++;
    if (!bp_tensor_create(device, dtype, 1, &n, &t)) {
        uint64_t size = (uint64_t)n * bp_dtype_bits(dtype) / 8;
        if (!bp_tensor_write(stream, t, bytes, size)) bp_tensor_read(stream, t, bytes, size);
    }
    bp_tensor_destroy(t);
    bp_stream_destroy(stream);
}

/* Finds processes that the plugin started, that have ended, and for which it has not waited: they
 * stay as long as the app runs. Processes that are still running are found by no_children. */
static bool no_zombies(char *found)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000000};
    siginfo_t info = {.si_pid = 0};

    for (int ms = 0; ms < PATIENCE_MS; ms += 10) {
        info.si_pid = 0;
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) return true;
        nanosleep(&pause, NULL);
    }
    if (!info.si_pid) return true;
    snprintf(found, FOUND,
             "%.1f s after the device was closed a process that the plugin started has ended and "
             "not been waited for (waitpid): the app keeps it as a zombie",
             PATIENCE_MS / 1e3);
    return false;
}

/* Finds processes that the plugin started and that are still running. When the process that opened
 * the device ended, they became children of this process. */
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

/* Kills the processes that no_children has found: they belong to the plugin under test. */
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

/* Whether the kernel has no elements to compute in this case. */
static bool is_empty(const struct kernel_case *made)
{
    int64_t least = 1;

    for (int i = 0; i < made->n_in; i++)
        for (int a = 0; made->in[i].present && a < made->in[i].rank; a++)
            if (made->in[i].shape[a] < least) least = made->in[i].shape[a];
    return least < 1;
}

/* Runs one case of the first row that executes one, so that a kernel has been launched on this
 * thread. Whether the case passes does not matter here. */
static void launch_kernel(struct fixture *fixture)
{
    const struct selection wanted = {.suites = "kernel"};
    bool launched = bp_stream_create(fixture->device, &fixture->stream) != BP_OK;
    int most = 1;

    bp_device_get_properties(fixture->device, &fixture->properties);
    for (int unit = 1; !launched && unit <= most; unit++) {
        struct list list;
        list_init(&list, fixture, unit, &wanted);
        most = list.unit;
        for (size_t i = 0; i < list.n && !launched; i++) {
            struct result result = {0};
            if (!list.at[i].kernel || list.at[i].row < 0 || is_empty(list.at[i].kernel)) continue;
            listed_run(fixture, &list.at[i], &result);
            launched = result.executed;
        }
        list_finish(&list);
    }
}

/* Whether the state is as before. Variables that were allowed to be added become part of the state
 * before. */
static bool is_as(struct state *before, const char *when, char *found)
{
    struct state now;
    bool same;

    read_state(&now);
    same = compare_states(before, &now, when, found);
    finish_state(before->may_add ? before : &now);
    if (before->may_add) before->variables = now.variables;
    before->may_add = false;
    return same;
}

/* Runs in a separate process, so that all timers and children are the plugin's. */
static void process_watch(struct check *c, char *found)
{
    struct fixture fixture = {.name = c->fixture->library, .seed = c->fixture->seed,
                          .properties.size = sizeof fixture.properties};
    struct state before;
    bool same;

    read_state(&before);
    before.may_add = true;
    before.plugin = c->fixture->library;
    if (process_open_device(c, &fixture.core, &fixture.plugin, &fixture.device)) {
        same = is_as(&before, "when the device had been opened", found);
        use_device(fixture.device);
        same = same && is_as(&before, "when the device had been used", found);
        if (same) launch_kernel(&fixture);
        same = same && is_as(&before, "when a kernel had been launched", found);
        fixture_finish(&fixture);
        same = same && is_as(&before, "when the device had been closed", found);
        if (same) no_zombies(found);
    } else {
        snprintf(found, FOUND, "%.*s", FOUND - 1, c->result->message);
    }
    finish_state(&before);
}

void plugin_process(struct check *c, const int64_t *arg)
{
    char *found = mmap(NULL, FOUND, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char children[FOUND] = "";
    int status = 0;
    pid_t child;

    (void)arg;
    if (!check_that(c, found != MAP_FAILED, "no memory to share")) return;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    child = fork();
    if (!child) {
        setpgid(0, 0);
        process_watch(c, found);
        _exit(0);
    }
    if (check_that(c, child > 0 && waitpid(child, &status, 0) == child, "no process to look at")) {
        if (!no_children(*found ? children : found)) end_children();
        check_that(c, !*found, "%s", found);
    }
    if (!*found && status)
        check_skip(c, "the process that opened the device ended with status %d: plugin/quiet says "
                      "more",
                   status);
    munmap(found, FOUND);
}

/* The number of devices and the properties that the plugin reports. */
struct reply {
    uint32_t devices;
    struct bp_device_properties properties;
};

static bool process_query(struct check *c, struct reply *out)
{
    struct bp_core *core = NULL;
    struct bp_device *device = NULL;
    uint32_t plugin;
    bool ok = process_open_device(c, &core, &plugin, &device);

    memset(out, 0, sizeof *out);
    out->properties.size = sizeof out->properties;
    ok = ok && check_ok(c, bp_device_get_properties(device, &out->properties),
                        "bp_device_get_properties");
    bp_device_destroy(device);
    for (device = NULL; ok && out->devices < DEVICES; out->devices++) {
        if (bp_device_create_at(core, plugin, out->devices, &device)) break;
        bp_device_destroy(device);
        device = NULL;
    }
    bp_core_destroy(core);
    return ok;
}

/* The plugin is destroyed between the two queries. */
void plugin_again(struct check *c, const int64_t *arg)
{
    struct reply first, second;
    const struct bp_device_properties *a = &first.properties, *b = &second.properties;

    (void)arg;
    if (!process_query(c, &first) || !process_query(c, &second)) return;
    check_that(c, first.devices == second.devices,
               "the plugin had %u devices, and when it was asked again %u: device_count changes",
               first.devices, second.devices);
    check_that(c,
               !strcmp(a->name, b->name) && !strcmp(a->driver, b->driver) &&
                   a->memory == b->memory && a->dtypes == b->dtypes &&
                   a->alignment == b->alignment && a->max_alloc == b->max_alloc &&
                   a->units == b->units && a->flags == b->flags &&
                   a->dlpack_type == b->dlpack_type && !memcmp(a->uuid, b->uuid, sizeof a->uuid) &&
                   !strcmp(a->pci, b->pci) && !strcmp(a->arch, b->arch),
               "device_properties says something else when it is asked again: %s, %u units, %llu "
               "bytes; then %s, %u units, %llu bytes; its uuid, pci or arch counts, too",
               a->name, a->units, (unsigned long long)a->memory, b->name, b->units,
               (unsigned long long)b->memory);
}
