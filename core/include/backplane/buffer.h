/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h: memory of a device without a tensor around it, for frameworks that have tensors of
 * their own. bp_device_memory counts it, BP_MEM_LIMIT bounds it, bp_device_trim gives back what
 * is free. */
#ifndef BP_BUFFER_H
#define BP_BUFFER_H

#include <backplane/api.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_buffer;

/* size bytes in space (enum bp_space), contents undefined. With a stream the memory may have been
 * used by earlier work of that stream: use it in the stream's order, or after a wait for it.
 * NULL: nobody uses it any more. PINNED and MANAGED memory is never in use, stream or not. 0
 * bytes are an allocation without memory.
 *
 * BP_ERR_MEMORY: the message says what was asked, what is allocated, pending, free and reserved,
 * and who has it. BP_ERR_UNSUPPORTED: the device has no such space. */
BP_API enum bp_status bp_buffer_create(struct bp_device *device, struct bp_stream *stream,
                                       enum bp_space space, uint64_t size,
                                       struct bp_buffer **out_storage);

/* The stream goes on: what it was given so far may still use the memory. Work on other streams that
 * the core does not know of must have ended. Never waits. */
BP_API void bp_buffer_destroy(struct bp_buffer *buffer);

struct bp_buffer_info { /* answer: set size before the call */
    size_t size;
    struct bp_device *device; /* no reference is taken */
    void *handle;             /* the plugin's, of the chunk around the memory */
    void *data;               /* first byte, as the device names it: an address, or, where it has
                                 handles, an offset */
    void *host;               /* first byte for the host; NULL unless the host may touch it */
    uint64_t bytes;           /* as asked */
    uint32_t space;
};
BP_API enum bp_status bp_buffer_get_info(struct bp_buffer *buffer, struct bp_buffer_info *out);

/* Where another process finds the memory: *out_offset bytes into the file *out_fd, which can be
 * mapped (MAP_SHARED; from an offset that is a multiple of the page) and sent over a socket. The
 * memory around it belongs to others. The descriptor stays the plugin's, and is open as long as the
 * buffer lives: dup it. What is written is seen by all at once.
 *
 * BP_ERR_UNSUPPORTED: this device, or this piece of memory, cannot be mapped by others. */
BP_API enum bp_status bp_buffer_export(struct bp_buffer *buffer, int32_t *out_fd,
                                       uint64_t *out_offset);

#ifdef __cplusplus
}
#endif

#endif
