/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c: the script of the fake device, and the tables that follow from it. */
#include "fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char added[256]; /* to the script, by the environment */
enum fake_mode fake_mode;
const struct bp_host *fake_host;

static const char *find(const char *script, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = script; at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (!strncmp(at, word, n) && strchr(" =", at[n])) return at + n + (at[n] == '=');
    }
    return NULL;
}

const char *fake_word(const char *word)
{
    const char *value = find(added, word);

    return value ? value : find(fake_script, word);
}

bool fake_is(const char *word, const char *value)
{
    const char *is = fake_word(word);
    size_t n = strlen(value);

    return is && !strncmp(is, value, n) && (!is[n] || is[n] == ' ');
}

uint64_t fake_number(const char *word, uint64_t otherwise)
{
    const char *is = fake_word(word);
    char *end;
    uint64_t number = is ? strtoull(is, &end, 0) : otherwise;

    return is && *end == 'M' ? number << 20 : number;
}

static const char *const names[] = {
#define X(name) #name,
    FAKE_CALLBACKS(X)
#undef X
};

/* What a test has told callbacks to answer. */
static struct {
    uint32_t status;
    const char *reason;
} answers[FAKE_COUNT];

void fake_answer(enum fake_callback callback, uint32_t status, const char *reason)
{
    __atomic_store_n(&answers[callback].reason, reason, __ATOMIC_RELAXED);
    __atomic_store_n(&answers[callback].status, status, __ATOMIC_RELEASE);
}

bool fake_fault(enum fake_callback callback, uint64_t size, const char *fault)
{
    char word[64];

    snprintf(word, sizeof word, "%s@%llu", names[callback], (unsigned long long)size);
    return fake_is(word, fault);
}

enum bp_status fake_first(const struct bp_host *host, enum fake_callback callback, uint64_t size)
{
    uint32_t status = __atomic_load_n(&answers[callback].status, __ATOMIC_ACQUIRE);
    const char *reason = __atomic_load_n(&answers[callback].reason, __ATOMIC_RELAXED);

    if (status && reason) return bp_fail(host, (enum bp_status)status, "%s", reason);
    if (status) return (enum bp_status)status;
    if (fake_fault(callback, size, "slow")) usleep(100000);
    return fake_fault(callback, size, "silent") ? BP_ERR_DEVICE : BP_OK;
}

void fake_break(void)
{
    fake.broken++;
    if (fake_has("strict")) abort();
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    *out_count = (uint32_t)fake_number("devices", 1);
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    enum bp_status status = fake_first(((struct fake_instance *)self)->host,
                                       FAKE_device_properties, 0);

    if (status) return status;
    snprintf(out->name, sizeof out->name, "a fake device: %s", fake_name);
    snprintf(out->driver, sizeof out->driver, "none: host memory");
    BP_SET(out, memory, fake.budget);
    BP_SET(out, dtypes,
           fake_has("narrow") ? BP_M(F32) | BP_M(I32) | BP_M(U8) : (uint64_t)BP_MASK_ANY);
    BP_SET(out, alignment, fake_alignment());
    BP_SET(out, flags,
           (uint32_t)((fake_mode == FAKE_INLINE ? BP_DEVICE_INLINE : 0) |
                      (fake_has("visible") ? BP_DEVICE_HOST_VISIBLE : 0) |
                      (fake_has("handles") ? BP_DEVICE_HANDLES : 0)));
    return BP_OK;
}

static enum bp_status memory_info(void *self, uint32_t device, uint64_t *out_free,
                                  uint64_t *out_total)
{
    enum bp_status status = fake_first(((struct fake_instance *)self)->host, FAKE_memory_info, 0);

    if (status) return status;
    *out_free = fake.budget - fake.used;
    *out_total = fake.budget;
    return BP_OK;
}

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    struct fake_instance *f = calloc(1, sizeof *f);
    enum bp_status status;

    if (!f) return bp_fail(host, BP_ERR_MEMORY, "no memory for an instance");
    f->host = fake_host = host;
    status = fake_memory_create(f);
    if (!status) status = fake_work_create(f, (uint32_t)fake_number("devices", 1));
    if (status) free(f);
    else *out_self = f;
    return status;
}

/* All that was made with it has been destroyed. */
static void destroy(void *self)
{
    struct fake_instance *f = self;

    fake_work_destroy(f);
    if (f->used || f->plans || f->streams) fake_break();
    fake_memory_destroy(f);
    free(f);
}

static struct bp_runtime runtime;
static struct bp_kernels kernels = {.size = sizeof kernels, .stride = sizeof(struct fake_row)};
static struct fake_table table = {
    .plugin = {.size = sizeof table.plugin,
               .abi_major = BP_ABI_MAJOR,
               .abi_minor = BP_ABI_MINOR,
               .build = BP_BUILD_FLAGS,
               .name = fake_name,
               .version = "0.1.0",
               .kind = fake_name,
               .create = create,
               .destroy = destroy,
               .runtime = &runtime},
    .fake = &fake,
};

/* Callbacks without their word in the script are not there. */
static void choose_callbacks(void)
{
    runtime = fake_work_runtime;
    runtime.device_count = device_count;
    runtime.device_properties = device_properties;
    runtime.memory_allocate = fake_allocate;
    runtime.memory_free = fake_free;
    if (fake_has("info")) runtime.memory_info = memory_info;
    if (fake_has("export")) runtime.memory_export = fake_export;
    if (!fake_has("peers")) runtime.copy_peer = NULL;
    if (!fake_has("waits")) runtime.stream_wait = NULL;
    if (!fake_has("streams")) runtime.stream_create = NULL, runtime.stream_destroy = NULL;
    if (fake_has("events")) return;
    runtime.event_create = NULL;
    runtime.event_destroy = NULL;
    runtime.event_record = NULL;
    runtime.event_query = NULL;
    runtime.event_wait = NULL;
}

static void __attribute__((constructor)) read_script(void)
{
    static const char *const modes[] = {"inline", "late", "told", "thread"};
    static char kind[32];
    const char *environment = getenv("BP_FAKE"), *of_kind;

    snprintf(added, sizeof added, "%s", environment ? environment : "");
    of_kind = fake_word("kind");
    for (int i = 0; i < 4; i++)
        if (fake_is("work", modes[i])) fake_mode = (enum fake_mode)i;
    if (of_kind) {
        snprintf(kind, sizeof kind, "%.*s", (int)strcspn(of_kind, " "), of_kind);
        table.plugin.kind = kind;
    }
    fake.budget = fake_number("memory", 0);
    choose_callbacks();
    fake_rows_find(&kernels);
    fake_operators_find(&kernels);
    if (kernels.count) table.plugin.kernels = &kernels;
}

const struct bp_plugin *bp_plugin_get(void)
{
    return &table.plugin;
}
