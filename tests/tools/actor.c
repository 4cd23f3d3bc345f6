/* SPDX-License-Identifier: Apache-2.0 */
/* actor.c: a plugin with one device over host memory that misbehaves as BP_ACTOR tells it: for
 * tests of how `bp` bears it. Without BP_ACTOR it is a good plugin. Words, of which BP_ACTOR holds
 * one:
 *
 *   open-crash open-exit open-hang open-babble    in its constructor
 *   get-crash                                     in bp_plugin_get
 *   create-crash create-absent create-fail        in create
 *   count-crash                                   in device_count
 *   destroy-crash exit-crash                      after all went well
 *   print                                         a line on standard output
 *   forge                                         lines and half a line on the report descriptor */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool acts(const char *word)
{
    const char *wanted = getenv("BP_ACTOR");
    return wanted && !strcmp(wanted, word);
}

static void crash_if(const char *word)
{
    if (acts(word)) raise(SIGSEGV);
}

__attribute__((constructor)) static void on_open(void)
{
    crash_if("open-crash");
    if (acts("open-exit")) exit(0);
    while (acts("open-hang")) pause();
    while (acts("open-babble")) puts("babble babble babble babble babble babble babble babble");
    if (acts("print")) puts("the actor was here");
    if (acts("forge")) dprintf(3, "nonsense\n{\"plugin\": 7}\n{\"step\":");
}

__attribute__((destructor)) static void on_exit_of_process(void)
{
    crash_if("exit-crash");
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    crash_if("count-crash");
    *out_count = 1;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    static const char name[] = "Actor \x1b[31mred\x1b[0m";

    (void)self;
    (void)device;
    memcpy(out->name, name, sizeof name);
    BP_SET(out, memory, UINT64_C(3) << 30);
    BP_SET(out, dtypes, BP_M(F32) | BP_M(I8));
    BP_SET(out, alignment, 64);
    BP_SET(out, flags, BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE);
    memcpy(out->uuid, "one piece of it!", sizeof out->uuid);
    strcpy(out->pci, "0000:65:00.0");
    strcpy(out->arch, "wood");
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    (void)self;
    (void)device;
    (void)space;
    out->handle = out->data = aligned_alloc(64, (size + 63) / 64 * 64);
    return out->data ? BP_OK : BP_ERR_MEMORY;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    (void)self;
    (void)device;
    (void)space;
    free(memory->data);
}

static enum bp_status copy(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    (void)self;
    (void)device;
    (void)stream;
    memcpy(c->dst, c->src, c->size);
    return BP_OK;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    (void)self;
    (void)device;
    (void)stream;
    return BP_OK;
}

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    crash_if("create-crash");
    if (acts("create-absent")) return bp_fail(host, BP_ERR_ABSENT, "no stage for the actor");
    if (acts("create-fail")) return bp_fail(host, BP_ERR_DEVICE, "the actor is ill");
    *out_self = (void *)host;
    return BP_OK;
}

static void destroy(void *self)
{
    (void)self;
    crash_if("destroy-crash");
}

static enum bp_status launch(const struct bp_launch *l)
{
    memset(l->out[0]->data, 0, (size_t)l->out[0]->count * 4);
    return BP_OK;
}

static enum bp_status usable(void *self, const struct bp_kernel *kernel)
{
    if (!kernel->priority) return BP_OK;
    return bp_fail(self, BP_ERR_UNSUPPORTED, "the actor has no second costume");
}

static const struct bp_kernel rows[] = {
    {.op = "add",
     .name = "actor_add_f32",
     .types = {BP_M(F32)},
     .in_known = 2,
     .out_known = 1,
     .launch = launch},
    {.op = "add",
     .name = "actor_add_i8",
     .types = {BP_M(I8)},
     .priority = 1,
     .in_known = 2,
     .out_known = 1,
     .launch = launch},
};
static const struct bp_kernels kernels = {
    sizeof kernels, rows, sizeof rows / sizeof *rows, sizeof *rows, usable,
};
static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy,
    .copy_out = copy,
    .copy_within = copy,
    .synchronize = synchronize,
};
static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "actor",
    .version = "1.2.3",
    .kind = "stage",
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    crash_if("get-crash");
    return &plugin;
}
