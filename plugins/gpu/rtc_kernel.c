/* SPDX-License-Identifier: Apache-2.0 */
/* rtc_kernel.c: compiles kernels from printed text, or reads them from the cache on disk, loads
 * them, and keeps them in a list of their device. */
#include "rtc.h"
#include <stdlib.h>
#include <string.h>

enum {
    KERNELS_MAX = 4096, /* of a device; further calls are computed by other rows */
    LIBRARIES = 2
};

/* The kernels of a device, and how each library compiles for the device. */
struct rtc {
    struct rtc_kernel *first;
    int n;
    struct {
        const struct rtc_library *of; /* NULL: options not chosen yet */
        bool usable;
        struct rtc_options options;
    } library[LIBRARIES];
};

/* ---- programs ---- */

/* A program that is being made. */
struct making {
    const struct rtc_library *library;
    struct gpu_device *device;
    const struct rtc_options *options;
    const char *source;
    struct program_key key;
};

/* The key has all that the program depends on: the source, the architecture, the library and the
 * driver, which may refuse or compile again what another one accepts. */
static void key_make(struct making *m)
{
    size_t size = strlen(m->source);
    struct program_key *key = &m->key;
    char driver[24];

    snprintf(driver, sizeof driver, "%d", m->device->gpu->version);
    key->size = (uint32_t)snprintf(
        key->text, sizeof key->text, "%016llx%016llx %s",
        (unsigned long long)portable_hash(PORTABLE_HASH_BEGIN, m->source, size),
        (unsigned long long)portable_hash(~PORTABLE_HASH_BEGIN, m->source, size), m->options->arch);
    program_key_add(key, m->library->vendor->name, strlen(m->library->vendor->name));
    program_key_add(key, m->options->version, strlen(m->options->version));
    program_key_add(key, m->device->arch, strlen(m->device->arch));
    program_key_add(key, driver, strlen(driver));
}

/* Whether the driver refused an image for its content. */
static bool is_refusal(int code)
{
    return code == GPU_INVALID_IMAGE || code == GPU_NO_IMAGE || code == GPU_INVALID_PTX ||
           code == GPU_NEWER_PTX || code == GPU_NO_PTX_COMPILER || code == GPU_PTX_DISABLED;
}

/* Loads the program from the cache. false: it is not in the cache, or the driver no longer accepts
 * it. */
static bool from_cache(const struct making *m, void **out_module)
{
    size_t size;
    unsigned char *code = program_cache_read(&m->key, &size);
    int loaded;

    if (!code) return false;
    loaded = m->device->gpu->call.module_load(out_module, code);
    free(code);
    if (is_refusal(loaded)) program_cache_remove(&m->key);
    return loaded == GPU_SUCCESS;
}

/* Loads code that was just compiled, and keeps it if the driver accepts it. */
static enum bp_status load_new(const struct making *m, const unsigned char *code, size_t size,
                               void **out_module)
{
    struct gpu_device *device = m->device;
    int loaded = device->gpu->call.module_load(out_module, code);

    if (is_refusal(loaded)) {
        bp_log(device->gpu->host, BP_LOG_WARN,
               GPU_NAME ":%u: the driver, %s %d.%d, answers %d to code of %s %s (%s): other rows "
                        "compute fused",
               device->index, gpu_target.driver, device->gpu->version / gpu_target.major,
               device->gpu->version % gpu_target.major / gpu_target.minor, loaded,
               m->library->vendor->name, m->options->version, m->options->arch);
        return BP_ERR_UNSUPPORTED;
    }
    TRY(gpu_check(device->gpu, device, GPU_CALL_module_load, loaded));
    program_cache_write(&m->key, code, size);
    return BP_OK;
}

/* Compiles the program, or waits until another process has compiled it. */
static enum bp_status compile_once(const struct making *m, void **out_module)
{
    int lock = program_cache_begin(&m->key);
    enum bp_status status = BP_OK;
    unsigned char *code = NULL;
    size_t size = 0;

    if (lock < 0 || !from_cache(m, out_module)) {
        status = rtc_compile(m->library, m->device, m->options, m->source, &code, &size);
        if (status == BP_OK) status = load_new(m, code, size, out_module);
        free(code);
    }
    program_cache_end(&m->key, lock);
    return status;
}

/* ---- kernels ---- */

static enum bp_status kernel_load(struct rtc_kernel *k, struct gpu_device *device,
                                  const struct rtc_options *options)
{
    struct making m = {.library = k->library, .device = device, .options = options};
    char *source = rtc_source(k->type, k->text);
    enum bp_status status = BP_OK;

    if (!source)
        return bp_fail(device->gpu->host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a source",
                       device->index);
    m.source = source;
    key_make(&m);
    if (!from_cache(&m, &k->module)) status = compile_once(&m, &k->module);
    free(source);
    if (status) return status;
    status = GPU_CALL(device, module_function, &k->function, k->module, "bp_fused");
    if (status) {
        GPU_NOTE(device, module_unload, k->module);
        k->module = NULL;
    }
    return status;
}

static void kernel_free(struct rtc_kernel *k)
{
    free(k->text);
    free(k);
}

/* Returns the entry of a library, whose options are found at its first use. NULL: unusable. */
static const struct rtc_options *rtc_options_of(struct rtc *rtc, const struct rtc_library *library,
                                                struct gpu_device *device)
{
    int i = 0;

    while (rtc->library[i].of && rtc->library[i].of != library) i++;
    if (!rtc->library[i].of) {
        rtc->library[i].of = library;
        rtc->library[i].usable = rtc_choose(library, device, &rtc->library[i].options) == BP_OK;
    }
    return rtc->library[i].usable ? &rtc->library[i].options : NULL;
}

/* Adds a kernel to the list, also one that cannot be compiled, so that this is tried once. Other
 * failures, as of the device, are the call's. */
static enum bp_status kernel_add(struct rtc *rtc, struct gpu_device *device,
                                 const struct rtc_kernel *wanted, const struct rtc_options *options,
                                 const struct rtc_kernel **out)
{
    struct rtc_kernel *k = malloc(sizeof *k);
    char *text = strdup(wanted->text);
    enum bp_status status;

    if (!k || !text) {
        free(k);
        free(text);
        return bp_fail(device->gpu->host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a kernel",
                       device->index);
    }
    *k = *wanted;
    k->text = text;
    status = kernel_load(k, device, options);
    if (status != BP_OK && status != BP_ERR_UNSUPPORTED) {
        kernel_free(k);
        return status;
    }
    k->next = rtc->first;
    rtc->first = k;
    if (++rtc->n == KERNELS_MAX)
        bp_log(device->gpu->host, BP_LOG_WARN,
               GPU_NAME ":%u: %d kernels of fused are loaded: others compute further code",
               device->index, KERNELS_MAX);
    *out = k;
    return BP_OK;
}

/* Under the lock `compiling`. */
static enum bp_status rtc_find(struct rtc *rtc, struct gpu_device *device,
                               const struct rtc_kernel *wanted, const struct rtc_kernel **out)
{
    const struct rtc_options *options;

    for (*out = rtc->first; *out; *out = (*out)->next)
        if ((*out)->library == wanted->library && (*out)->type == wanted->type &&
            !strcmp((*out)->text, wanted->text))
            return BP_OK;
    options = rtc_options_of(rtc, wanted->library, device);
    if (!options || rtc->n == KERNELS_MAX) return BP_ERR_UNSUPPORTED;
    return kernel_add(rtc, device, wanted, options, out);
}

/* Other threads often need the same kernel, so they wait. */
enum bp_status rtc_get(const struct rtc_library *library, struct gpu_device *device,
                       enum portable_type type, const char *text, const struct rtc_kernel **out)
{
    const struct rtc_kernel wanted = {.library = library, .type = type, .text = (char *)text};
    const struct rtc_kernel *found = NULL;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&device->compiling);
    if (!device->rtc) device->rtc = calloc(1, sizeof *device->rtc);
    if (device->rtc) status = rtc_find(device->rtc, device, &wanted, &found);
    else status = bp_fail(device->gpu->host, BP_ERR_MEMORY, GPU_NAME ": no memory for kernels");
    pthread_mutex_unlock(&device->compiling);
    if (status == BP_OK && !found->function) status = BP_ERR_UNSUPPORTED;
    if (status == BP_OK) *out = found;
    return status;
}

void gpu_rtc_unload(struct gpu_device *device)
{
    struct rtc *rtc = device->rtc;

    while (rtc && rtc->first) {
        struct rtc_kernel *k = rtc->first;
        rtc->first = k->next;
        if (k->module) GPU_NOTE(device, module_unload, k->module);
        kernel_free(k);
    }
    free(rtc);
    device->rtc = NULL;
}
