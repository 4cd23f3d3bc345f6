/* SPDX-License-Identifier: Apache-2.0 */
/* faulty.c: a device that works behind the host's back and fails when it is told to: for the tests
 * of what the core does with streams, events, plans, workspaces, pending memory and failures.
 * Memory is the host's; work is done at once, but counts as pending until somebody waits.
 *
 * It holds one MiB, and dies if memory or a plan is given back while work is pending, or if at its
 * end something was not. A copy in of 13 bytes makes the next wait fail, one of 17 bytes fails
 * silently itself; a copy within of 19 bytes takes its time before it takes the work. 704 bytes of
 * memory (what the core asks for when it wants 257 to 512 aligned to 256) are nowhere, 960 are not
 * aligned. Of the rows for add, "faulty_add" wants a plan and a
 * workspace, "_never" refuses in prepare, "_crooked" and "_vast" want workspaces that cannot be.
 * There are 73 rows for cast, of which the last is the best. */
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef FAULTY_KIND
#define FAULTY_KIND "faulty"
#endif
#ifndef FAULTY_NAME
#define FAULTY_NAME FAULTY_KIND
#endif
#ifndef FAULTY_DEVICES
#define FAULTY_DEVICES 1
#endif

enum { BUDGET = 1 << 20 };

struct faulty {
    const struct bp_host *host;
    uint64_t used; /* bytes */
    int pending, doomed, streams, plans;
};

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = FAULTY_DEVICES;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self;
    (void)device;
    strcpy(out->name, "a device that fails when told to");
    out->memory = BUDGET;
    out->dtypes = BP_MASK_ANY;
    out->alignment = 64;
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    struct faulty *f = self;
    void *data;

    (void)device;
    (void)space;
    if (f->used + size > BUDGET)
        return bp_fail(f->host, BP_ERR_MEMORY, "%llu bytes are too many", (unsigned long long)size);
    if (size == 704) {
        *out = (struct bp_memory){NULL, NULL};
        return BP_OK;
    }
    if (size == 960) {
        static char crooked[961];
        *out = (struct bp_memory){crooked, crooked + 1};
        return BP_OK;
    }
    if (posix_memalign(&data, 64, size + 64)) return BP_ERR_MEMORY;
    *(uint64_t *)data = size;
    f->used += size;
    *out = (struct bp_memory){data, (char *)data + 64};
    return BP_OK;
}

/* The rule that the core must keep: no work that uses the memory is pending. */
static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    struct faulty *f = self;

    (void)device;
    (void)space;
    if (f->pending) abort();
    f->used -= *(uint64_t *)memory->handle;
    free(memory->handle);
}

static enum bp_status copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct faulty *f = self;

    (void)device;
    (void)stream;
    if (copy->size == 17) return BP_ERR_DEVICE; /* and gives no reason */
    memcpy(copy->dst, copy->src, copy->size);
    f->pending = 1;
    if (copy->size == 13) f->doomed = 1;
    return BP_OK;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    struct faulty *f = self;

    (void)device;
    (void)stream;
    f->pending = 0;
    if (!f->doomed) return BP_OK;
    f->doomed = 0;
    return bp_fail(f->host, BP_ERR_DEVICE, "the copy of 13 bytes was unlucky");
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    enum bp_status status = synchronize(self, device, stream);

    if (status == BP_OK) memcpy(copy->dst, copy->src, copy->size);
    return status;
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy)
{
    (void)device;
    (void)stream;
    if (copy->size == 19) usleep(100000);
    memcpy(copy->dst, copy->src, copy->size);
    ((struct faulty *)self)->pending = 1;
    return BP_OK;
}

#ifdef FAULTY_STREAMS
static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    struct faulty *f = self;

    (void)device;
    if (f->streams == 4) return bp_fail(f->host, BP_ERR_DEVICE, "4 streams are all there are");
    f->streams++;
    *out_stream = self;
    return BP_OK;
}

static void stream_destroy(void *self, uint32_t device, void *stream)
{
    (void)device;
    (void)stream;
    ((struct faulty *)self)->streams--;
}
#endif

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .synchronize = synchronize,
#ifdef FAULTY_STREAMS
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
#endif
};

/* The plan is a word that the launch must find. */
static enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct faulty *f = self;
    int *plan = malloc(sizeof *plan);

    (void)prep;
    if (!plan) return bp_fail(f->host, BP_ERR_MEMORY, "no memory for a plan");
    *plan = 77;
    f->plans++;
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, 256);
    BP_SET(out, workspace_alignment, 4096);
    return BP_OK;
}

/* Workspaces that no core can give: the plan that comes with them must go back. */
static enum bp_status prepare_crooked(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    enum bp_status status = prepare(self, prep, out);

    BP_SET(out, workspace_alignment, 48);
    return status;
}

static enum bp_status prepare_vast(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    enum bp_status status = prepare(self, prep, out);

    BP_SET(out, workspace, (UINT64_C(1) << 63) + 64);
    return status;
}

static enum bp_status cast(const struct bp_launch *launch)
{
    (void)launch;
    return BP_OK;
}

static enum bp_status prepare_never(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    (void)prep;
    (void)out;
    return BP_ERR_UNSUPPORTED;
}

static void plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    (void)kernel;
    if (((struct faulty *)self)->pending) abort();
    ((struct faulty *)self)->plans--;
    free(plan);
}

static enum bp_status add(const struct bp_launch *launch)
{
    struct faulty *f = launch->self;
    const float *x = launch->in[0]->data, *y = launch->in[1]->data;
    float *z = launch->out[0]->data;

    if (*(int *)launch->plan != 77 || launch->workspace_size != 256 || !launch->workspace ||
        (uintptr_t)launch->workspace % 4096)
        return BP_ERR_INTERNAL;
    memset(launch->workspace, 0xee, launch->workspace_size);
    for (int64_t i = 0; i < launch->out[0]->count; i++) z[i] = x[i] + y[i];
    f->pending = 1;
    return BP_OK;
}

#define ADD(suffix, rank, how) \
    {BP_OPROW(add), .name = "faulty_add" suffix, .types = {BP_M(F32)}, .priority = rank, \
     .launch = add, .prepare = how, .plan_destroy = plan_destroy}
#define CAST(number, rank) \
    {BP_OPROW(cast), .name = "faulty_cast_" #number, .types = {BP_M(F32), BP_M(F32)}, \
     .priority = rank, .launch = cast}
#define CASTS(ten) \
    CAST(ten##0, 0), CAST(ten##1, 0), CAST(ten##2, 0), CAST(ten##3, 0), CAST(ten##4, 0), \
        CAST(ten##5, 0), CAST(ten##6, 0), CAST(ten##7, 0), CAST(ten##8, 0)
static const struct bp_kernel rows[] = {
    ADD("_never", 10, prepare_never), ADD("", 0, prepare), ADD("_crooked", -1, prepare_crooked),
    ADD("_vast", -1, prepare_vast), CASTS(1), CASTS(2), CASTS(3), CASTS(4), CASTS(5), CASTS(6),
    CASTS(7), CASTS(8), CAST(best, 100),
};
#undef ADD
#undef CAST
#undef CASTS
static const struct bp_kernels kernels = {
    .size = sizeof kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    struct faulty *f = calloc(1, sizeof *f);

    if (!f) return bp_fail(host, BP_ERR_MEMORY, "no memory");
    f->host = host;
    *out_self = f;
    return BP_OK;
}

/* All that was made with it has been destroyed. */
static void destroy(void *self)
{
    struct faulty *f = self;

    if (f->used || f->plans || f->streams) abort();
    free(f);
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = FAULTY_NAME,
    .version = "1",
    .kind = FAULTY_KIND,
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
