/* SPDX-License-Identifier: Apache-2.0 */
/* source.h: declares the sources of frozen buffers: functions of the app that write contents again,
 * so that the core may free the contents while only packed copies of them are read. */
#ifndef BP_SOURCE_H
#define BP_SOURCE_H

#include "memory.h"

/* The functions of bp_tensor_source. */
struct bp_source_owner {
    enum bp_status (*write)(void *ctx, void *data, uint64_t bytes);
    void (*release)(void *ctx); /* or NULL */
    void *ctx;
};

/* Gives a frozen buffer a source for `bytes` bytes at an offset, which are all that anything reads
 * of it. No other thread uses the buffer. false: the core never frees such contents; the owner is
 * not released. */
bool bp_source_create(struct bp_buffer *buffer, uint64_t offset, uint64_t bytes,
                      const struct bp_source_owner *owner);

/* The functions below are called for buffers that have a source, while the caller keeps the buffer
 * alive. Contents stay in memory while one user may still read them.
 *
 * use adds a user. fill makes sure of the contents, for a user. end_reads: a user does not read the
 * contents again; after the last one they are freed. release removes a user; unread: it has called
 * end_reads. A failure of the owner's function is returned with its message. */
void bp_source_use(struct bp_buffer *buffer);
enum bp_status bp_source_fill(struct bp_buffer *buffer);
void bp_source_end_reads(struct bp_buffer *buffer);
void bp_source_release(struct bp_buffer *buffer, bool unread);

/* Adds a user that is sure of the contents until bp_source_release(buffer, false). */
enum bp_status bp_source_hold(struct bp_buffer *buffer);

/* Makes sure of the contents for ever, and releases the owner. */
enum bp_status bp_source_keep(struct bp_buffer *buffer);

/* As bp_source_fill, for the buffer with this number, if it has a source. A user keeps it. Plugins
 * call it as constant_read of their host. */
enum bp_status bp_source_fill_number(uint64_t id);

/* kept: whether the contents stay in memory for ever; dropped: whether they are freed at the
 * moment; restores: how often they were written again. */
void bp_source_describe(struct bp_buffer *buffer, bool *out_kept, bool *out_dropped,
                        uint32_t *out_restores);

/* bp_source_keep and bp_source_hold for any buffer. */
static inline enum bp_status bp_buffer_keep_contents(struct bp_buffer *buffer)
{
    return __builtin_expect(buffer->source != NULL, 0) ? bp_source_keep(buffer) : BP_OK;
}
static inline enum bp_status bp_buffer_hold_contents(struct bp_buffer *buffer)
{
    return __builtin_expect(buffer->source != NULL, 0) ? bp_source_hold(buffer) : BP_OK;
}
static inline void bp_buffer_end_hold(struct bp_buffer *buffer)
{
    if (__builtin_expect(buffer->source != NULL, 0)) bp_source_release(buffer, false);
}

#endif
