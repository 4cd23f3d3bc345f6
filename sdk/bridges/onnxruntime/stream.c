/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: gives ONNX Runtime streams of devices that have memory of their own, and events as its
 * notifications between streams. */
#include "ort.h"

#include <stdlib.h>

struct stream_impl {
    struct ort_stream_impl base; /* first */
    struct bp_stream *stream;
    bool has_failed;             /* and ONNX Runtime knows */
};

struct stream_event {
    struct ort_notification base; /* first */
    struct stream_impl *of;
    struct bp_event *event;
};

static void stream_release(struct ort_stream_impl *self)
{
    bp_stream_destroy(((struct stream_impl *)self)->stream);
    free(self);
    ort_factory_unuse();
}

static struct stream_impl *stream_of(const struct ort_sync_stream *stream)
{
    const struct ort_stream_impl *impl = stream ? ort.stream_impl(stream) : NULL;

    return impl && impl->release == stream_release ? (struct stream_impl *)(uintptr_t)impl : NULL;
}

void *ort_stream_handle(const struct ort_sync_stream *stream)
{
    return stream_of(stream);
}

/* A failure of a stream is permanent, but ONNX Runtime uses the stream of a failed run again. It is
 * replaced after ONNX Runtime has got the failure. */
enum bp_status ort_stream_begin(void *handle, struct bp_stream **out)
{
    struct stream_impl *impl = handle;
    struct bp_stream *next;

    if (impl->has_failed) {
        enum bp_status status = bp_stream_create(bp_stream_device(impl->stream), &next);
        if (status) return status;
        bp_stream_destroy(impl->stream);
        impl->stream = next;
        impl->has_failed = false;
    }
    *out = impl->stream;
    return BP_OK;
}

struct ort_status *ort_stream_end(void *handle, struct ort_status *status)
{
    struct stream_impl *impl = handle;

    if (status && impl && bp_stream_check_calls(impl->stream)) impl->has_failed = true;
    return status;
}

static struct ort_status *stream_status(enum bp_status status)
{
    return status ? ort_failure(status) : NULL;
}

/* --- notifications --- */

static void event_release(struct ort_notification *self)
{
    struct stream_event *e = (struct stream_event *)self;

    bp_event_destroy(e->event);
    free(e);
}

static struct ort_status *event_activate(struct ort_notification *self)
{
    struct stream_event *e = (struct stream_event *)self;

    return ort_stream_end(e->of, stream_status(bp_event_record(e->event, e->of->stream)));
}

static struct ort_status *event_wait_on_device(struct ort_notification *self,
                                               struct ort_sync_stream *consumer)
{
    struct bp_event *event = ((struct stream_event *)self)->event;
    struct stream_impl *impl = stream_of(consumer);

    /* The consumer is the processor, or a device of another provider. */
    if (!impl) return stream_status(bp_event_wait(event, UINT64_MAX));
    return ort_stream_end(impl, stream_status(bp_stream_wait(impl->stream, event)));
}

static struct ort_status *event_wait_on_host(struct ort_notification *self)
{
    return stream_status(bp_event_wait(((struct stream_event *)self)->event, UINT64_MAX));
}

/* --- streams --- */

static void *stream_handle(struct ort_stream_impl *self)
{
    return self;
}

static struct ort_status *stream_notification(struct ort_stream_impl *self,
                                              struct ort_notification **out)
{
    struct bp_stream *stream = ((struct stream_impl *)self)->stream;
    struct stream_event *e = calloc(1, sizeof *e);
    enum bp_status status;

    if (!e) return ort_no_memory();
    status = bp_event_create(bp_stream_device(stream), &e->event);
    if (status) {
        free(e);
        return ort_failure(status);
    }
    e->base = (struct ort_notification){ORT_SINCE, event_release, event_activate,
                                        event_wait_on_device, event_wait_on_host};
    e->of = (struct stream_impl *)self;
    *out = &e->base;
    return NULL;
}

static struct ort_status *stream_flush(struct ort_stream_impl *self)
{
    struct stream_impl *impl = (struct stream_impl *)self;

    return ort_stream_end(impl, stream_status(bp_stream_synchronize(impl->stream)));
}

static struct ort_status *stream_run_end(struct ort_stream_impl *self)
{
    (void)self;
    return NULL;
}

struct ort_status *ort_stream_create(struct ort_ep_factory *self,
                                     const struct ort_memory_device *device,
                                     const struct ort_pairs *options, struct ort_stream_impl **out)
{
    struct ort_offer *offer = ort_offer_of(device);
    struct stream_impl *impl;
    enum bp_status status;

    (void)self;
    (void)options;
    *out = NULL;
    if (!offer) return NULL;
    impl = calloc(1, sizeof *impl);
    if (!impl) return ort_no_memory();
    status = bp_stream_create(offer->device, &impl->stream);
    if (status) {
        free(impl);
        return ort_failure(status);
    }
    impl->base = (struct ort_stream_impl){ORT_SINCE, stream_release, stream_handle,
                                          stream_notification, stream_flush, stream_run_end};
    ort_factory_use();
    *out = &impl->base;
    return NULL;
}
