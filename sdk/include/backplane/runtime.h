/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: interface 1 of a plugin: devices, memory, copies, streams, events.
 *
 * Eight callbacks are required; each other one says what NULL means, and the core supplies that
 * meaning (`bp info` lists what it supplies). device is an index below device_count. stream is what
 * stream_create returned. It is NULL where there is no stream_create, for the device's one stream,
 * and else in synchronize alone, for the whole device.
 *
 * Order: work given to one stream is done in the order of the calls. With BP_DEVICE_INLINE a call's
 * work is done when the call returns.
 *
 * Failures: what a call finds it answers itself. Work may fail after its call has returned: a
 * kernel has found a bad index in its inputs (BP_ERR_FAULT), or the driver reports a failure
 * (BP_ERR_DEVICE). That is a failure of the stream. The plugin keeps it until one of these calls
 * comes to it, which answers it, and then forgets it: event_query or event_wait of a mark behind
 * the work, event_record on the stream, synchronize and copy_out of the stream. The core keeps it
 * from then on, adds which launches of which operators it may be, and refuses what is given to the
 * stream later. To answer it once more on that stream does no harm.
 *
 * BP_OK of these calls says that the work has ended well; nobody asks again. So a mark behind work
 * that has failed never answers BP_OK first, and one in front of it always does. Other streams have
 * not failed, nor have those that wait for the mark (stream_wait). copy_in, copy_within, copy_peer,
 * stream_wait and launches do not answer failures of earlier work: the core takes what they answer
 * for their own, and does not keep it. A driver that tells of earlier work in such a call is
 * remembered, and one of the calls above answers it. */
#ifndef BP_RUNTIME_H
#define BP_RUNTIME_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

enum bp_device_flags {
    BP_DEVICE_INLINE = 1,       /* work is done when its call returns: no queue, no events needed */
    BP_DEVICE_HOST_VISIBLE = 2, /* the host may read and write BP_SPACE_DEVICE by its address */
    BP_DEVICE_HANDLES = 4,      /* memory is a handle; bp_view.data is a byte offset in it */
};

/* What a device is. The core has set size, which stays as it is, and zeroed the rest; alignment 0
 * means 256. */
struct bp_device_properties { /* answer */
    size_t size;
    char name[64];       /* as the driver says it: "NVIDIA H200" */
    char driver[64];     /* driver and version, for a report */
    uint64_t memory;     /* bytes of BP_SPACE_DEVICE; 0: unknown */
    uint64_t dtypes;     /* mask of dtypes that its memory and copies can hold: those whose bytes
                            can be stored, whether or not a kernel computes with them. No tensor of
                            another dtype can be made */
    uint64_t alignment;  /* of every allocation, in bytes, a power of two */
    uint64_t max_alloc;  /* bytes of one allocation; 0: no limit but memory */
    uint32_t units;      /* cores, multiprocessors, compute units; 0: unknown */
    uint32_t flags;      /* enum bp_device_flags */
    uint32_t dlpack_type; /* DLDeviceType of BP_SPACE_DEVICE, where the addresses in bp_memory.data
                            are what DLPack's are: 1 host memory, 2 CUDA, ...; 0: none */
    uint8_t uuid[16];    /* of the hardware, as its vendor numbers it: devices of two plugins that
                            have the same one are the same hardware. Zeros: unknown */
    char pci[32];        /* where it is on the PCI bus, "0000:65:00.0": domain, bus, device and
                            function, in small letters; "": unknown, or nowhere */
    char arch[64];       /* its architecture, as compilers for it call it: "sm_90",
                            "gfx90a:sramecc+:xnack-"; "": unknown */
};

/* An allocation: the plugin's handle, and the address by which kernels and copies name its first
 * byte (0 on BP_DEVICE_HANDLES). Either may be NULL if the other is not. host: the host's address
 * of it where data is none: of BP_SPACE_PINNED and BP_SPACE_MANAGED on BP_DEVICE_HANDLES. */
struct bp_memory { /* hot */
    void *handle;
    void *data;
    void *host;
};

/* One copy of size > 0 bytes. On the device side memory is the handle of the allocation and data
 * the address of the first byte (on BP_DEVICE_HANDLES: its offset in memory); on the host side
 * memory is NULL. Ranges lie inside their allocations and do not overlap. */
struct bp_copy { /* hot */
    void *dst_memory, *dst;
    void *src_memory;
    const void *src;
    uint64_t size;
};

struct bp_runtime { /* table */
    size_t size;

    /* Required. */

    /* How many devices there are now. 0 is no error: the plugin is absent on this machine. */
    enum bp_status (*device_count)(void *self, uint32_t *out_count);

    enum bp_status (*device_properties)(void *self, uint32_t device,
                                        struct bp_device_properties *out);

    /* size > 0 bytes in space (enum bp_space), aligned as the properties say. Contents are
     * undefined. BP_ERR_UNSUPPORTED: no such space. BP_ERR_MEMORY: none left, say how much was
     * asked. In BP_SPACE_PINNED and BP_SPACE_MANAGED data is also the host's address of the first
     * byte; on BP_DEVICE_HANDLES that is host, aligned in the same way. What the host writes there
     * is seen by work that is given later, and what work has written, when it has ended. */
    enum bp_status (*memory_allocate)(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out);

    /* No work that uses it is pending. */
    void (*memory_free)(void *self, uint32_t device, uint32_t space,
                        const struct bp_memory *memory);

    /* Copies from the host to the device: src has been read when the call returns. Failures of
     * earlier work are not its business. */
    enum bp_status (*copy_in)(void *self, uint32_t device, void *stream,
                              const struct bp_copy *copy);

    /* Copies from the device to the host, after all work on stream: dst is written when the call
     * returns. A failure of that work is returned here, if nobody has been told: what dst holds may
     * never have been computed. */
    enum bp_status (*copy_out)(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy);

    /* Copies within the device, in stream order; may return before it is done. */
    enum bp_status (*copy_within)(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy);

    /* Waits until all work on stream is done. A failure of that work is returned here, once.
     * NULL where there is stream_create: all work of the device. The core has waited for each
     * stream that has work before, so that their failures are known: what is returned then is a
     * failure of the device, and so of all streams. */
    enum bp_status (*synchronize)(void *self, uint32_t device, void *stream);

    /* Optional. */

    /* Makes an ordered queue. NULL: the device has the one stream NULL. */
    enum bp_status (*stream_create)(void *self, uint32_t device, void **out_stream);
    /* Its work is done. What else is in it, marks and waits, counts as reached. */
    void (*stream_destroy)(void *self, uint32_t device, void *stream);

    /* A mark in a stream. All NULL: the core waits with synchronize where an event is asked for,
     * and on a BP_DEVICE_INLINE device an event is complete as soon as it is recorded. All or none.
     */
    enum bp_status (*event_create)(void *self, uint32_t device, void **out_event);
    /* What it marks has ended, or never will. A stream may still come to its wait for it, as a
     * stream of another device that has work before that: to it, the event is reached. */
    void (*event_destroy)(void *self, uint32_t device, void *event);
    /* Marks the end of all work now on stream; an earlier mark of this event is forgotten. A
     * failure of that work may be returned here. */
    enum bp_status (*event_record)(void *self, uint32_t device, void *stream, void *event);
    /* BP_OK: reached, and the work before it has ended well. BP_ERR_NOT_READY: not yet (write no
     * message). Else the failure of work before it, as above. */
    enum bp_status (*event_query)(void *self, uint32_t device, void *event);
    /* The same, after a wait on the host of at most timeout_ns. BP_ERR_TIMEOUT: not reached by
     * then. */
    enum bp_status (*event_wait)(void *self, uint32_t device, void *event, uint64_t timeout_ns);

    /* What comes after on stream waits for the event, of any device of this instance. It runs also
     * where the work before the event has failed.
     * BP_ERR_UNSUPPORTED, without a message: not between these two. Then, and for NULL, the host
     * waits. */
    enum bp_status (*stream_wait)(void *self, uint32_t device, void *stream, void *event);

    /* Bytes free and in all, as the driver sees them now. NULL: the core counts its own. */
    enum bp_status (*memory_info)(void *self, uint32_t device, uint64_t *out_free,
                                  uint64_t *out_total);

    /* Where other processes can map an allocation: it begins out_offset bytes into the file out_fd,
     * which stays the plugin's. BP_ERR_UNSUPPORTED: not this one. NULL: none. */
    enum bp_status (*memory_export)(void *self, uint32_t device, uint32_t space,
                                    const struct bp_memory *memory, int32_t *out_fd,
                                    uint64_t *out_offset);

    /* Copies from the device to another one of this instance, `to`, both sides in BP_SPACE_DEVICE,
     * in the order of stream, which is the device's; may return before it is done.
     * BP_ERR_UNSUPPORTED, without a message: not between these two. Then, and for NULL, and where
     * there are no streams that wait for each other's events, the core copies by way of the
     * host. */
    enum bp_status (*copy_peer)(void *self, uint32_t device, void *stream, uint32_t to,
                                const struct bp_copy *copy);
};

#ifdef __cplusplus
}
#endif

#endif
