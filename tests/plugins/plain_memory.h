/* SPDX-License-Identifier: Apache-2.0 */
/* plain_memory.h: the memory of a device that is the host: what a test's plugin needs and does not
 * test. */
#ifndef PLAIN_MEMORY_H
#define PLAIN_MEMORY_H

#include <backplane/runtime.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = 1;
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    (void)self, (void)device;
    if (space != BP_SPACE_DEVICE) return BP_ERR_UNSUPPORTED;
    out->handle = NULL;
    return posix_memalign(&out->data, 64, size) ? BP_ERR_MEMORY : BP_OK;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *m)
{
    (void)self, (void)device, (void)space;
    free(m->data);
}

static enum bp_status copy(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    (void)self, (void)device, (void)stream;
    memcpy(c->dst, c->src, c->size);
    return BP_OK;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    (void)self, (void)device, (void)stream;
    return BP_OK;
}

#endif
