/* SPDX-License-Identifier: Apache-2.0 */
/* template.c: a plugin for a chip with a C compiler, whose kernels are the portable kernels of
 * Backplane. docs/portable-kernels.md explains it.
 *
 * Here the chip is the host's own processor: its memory is host memory, a call has done its work
 * when it returns, and a kernel runs on the calling thread. Replace each part between "chip" and
 * "end of chip" by calls of your driver. */
#include "template.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- kernels --- */

/* Runs an entry of a kernel: all elements or teams, 0 to p->count - 1. A chip with several cores
 * gives each of them a part. portable_compute runs on the chip; it needs p->family, p->type,
 * p->entry, a copy of the p->args_size bytes of p->args, and the addresses of the operands, which
 * are valid on the chip: see template_reach.
 *
 * If your device works after a call has returned, then launch->fault is NULL: for the operands of
 * the mask p->faults pass a word in the chip's memory, and for those of p->results words that
 * synchronize copies to the given addresses. */
enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    struct template_self *self = launch->self;
    void *operand[PORTABLE_OPERANDS];

    if (p->count <= 0) return BP_OK;
    for (int i = 0; i < p->n_operand; i++)
        operand[i] = template_reach(p->operand[i].memory, p->operand[i].data);
    /* chip */
    if (portable_compute(p->family, p->type, p->entry, p->args, operand, 0, p->count) == 0)
        return BP_OK;
    /* end of chip */
    return bp_fail(self->host, BP_ERR_UNSUPPORTED, "template: %s: %s is not compiled for %s",
                   launch->kernel->name, portable_entry_name(p->family, p->entry),
                   portable_type_name(p->type));
}

/* Whether teams have many lanes that share fast memory: not if kernels are compiled as C. */
int portable_has_blocks(void *self, uint32_t device)
{
    return 0;
}

/* --- devices and memory --- */

static enum bp_status template_device_count(void *self, uint32_t *out_count)
{
    *out_count = 1;
    return BP_OK;
}

static enum bp_status template_device_properties(void *self, uint32_t device,
                                                 struct bp_device_properties *out)
{
    snprintf(out->name, sizeof out->name, "template device %u", device);
    snprintf(out->driver, sizeof out->driver, "none: host memory");
    BP_SET(out, dtypes, BP_MASK_ANY | BP_MASK_F8);
    BP_SET(out, alignment, 64);
    BP_SET(out, memory, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE); /*- handles */
    /*+ handles: BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HANDLES); */
    return BP_OK;
}

static enum bp_status template_memory_allocate(void *instance, uint32_t device, uint32_t space,
                                               uint64_t size, struct bp_memory *out)
{
    struct template_self *self = instance;
    void *data = NULL;

    if (space != BP_SPACE_DEVICE)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "template:%u: no space %u", device, space);
    /* chip */
    if (size > PTRDIFF_MAX || posix_memalign(&data, 64, size))
        return bp_fail(self->host, BP_ERR_MEMORY, "template:%u: no memory for %llu bytes", device,
                       (unsigned long long)size);
    /* end of chip */
    *out = (struct bp_memory){.data = data}; /*- handles */
    /*+ handles: *out = (struct bp_memory){.handle = data}; */
    return BP_OK;
}

static void template_memory_free(void *self, uint32_t device, uint32_t space,
                                 const struct bp_memory *old)
{
    free(old->data); /*- handles */
    /*+ handles: free(old->handle); */
}

/* Here a handle is the address of the first byte, and data the number of bytes from there. Without
 * handles, and for memory of the host, the handle is NULL, and data an address. */
void *template_reach(void *handle, const void *address)
{
    return (void *)((uintptr_t)handle + (uintptr_t)address); /* chip */
}

/* All three copies: into the device, out of it, within it. */
static enum bp_status template_copy(void *self, uint32_t device, void *stream,
                                    const struct bp_copy *copy)
{
    /* chip */
    memcpy(template_reach(copy->dst_memory, copy->dst), template_reach(copy->src_memory, copy->src),
           copy->size);
    /* end of chip */
    return BP_OK;
}

enum bp_status template_synchronize(void *self, uint32_t device, void *stream)
{
    return BP_OK; /* chip: wait until its work is done */
}
/*+ engine:  */
/*+ engine: uint64_t template_submit(struct template_self *self, void (*run)(const void *args), */
/*+ engine:                          const void *args, size_t size) */
/*+ engine: { */
/*+ engine:     run(args); */
/*+ engine:     return 0; */
/*+ engine: } */

/* --- the plugin --- */

static enum bp_status plugin_create(const struct bp_host *host, void **out_self)
{
    struct template_self *self = host->allocate(host->ctx, sizeof *self, _Alignof(max_align_t));

    if (!self) return bp_fail(host, BP_ERR_MEMORY, "template: no memory, %zu bytes", sizeof *self);
    *self = (struct template_self){.host = host}; /* chip: open the driver */
    *out_self = self;
    return BP_OK;
}

static void plugin_destroy(void *instance)
{
    struct template_self *self = instance;

    self->host->release(self->host->ctx, self, sizeof *self);
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = template_device_count, .device_properties = template_device_properties,
    .memory_allocate = template_memory_allocate, .memory_free = template_memory_free,
    .copy_in = template_copy, .copy_out = template_copy, .copy_within = template_copy,
    .synchronize = template_synchronize,
};

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR, .abi_minor = BP_ABI_MINOR, .build = BP_BUILD_FLAGS,
    .name = "template", .version = "0.1.0", .kind = "template", .create = plugin_create,
    .destroy = plugin_destroy, .runtime = &runtime, .kernels = &portable_rows,
    /*+ engine: .engines = &template_engines, */
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
