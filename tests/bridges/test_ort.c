/* SPDX-License-Identifier: Apache-2.0 */
/* test_ort.c: loads the execution provider as ONNX Runtime does, with tables of functions whose
 * versions and devices the tests choose. tests/peers tests it with ONNX Runtime itself. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../sdk/bridges/onnxruntime/abi.h"

enum { SLOTS = 512, POISON = 0x5a };

/* Objects of the tests. */
struct ort_status {
    int32_t code;
    char text[512];
};
struct ort_hardware {
    int32_t kind;
    uint32_t vendor;
};
struct ort_pairs {
    char device[64];
};
struct ort_ep_device {
    char name[64];
    bool has_memory;
};
struct ort_memory_info {
    uint32_t vendor;
    int32_t device;
};

static void *table[SLOTS], *ep_table[SLOTS], *editor_table[SLOTS];
static const char *peer_version;
static uint32_t table_version; /* the version that the provider requested of the table */
static int warnings;
static char last_warning[512];
static struct ort_ep_device made[16];
static int n_made, n_released;
static bool memory_fails;

static struct ort_status *peer_status(int32_t code, const char *text)
{
    struct ort_status *status = calloc(1, sizeof *status);

    cr_assert(status);
    status->code = code;
    snprintf(status->text, sizeof status->text, "%s", text);
    return status;
}

static const char *peer_status_text(const struct ort_status *status)
{
    return status->text;
}

static struct ort_status *peer_log(const struct ort_logger *logger, int32_t severity,
                                   const char *text, const char *file, int32_t line,
                                   const char *function)
{
    (void)logger, (void)file, (void)line, (void)function;
    if (severity == ORT_WARNING) {
        warnings++;
        snprintf(last_warning, sizeof last_warning, "%s", text);
    }
    return NULL;
}

static void peer_pairs_create(struct ort_pairs **out)
{
    *out = calloc(1, sizeof **out);
    cr_assert(*out);
}

static void peer_pairs_add(struct ort_pairs *pairs, const char *key, const char *value)
{
    if (!strcmp(key, "backplane_device"))
        snprintf(pairs->device, sizeof pairs->device, "%s", value);
}

static int32_t peer_hardware_kind(const struct ort_hardware *hardware)
{
    return hardware->kind;
}

static uint32_t peer_hardware_vendor(const struct ort_hardware *hardware)
{
    return hardware->vendor;
}

static struct ort_status *peer_device(struct ort_ep_factory *factory,
                                      const struct ort_hardware *hardware,
                                      const struct ort_pairs *facts,
                                      const struct ort_pairs *options, struct ort_ep_device **out)
{
    (void)factory, (void)hardware, (void)options;
    cr_assert(n_made < 16);
    snprintf(made[n_made].name, sizeof made[n_made].name, "%s", facts ? facts->device : "");
    *out = &made[n_made++];
    return NULL;
}

static struct ort_status *peer_memory(struct ort_ep_device *device,
                                      const struct ort_memory_info *info)
{
    if (memory_fails) return peer_status(ORT_FAIL, "no memory today");
    device->has_memory = info->vendor != 0;
    return NULL;
}

static void peer_device_release(struct ort_ep_device *device)
{
    (void)device;
    n_released++;
}

static struct ort_status *peer_memory_info(const char *name, int32_t type, uint32_t vendor,
                                           int32_t device, int32_t memory_type, size_t alignment,
                                           int32_t allocator, struct ort_memory_info **out)
{
    (void)name, (void)type, (void)memory_type, (void)alignment, (void)allocator;
    *out = calloc(1, sizeof **out);
    cr_assert(*out);
    **out = (struct ort_memory_info){vendor, device};
    return NULL;
}

static const void *peer_ep_table(void)
{
    return ep_table;
}

static const void *peer_editor_table(void)
{
    return editor_table;
}

static const void *peer_table(uint32_t version)
{
    table_version = version;
    return version <= 23 ? table : NULL; /* as an older ONNX Runtime */
}

static const char *peer_version_text(void)
{
    return peer_version;
}

/* Puts a function into a slot. Other slots hold no address: a call of one ends the test. */
static void slot_set(void **slots, int slot, const void *call_of)
{
    memcpy(&slots[slot], call_of, sizeof *slots);
}

#define SET(slots, slot, call) \
    slot_set(slots, slot, &(struct { void (*f)(void); }){(void (*)(void))(call)}.f)

static const struct ort_base base = {peer_table, peer_version_text};

struct provider {
    struct ort_status *(*create)(const char *, const struct ort_base *, const struct ort_logger *,
                                 struct ort_ep_factory **, size_t, size_t *);
    struct ort_status *(*release)(struct ort_ep_factory *);
};

static struct provider provider_load(void)
{
    void *library = dlopen(PROVIDER, RTLD_NOW | RTLD_LOCAL);
    struct provider p;

    cr_assert(library, "%s", dlerror());
    *(void **)&p.create = dlsym(library, "CreateEpFactories");
    *(void **)&p.release = dlsym(library, "ReleaseEpFactory");
    cr_assert(p.create && p.release);
    memset(table, POISON, sizeof table);
    memset(ep_table, POISON, sizeof ep_table);
    memset(editor_table, POISON, sizeof editor_table);
    SET(table, 0, peer_status);
    SET(table, 2, peer_status_text);
    SET(table, 93, free);
    SET(table, 94, free);
    SET(table, 247, peer_log);
    SET(table, 291, peer_editor_table);
    SET(table, 295, peer_pairs_create);
    SET(table, 296, peer_pairs_add);
    SET(table, 300, free);
    SET(table, 307, peer_hardware_kind);
    SET(table, 308, peer_hardware_vendor);
    SET(table, 317, peer_ep_table);
    SET(table, 320, peer_memory_info);
    SET(ep_table, 0, peer_device);
    SET(ep_table, 1, peer_device_release);
    SET(ep_table, 5, peer_memory);
    return p;
}

/* Fills in the provider's factory, and that of the provider for selection policies; NULL: there is
 * none. */
static void provider_factories(const struct provider *p, const char *version,
                               struct ort_ep_factory *factory[2])
{
    struct ort_status *status;
    size_t n = 99;

    peer_version = version;
    factory[0] = factory[1] = NULL;
    status = p->create("backplane", &base, (const struct ort_logger *)&base, factory, 2, &n);
    cr_assert_null(status, "%s", status ? status->text : "");
    cr_assert_eq(n, (size_t)((factory[0] != NULL) + (factory[1] != NULL)));
}

static struct ort_ep_factory *provider_factory(const struct provider *p, const char *version)
{
    struct ort_ep_factory *factory[2];

    provider_factories(p, version, factory);
    cr_assert_eq(factory[0] != NULL, factory[1] != NULL);
    return factory[0];
}

Test(ort, too_old_a_version_gets_no_provider)
{
    struct provider p = provider_load();

    cr_assert_null(provider_factory(&p, "1.22.1"));
    cr_assert_null(provider_factory(&p, "2.0.0"), "another major version");
    cr_assert_null(provider_factory(&p, "unknown"));
}

Test(ort, a_newer_version_is_used_as_far_as_it_is_known)
{
    struct provider p = provider_load();
    struct ort_ep_factory *f = provider_factory(&p, "1.99.3");

    cr_assert(f);
    cr_assert_eq(table_version, 23, "the table of version %u", table_version);
    cr_assert_eq(warnings, 1);
    cr_assert(strstr(last_warning, "1.99") && strstr(last_warning, "1.32"), "%s", last_warning);
    cr_assert_eq(f->version, 23, "members that a newer version has behind ours are not read");
    cr_assert_str_eq(f->name(f), "BackplaneExecutionProvider");
    cr_assert_null(p.release(f));
}

Test(ort, is_registered_once_at_a_time)
{
    struct provider p = provider_load();
    struct ort_ep_factory *f = provider_factory(&p, "1.32.0"), *second = NULL;
    struct ort_status *status;
    size_t n = 99;

    cr_assert(f);
    cr_assert_eq(warnings, 0);
    status = p.create("again", &base, NULL, &second, 1, &n);
    cr_assert(status && strstr(status->text, "registered already"));
    cr_assert_eq(n, 0);
    free(status);
    cr_assert_null(p.release(f));
    f = provider_factory(&p, "1.23.0");
    cr_assert(f, "after it was released");
    cr_assert_null(p.release(f));
}

/* Writes a copy of libbackplane in which the text of its version begins with 9, and loads the copy.
 * The loader then gives it to the provider as well. */
static void core_load_changed(const char *path)
{
    const char *version = BP_VERSION; /* found with its closing NUL */
    FILE *in = fopen(CORE, "rb"), *out = fopen(path, "wb");
    static char data[64 << 20];
    size_t n, changed = 0;

    cr_assert(in && out);
    n = fread(data, 1, sizeof data, in);
    cr_assert(n && n < sizeof data);
    for (char *at = data; (at = memmem(at, n - (size_t)(at - data), version, sizeof BP_VERSION));
         at++, changed++)
        *at = '9';
    cr_assert(changed, "libbackplane has no text %s", version);
    cr_assert_eq(fwrite(data, 1, n, out), n);
    fclose(in);
    cr_assert_eq(fclose(out), 0);
    cr_assert(dlopen(path, RTLD_NOW | RTLD_GLOBAL), "%s", dlerror());
    unlink(path);
}

Test(ort, another_version_of_the_library_is_refused)
{
    char path[] = "/tmp/libbackplane-XXXXXX", *other;
    struct ort_ep_factory *factory = NULL;
    struct ort_status *status;
    struct provider p;
    size_t n = 99;
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    close(file);
    core_load_changed(path);
    p = provider_load();
    peer_version = "1.32.0";
    status = p.create("backplane", &base, NULL, &factory, 1, &n);
    cr_assert(status, "another version is used");
    cr_assert_eq(n, 0);
    other = strstr(status->text, " 9");
    cr_assert(strstr(status->text, "needs libbackplane " BP_VERSION) && other, "%s", status->text);
    cr_assert(strstr(status->text, path), "%s", status->text);
    free(status);
}

Test(ort, offers_devices_on_the_hardware_that_there_is)
{
    const struct ort_hardware cpu = {ORT_HARDWARE_CPU, 0}, gpu = {ORT_HARDWARE_GPU, 0x10DE};
    const struct ort_hardware *const all[2] = {&gpu, &cpu};
    struct ort_ep_device *device[8];
    struct provider p = provider_load();
    struct ort_ep_factory *f = provider_factory(&p, "1.32.0");
    bool has_cpu = false, has_sim = false;
    size_t n = 99;

    cr_assert_null(f->devices(f, all, 2, device, 8, &n));
    cr_assert_eq(n, (size_t)n_made);
    for (size_t i = 0; i < n; i++) {
        bool is_cpu = !strcmp(device[i]->name, "cpu:0"), is_sim = !strcmp(device[i]->name, "sim:0");
        has_cpu |= is_cpu;
        has_sim |= is_sim;
        if (is_cpu) cr_assert(!device[i]->has_memory, "the cpu uses memory of ONNX Runtime");
        if (is_sim) cr_assert(device[i]->has_memory);
    }
    cr_assert(has_cpu && has_sim);
    cr_assert_null(f->devices(f, all, 2, device, 1, &n));
    cr_assert_eq(n, 1, "no more than there is room for");
    cr_assert_null(f->devices(f, all, 0, device, 8, &n));
    cr_assert_eq(n, 0, "no hardware");
    cr_assert_null(p.release(f));
}

Test(ort, a_provider_for_policies_is_on_each_hardware_of_devices)
{
    const struct ort_hardware cpu = {ORT_HARDWARE_CPU, 0}, gpu = {ORT_HARDWARE_GPU, 0x10DE};
    const struct ort_hardware *const all[2] = {&gpu, &cpu};
    struct ort_ep_factory *f[2];
    struct ort_ep_device *device[8];
    struct provider p = provider_load();
    size_t n = 99;

    provider_factories(&p, "1.32.0", f);
    cr_assert(f[0] && f[1]);
    cr_assert_lt(strcmp(f[1]->name(f[1]), f[0]->name(f[0])), 0, "policies take the first name");
    cr_assert_null(f[0]->devices(f[0], all, 2, device, 8, &n));
    cr_assert_null(f[1]->devices(f[1], all, 2, device, 8, &n));
    cr_assert(n == 1 || n == 2, "%zu devices", n); /* cpu and sim may be on one hardware */
    cr_assert_null(p.release(f[1]));
    cr_assert_null(p.release(f[0]));
}

Test(ort, policies_may_choose_its_devices_with_a_variable)
{
    struct ort_ep_factory *f[2];
    struct provider p = provider_load();

    setenv("BP_ORT_POLICIES", "1", 1);
    provider_factories(&p, "1.32.0", f);
    cr_assert(f[0] && !f[1]);
    cr_assert_null(p.release(f[0]));
}

Test(ort, releases_the_devices_of_a_call_that_fails)
{
    const struct ort_hardware cpu = {ORT_HARDWARE_CPU, 0};
    const struct ort_hardware *const all[1] = {&cpu};
    struct ort_ep_device *device[8];
    struct provider p = provider_load();
    struct ort_ep_factory *f = provider_factory(&p, "1.32.0");
    struct ort_status *status;
    size_t n = 99;

    memory_fails = true; /* of sim, which comes behind cpu */
    status = f->devices(f, all, 1, device, 8, &n);
    cr_assert(status && strstr(status->text, "no memory today"));
    cr_assert_eq(n, 0);
    cr_assert(n_made == 2 && n_released == 2, "%d made, %d released", n_made, n_released);
    free(status);
    cr_assert_null(p.release(f));
}
