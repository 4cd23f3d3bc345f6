/* SPDX-License-Identifier: Apache-2.0 */
/* save.c: saves a compiled group by the library's export, and makes it again by its import. The
 * library exports to a file only, so that the file is one in memory. */
#include "engine.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* In front of the library's bytes, which are meant for the same version and device. */
struct head {
    char magic[8];
    char version[48], device[OPENVINO_NAME];
    uint64_t size, hash; /* of the bytes that follow */
    uint32_t width, wide, fast, zero;
};
static const char magic[8] = "bp-ov-2";

/* Finds damage, of which the library would not say that it is damage. */
static uint64_t hash_of(const void *data, uint64_t size)
{
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(14695981039346656037), word;

    for (; size >= sizeof word; size -= sizeof word, byte += sizeof word) {
        memcpy(&word, byte, sizeof word);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    while (size--) hash = (hash ^ *byte++) * UINT64_C(1099511628211);
    return hash;
}

static struct head head_of(const struct openvino *self, const struct ov_engine *e, const void *data,
                           uint64_t size)
{
    struct head head;

    memset(&head, 0, sizeof head); /* the bytes between the members too */
    memcpy(head.magic, magic, sizeof magic);
    snprintf(head.version, sizeof head.version, "%s", self->version);
    snprintf(head.device, sizeof head.device, "%s", self->device[e->device]);
    head.size = size;
    head.hash = hash_of(data, size);
    head.width = e->width;
    head.wide = e->wide;
    head.fast = e->fast;
    return head;
}

static enum bp_status save_file(struct openvino *self, const struct ov_engine *e, int file,
                                void *ctx,
                                enum bp_status (*write)(void *ctx, const void *data, uint64_t size))
{
    struct stat stat;
    char path[64];
    void *data;
    struct head head;
    enum bp_status status;

    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    TRY(OV(self, ov_compiled_model_export_model, e->model, path));
    if (fstat(file, &stat) || stat.st_size <= 0)
        return bp_fail(self->host, BP_ERR_DEVICE, "openvino: the library has exported nothing");
    data = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return bp_fail(self->host, BP_ERR_MEMORY, "openvino: no memory to save a compiled group");
    head = head_of(self, e, data, (uint64_t)stat.st_size);
    status = write(ctx, &head, sizeof head);
    if (!status) status = write(ctx, data, (uint64_t)stat.st_size);
    munmap(data, (size_t)stat.st_size);
    return status;
}

enum bp_status openvino_save(void *p, uint32_t device, void *engine, void *ctx,
                             enum bp_status (*write)(void *ctx, const void *data, uint64_t size))
{
    struct openvino *self = p;
    int file = memfd_create("openvino", MFD_CLOEXEC);
    enum bp_status status;

    (void)device;
    if (file < 0)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "openvino: there are no files in memory");
    status = save_file(self, engine, file, ctx, write);
    close(file);
    return status;
}

/* The library takes the properties of an import from those of the device at that time. */
static enum bp_status import_model(struct openvino *self, struct ov_engine *e, const void *data,
                                   uint64_t size)
{
    const char *property[16], *device = self->device[e->device];
    char threads[16];
    enum bp_status status = BP_OK;

    openvino_properties(self, e, threads, property);
    pthread_mutex_lock(&self->importing);
    for (uint32_t i = 0; property[i] && !status; i += 2)
        status = OV(self, ov_core_set_property, self->core, device, property[i], property[i + 1]);
    if (!status)
        status = OV(self, ov_core_import_model, self->core, data, (size_t)size, device, &e->model);
    pthread_mutex_unlock(&self->importing);
    return status;
}

enum bp_status openvino_load(struct openvino *self, struct ov_engine *e, const void *blob,
                             uint64_t size)
{
    const char *data = (const char *)blob + sizeof(struct head);
    struct head head;

    if (size <= sizeof head) return BP_ERR_STALE;
    head = head_of(self, e, data, size - sizeof head);
    if (memcmp(blob, &head, sizeof head)) return BP_ERR_STALE;
    return import_model(self, e, data, size - sizeof head) ? BP_ERR_STALE : BP_OK;
}
