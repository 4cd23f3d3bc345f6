/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: lets ONNX Runtime allocate memory of devices that have their own, and copies tensors
 * between it and the host. */
#include "ort.h"

#include <stdlib.h>

struct memory_allocator {
    struct ort_allocator base; /* first */
    struct ort_offer *offer;
};

struct ort_offer *ort_offer_of(const struct ort_memory_device *device)
{
    uint32_t number;

    if (!device || ort.memory_device_type(device) != ORT_MEMORY_GPU ||
        ort.memory_device_vendor(device) != ORT_VENDOR)
        return NULL;
    number = ort.memory_device_number(device);
    return number < ort_factory.n_offer ? &ort_factory.offer[number] : NULL;
}

/* --- allocators --- */

static void *memory_alloc(struct ort_allocator *self, size_t size)
{
    const struct memory_allocator *a = (const struct memory_allocator *)self;
    void *address = NULL;
    enum bp_status status;

    status = bridge_memory_allocate(a->offer->memory, NULL, size, &address);
    if (status && status != BP_ERR_SHUTDOWN) /* the logger may be gone by then */
        ort_log(ort_factory.logger, ORT_ERROR, "Backplane: %s: no memory for %zu bytes: %s",
                a->offer->name, size, bp_error_message());
    return status ? NULL : address;
}

static void memory_free(struct ort_allocator *self, void *memory)
{
    bridge_memory_free(((const struct memory_allocator *)self)->offer->memory, memory);
}

static const struct ort_memory_info *memory_info(const struct ort_allocator *self)
{
    return ((const struct memory_allocator *)self)->offer->info;
}

struct ort_status *ort_allocator_create(struct ort_ep_factory *self,
                                        const struct ort_memory_info *info,
                                        const struct ort_pairs *options,
                                        struct ort_allocator **out)
{
    struct memory_allocator *a;

    (void)self;
    (void)options;
    *out = NULL;
    for (uint32_t i = 0; i < ort_factory.n_offer; i++) {
        struct ort_offer *offer = &ort_factory.offer[i];
        int32_t differs = 1;
        if (!offer->info || !info) continue;
        TRY(ort.memory_info_compare(info, offer->info, &differs));
        if (differs) continue;
        a = calloc(1, sizeof *a);
        if (!a) return ort_no_memory();
        a->base = (struct ort_allocator){.version = ORT_SINCE,
                                         .alloc = memory_alloc,
                                         .free = memory_free,
                                         .info = memory_info,
                                         .reserve = memory_alloc};
        a->offer = offer;
        ort_factory_use();
        *out = &a->base;
        return NULL;
    }
    return NULL; /* host memory: ONNX Runtime's own allocator */
}

void ort_allocator_release(struct ort_ep_factory *self, struct ort_allocator *allocator)
{
    (void)self;
    free(allocator);
    ort_factory_unuse();
}

/* --- copies --- */

static void transfer_release(struct ort_transfer *self)
{
    (void)self; /* a part of the factory */
}

static bool transfer_can_copy(const struct ort_transfer *self, const struct ort_memory_device *src,
                              const struct ort_memory_device *dst)
{
    const struct ort_offer *from = ort_offer_of(src), *to = ort_offer_of(dst);

    (void)self;
    if (from && to) return true;
    return (from && !ort.memory_device_type(dst)) || (to && !ort.memory_device_type(src));
}

/* Makes a tensor of bytes at an address of an offer. */
static enum bp_status transfer_tensor(struct ort_offer *offer, const void *address, size_t bytes,
                                      struct bp_tensor **out)
{
    const struct bp_tensor_options o = {
        .size = sizeof o, .dtype = BP_U8, .rank = 1, .shape = (const int64_t[]){(int64_t)bytes}};
    struct bridge_place place;
    enum bp_status status = bridge_memory_find(offer->memory, address, bytes, &place);

    return status ? status : bp_tensor_create_over(place.buffer, place.offset, &o, out);
}

/* Copies bytes in the order of a stream of one of the two devices. */
static enum bp_status transfer_bytes(struct bp_stream *stream, struct ort_offer *from,
                                     struct ort_offer *to, const void *src, void *dst, size_t bytes)
{
    struct bp_tensor *a = NULL, *b = NULL;
    enum bp_status status = BP_OK;

    if (from) status = transfer_tensor(from, src, bytes, &a);
    if (status == BP_OK && to) status = transfer_tensor(to, dst, bytes, &b);
    if (status == BP_OK)
        status = from && to ? bp_tensor_copy(stream, b, a)
                 : from     ? bp_tensor_read(stream, a, dst, bytes)
                            : bp_tensor_write(stream, b, src, bytes);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    return status;
}

static struct ort_status *transfer_one(const struct ort_value *src, struct ort_value *dst,
                                       struct ort_sync_stream *given)
{
    struct ort_offer *from = ort_offer_of(ort.value_device(src)),
                     *to = ort_offer_of(ort.value_device(dst)), *offer = to ? to : from;
    void *handle = ort_stream_handle(given);
    struct bp_stream *stream = NULL;
    const void *source = NULL;
    void *target = NULL;
    size_t bytes = 0;
    enum bp_status status = handle ? ort_stream_begin(handle, &stream) : BP_OK;
    bool own;

    if (status) return ort_failure(status);
    TRY(ort.value_bytes(src, &bytes));
    TRY(ort.tensor_data(src, &source));
    TRY(ort.tensor_data_mutable(dst, &target));
    if (!bytes) return NULL;
    if (!offer) return ort_error(ORT_INVALID_ARGUMENT, "Backplane: a copy between other devices");
    own = !stream || bp_stream_device(stream) != offer->device;
    if (own) {
        pthread_mutex_lock(&offer->lock);
        stream = offer->stream;
    }
    status = transfer_bytes(stream, from, to, source, target, bytes);
    if (own) {
        if (status == BP_OK) status = bp_stream_synchronize(stream);
        pthread_mutex_unlock(&offer->lock);
    }
    if (status == BP_ERR_NOT_FOUND)
        return ort_error(ORT_INVALID_ARGUMENT, "Backplane: a copy from %p to %p: one of them is no "
                         "memory of %s", source, target, offer->name);
    return ort_stream_end(own ? NULL : handle, status ? ort_failure(status) : NULL);
}

static struct ort_status *transfer_copy(struct ort_transfer *self, const struct ort_value **src,
                                        struct ort_value **dst, struct ort_sync_stream **stream,
                                        size_t n)
{
    (void)self;
    for (size_t i = 0; i < n; i++) TRY(transfer_one(src[i], dst[i], stream ? stream[i] : NULL));
    return NULL;
}

struct ort_status *ort_transfer_get(struct ort_ep_factory *self, struct ort_transfer **out)
{
    struct ort_factory *factory = (struct ort_factory *)self;

    factory->transfer = (struct ort_transfer){ORT_SINCE, transfer_release, transfer_can_copy,
                                              transfer_copy};
    *out = &factory->transfer;
    return NULL;
}
