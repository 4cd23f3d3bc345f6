/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: gives ONNX Runtime streams of devices that have memory of their own, and events as its
 * notifications between streams. */
#include "ort.h"

#include <stdlib.h>

struct stream_impl {
    struct ort_stream_impl base; /* first */
    struct bp_stream *stream;
};

struct stream_event {
    struct ort_notification base; /* first */
    struct bp_stream *stream;
    struct bp_event *event;
};

struct bp_stream *ort_stream_of(const struct ort_sync_stream *stream)
{
    const struct ort_stream_impl *impl = ort.stream_impl(stream);

    return impl ? ((const struct stream_impl *)impl)->stream : NULL;
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

    return stream_status(bp_event_record(e->event, e->stream));
}

static struct ort_status *event_wait_on_device(struct ort_notification *self,
                                               struct ort_sync_stream *consumer)
{
    struct bp_stream *stream = ort_stream_of(consumer);

    if (!stream) return ort_error(ORT_INVALID_ARGUMENT, "Backplane: a stream of another provider");
    return stream_status(bp_stream_wait(stream, ((struct stream_event *)self)->event));
}

static struct ort_status *event_wait_on_host(struct ort_notification *self)
{
    return stream_status(bp_event_wait(((struct stream_event *)self)->event, UINT64_MAX));
}

/* --- streams --- */

static void stream_release(struct ort_stream_impl *self)
{
    bp_stream_destroy(((struct stream_impl *)self)->stream);
    free(self);
}

static void *stream_handle(struct ort_stream_impl *self)
{
    return ((struct stream_impl *)self)->stream;
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
    e->stream = stream;
    *out = &e->base;
    return NULL;
}

static struct ort_status *stream_flush(struct ort_stream_impl *self)
{
    return stream_status(bp_stream_synchronize(((struct stream_impl *)self)->stream));
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
    *out = &impl->base;
    return NULL;
}
