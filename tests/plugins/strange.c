/* SPDX-License-Identifier: Apache-2.0 */
/* strange.c: a device over host memory, with streams and events, and an operator of its own, of
 * which one callback, number strange_one of the list in strange.h, answers 4711; with a reason, if
 * strange_reason is set. */
#include "strange.h"
#include "plain_memory.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>

__attribute__((visibility("default"))) int strange_one = -1, strange_reason;
static const struct bp_host *the_host;

static enum bp_status answer(enum strange_callback callback)
{
    if ((int)callback != strange_one) return BP_OK;
    if (strange_reason) return bp_fail(the_host, (enum bp_status)4711, "the moon is full");
    return (enum bp_status)4711;
}

/* Its own answer, then what the callback does. */
#define FIRST(callback) \
    do { \
        enum bp_status strange_ = answer(STRANGE_##callback); \
        if (strange_) return strange_; \
    } while (0)

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self, (void)device;
    FIRST(device_properties);
    strcpy(out->name, "a device that answers strangely");
    out->memory = 64 << 20;
    out->dtypes = BP_MASK_ANY;
    out->alignment = 64;
    return BP_OK;
}

static enum bp_status allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                               struct bp_memory *out)
{
    FIRST(memory_allocate);
    return memory_allocate(self, device, space, size, out);
}

static enum bp_status copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    FIRST(copy_in);
    return copy(self, device, stream, c);
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream, const struct bp_copy *c)
{
    FIRST(copy_out);
    return copy(self, device, stream, c);
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *c)
{
    FIRST(copy_within);
    return copy(self, device, stream, c);
}

static enum bp_status wait_for_all(void *self, uint32_t device, void *stream)
{
    FIRST(synchronize);
    return synchronize(self, device, stream);
}

static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    (void)device;
    FIRST(stream_create);
    *out_stream = self;
    return BP_OK;
}

static void ignore(void *self, uint32_t device, void *what)
{
    (void)self, (void)device, (void)what;
}

static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    (void)device;
    FIRST(event_create);
    *out_event = self;
    return BP_OK;
}

static enum bp_status event_record(void *self, uint32_t device, void *stream, void *event)
{
    (void)self, (void)device, (void)stream, (void)event;
    return answer(STRANGE_event_record);
}

/* Nothing is reached that nobody waits for. */
static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    (void)self, (void)device, (void)event;
    FIRST(event_query);
    return BP_ERR_BUSY;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    (void)self, (void)device, (void)event, (void)timeout_ns;
    return answer(STRANGE_event_wait);
}

static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    (void)self, (void)device, (void)stream, (void)event;
    return answer(STRANGE_stream_wait);
}

static enum bp_status memory_info(void *self, uint32_t device, uint64_t *out_free,
                                  uint64_t *out_total)
{
    (void)self, (void)device;
    FIRST(memory_info);
    *out_free = *out_total = 64 << 20;
    return BP_OK;
}

static enum bp_status memory_export(void *self, uint32_t device, uint32_t space,
                                    const struct bp_memory *memory, int32_t *out_fd,
                                    uint64_t *out_offset)
{
    (void)self, (void)device, (void)space, (void)memory;
    FIRST(memory_export);
    *out_fd = 0;
    *out_offset = 0;
    return BP_OK;
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = allocate,
    .memory_free = memory_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .synchronize = wait_for_all,
    .stream_create = stream_create,
    .stream_destroy = ignore,
    .event_create = event_create,
    .event_destroy = ignore,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait = stream_wait,
    .memory_info = memory_info,
    .memory_export = memory_export,
};

static enum bp_status launch(const struct bp_launch *l)
{
    FIRST(strange_neg);
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = -((const float *)l->in[0]->data)[i];
    return BP_OK;
}

static enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self, (void)prep, (void)out;
    return answer(STRANGE_strange_abs);
}

static enum bp_status accepts(void *self, const struct bp_prep *prep)
{
    (void)self, (void)prep;
    return answer(STRANGE_strange_sqrt);
}

static enum bp_status infer(const struct bp_prep *prep, struct bp_inferred *out, uint32_t n_out)
{
    (void)n_out;
    FIRST(infer);
    out[0].rank = prep->in[0]->rank;
    memcpy(out[0].extent, prep->in[0]->shape, out[0].rank * sizeof *out[0].extent);
    return BP_OK;
}

#define F32 {BP_M(F32), 0, 0, 0}
static const struct bp_kernel rows[] = {
    {BP_OPROW(neg), .name = "strange_neg", .types = F32, .launch = launch},
    {BP_OPROW(abs), .name = "strange_abs", .types = F32, .launch = launch, .prepare = prepare},
    {BP_OPROW(sqrt), .name = "strange_sqrt", .types = F32, .launch = launch, .accepts = accepts},
    {.op = "strange.neg", .name = "strange_own", .types = F32, .in_known = 1, .out_known = 1,
     .launch = launch},
};

static const struct bp_port in[] = {{.name = "x", .kind = BP_PORT_IN, .share = -1, .doc = "x"}},
                            out[] = {{.name = "y", .kind = BP_PORT_OUT, .share = -1, .doc = "-x"}};
static const struct bp_operator operators[] = {
    {.infer = infer,
     .info = {.name = "strange.neg", .doc = "Negation.", .in = in, .out = out, .types = F32,
              .n_in = 1, .n_out = 1}},
};

static const struct bp_kernels kernels = {
    .size = sizeof kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
    .op = operators,
    .op_count = 1,
    .op_stride = sizeof *operators,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    static int self;

    the_host = host;
    *out_self = &self;
    return BP_OK;
}

static void destroy(void *self)
{
    (void)self;
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "strange",
    .version = "1.0",
    .kind = "strange",
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
