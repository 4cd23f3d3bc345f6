/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c: probes plugins in child processes. A child is bp itself (bp probe-plugin PATH,
 * probe_child.c) and reports lines of JSON, each with its "pid". It reports {"step":"open"} and so
 * on before each step, so that the step is known in which a plugin ended the process; then
 * {"plugin":{...}} once, {"device":{...}} for each device that identifies its hardware,
 * {"step":"destroy"} and {"step":"exit"}. A copy of the child, made by a fork of the plugin,
 * reports too: with another pid, and with the step in which it was "forked". */
#include "probe.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "child.h"

enum {
    OUTPUT_KEPT = 4096, /* kept bytes of a plugin's output, from its end */
    PROBES_AT_ONCE = 4,
};

const char *bp_step_name(uint32_t step)
{
    static const char *const names[] = {
#define X(NAME, word, text) #word,
        BP_PLUGIN_STEPS(X)
#undef X
    };
    return step < BP_STEP_COUNT ? names[step] : "exit";
}

static uint32_t step_find(const char *name)
{
    uint32_t step = 0;

    while (step < BP_STEP_COUNT && strcmp(bp_step_name(step), name)) step++;
    return step;
}

bool bp_probe_timeout_fits(const char *command, double seconds)
{
    if (seconds > 0 && seconds <= 1e6) return true;
    bp_complain(command, "--timeout wants seconds, more than 0 and at most 1000000, got %g",
                seconds);
    return false;
}

static void probe_set(char **text, const char *value)
{
    char *copy = bp_text_format("%s", value);

    free(*text);
    *text = copy;
}

void bp_probe_init(struct bp_probe *probe, const struct bp_plugin_info *info)
{
    *probe = (struct bp_probe){.state = info->state, .devices = info->devices, .step = info->step};
    probe_set(&probe->name, info->name);
    probe_set(&probe->kind, info->kind);
    probe_set(&probe->adds_to, info->adds_to ? info->adds_to : "");
    probe_set(&probe->version, info->version);
    probe_set(&probe->manifest, info->manifest);
    probe_set(&probe->library, info->library);
    probe_set(&probe->reason, info->reason);
    probe_set(&probe->output, "");
}

bool bp_probe_is_manifest(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && !strcmp(path + length - 5, ".json");
}

void bp_probe_init_path(struct bp_probe *probe, const char *path)
{
    bool is_manifest = bp_probe_is_manifest(path);
    struct bp_plugin_info info = {
        .size = sizeof info, .name = "", .kind = "", .version = "", .reason = "",
        .manifest = is_manifest ? path : "", .library = is_manifest ? "" : path,
    };
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    bp_probe_init(probe, &info);
    if (!strncmp(name, "bp_", 3)) name += 3;
    probe_set(&probe->name, name);
    char *dot = strrchr(probe->name, '.');
    if (dot) *dot = 0;
}

void bp_probe_finish(struct bp_probe *probe)
{
    free(probe->name);
    free(probe->kind);
    free(probe->adds_to);
    free(probe->version);
    free(probe->manifest);
    free(probe->library);
    free(probe->reason);
    free(probe->output);
    free(probe->hardware);
    *probe = (struct bp_probe){0};
}

/* The reports of the child so far. */
struct reply {
    struct bp_probe *probe;
    double pid;      /* pid of the first line, before any plugin code ran; 0: no line came */
    bool complete;   /* it has reported the plugin */
    bool destroying; /* it has reported that it will destroy the instance */
    bool leaving;    /* it has reported that the instance is destroyed */
    bool forked;     /* another process has reported, too */
    uint32_t forked_step;
};

static void take_plugin(struct bp_probe *probe, const cJSON *plugin)
{
    const cJSON *devices = cJSON_GetObjectItemCaseSensitive(plugin, "devices");
    const char *state = bp_json_get(plugin, "state");

    probe->state = !strcmp(state, "ready") ? BP_PLUGIN_READY
                   : !strcmp(state, "absent") ? BP_PLUGIN_ABSENT : BP_PLUGIN_BROKEN;
    bool counted = cJSON_IsNumber(devices) && devices->valueint > 0;
    probe->devices = counted ? (uint32_t)devices->valueint : 0;
    probe->step = step_find(bp_json_get(plugin, "step"));
    probe_set(&probe->name, bp_json_get(plugin, "name"));
    probe_set(&probe->kind, bp_json_get(plugin, "kind"));
    probe_set(&probe->adds_to, bp_json_get(plugin, "adds_to"));
    probe_set(&probe->version, bp_json_get(plugin, "version"));
    probe_set(&probe->manifest, bp_json_get(plugin, "manifest"));
    probe_set(&probe->library, bp_json_get(plugin, "library"));
    probe_set(&probe->reason, bp_json_get(plugin, "reason"));
}

static void take_device(struct bp_probe *probe, const cJSON *device)
{
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(device, "index");
    struct bp_probe_device *more, *d;

    if (!cJSON_IsNumber(index) || index->valueint < 0) return;
    more = realloc(probe->hardware, (probe->n_hardware + 1u) * sizeof *more);
    if (!more) return;
    probe->hardware = more;
    d = &more[probe->n_hardware++];
    d->index = (uint32_t)index->valueint;
    snprintf(d->uuid, sizeof d->uuid, "%s", bp_json_get(device, "uuid"));
    snprintf(d->pci, sizeof d->pci, "%s", bp_json_get(device, "pci"));
}

static bool is_same(const struct bp_probe_device *a, const struct bp_probe_device *b)
{
    if (*a->uuid && *b->uuid) return !strcmp(a->uuid, b->uuid);
    return *a->pci && !strcmp(a->pci, b->pci);
}

const struct bp_probe *bp_probe_same(const struct bp_probe *probes, uint32_t i,
                                     const struct bp_probe_device *device,
                                     const struct bp_probe_device **out)
{
    for (uint32_t k = 0; k < i; k++) {
        const struct bp_probe *other = &probes[k];
        if (other->state != BP_PLUGIN_READY || !strcmp(other->kind, probes[i].kind)) continue;
        for (*out = other->hardware; *out < other->hardware + other->n_hardware; ++*out)
            if (is_same(*out, device)) return other;
    }
    return NULL;
}

/* Handles one line of the report. The plugin shares the child's descriptors, so lines of another
 * form are ignored. */
static void probe_take_line(void *ctx, const char *line)
{
    struct reply *reply = ctx;
    cJSON *json = cJSON_Parse(line);
    const cJSON *plugin = cJSON_GetObjectItemCaseSensitive(json, "plugin");
    const cJSON *device = cJSON_GetObjectItemCaseSensitive(json, "device");
    const cJSON *pid = cJSON_GetObjectItemCaseSensitive(json, "pid");
    const char *word = bp_json_get(json, "step");
    uint32_t step = step_find(word);

    if (cJSON_IsNumber(pid) && !reply->pid) reply->pid = pid->valuedouble;
    if (!cJSON_IsNumber(pid)) {
        cJSON_Delete(json);
        return;
    }
    if (pid->valuedouble != reply->pid) {
        reply->forked = true;
        reply->forked_step = step_find(bp_json_get(json, "forked"));
    } else if (cJSON_IsObject(plugin)) {
        take_plugin(reply->probe, plugin);
        reply->complete = true;
    } else if (reply->complete && cJSON_IsObject(device)) {
        take_device(reply->probe, device);
    } else if (reply->complete) {
        reply->destroying = reply->destroying || !strcmp(word, BP_STEP_DESTROY);
        reply->leaving = reply->leaving || !strcmp(word, BP_STEP_EXIT);
    } else if (step < BP_STEP_COUNT) {
        reply->probe->step = step;
    }
    cJSON_Delete(json);
}

static const char *file_of(const struct bp_probe *probe)
{
    return *probe->library ? probe->library : probe->manifest;
}

static void set_broken(struct bp_probe *probe, uint32_t step, char *reason)
{
    probe->step = step;
    probe->state = BP_PLUGIN_BROKEN;
    probe->devices = 0;
    probe_set(&probe->reason, reason);
    free(reason);
}

/* Handles a child that did not come to its end, or did not end well: the plugin is broken. */
static void take_loss(struct bp_probe *probe, const struct reply *reply,
                      const struct bp_child_result *result)
{
    const char *debug = *probe->manifest ? probe->manifest : probe->library;
    char end[200];
    char *what;

    bp_child_describe(result, end, sizeof end);
    if (reply->leaving)
        what = bp_text_format("its process did not end well, after destroy, in an exit handler or "
                              "a destructor: expected exit status 0");
    else if (reply->destroying)
        what = bp_text_format("the process that loads it was lost in destroy: expected it to come "
                              "back");
    else if (reply->complete)
        what = bp_text_format("the process that loads it was lost before destroy: expected it to "
                              "go on");
    else
        what = bp_text_format("no answer from the process that loads it, lost in step %s: expected "
                              "one", bp_step_name(probe->step));
    set_broken(probe, reply->complete ? BP_STEP_COUNT : probe->step, bp_text_format(
        "%s: %s, got \"%s\"; %sto see where: gdb --args bp probe-plugin %s", file_of(probe), what,
        end, result->end == BP_CHILD_TIMEOUT ? "give it longer with --timeout, or " : "", debug));
    free(what);
}

/* Handles a child that reported everything and ended well, but may have left or forked other
 * processes. */
static void take_others(struct bp_probe *probe, const struct reply *reply,
                        const struct bp_child_result *result)
{
    if (reply->forked)
        set_broken(probe, reply->forked_step, bp_text_format(
            "%s: it forked in step %s, and the copy of the process went on as if it were the "
            "first: expected one process, got two or more; call _exit in the copy, or use "
            "posix_spawn", file_of(probe), bp_step_name(reply->forked_step)));
    else if (result->left)
        set_broken(probe, BP_STEP_COUNT, bp_text_format(
            "%s: it left %u process%s running: expected none after the end of the process that "
            "loads it, got \"%s\"; end them in destroy (these have been killed)", file_of(probe),
            result->left, result->left == 1 ? "" : "es", result->left_name));
}

/* Advice for an error of the system that kept the child from starting. */
static char *start_advice(int error)
{
    struct rlimit limit = {0, 0};

    switch (error) {
    case EMFILE:
        getrlimit(RLIMIT_NOFILE, &limit);
        return bp_text_format("allow more open files than %llu: ulimit -n",
                              (unsigned long long)limit.rlim_cur);
    case ENFILE: return bp_text_format("the system has no more open files: close some");
    case EAGAIN: return bp_text_format("allow more processes: ulimit -u");
    case ENOMEM: return bp_text_format("free memory");
    case ENOENT: return bp_text_format("see that /proc is mounted");
    default: return bp_text_format("see that /proc is mounted, and that bp may be executed");
    }
}

/* Handles a child that could not be started: the plugin stays unprobed. */
static void take_refusal(struct bp_probe *probe, const struct bp_child_result *result)
{
    const char *file = *probe->manifest ? probe->manifest : probe->library;
    char *advice = start_advice(result->code);
    char end[200];

    bp_child_describe(result, end, sizeof end);
    char *reason = bp_text_format("%s: not asked: expected to run bp again as /proc/self/exe, got "
                                  "\"%s\"; %s", file, end, advice);
    probe_set(&probe->reason, reason);
    free(reason);
    free(advice);
    probe->state = BP_PLUGIN_UNPROBED;
    probe->not_queried = true;
}

static void run_one(struct bp_probe *probe, double timeout_s)
{
    const char *argv[] = {"/proc/self/exe", "probe-plugin",
                          *probe->manifest ? probe->manifest : probe->library, NULL};
    static const char *const env[] = {"BP_LOG=debug", NULL}; /* makes the core log the steps */
    struct reply reply = {.probe = probe};
    struct bp_child child = {
        .argv = argv,
        .env = env,
        .timeout_ns = (uint64_t)(timeout_s * 1e9),
        .report = probe_take_line,
        .ctx = &reply,
    };
    struct bp_child_result result;

    probe->step = BP_STEP_FILE;
    char *path = bp_text_format("%s", argv[2]); /* probe's paths are replaced meanwhile */
    argv[2] = path;
    bp_child_run(&child, &result);
    free(path);
    if (result.end == BP_CHILD_NOT_RUN)
        take_refusal(probe, &result);
    else if (!reply.complete || !reply.leaving || result.end != BP_CHILD_EXITED || result.code)
        take_loss(probe, &reply, &result);
    else
        take_others(probe, &reply, &result);
    size_t cut = result.output_size > OUTPUT_KEPT ? result.output_size - OUTPUT_KEPT : 0;
    probe_set(&probe->output, result.output + cut);
    probe->seconds = result.seconds;
    bp_child_finish(&result);
}

/* The plugins to probe; each thread takes the next one. */
struct probing {
    struct bp_probe *probes;
    uint32_t n;
    double timeout_s;
    bool all;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t known_more;
    uint32_t next;
    bool *known;
};

static void *probe_thread(void *ctx)
{
    struct probing *p = ctx;

    pthread_mutex_lock(&p->lock);
    while (p->next < p->n) {
        uint32_t i = p->next++;
        pthread_mutex_unlock(&p->lock);
        if (p->all || p->probes[i].state == BP_PLUGIN_UNPROBED)
            run_one(&p->probes[i], p->timeout_s);
        pthread_mutex_lock(&p->lock);
        p->known[i] = true;
        pthread_cond_signal(&p->known_more);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Calls done in order, as results become known. Returns how many plugins could not be probed. */
static uint32_t hand_on(struct probing *p, void (*done)(void *, const struct bp_probe *), void *ctx)
{
    uint32_t not_queried = 0;

    for (uint32_t i = 0; i < p->n; i++) {
        pthread_mutex_lock(&p->lock);
        if (!p->known[i]) bp_progress("asking %s ...", p->probes[i].name);
        while (!p->known[i]) pthread_cond_wait(&p->known_more, &p->lock);
        pthread_mutex_unlock(&p->lock);
        not_queried += p->probes[i].not_queried;
        bp_progress("%s", "");
        if (done) done(ctx, &p->probes[i]);
    }
    return not_queried;
}

uint32_t bp_probe_run(const char *command, struct bp_probe *probes, uint32_t n, double timeout_s,
                      bool all, void (*done)(void *ctx, const struct bp_probe *probe), void *ctx)
{
    struct probing p = {.probes = probes, .n = n, .timeout_s = timeout_s, .all = all,
                        .lock = PTHREAD_MUTEX_INITIALIZER, .known_more = PTHREAD_COND_INITIALIZER,
                        .known = calloc(n + 1u, sizeof *p.known)};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t thread[PROBES_AT_ONCE];
    uint32_t started = 0, not_queried;

    if (!p.known) abort();
    while (started < n && started < PROBES_AT_ONCE && (long)started < processors &&
           !pthread_create(&thread[started], NULL, probe_thread, &p))
        started++;
    if (!started) probe_thread(&p);
    not_queried = hand_on(&p, done, ctx);
    while (started) pthread_join(thread[--started], NULL);
    free(p.known);
    if (not_queried)
        bp_complain(command, "%u of %u plugins could not be asked, and stay unprobed", not_queried,
                    n);
    return not_queried;
}

cJSON *bp_probe_json(const struct bp_probe *probe)
{
    cJSON *json = cJSON_CreateObject();

    bp_json_text(json, "name", probe->name);
    bp_json_text(json, "kind", probe->kind);
    if (*probe->adds_to) bp_json_text(json, "adds_to", probe->adds_to);
    bp_json_text(json, "version", probe->version);
    bp_json_text(json, "state", bp_state_name(probe->state));
    bp_json_text(json, "reason", probe->reason);
    cJSON_AddNumberToObject(json, "devices", probe->devices);
    return json;
}
