/* SPDX-License-Identifier: Apache-2.0 */
/* factory.c: has the two functions that ONNX Runtime looks for in the library, and offers every
 * device of every plugin. */
#include "provider.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT struct ort_status *CreateEpFactories(const char *name, const struct ort_base *base,
                                            const struct ort_logger *logger,
                                            struct ort_ep_factory **out, size_t room,
                                            size_t *out_n);
EXPORT struct ort_status *ReleaseEpFactory(struct ort_ep_factory *self);

struct ort_factory ort_factory;
static pthread_mutex_t factory_lock = PTHREAD_MUTEX_INITIALIZER;
/* factory_lock guards these. */
static bool factory_is_used, factory_is_released;
static uint32_t factory_users; /* sessions, allocators and streams */

static const char *factory_name(const struct ort_ep_factory *self)
{
    (void)self;
    return ORT_NAME;
}

static const char *factory_vendor(const struct ort_ep_factory *self)
{
    (void)self;
    return "Backplane";
}

static uint32_t factory_vendor_id(const struct ort_ep_factory *self)
{
    (void)self;
    return ORT_VENDOR;
}

static const char *factory_version(const struct ort_ep_factory *self)
{
    (void)self;
    return bp_version();
}

static bool factory_is_stream_aware(const struct ort_ep_factory *self)
{
    (void)self;
    return true;
}

/* --- devices --- */

static void offer_finish(struct ort_offer *offer)
{
    if (offer->info) ort.memory_info_release(offer->info);
    bridge_memory_destroy(offer->memory);
    bp_stream_destroy(offer->stream);
    bp_device_destroy(offer->device);
    pthread_mutex_destroy(&offer->lock);
    memset(offer, 0, sizeof *offer);
}

/* Opens a device, and describes its memory to ONNX Runtime unless that is host memory. */
static struct ort_status *offer_init(struct ort_offer *offer, struct bp_device *device,
                                     uint32_t number)
{
    enum bp_status status;

    *offer = (struct ort_offer){.device = device};
    pthread_mutex_init(&offer->lock, NULL);
    snprintf(offer->name, sizeof offer->name, "%s", bp_device_name(device));
    offer->properties.size = sizeof offer->properties;
    status = bp_device_get_properties(device, &offer->properties);
    if (status == BP_OK) status = bridge_memory_create(device, &offer->memory);
    if (status == BP_OK) status = bp_stream_create(device, &offer->stream);
    if (status) return ort_failure(status);
    if (bridge_memory_is_host(offer->memory)) return NULL;
    return ort.memory_info_create(offer->name, ORT_MEMORY_GPU, ORT_VENDOR, (int32_t)number,
                                  ORT_MEMORY_DEFAULT, 0, ORT_ALLOCATOR_DEVICE, &offer->info);
}

/* Tests whether BP_ORT_DEVICES, a list of names and globs that ',' separates, admits a device. */
static bool factory_admits(const char *name)
{
    const char *at = secure_getenv("BP_ORT_DEVICES");
    char pattern[64];

    if (!at) return true;
    for (size_t n; *at; at += n + (at[n] == ',')) {
        n = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)n, at);
        if (!fnmatch(pattern, name, 0)) return true;
    }
    return false;
}

/* Adds a device; one that cannot be opened is left out, and the log says why. */
static struct ort_status *factory_add(struct ort_factory *f, uint32_t plugin, uint32_t index)
{
    struct ort_offer *offer = &f->offer[f->n_offer];
    struct bp_device *device;
    struct ort_status *status;

    if (bp_device_create_at(f->core, plugin, index, &device)) {
        ort_log(f->logger, ORT_WARNING, "Backplane: %s", bp_error_message());
        return NULL;
    }
    status = offer_init(offer, device, f->n_offer);
    if (!status) f->n_offer++;
    else {
        ort_log(f->logger, ORT_WARNING, "Backplane: %s: %s", offer->name, ort.status_text(status));
        ort_forget(status);
        offer_finish(offer);
    }
    return NULL;
}

/* Opens all devices once. Of several plugins for a kind, the core's choice is that of the highest
 * priority, and only its devices are offered. */
static struct ort_status *factory_open(struct ort_factory *f)
{
    for (uint32_t p = 0; p < bp_core_plugins(f->core) && !f->is_open; p++) {
        struct bp_plugin_info info = {.size = sizeof info};
        if (bp_core_load(f->core, p)) {
            ort_log(f->logger, ORT_INFO, "Backplane: %s", bp_error_message());
            continue;
        }
        if (bp_core_plugin(f->core, p, &info)) continue;
        for (uint32_t d = 0; d < info.devices; d++) {
            char name[96];
            snprintf(name, sizeof name, "%s:%u", info.kind, d);
            if (!factory_admits(name)) continue;
            if (f->n_offer == ORT_DEVICES) {
                ort_log(f->logger, ORT_WARNING, "Backplane: ONNX Runtime takes %d devices of a "
                        "provider; %s:%u is left out", ORT_DEVICES, info.kind, d);
                continue;
            }
            TRY(factory_add(f, p, d));
        }
    }
    f->is_open = true;
    return NULL;
}

/* Finds the hardware behind a device: the GPU of its vendor that has its number, in ONNX Runtime's
 * order, or else the processor. */
static const struct ort_hardware *hardware_of(const struct ort_offer *offer,
                                              const struct ort_hardware *const *hardware, size_t n)
{
    uint32_t vendor = offer->properties.dlpack_type == 2    ? 0x10DE
                      : offer->properties.dlpack_type == 10 ? 0x1002
                                                            : 0;

    const char *colon = strchr(offer->name, ':');
    unsigned long number = colon ? strtoul(colon + 1, NULL, 10) : 0;

    for (size_t i = 0; i < n && vendor; i++)
        if (ort.hardware_kind(hardware[i]) == ORT_HARDWARE_GPU &&
            ort.hardware_vendor(hardware[i]) == vendor && !number--)
            return hardware[i];
    for (size_t i = 0; i < n; i++)
        if (ort.hardware_kind(hardware[i]) == ORT_HARDWARE_CPU) return hardware[i];
    return NULL;
}

static struct ort_status *factory_devices(struct ort_ep_factory *self,
                                          const struct ort_hardware *const *hardware, size_t n,
                                          struct ort_ep_device **out, size_t room, size_t *out_n)
{
    struct ort_factory *f = (struct ort_factory *)self;
    struct ort_status *status = NULL;
    size_t done = 0;

    *out_n = 0;
    TRY(factory_open(f));
    for (uint32_t i = 0; i < f->n_offer && done < room && !status; i++) {
        const struct ort_hardware *of = hardware_of(&f->offer[i], hardware, n);
        struct ort_pairs *facts = NULL;
        if (!of) continue;
        ort.pairs_create(&facts);
        ort.pairs_add(facts, ORT_DEVICE_KEY, f->offer[i].name);
        ort.pairs_add(facts, "backplane_hardware", f->offer[i].properties.name);
        status = ort.ep_device_create(self, of, facts, NULL, &out[done]);
        ort.pairs_release(facts);
        if (status) break;
        f->offer[i].hardware = of;
        done++;
        if (f->offer[i].info) status = ort.ep_device_add_memory(out[done - 1], f->offer[i].info);
    }
    if (!status) *out_n = done;
    for (size_t i = 0; i < done && status; i++) ort.ep_device_release(out[i]);
    return status;
}

/* --- the library --- */

/* A libbackplane that is in the process already serves the provider too, whichever package has
 * loaded it: its version has to be the one that the provider was built for. */
static struct ort_status *version_check(void)
{
    Dl_info place = {0};

    if (!strcmp(bp_version(), BP_VERSION)) return NULL;
    dladdr((void *)(uintptr_t)bp_version, &place);
    return ort_error(ORT_FAIL, "Backplane: the provider needs libbackplane %s, but this process "
                     "has %s of %s; use one version in one process", BP_VERSION, bp_version(),
                     place.dli_fname ? place.dli_fname : "?");
}

static struct ort_status *factory_init(struct ort_factory *f, const struct ort_base *base,
                                       const struct ort_logger *logger)
{
    uint32_t peer = ort_calls_init(base);
    enum bp_status status;

    if (!peer) {
        fprintf(stderr, "Backplane: ONNX Runtime %s is not supported, 1.%d is the first version\n",
                base->version(), ORT_SINCE);
        return NULL;
    }
    TRY(version_check());
    *f = (struct ort_factory){.logger = logger, .peer = peer};
    f->base = (struct ort_ep_factory){.version = ORT_SINCE,
                                      .name = factory_name,
                                      .vendor = factory_vendor,
                                      .devices = factory_devices,
                                      .create = ort_provider_create,
                                      .release = ort_provider_release,
                                      .vendor_id = factory_vendor_id,
                                      .version_text = factory_version,
                                      .allocator = ort_allocator_create,
                                      .release_allocator = ort_allocator_release,
                                      .transfer = ort_transfer_get,
                                      .is_stream_aware = factory_is_stream_aware,
                                      .stream = ort_stream_create};
    if (peer > ORT_KNOWN)
        ort_log(logger, ORT_WARNING, "Backplane: ONNX Runtime 1.%u is newer than 1.%d, the newest "
                "that was tested; the parts that 1.%d has are used", peer, ORT_KNOWN, ORT_SINCE);
    status = bp_core_create(NULL, &f->core);
    return status ? ort_failure(status) : NULL;
}

struct ort_status *CreateEpFactories(const char *name, const struct ort_base *base,
                                     const struct ort_logger *logger, struct ort_ep_factory **out,
                                     size_t room, size_t *out_n)
{
    struct ort_status *status = NULL;

    (void)name;
    *out_n = 0;
    pthread_mutex_lock(&factory_lock);
    if (factory_is_released)
        status = ort_error(ORT_FAIL, "Backplane: the library was unregistered, but a session, a "
                           "value or a stream still uses it: release that first");
    else if (factory_is_used)
        status = ort_error(ORT_FAIL, "Backplane: the library is registered already");
    else if (room) status = factory_init(&ort_factory, base, logger);
    if (!status && room && ort_factory.core) {
        factory_is_used = true;
        out[0] = &ort_factory.base;
        *out_n = 1;
        if (room > 1 && (out[1] = ort_policy_factory(&ort_factory.base))) *out_n = 2;
    }
    pthread_mutex_unlock(&factory_lock);
    return status;
}

/* Frees the devices once the library is unregistered and nothing uses them any more. */
static void factory_finish(struct ort_factory *f)
{
    if (!factory_is_released || factory_users) return;
    for (uint32_t i = 0; i < f->n_offer; i++) offer_finish(&f->offer[i]);
    f->n_offer = 0;
    bp_core_destroy(f->core);
    f->core = NULL;
    factory_is_used = factory_is_released = false;
}

void ort_factory_use(void)
{
    pthread_mutex_lock(&factory_lock);
    factory_users++;
    pthread_mutex_unlock(&factory_lock);
}

void ort_factory_unuse(void)
{
    pthread_mutex_lock(&factory_lock);
    factory_users--;
    factory_finish(&ort_factory);
    pthread_mutex_unlock(&factory_lock);
}

struct ort_status *ReleaseEpFactory(struct ort_ep_factory *self)
{
    if (self != &ort_factory.base) return NULL; /* that for policies has nothing of its own */
    pthread_mutex_lock(&factory_lock);
    factory_is_released = true;
    factory_finish((struct ort_factory *)self);
    pthread_mutex_unlock(&factory_lock);
    return NULL;
}
