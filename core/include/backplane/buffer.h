/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h: allocates device memory without a tensor, for frameworks that have their own tensors;
 * bp_tensor_create_over makes tensors over the memory. bp_device_memory counts this memory,
 * BP_MEM_LIMIT limits it, and bp_device_trim returns the free part of it to the driver. */
#ifndef BP_BUFFER_H
#define BP_BUFFER_H

#include <backplane/api.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_buffer;

/* Allocates size bytes in space (enum bp_space); the contents are undefined. If stream is given,
 * earlier work of that stream may still be using the memory: the caller uses the memory in that
 * stream's order, or after a wait for that stream. If stream is NULL, no work uses the memory any
 * more. PINNED and MANAGED memory is never in use when it is returned, with or without a stream. A
 * buffer of 0 bytes is valid and has no memory.
 *
 * BP_ERR_MEMORY: the message states how many bytes were requested, how many are allocated, waiting
 * to be freed, free and reserved, and which streams hold them. BP_ERR_UNSUPPORTED: the device has
 * no memory of that space. */
BP_API enum bp_status bp_buffer_create(struct bp_device *device, struct bp_stream *stream,
                                       enum bp_space space, uint64_t size,
                                       struct bp_buffer **out_buffer);

/* Makes a buffer of size bytes of memory that the caller owns and that the device accesses by its
 * address, for frameworks that lend memory: host memory on a device whose DLPack type is 1. Nothing
 * is copied. The memory is not counted, and BP_MEM_LIMIT does not limit it. data: a multiple of 8;
 * NULL only if size is 0. The range may contain addresses without memory, as long as no tensor that
 * is used lies there: a buffer over all host memory serves tensors at every address
 * (bp_tensor_rebind). release: NULL, or a function that the library calls once with ctx, as it
 * calls a deleter of DLPack (dlpack.h), when neither the handle nor a tensor over the buffer is
 * left and the work that uses the memory has ended. If this call fails, release is not called.
 *
 * BP_ERR_INVALID: data is no multiple of 8, or the range reaches past the end of all memory.
 * BP_ERR_UNSUPPORTED: the device knows its memory by handles, or its memory has no DLPack type. */
BP_API enum bp_status bp_buffer_create_over(struct bp_device *device, void *data, uint64_t size,
                                            void (*release)(void *ctx), void *ctx,
                                            struct bp_buffer **out_buffer);

/* Destroys the handle; the memory is freed when no tensor over it is left either. The buffer's
 * stream may continue: work that was submitted to the stream before this call may still use the
 * memory. Work on other streams that the core does not know of must have ended. Never waits. */
BP_API void bp_buffer_destroy(struct bp_buffer *buffer);

struct bp_buffer_info { /* output struct: set size before the call */
    size_t size;
    struct bp_device *device; /* no reference is taken */
    void *handle;             /* the plugin's handle of the segment that contains the memory */
    void *data;               /* the first byte as the device addresses it: an address, or, on a
                                 device whose memory has handles (BP_DEVICE_HANDLES), an offset */
    void *host;               /* the first byte as the host addresses it; NULL unless the host may
                                 access it */
    uint64_t bytes;           /* the requested size */
    uint32_t space;           /* enum bp_space */
};
BP_API enum bp_status bp_buffer_get_info(struct bp_buffer *buffer, struct bp_buffer_info *out);

/* Returns how another process can map the memory: the buffer begins *out_offset bytes into the file
 * *out_fd. The file can be mapped (MAP_SHARED; from an offset that is a multiple of the page size),
 * and its descriptor can be sent over a socket. The rest of the file holds memory of other buffers.
 * The plugin owns the descriptor, which stays open as long as the buffer lives: duplicate it with
 * dup to keep it longer. All processes that map the memory see each write immediately.
 *
 * BP_ERR_UNSUPPORTED: other processes cannot map memory of this device, or this block of it. */
BP_API enum bp_status bp_buffer_export(struct bp_buffer *buffer, int32_t *out_fd,
                                       uint64_t *out_offset);

#ifdef __cplusplus
}
#endif

#endif
