/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: defines interface 1 of a plugin: devices, memory, copies, streams and events.
 *
 * Eight callbacks are required; the comment of every other callback states the meaning of NULL,
 * which the core then implements (`bp info` lists these). device is an index below device_count.
 * stream is a pointer that stream_create returned. It is NULL if the plugin has no stream_create,
 * for the device's one stream; otherwise it is NULL only in synchronize, for the whole device.
 *
 * Order: work that is submitted to one stream is done in the order of the calls. With
 * BP_DEVICE_INLINE the work of a call is done when the call returns.
 *
 * Failures: a call itself returns the failures that it finds. Work may fail after its call has
 * returned: a kernel finds a bad index in its inputs (BP_ERR_FAULT), or the driver reports a
 * failure (BP_ERR_DEVICE). This is a failure of the stream. The plugin stores it until one of these
 * calls collects it: event_query or event_wait of an event behind the work, event_record on the
 * stream, synchronize and copy_out of the stream. That call returns the failure, and the plugin
 * then forgets it. From then on the core keeps the failure, adds which launches of which operators
 * may have caused it, and refuses work that is submitted to the stream later. It does no harm to
 * return the failure once more on that stream.
 *
 * BP_OK of these calls means that the work has ended without a failure; the core does not query
 * that work again. An event behind failed work must therefore never return BP_OK first, and an
 * event in front of the failed work must always return it. Other streams have not failed, and
 * neither have streams that wait for the event (stream_wait). copy_in, copy_within, copy_peer,
 * stream_wait and launches do not return failures of earlier work: the core treats any failure that
 * they return as their own, and does not keep it. If a driver reports a failure of earlier work in
 * one of them, the plugin stores it, and one of the calls above returns it. */
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
    BP_DEVICE_GRAPH_ONLY = 8,   /* the plugin has engines (engine.h), and calls outside programs
                                   that no kernel runs are compiled by them, each as a graph of one
                                   node. Set on all devices of a plugin or on none */
};

/* The order of the elements of images (tensors of axes N, C and spatial ones) with which the
 * kernels of a device compute fastest. The compiler lays the images of a program out so, as far as
 * inputs, outputs and operators allow it. */
enum bp_image_order {
    BP_IMAGES_UNKNOWN = 0,      /* the core decides by the device's rows */
    BP_IMAGES_ROW_MAJOR = 1,    /* N, C, spatial axes: the last one innermost */
    BP_IMAGES_CHANNELS_LAST = 2 /* C innermost; has an effect on convolutions whose rows have
                                   BP_KERNEL_STRIDED */
};

/* The properties of a device. The core has set size, which the plugin must not change, and zeroed
 * the rest; alignment 0 means 256. */
struct bp_device_properties { /* output struct */
    size_t size;
    char name[64];       /* as the driver names the device: "NVIDIA H200" */
    char driver[64];     /* driver and its version, for reports */
    uint64_t memory;     /* bytes of BP_SPACE_DEVICE; 0: unknown */
    uint64_t dtypes;     /* mask of the dtypes that its memory and copies can hold: those whose
                            bytes can be stored, whether or not a kernel computes with them. A
                            tensor of any other dtype cannot be created on the device */
    uint64_t alignment;  /* alignment of every allocation, in bytes, a power of two */
    uint64_t max_alloc;  /* largest size of one allocation in bytes; 0: limited by memory only */
    uint32_t units;      /* cores, multiprocessors, compute units; 0: unknown */
    uint32_t flags;      /* enum bp_device_flags */
    uint32_t dlpack_type; /* DLDeviceType of BP_SPACE_DEVICE, if the addresses in bp_memory.data are
                             those that DLPack uses: 1 host memory, 2 CUDA, ...; 0: none */
    uint8_t uuid[16];    /* the vendor's number of the hardware: devices of two plugins that have
                            the same number are the same hardware. Zeros: unknown */
    char pci[32];        /* its address on the PCI bus, "0000:65:00.0": domain, bus, device and
                            function, in lower case; "": unknown, or not on a PCI bus */
    char arch[64];       /* its architecture, by the name that compilers use for it: "sm_90",
                            "gfx90a:sramecc+:xnack-"; "": unknown */
    uint32_t images;     /* enum bp_image_order; the core takes numbers that it does not know as
                            0 */
};

/* An allocation: the plugin's handle, and the address by which kernels and copies name its first
 * byte (0 on BP_DEVICE_HANDLES). One of the two may be NULL if the other is not. host: the host's
 * address of the first byte if data is none, that is, for BP_SPACE_PINNED and BP_SPACE_MANAGED on
 * BP_DEVICE_HANDLES. */
struct bp_memory { /* hot */
    void *handle;
    void *data;
    void *host;
};

/* One copy of size > 0 bytes. On the device side dst_memory or src_memory is the handle of the
 * allocation, and dst or src the address of the first byte (on BP_DEVICE_HANDLES: its offset in the
 * allocation); on the host side the handle is NULL. Ranges lie inside their allocations and do not
 * overlap. */
struct bp_copy { /* hot */
    void *dst_memory, *dst;
    void *src_memory;
    const void *src;
    uint64_t size;
};

struct bp_runtime { /* table */
    size_t size;

    /* The required callbacks. */

    /* Returns the number of devices at this moment. 0 is no error: the plugin is then absent on
     * this machine. */
    enum bp_status (*device_count)(void *self, uint32_t *out_count);

    enum bp_status (*device_properties)(void *self, uint32_t device,
                                        struct bp_device_properties *out);

    /* Allocates size > 0 bytes in space (enum bp_space), aligned as the properties state. The
     * contents are undefined. BP_ERR_UNSUPPORTED: the device has no memory of that space.
     * BP_ERR_MEMORY: no memory is left; the message states how much was requested. In
     * BP_SPACE_PINNED and BP_SPACE_MANAGED data is also the host's address of the first byte; on
     * BP_DEVICE_HANDLES that address is host, aligned in the same way. Work that is submitted later
     * sees the host's writes to this memory, and the host sees the writes of work that has
     * ended. */
    enum bp_status (*memory_allocate)(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out);

    /* Frees an allocation. No unfinished work uses it. */
    void (*memory_free)(void *self, uint32_t device, uint32_t space,
                        const struct bp_memory *memory);

    /* Copies from the host to the device: src has been read when the call returns. The call does
     * not report failures of earlier work. */
    enum bp_status (*copy_in)(void *self, uint32_t device, void *stream,
                              const struct bp_copy *copy);

    /* Copies from the device to the host, after all work on stream: dst is written when the call
     * returns. The call returns a failure of that work, if no earlier call has returned it: the
     * data in dst may never have been computed. */
    enum bp_status (*copy_out)(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy);

    /* Copies within the device, in stream order; may return before the copy is done. */
    enum bp_status (*copy_within)(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy);

    /* Waits until all work on stream is done. Returns a failure of that work, once. stream NULL, if
     * the plugin has stream_create: waits for all work of the device. The core has then already
     * waited for each stream that has work, so that their failures are known: a failure that this
     * call returns is a failure of the device, and so of all its streams. */
    enum bp_status (*synchronize)(void *self, uint32_t device, void *stream);

    /* The optional callbacks. */

    /* Makes an ordered queue of work. NULL: the device has only the stream NULL. */
    enum bp_status (*stream_create)(void *self, uint32_t device, void **out_stream);
    /* Destroys a stream. Its work is done; events and waits that are still in it count as
     * reached. */
    void (*stream_destroy)(void *self, uint32_t device, void *stream);

    /* Events: positions in a stream. Either all five callbacks are NULL or none is. All NULL: the
     * core calls synchronize when an event is needed, and on a BP_DEVICE_INLINE device an event is
     * complete as soon as it is recorded. */
    enum bp_status (*event_create)(void *self, uint32_t device, void **out_event);
    /* Destroys an event. The work before the event has ended, or never will. A stream may still
     * reach a wait for the event later, for example a stream of another device that has work before
     * that wait: for that stream the event counts as reached. */
    void (*event_destroy)(void *self, uint32_t device, void *event);
    /* Moves the event to the end of all work that is now on stream; its earlier position is
     * forgotten. The call may return a failure of that work. */
    enum bp_status (*event_record)(void *self, uint32_t device, void *stream, void *event);
    /* BP_OK: the event is reached, and the work before it has ended without a failure.
     * BP_ERR_NOT_READY: not yet (write no message). Any other status: the failure of work before
     * the event, as described above. */
    enum bp_status (*event_query)(void *self, uint32_t device, void *event);
    /* Like event_query, after a wait on the host of at most timeout_ns. BP_ERR_TIMEOUT: the event
     * was not reached by then. */
    enum bp_status (*event_wait)(void *self, uint32_t device, void *event, uint64_t timeout_ns);

    /* Later work on stream waits for the event, which may be of any device of this instance. The
     * later work runs even if the work before the event has failed. BP_ERR_UNSUPPORTED, without a
     * message: these two devices cannot wait for each other. In that case, and if the callback is
     * NULL, the host waits. */
    enum bp_status (*stream_wait)(void *self, uint32_t device, void *stream, void *event);

    /* Returns the free bytes and all bytes, as the driver sees them now. NULL: the core counts its
     * own memory. */
    enum bp_status (*memory_info)(void *self, uint32_t device, uint64_t *out_free,
                                  uint64_t *out_total);

    /* Returns how other processes can map an allocation: it begins out_offset bytes into the file
     * out_fd, which the plugin keeps owning. BP_ERR_UNSUPPORTED: this allocation cannot be mapped.
     * NULL: no allocation can. */
    enum bp_status (*memory_export)(void *self, uint32_t device, uint32_t space,
                                    const struct bp_memory *memory, int32_t *out_fd,
                                    uint64_t *out_offset);

    /* Copies from the device to another one of this instance, `to`, both sides in BP_SPACE_DEVICE,
     * in the order of stream, which belongs to device; may return before the copy is done.
     * BP_ERR_UNSUPPORTED, without a message: these two devices cannot copy to each other. In that
     * case, if the callback is NULL, or if the plugin has no streams that wait for each other's
     * events, the core copies through host memory. */
    enum bp_status (*copy_peer)(void *self, uint32_t device, void *stream, uint32_t to,
                                const struct bp_copy *copy);

    /* Frees the physical memory of size > 0 bytes, offset bytes into an allocation, as far as it
     * can be freed alone (whole pages). The addresses stay valid, and later writes get memory
     * again; until then the contents of these bytes are undefined. No unfinished work uses the
     * bytes. BP_ERR_UNSUPPORTED, without a message: this allocation keeps its memory. NULL: all
     * allocations do. */
    enum bp_status (*memory_discard)(void *self, uint32_t device, uint32_t space,
                                     const struct bp_memory *memory, uint64_t offset,
                                     uint64_t size);
};

#ifdef __cplusplus
}
#endif

#endif
