/* SPDX-License-Identifier: Apache-2.0 */
/* core.c: creates and destroys the core object, and reads its options and environment variables. */
#include "../base/base.h"

#include "../schema/op.h"
#include "../plugin/entry.h"
#include "../plugin/row_filter.h"
#include "../base/generator.h"
#include "../base/number.h"
#include "../profile/profile.h"
#include "../ccl/ccl_settings.h"
#include "../compile/engine_call.h"
#include "runtime.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <time.h>

enum { THREADS_MAX = 4096 };

/* Sets the number of threads. Invalid values of environment variables are ignored, with a
 * warning. */
static void read_width(struct bp_core *core)
{
    const char *wanted = bp_env_get("BP_THREADS");
    char *end = NULL;
    long n = wanted ? strtol(wanted, &end, 10) : 0;
    cpu_set_t set;

    if (core->width) return; /* from the options */
    if (wanted && *wanted && !*end && n >= 1 && n <= THREADS_MAX) {
        core->width = (uint32_t)n;
        return;
    }
    if (wanted && *wanted)
        bp_core_log(core, BP_LOG_WARN, "BP_THREADS=%.40s: expected 1 to %d", wanted,
                    THREADS_MAX);
    core->width = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}

/* Signatures are keyed by numbers that differ in each process, so that an attacker cannot compute
 * two equal ones in advance. */
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void core_seed(void)
{
    struct timespec t;

    if (getrandom(bp_signature_key, sizeof bp_signature_key, GRND_NONBLOCK) ==
        sizeof bp_signature_key)
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    bp_signature_key[0] = (uint64_t)t.tv_nsec * 0x9E3779B97F4A7C15u ^ (uintptr_t)&t;
    bp_signature_key[1] = (uint64_t)t.tv_sec * 0xBF58476D1CE4E5B9u ^ (uintptr_t)bp_signature_key;
}

static uint64_t read_seed(struct bp_core *core)
{
    const char *wanted = bp_env_get("BP_SEED");
    char *end = NULL;
    uint64_t value;

    if (!wanted || !*wanted) return 0;
    errno = 0;
    value = strtoull(wanted, &end, 10);
    if (*wanted >= '0' && *wanted <= '9' && !*end && !errno) return value;
    bp_core_log(core, BP_LOG_WARN, "BP_SEED=%.40s: expected a number", wanted);
    return 0;
}

/* Reads BP_FALLBACK, one word out of three, unless the options have a policy. */
static void read_fallback(struct bp_core *core, const struct bp_core_options *o)
{
    static const char *const word[] = {"allow", "warn", "deny"};
    const char *wanted = bp_env_get("BP_FALLBACK");

    core->fallback = BP_POLICY_WARN;
    if (o && BP_HAS(o, fallback) && o->fallback) {
        core->fallback = o->fallback - BP_CORE_FALLBACK_ALLOW;
        return;
    }
    for (uint32_t i = 0; wanted && i <= BP_POLICY_DENY; i++)
        if (!strcasecmp(wanted, word[i])) {
            core->fallback = i;
            return;
        }
    if (wanted && *wanted)
        bp_core_log(core, BP_LOG_WARN, "BP_FALLBACK=%.40s: expected allow, warn or deny", wanted);
}

/* Reads a setting with two possible words; false: the default, `usual`. */
static bool read_choice(struct bp_core *core, const char *name, const char *usual,
                        const char *other)
{
    const char *wanted = bp_env_get(name);

    if (!wanted || !*wanted || !strcasecmp(wanted, usual)) return false;
    if (!strcasecmp(wanted, other)) return true;
    bp_core_log(core, BP_LOG_WARN, "%s=%.40s: expected %s or %s", name, wanted, usual, other);
    return false;
}

/* BP_ALLOW: "none", or words of enum bp_allow with commas between them. */
static void read_allow(struct bp_core *core)
{
    const char *at = bp_env_get("BP_ALLOW"), *wanted = at;

    for (size_t n; at && *at; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        if (n == 8 && !strncasecmp(at, "winograd", n)) core->allow |= BP_ALLOW_WINOGRAD;
        else if (n == 9 && !strncasecmp(at, "fast-math", n)) core->allow |= BP_ALLOW_FAST_MATH;
        else if (n && (n != 4 || strncasecmp(at, "none", n)))
            bp_core_log(core, BP_LOG_WARN, "BP_ALLOW=%.40s: expected none, winograd, fast-math, or "
                        "winograd,fast-math", wanted);
    }
}

/* Reads "512M": bytes, or a number followed by K, M, G or T. */
static void read_memory_limit(struct bp_core *core)
{
    const char *wanted = bp_env_get("BP_MEM_LIMIT"), *unit = "KMGT", *found;
    char *end = NULL;
    unsigned long long n;
    int shift = 0;

    if (!wanted || !*wanted) return;
    errno = 0;
    n = strtoull(wanted, &end, 10);
    found = *end ? strchr(unit, *end & ~0x20) : NULL;
    if (found) shift = 10 * (int)(found - unit + 1);
    if (*wanted < '0' || *wanted > '9' || errno || (*end && (!found || end[1])) ||
        n > UINT64_MAX >> shift || !n) {
        bp_core_log(core, BP_LOG_WARN,
                    "BP_MEM_LIMIT=%.40s: expected bytes, or a number with K, M, G or T", wanted);
        return;
    }
    core->memory_limit = (uint64_t)n << shift;
}

/* Reads BP_WAIT_TIMEOUT in seconds, like BP_CCL_TIMEOUT. */
static void read_wait_timeout(struct bp_core *core)
{
    const char *wanted = bp_env_get("BP_WAIT_TIMEOUT");
    char *end = NULL;
    double seconds;

    if (core->wait_source || !wanted || !*wanted) return;
    seconds = bp_number_parse(wanted, &end);
    if (*end || !(seconds > 0 && seconds < 1e9)) {
        bp_core_log(core, BP_LOG_WARN, "BP_WAIT_TIMEOUT=%.40s: expected seconds, more than 0",
                    wanted);
        return;
    }
    core->wait_source = "BP_WAIT_TIMEOUT";
    core->wait_ns = (uint64_t)(seconds * 1e9);
}

static enum bp_status core_check_options(const struct bp_core_options *o)
{
    if (o->size < sizeof(size_t) || o->size > 4096)
        return bp_error(
            BP_ERR_INVALID,
            "bp_core_create: options->size is %zu: set it to sizeof(struct bp_core_options)",
            o->size);
    if (BP_HAS(o, allocator) && o->allocator && (!o->allocator->allocate || !o->allocator->release))
        return bp_error(BP_ERR_INVALID,
                        "bp_core_create: an allocator needs both allocate and release");
    if (BP_HAS(o, threads) && o->threads > THREADS_MAX)
        return bp_error(BP_ERR_INVALID,
                        "bp_core_create: options->threads is %u, expected 1 to %d, or 0 for "
                        "BP_THREADS",
                        o->threads, THREADS_MAX);
    if (BP_HAS(o, fallback) && o->fallback > BP_CORE_FALLBACK_DENY)
        return bp_error(BP_ERR_INVALID,
                        "bp_core_create: options->fallback is %u, expected 0 to %d", o->fallback,
                        BP_CORE_FALLBACK_DENY);
    return BP_OK;
}

static enum bp_status copy_text(const char *text, char **out)
{
    if (!text) return BP_OK;
    *out = strdup(text);
    return *out ? BP_OK : bp_error(BP_ERR_MEMORY, "bp_core_create: no memory for the options");
}

static enum bp_status core_set_options(struct bp_core *core, const struct bp_core_options *o)
{
    if (BP_HAS(o, log_ctx) && o->log) {
        core->log = o->log;
        core->log_ctx = o->log_ctx;
    }
    if (BP_HAS(o, allocator) && o->allocator) core->allocator = *o->allocator;
    if (BP_HAS(o, plugin_path)) TRY(copy_text(o->plugin_path, &core->plugin_path));
    if (BP_HAS(o, plugins)) TRY(copy_text(o->plugins, &core->plugins));
    if (BP_HAS(o, wait_timeout_ns) && o->wait_timeout_ns) {
        core->wait_source = "wait_timeout_ns of the core's options";
        core->wait_ns = o->wait_timeout_ns;
    }
    if (BP_HAS(o, threads)) core->width = o->threads;
    return BP_OK;
}

static void core_free(struct bp_core *core)
{
    bp_plugin_entries_destroy(core);
    bp_row_filter_destroy(core);
    free(core->plugin_path);
    free(core->plugins);
    pthread_mutex_destroy(&core->lock);
    pthread_mutex_destroy(&core->log_lock);
    if (core->generator) bp_generator_release(core->generator);
    core->magic = 0;
    free(core);
}

void bp_core_destroy(struct bp_core *core)
{
    if (bp_core_is(core)) bp_core_release(core);
}

enum bp_status bp_core_create(const struct bp_core_options *options, struct bp_core **out_core)
{
    struct bp_core *core;
    enum bp_status status;

    if (!out_core) return bp_error(BP_ERR_INVALID, "bp_core_create: out_core is NULL");
    if (options) TRY(core_check_options(options));
    core = calloc(1, sizeof *core);
    if (!core) return bp_error(BP_ERR_MEMORY, "bp_core_create: no memory");
    core->magic = bp_magic(BP_MAGIC_CORE);
    atomic_init(&core->refs, 1);
    core->log = bp_log_to_stderr;
    core->end = core_free;
    core->open = bp_device_create_at;
    core->allocator = bp_allocator_default;
    pthread_mutex_init(&core->lock, NULL);
    pthread_mutex_init(&core->log_lock, NULL);

    bp_runtime_init();
    status = bp_process_add_core(core);
    if (status) {
        core_free(core);
        return status;
    }
    pthread_once(&seeded, core_seed);
    bp_opdefs_init();
    bp_plugin_rules_init();
    bp_engine_calls_init();
    if (options) status = core_set_options(core, options);
    bp_core_read_log_level(core);
    bp_core_check_variables(core);
    bp_profile_read_environment(core);
    if (status == BP_OK) status = bp_generator_create(read_seed(core), &core->generator);
    read_width(core);
    core->async_streams = read_choice(core, "BP_STREAMS", "inline", "async");
    core->sync_launch = read_choice(core, "BP_SYNC", "none", "launch");
    core->deny_blocking = read_choice(core, "BP_BLOCK", "allow", "deny");
    read_allow(core);
    read_wait_timeout(core);
    bp_ccl_check_settings(core);
    core->checks_room = core->deny_blocking || core->wait_source;
    read_memory_limit(core);
    read_fallback(core, options);
    if (status == BP_OK) status = bp_row_filter_create(core);
    if (status == BP_OK) status = bp_plugin_search(core);
    if (status) {
        bp_core_release(core);
        return status;
    }
    *out_core = core;
    return BP_OK;
}
