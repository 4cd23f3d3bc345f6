/* SPDX-License-Identifier: Apache-2.0 */
/* writeback.h: declares how an engine of a plugin keeps values that are newer than the memory of
 * the tensors, and writes them back when something else needs them. */
#ifndef BP_WRITEBACK_H
#define BP_WRITEBACK_H

#include "memory.h"

/* The group of an engine that keeps values. The functions are those of the compiler. */
struct bp_keeper {
    void (*retain)(struct bp_keeper *keeper);
    void (*release)(struct bp_keeper *keeper);

    /* begin waits until no run of the group is being submitted or has not ended, and lets none
     * begin until end. give writes the kept values of a buffer to its memory, and waits; with
     * `forget` the engine only forgets them. */
    enum bp_status (*begin)(struct bp_keeper *keeper);
    enum bp_status (*give)(struct bp_keeper *keeper, struct bp_buffer *buffer, bool forget);
    void (*end)(struct bp_keeper *keeper);
};

/* Makes sure that a keeper can be noted for a buffer. */
enum bp_status bp_writeback_create(struct bp_buffer *buffer);
/* Frees the notes of a buffer without references. */
void bp_writeback_destroy(struct bp_buffer *buffer);

/* Notes a keeper for a buffer, after bp_writeback_create: it keeps values that lie in these bytes
 * of the buffer. */
void bp_writeback_set(struct bp_buffer *buffer, struct bp_keeper *keeper, uint64_t first,
                      uint64_t end);
/* Whether a keeper keeps values of a buffer now. */
bool bp_writeback_is(struct bp_buffer *buffer, const struct bp_keeper *keeper);
/* Whether the memory of a buffer has no current contents now. */
bool bp_writeback_is_pending(struct bp_buffer *buffer);

/* Writes the contents to the memory if an engine keeps them, and waits. A failure to write them is
 * returned by this and all later calls, until the contents are written anew: the contents are
 * lost. After a failure of a wait the engine still keeps them. */
enum bp_status bp_writeback_settle(struct bp_buffer *buffer);

/* To be called before `bytes` bytes at an offset are all written. If all kept values lie there, the
 * engine forgets them, and the caller has to call bp_writeback_end_overwrite (*out_began): the
 * contents are lost if they were not written. Otherwise it is bp_writeback_settle. */
enum bp_status bp_writeback_overwrite(struct bp_buffer *buffer, uint64_t offset, uint64_t bytes,
                                      bool *out_began);
void bp_writeback_end_overwrite(struct bp_buffer *buffer, bool written);

/* Whether an engine keeps contents of any buffer of the device, or has lost some, or programs exist
 * whose engines compare versions: if not, nothing must be done before memory is read or written,
 * and the shortest path of calls may be taken. */
static inline bool bp_device_has_writebacks(const struct bp_device *device)
{
    return __builtin_expect((atomic_load_explicit(&device->n_writebacks, memory_order_relaxed) &
                             ~BP_DEVICE_PROFILED) != 0,
                            0);
}

/* Whether calls must not take the shortest path: bp_device_has_writebacks, or a profiler records.
 * In the second case alone they take the same path, and record themselves. */
static inline bool bp_device_needs_care(const struct bp_device *device)
{
    return __builtin_expect(
        atomic_load_explicit(&device->n_writebacks, memory_order_relaxed) != 0, 0);
}
static inline bool bp_device_is_only_profiled(const struct bp_device *device)
{
    return atomic_load_explicit(&device->n_writebacks, memory_order_relaxed) == BP_DEVICE_PROFILED;
}

/* To be called before the memory of a buffer is read, or a part of it is written. */
static inline enum bp_status bp_buffer_settle(struct bp_buffer *buffer)
{
    return bp_device_has_writebacks(buffer->device) ? bp_writeback_settle(buffer) : BP_OK;
}

/* Notes that the app, or another process, gets an address of the buffer's memory, through which it
 * can read and write the contents unnoticed: from now on engines write values there in each run. */
static inline enum bp_status bp_buffer_expose(struct bp_buffer *buffer)
{
    atomic_store_explicit(&buffer->exposed, true, memory_order_seq_cst);
    return bp_buffer_settle(buffer);
}

#endif
