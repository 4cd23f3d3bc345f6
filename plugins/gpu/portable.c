/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c: loads and launches the portable kernels. A family of kernels compiled for one type is
 * a module, which is loaded when it is first needed; each function is looked up once. */
#include "gpu.h"
#include <string.h>

enum {
    PER_UNIT = 64,  /* at most so many teams for each unit: eight times as many as run at the same
                       time */
    SOME_UNITS = 64, /* units, if their number is unknown */
    ARGS_MAX = 4000 /* maximum size of a launch's parameters in bytes */
};

/* The device accepts one of several images. If it accepts none, the last refusal is the reason. */
static enum bp_status load_module(struct gpu_device *device, enum portable_family family,
                                  enum portable_type type, void **out)
{
    int code = GPU_NO_IMAGE, which = 0;
    const void *image;

    while ((image = gpu_target.image(family, type, which++)) != NULL) {
        code = device->gpu->call.module_load(out, image);
        if (code != GPU_NO_IMAGE && code != GPU_INVALID_IMAGE) break;
    }
    return gpu_check(device->gpu, device, GPU_CALL_module_load, code);
}

/* Under the device's lock `loading`. */
static enum bp_status find_function(struct gpu_device *device, const struct portable *p,
                                    void **out)
{
    void **module = &device->module[p->family][p->type];
    char name[96];

    if (!*module) TRY(load_module(device, p->family, p->type, module));
    snprintf(name, sizeof name, "bp_%s_%s", portable_entry_name(p->family, p->entry),
             portable_type_name(p->type));
    return GPU_CALL(device, module_function, out, *module, name);
}

static enum bp_status function_of(struct gpu_device *device, const struct portable *p, void **out)
{
    int number = portable_entry_number(p->family, p->entry);
    _Atomic(void *) *known = &device->function[number][p->type];
    enum bp_status status = BP_OK;

    *out = atomic_load_explicit(known, memory_order_acquire);
    if (__builtin_expect(*out != NULL, 1)) return BP_OK;
    pthread_mutex_lock(&device->loading);
    status = find_function(device, p, out);
    if (status == BP_OK) atomic_store_explicit(known, *out, memory_order_release);
    pthread_mutex_unlock(&device->loading);
    return status;
}

void gpu_modules_unload(struct gpu_device *device)
{
    for (int family = 0; family < PORTABLE_FAMILIES; family++)
        for (int type = 0; type < PORTABLE_TYPES_COUNT; type++)
            if (device->module[family][type])
                GPU_NOTE(device, module_unload, device->module[family][type]);
}

/* The address that the kernel receives for an operand. Faults, and results for the host, are
 * written to the stream's words instead. */
static enum bp_status portable_operand(const struct bp_launch *launch, const struct portable *p,
                                       int i, void **out)
{
    struct gpu_stream *stream = launch->stream;

    *out = p->operand[i].data;
    if (p->faults >> i & 1)
        *out = &stream->words->fault[kit_fault_take(&stream->kit, launch->kernel->name)];
    if (!(p->results >> i & 1) || !*out) return BP_OK;
    *out = gpu_stream_result(stream, *out);
    if (*out) return BP_OK;
    return bp_fail(stream->device->gpu->host, BP_ERR_BUSY,
                   "%s: more than %d results wait for their stream: wait for it",
                   launch->kernel->name, GPU_RESULTS);
}

/* If there are more elements than lanes, or more team results than teams, each lane or team loops
 * over several. */
unsigned gpu_teams(const struct gpu_device *device, int64_t count, int64_t each)
{
    int64_t most = (int64_t)(device->units ? device->units : SOME_UNITS) * PER_UNIT;
    int64_t n = (count - 1) / each + 1;

    return (unsigned)(n < most ? n : most);
}

/* The elements that a team computes at the same time, or 1 result of a team. */
static int64_t portable_each(const struct portable *p)
{
    if (portable_entry_is_team(p->family, p->entry)) return 1;
    return GPU_LANES * (p->together ? p->together : 1);
}

enum bp_status gpu_launch(struct gpu_device *device, struct gpu_stream *stream, void *function,
                          unsigned teams, void *parameters, size_t size)
{
    return GPU_CALL(device, launch, function, teams, 1, 1, GPU_LANES, 1, 1, 0, stream->raw, NULL,
                    (void *[]){(void *)1, parameters, (void *)2, &size, gpu_target.end});
}

static enum bp_status portable_enqueue(struct gpu_device *device, const struct bp_launch *launch,
                                       const struct portable *p)
{
    struct gpu_stream *stream = launch->stream;
    unsigned char parameters[ARGS_MAX];
    size_t size = p->args_size;
    void *function, *to;

    TRY(function_of(device, p, &function));
    memcpy(parameters, p->args, size); /* args consists of 8-byte fields, so the next parameter is
                                          aligned */
    memcpy(parameters + size, &p->count, sizeof p->count);
    size += sizeof p->count;
    for (int i = 0; i < p->n_operand; i++, size += sizeof to) {
        TRY(portable_operand(launch, p, i, &to));
        memcpy(parameters + size, &to, sizeof to);
    }
    TRY(gpu_launch(device, stream, function, gpu_teams(device, p->count, portable_each(p)),
                   parameters, size));
    if (p->results) gpu_stream_launched(stream);
    return BP_OK;
}

int portable_has_blocks(void *self, uint32_t device)
{
    (void)self;
    (void)device;
    return 1;
}

enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;

    if (p->count <= 0) return BP_OK;
    status = gpu_device_use(launch->self, launch->device, &caller, &device);
    if (status == BP_OK) status = portable_enqueue(device, launch, p);
    if (status && launch->result)
        gpu_stream_forget(launch->stream, launch->result, launch->n_out);
    return status;
}
