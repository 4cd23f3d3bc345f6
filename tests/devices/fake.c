/* SPDX-License-Identifier: Apache-2.0 */
/* fake.c: reads the script of the fake device, and fills in the plugin's tables from it. */
#include "fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char added[256]; /* words from the environment */
enum fake_mode fake_mode;
const struct bp_host *fake_host;

static const char *fake_find(const char *script, const char *word)
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
    const char *value = fake_find(added, word);

    return value ? value : fake_find(fake_script, word);
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

/* The results that a test has set for callbacks. */
static struct {
    uint32_t status;
    const char *reason;
} overrides[FAKE_COUNT];

void fake_override(enum fake_callback callback, uint32_t status, const char *reason)
{
    __atomic_store_n(&overrides[callback].reason, reason, __ATOMIC_RELAXED);
    __atomic_store_n(&overrides[callback].status, status, __ATOMIC_RELEASE);
}

bool fake_fault(enum fake_callback callback, uint64_t size, const char *fault)
{
    char word[64];

    snprintf(word, sizeof word, "%s@%llu", names[callback], (unsigned long long)size);
    return fake_is(word, fault);
}

enum bp_status fake_first(const struct bp_host *host, enum fake_callback callback, uint64_t size)
{
    uint32_t status = __atomic_load_n(&overrides[callback].status, __ATOMIC_ACQUIRE);
    const char *reason = __atomic_load_n(&overrides[callback].reason, __ATOMIC_RELAXED);

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
    fake_step("devices");
    if (fake_is("devices", "fails")) return BP_ERR_DEVICE;
    *out_count = (uint32_t)fake_number("count", 1);
    return BP_OK;
}

const char *fake_text(const char *word, char text[32], const char *otherwise)
{
    const char *is = fake_word(word);

    if (is) snprintf(text, 32, "%.*s", (int)strcspn(is, " "), is);
    return is ? text : otherwise;
}

/* The mask of a list of dtypes, f32+i8. */
static uint64_t dtypes_of(const char *list)
{
    static const struct {
        char name[4];
        uint64_t mask;
    } dtypes[] = {{"f32", BP_M(F32)}, {"i32", BP_M(I32)}, {"i8", BP_M(I8)}, {"u8", BP_M(U8)}};
    uint64_t mask = 0;

    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const char *at = strstr(list, dtypes[i].name);
        if (at && at < list + strcspn(list, " ")) mask |= dtypes[i].mask;
    }
    return mask;
}

static enum bp_status fake_device_properties(void *self, uint32_t device,
                                             struct bp_device_properties *out)
{
    enum bp_status status = fake_first(((struct fake_instance *)self)->host,
                                       FAKE_device_properties, 0);

    fake_step("device");
    if (status) return status;
    snprintf(out->name, sizeof out->name, "a %s device: %s",
             fake_has("red") ? "\x1b[31mred\x1b[0m" : "fake", fake_name);
    snprintf(out->driver, sizeof out->driver, "none: host memory");
    BP_SET(out, memory, fake.budget);
    BP_SET(out, dtypes, fake_has("dtypes") ? dtypes_of(fake_word("dtypes")) : BP_MASK_ANY);
    BP_SET(out, alignment, fake_alignment());
    BP_SET(out, flags,
           (uint32_t)((fake_mode == FAKE_INLINE ? BP_DEVICE_INLINE : 0) |
                      (fake_has("visible") ? BP_DEVICE_HOST_VISIBLE : 0) |
                      (fake_has("handles") || fake_has("offsets") ? BP_DEVICE_HANDLES : 0)));
    if (fake_has("uuid")) memcpy(out->uuid, "one piece of it!", sizeof out->uuid);
    if (fake_has("pci")) strcpy(out->pci, "0000:65:00.0");
    if (fake_has("arch")) strcpy(out->arch, "wood");
    if (fake_has("images")) BP_SET(out, images, (uint32_t)atoi(fake_word("images")));
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

static enum bp_status fake_create(const struct bp_host *host, void **out_self)
{
    struct fake_instance *f;
    enum bp_status status;

    if (fake_is("create", "fails")) {
        bp_log(host, BP_LOG_ERROR, "before I fail I complain at error level, too");
        return bp_fail(host, BP_ERR_DEVICE, "the driver answered -13: permission denied");
    }
    if (fake_is("create", "silent")) return (enum bp_status)77;
    if (fake_is("create", "absent"))
        return bp_fail(host, BP_ERR_ABSENT, "libhostile.so.2: no such library");
    fake_step("create");
    f = host->allocate(host->ctx, sizeof *f, _Alignof(struct fake_instance));
    if (!f) return bp_fail(host, BP_ERR_MEMORY, "no memory for an instance");
    *f = (struct fake_instance){.host = host};
    __atomic_store_n(&fake_host, host, __ATOMIC_RELEASE);
    status = fake_memory_create(f);
    if (!status) status = fake_work_create(f);
    if (status) host->release(host->ctx, f, sizeof *f);
    else *out_self = f;
    return status;
}

/* Everything that was created with the instance must have been destroyed. */
static void fake_destroy(void *self)
{
    struct fake_instance *f = self;

    fake_step("destroy");
    fake_work_destroy(f);
    if (f->used || f->plans || f->streams) fake_break();
    fake_memory_destroy(f);
    f->host->release(f->host->ctx, f, sizeof *f);
}

static enum bp_status fake_usable(void *self, const struct bp_kernel *kernel)
{
    if (strstr(kernel->name, "_casts") && !fake_has("casts")) return BP_ERR_UNSUPPORTED;
    if (!strstr(kernel->name, "_elsewhere")) return BP_OK;
    return bp_fail(((struct fake_instance *)self)->host, BP_ERR_UNSUPPORTED,
                   "needs a coprocessor of 1989");
}

static struct fake_tables tables = {
    .table = {.plugin = {.size = sizeof(struct bp_plugin),
                         .abi_major = BP_ABI_MAJOR,
                         .abi_minor = BP_ABI_MINOR,
                         .needs_minor = 5,
                         .build = BP_BUILD_FLAGS,
                         .create = fake_create,
                         .destroy = fake_destroy,
                         .runtime = &tables.runtime},
              .fake = &fake},
    .kernels = {.size = sizeof tables.kernels, .stride = sizeof(struct fake_row),
                .usable = fake_usable},
};

/* Callbacks whose word is not in the script remain NULL. */
static void choose_callbacks(struct bp_runtime *r)
{
    *r = fake_work_runtime;
    r->device_count = device_count;
    r->device_properties = fake_device_properties;
    r->memory_allocate = fake_allocate;
    r->memory_free = fake_free;
    if (fake_has("info")) r->memory_info = memory_info;
    if (fake_has("export")) r->memory_export = fake_export;
    if (!fake_has("peers")) r->copy_peer = NULL;
    if (!fake_has("waits")) r->stream_wait = NULL;
    if (!fake_has("streams")) r->stream_create = NULL, r->stream_destroy = NULL;
    if (fake_has("events")) return;
    r->event_create = NULL;
    r->event_destroy = NULL;
    r->event_record = NULL;
    r->event_query = NULL;
    r->event_wait = NULL;
}

/* Reads the words of the environment, which may be for some libraries only: NAME:WORDS. */
static void read_environment(void)
{
    const char *words = getenv("BP_FAKE"), *end = words ? strchr(words, ':') : NULL;

    if (end && strncmp(words, fake_name, (size_t)(end - words))) return;
    if (words) snprintf(added, sizeof added, "%s", end ? end + 1 : words);
}

static void __attribute__((constructor)) read_script(void)
{
    static const char *const modes[] = {"inline", "late", "told", "thread"};
    static char name[32], kind[32], version[32];
    struct bp_plugin *plugin = &tables.table.plugin;

    read_environment();
    fake_step_open();
    for (int i = 0; i < 4; i++)
        if (fake_is("work", modes[i])) fake_mode = (enum fake_mode)i;
    fake.budget = fake_number("memory", 0);
    plugin->name = fake_text("name", name, fake_name);
    plugin->kind = fake_text("kind", kind, plugin->name);
    plugin->version = fake_text("version", version, "0.1.0");
    choose_callbacks(&tables.runtime);
    fake_rows_find(&tables.kernels);
    fake_operators_find(&tables.kernels);
    if (tables.kernels.count) plugin->kernels = &tables.kernels;
    if (fake_has("captures")) plugin->captures = &fake_captures;
    fake_mutate(&tables);
    fake_spoil(&tables);
}

const struct bp_plugin *fake_get(void)
{
    static struct fake_table again; /* the same table at another address */
    static int calls;

    fake_step("entry");
    if (fake_is("mutant", "impure") && calls++ & 1) return again = tables.table, &again.plugin;
    return fake_is("spoil", "null_table") ? NULL : &tables.table.plugin;
}
