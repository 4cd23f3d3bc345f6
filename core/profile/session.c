/* SPDX-License-Identifier: Apache-2.0 */
/* session.c: starts and ends the profiler of the process, by the app's calls or by BP_PROFILE, and
 * follows its schedule. */
#include "profile.h"

#include "../base/number.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum phase {
    PHASE_SKIP,
    PHASE_WARM_UP,
    PHASE_RECORD,
    PHASE_ENDED
};

enum {
    INTERVAL = 100000000 /* in nanoseconds: between times at which records are collected */
};

struct bp_profiler {
    uint32_t magic;
    struct bp_profiler_options options; /* path is not valid */
    struct bp_profile_recording recording;
    enum phase phase;
    uint32_t steps, rounds;     /* of this phase; that have ended */
    uint64_t step_began;        /* ticks */
    uint64_t late, late_before; /* late records; those of the process before the start */
};

/* Guards all below, and the phase of the profiler. Held while sources start and stop. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct bp_profiler *active; /* the one that records, or waits for its next step */
static struct bp_profiler *latest; /* the one that was started last; it counts late records */
static struct bp_profiler *of_environment;
static struct bp_profile_source *sources;
static bool sources_started;
static uint64_t serial;
static bool environment_read;
static _Atomic uint64_t late;
static _Atomic uint64_t collect_at; /* when records are to be collected next; written with lock */

void bp_profile_count_late(uint64_t count)
{
    atomic_fetch_add(&late, count);
}

/* Called with the lock, while the profiler's file is open. Records come late until the next
 * profiler starts. */
static void profiler_update_late(struct bp_profiler *p)
{
    if (p != latest) return;
    p->late = atomic_load(&late) - p->late_before;
    atomic_store(&p->recording.file.header->late, p->late);
}

/* ---- sources ---- */

static void source_switch(struct bp_profile_source *source, bool on)
{
    if (source->started == on) return;
    source->started = on;
    if (on) source->start(source, active->options.flags);
    else source->stop(source);
}

static void source_read_clock(struct bp_profile_source *source)
{
    if (source->started && active->phase == PHASE_RECORD) source->clock(source);
}

static void sources_read_clocks(void)
{
    for (struct bp_profile_source *s = sources; s; s = s->next) source_read_clock(s);
}

/* Called with the lock. Collecting takes a twentieth of the time at most. */
static void sources_collect(uint64_t now)
{
    uint64_t spent;

    if (!active || active->phase != PHASE_RECORD || now < atomic_load(&collect_at)) return;
    for (struct bp_profile_source *s = sources; s; s = s->next)
        if (s->started) s->flush(s);
    sources_read_clocks();
    spent = bp_clock_ns() - now;
    atomic_store(&collect_at, now + spent + (20 * spent > INTERVAL ? 20 * spent : INTERVAL));
}

/* A thread that finds the lock taken leaves the collecting to the next wait. */
void bp_profile_collect_now(void)
{
    uint64_t now = bp_clock_ns();

    if (now < atomic_load_explicit(&collect_at, memory_order_relaxed)) return;
    if (pthread_mutex_trylock(&lock)) return;
    sources_collect(now);
    pthread_mutex_unlock(&lock);
}

static void sources_switch(bool on)
{
    sources_started = on;
    for (struct bp_profile_source *s = sources; s; s = s->next) source_switch(s, on);
}

void bp_profile_add_source(struct bp_profile_source *source)
{
    pthread_mutex_lock(&lock);
    source->next = sources;
    sources = source;
    if (sources_started) source_switch(source, true);
    source_read_clock(source);
    pthread_mutex_unlock(&lock);
}

void bp_profile_remove_source(struct bp_profile_source *source)
{
    struct bp_profile_source **at;

    pthread_mutex_lock(&lock);
    for (at = &sources; *at && *at != source; at = &(*at)->next) continue;
    if (*at) *at = source->next;
    source_read_clock(source);
    if (source->started) source_switch(source, false);
    atomic_fetch_add(&bp_profile_removed, 1);
    pthread_mutex_unlock(&lock);
}

/* ---- phases ---- */

static uint32_t phase_steps(const struct bp_profiler *p, enum phase phase)
{
    return phase == PHASE_SKIP      ? p->options.skip
           : phase == PHASE_WARM_UP ? p->options.warm_up
                                    : p->options.record;
}

/* Sources start before the host records, and stop before it ends: their last records are then
 * taken. */
static void profiler_enter(struct bp_profiler *p, enum phase phase)
{
    bool sources_on = phase == PHASE_WARM_UP || phase == PHASE_RECORD;

    sources_read_clocks(); /* the end of a phase that was recorded */
    p->phase = phase;
    p->steps = 0;
    if (phase == PHASE_RECORD) {
        atomic_store(&collect_at, bp_clock_ns() + INTERVAL);
        bp_profile_writers_set(&p->recording);
        atomic_store(&bp_profile_state, BP_PROFILE_ON | p->options.flags);
    } else {
        atomic_store(&bp_profile_state, 0);
    }
    if (sources_on != sources_started) sources_switch(sources_on);
    sources_read_clocks();
    if (phase != PHASE_RECORD) bp_profile_writers_set(NULL);
}

/* Enters the first phase from `phase` on that has steps. Without a schedule that is PHASE_RECORD,
 * for ever. */
static void profiler_enter_next(struct bp_profiler *p, enum phase phase)
{
    while (phase < PHASE_RECORD && !phase_steps(p, phase)) phase++;
    profiler_enter(p, phase);
}

static void profiler_end_phase(struct bp_profiler *p)
{
    if (p->phase != PHASE_RECORD) profiler_enter_next(p, p->phase + 1);
    else if (p->options.repeat && ++p->rounds == p->options.repeat) profiler_enter(p, PHASE_ENDED);
    else if (p->options.skip || p->options.warm_up) profiler_enter_next(p, PHASE_SKIP);
    else p->steps = 0;
}

enum bp_status bp_profiler_step(struct bp_profiler *profiler)
{
    struct bp_profile_put step = {.kind = BP_PROFILE_STEP, .name = "step"};

    if (!profiler || !bp_magic_is(profiler->magic, BP_MAGIC_PROFILER)) return bp_not_a("profiler");
    pthread_mutex_lock(&lock);
    if (profiler == active && profiler->phase != PHASE_ENDED) {
        step.begin = profiler->step_began;
        step.end = profiler->step_began = bp_profile_now();
        if (profiler->phase == PHASE_RECORD) bp_profile_put(&step);
        sources_collect(bp_clock_ns());
        profiler->steps++;
        if (profiler->options.record && profiler->steps >= phase_steps(profiler, profiler->phase))
            profiler_end_phase(profiler);
    }
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

/* ---- start and stop ---- */

static enum bp_status options_read(const struct bp_profiler_options *given,
                                   struct bp_profiler_options *out)
{
    size_t size = given ? given->size : 0;

    *out = (struct bp_profiler_options){.size = sizeof *out};
    if (size > sizeof *out)
        return bp_error(BP_ERR_INVALID, "bp_profiler_start: the options are of a later version");
    if (size) memcpy(out, given, size);
    out->size = sizeof *out;
    if (out->path && !*out->path)
        return bp_error(BP_ERR_INVALID, "bp_profiler_start: path is \"\"");
    if (out->flags & ~(uint32_t)(BP_PROFILER_SHAPES | BP_PROFILER_MEMORY))
        return bp_error(BP_ERR_INVALID, "bp_profiler_start: flags 0x%x are not known", out->flags);
    if (!out->record && (out->skip || out->warm_up || out->repeat))
        return bp_error(BP_ERR_INVALID,
                        "bp_profiler_start: a schedule needs record, the number of steps to "
                        "record");
    return BP_OK;
}

static enum bp_status profiler_create(const struct bp_profiler_options *options,
                                      struct bp_profiler **out)
{
    struct bp_profiler *p = calloc(1, sizeof *p);
    enum bp_status status;

    if (!p) return bp_error(BP_ERR_MEMORY, "no host memory for a profiler");
    p->magic = bp_magic(BP_MAGIC_PROFILER);
    p->options = *options;
    p->options.path = NULL;
    status = bp_profile_names_init(&p->recording.names);
    if (status == BP_OK) {
        status = bp_profile_file_create(&p->recording.file, options->path, options->max_bytes);
        if (status) bp_profile_names_finish(&p->recording.names);
    }
    if (status) {
        free(p);
        return status;
    }
    p->recording.line = bp_profile_line_start();
    p->recording.file.header->start_ns = p->recording.line.start_ns;
    *out = p;
    return BP_OK;
}

static void profiler_free(struct bp_profiler *p)
{
    p->magic = 0;
    bp_profile_file_finish(&p->recording.file);
    bp_profile_names_finish(&p->recording.names);
    free(p);
}

/* A profiler may record in a process without a core, whose handler of forks calls the same
 * function: a second call changes nothing. */
static void profiler_watch_forks(void)
{
    pthread_atfork(NULL, NULL, bp_profile_after_fork);
}

enum bp_status bp_profiler_start(const struct bp_profiler_options *given,
                                 struct bp_profiler **out_profiler)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct bp_profiler_options options;
    enum bp_status status;
    struct bp_profiler *p;

    if (!out_profiler) return bp_error(BP_ERR_INVALID, "bp_profiler_start: out_profiler is NULL");
    TRY(options_read(given, &options));
    pthread_once(&once, profiler_watch_forks);
    pthread_mutex_lock(&lock);
    status = active ? bp_error(BP_ERR_BUSY, "bp_profiler_start: a profiler records already%s",
                               active == of_environment ? " (BP_PROFILE)" : "")
                    : profiler_create(&options, &p);
    if (status == BP_OK) {
        p->recording.serial = ++serial;
        if (latest) profiler_update_late(latest);
        latest = p;
        p->late_before = atomic_load(&late);
        p->step_began = bp_profile_now();
        active = p;
        profiler_enter_next(p, PHASE_SKIP);
        *out_profiler = p;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* Called with the lock. */
static void profiler_stop(struct bp_profiler *p)
{
    struct bp_profile_header *header = p->recording.file.header;

    if (p != active) return;
    profiler_enter(p, PHASE_ENDED);
    bp_profile_writers_finish();
    profiler_update_late(p);
    atomic_store(&header->lost, atomic_load(&p->recording.lost));
    atomic_store(&header->length_ns, bp_profile_ns(&p->recording.line, bp_profile_now()));
    atomic_store(&header->finished, 1);
    active = NULL;
}

enum bp_status bp_profiler_stop(struct bp_profiler *profiler)
{
    if (!profiler || !bp_magic_is(profiler->magic, BP_MAGIC_PROFILER)) return bp_not_a("profiler");
    pthread_mutex_lock(&lock);
    profiler_stop(profiler);
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

enum bp_status bp_profiler_save(struct bp_profiler *profiler, const char *path)
{
    if (!profiler || !bp_magic_is(profiler->magic, BP_MAGIC_PROFILER)) return bp_not_a("profiler");
    if (!path || !*path) return bp_error(BP_ERR_INVALID, "bp_profiler_save: path is NULL or empty");
    TRY(bp_profiler_stop(profiler));
    pthread_mutex_lock(&lock);
    profiler_update_late(profiler);
    pthread_mutex_unlock(&lock);
    return bp_profile_file_save(&profiler->recording.file, path);
}

enum bp_status bp_profiler_get_info(struct bp_profiler *profiler, struct bp_profiler_info *out)
{
    struct bp_profiler_info info = {.size = sizeof info};
    struct bp_profile_recording *r;

    if (!profiler || !bp_magic_is(profiler->magic, BP_MAGIC_PROFILER)) return bp_not_a("profiler");
    r = &profiler->recording;
    info.events = bp_profile_file_records(&r->file) - atomic_load(&r->clocks);
    info.lost = atomic_load(&r->lost);
    pthread_mutex_lock(&lock);
    profiler_update_late(profiler);
    info.late = profiler->late;
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&r->file.lock);
    info.bytes = r->file.bytes;
    info.why = info.lost ? r->file.why : "";
    pthread_mutex_unlock(&r->file.lock);
    return bp_info_fill(out, &info, sizeof info);
}

void bp_profiler_destroy(struct bp_profiler *profiler)
{
    if (!profiler || !bp_magic_is(profiler->magic, BP_MAGIC_PROFILER)) return;
    bp_profiler_stop(profiler);
    pthread_mutex_lock(&lock);
    profiler_update_late(profiler);
    if (latest == profiler) latest = NULL;
    pthread_mutex_unlock(&lock);
    profiler_free(profiler);
}

/* ---- BP_PROFILE ---- */

/* Writes the path with "%p" replaced by the process id. */
static void path_expand(const char *from, char *to, size_t size)
{
    size_t used = 0;

    while (*from && used + 12 < size) {
        if (from[0] == '%' && from[1] == 'p') {
            used += (size_t)snprintf(to + used, size - used, "%d", (int)getpid());
            from += 2;
        } else {
            to[used++] = *from++;
        }
    }
    to[used] = 0;
}

static uint32_t flags_read(struct bp_core *core)
{
    const char *text = bp_env_get("BP_PROFILE_FLAGS");
    uint32_t flags = 0;

    while (text && *text) {
        size_t n = strcspn(text, ",");
        if (n == 6 && !strncmp(text, "shapes", n)) flags |= BP_PROFILER_SHAPES;
        else if (n == 6 && !strncmp(text, "memory", n)) flags |= BP_PROFILER_MEMORY;
        else if (n)
            bp_core_log(core, BP_LOG_WARN, "BP_PROFILE_FLAGS has '%.*s': expected shapes or memory",
                        (int)n, text);
        text += n + (text[n] == ',');
    }
    return flags;
}

void bp_profile_read_environment(struct bp_core *core)
{
    const char *path = bp_env_get("BP_PROFILE");
    struct bp_profiler_options options = {.size = sizeof options};
    struct bp_profiler *p = NULL;
    char expanded[4096];
    bool first;

    pthread_mutex_lock(&lock);
    first = !environment_read;
    environment_read = true;
    pthread_mutex_unlock(&lock);
    if (!first || !path || !*path) return;
    path_expand(path, expanded, sizeof expanded);
    options.path = expanded;
    options.flags = flags_read(core);
    if (bp_profiler_start(&options, &p)) {
        bp_core_log(core, BP_LOG_ERROR, "BP_PROFILE: %s", bp_error_message());
        return;
    }
    pthread_mutex_lock(&lock);
    of_environment = p;
    pthread_mutex_unlock(&lock);
}

void bp_profile_finish_at_exit(void)
{
    pthread_mutex_lock(&lock);
    if (active) profiler_stop(active);
    pthread_mutex_unlock(&lock);
}

void bp_profile_after_fork(void)
{
    bp_profile_writers_after_fork();
    bp_ranges_after_fork();
    pthread_mutex_init(&lock, NULL);
    active = latest = of_environment = NULL;
    sources = NULL;
    sources_started = false;
    environment_read = false;
}
