/* SPDX-License-Identifier: Apache-2.0 */
/* hostile.c: a tiny sound plugin over host memory, or one of the many ways to be none:
 * PLUGIN_NAME, which is its name and its device kind, says which. Built once for each case: see
 * meson.build. The tests give each to the loader, to `bp doctor` and to `bp list --probe`. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/ccl.h>
#include <backplane/graphs.h>
#include <backplane/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IS(name) (!strcmp(PLUGIN_NAME, "h_" name))
#ifdef HOSTILE_ROGUE
#include "rogue.h"
#else
#define rogue(step) ((void)0)
#endif
#define POISON ((void *)(uintptr_t)8) /* not NULL, and a crash for who uses it */

#ifdef HOSTILE_UNDEFINED_SYMBOL
void bp_hostile_nowhere(void);
#endif
#ifdef HOSTILE_MISSING_DEPENDENCY
void bp_hostile_gone(void); /* in a library that is there at build time only */
#endif
#ifdef HOSTILE_BORROWED_SYMBOL
#define HOSTILE_NO_SYMBOL
void bp_hostile_lent(void); /* in a library that has a bp_plugin_get, too */
#endif

struct device {
    const struct bp_host *host;
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    struct device *self;

    if (IS("create_fails")) {
        bp_log(host, BP_LOG_ERROR, "before I fail I complain at error level, too");
        return bp_fail(host, BP_ERR_DEVICE, "the driver answered -13: permission denied");
    }
    if (IS("create_silent")) return (enum bp_status)77;
    if (IS("create_absent"))
        return bp_fail(host, BP_ERR_ABSENT, "libhostile.so.2: no such library");
    if (IS("create_signal")) abort();
    rogue("create");

    self = host->allocate(host->ctx, sizeof *self, sizeof(void *));
    if (!self) return bp_fail(host, BP_ERR_MEMORY, "no memory for an instance");
    self->host = host;
    *out_self = self;
#ifdef HOSTILE_UNDEFINED_SYMBOL
    bp_hostile_nowhere();
#endif
#ifdef HOSTILE_MISSING_DEPENDENCY
    bp_hostile_gone();
#endif
#ifdef HOSTILE_BORROWED_SYMBOL
    bp_hostile_lent();
#endif
    return BP_OK;
}

static void destroy(void *self)
{
    struct device *device = self;

    rogue("destroy");
    device->host->release(device->host->ctx, device, sizeof *device);
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    rogue("devices");
    if (IS("count_fails")) return BP_ERR_DEVICE;
    *out_count = IS("no_devices") ? 0 : IS("many_devices") ? 4000000000u : 1;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self;
    (void)device;
    rogue("device");
    strcpy(out->name, PLUGIN_NAME);
    out->dtypes = BP_MASK_ANY;
    if (IS("good")) memcpy(out->uuid, "one piece of it!", sizeof out->uuid); /* as tools/actor.c */
    if (IS("good") || IS("wide_rows")) strcpy(out->pci, "0000:65:00.0");
    out->alignment = 64;
    out->flags = BP_DEVICE_INLINE | BP_DEVICE_HOST_VISIBLE;
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    const struct bp_host *host = ((struct device *)self)->host;
    void *memory;

    (void)device;
    if (space != BP_SPACE_DEVICE) return BP_ERR_UNSUPPORTED;
    memory = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!memory)
        return bp_fail(host, BP_ERR_MEMORY, "%llu bytes cannot be had", (unsigned long long)size);
    *out = (struct bp_memory){.handle = memory, .data = memory};
    return BP_OK;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    (void)self;
    (void)device;
    (void)space;
    free(memory->handle);
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

static enum bp_status query(void *self, uint32_t device, void *event)
{
    (void)self;
    (void)device;
    (void)event;
    return BP_OK;
}

/* A row longer than the core knows. */
struct wide_row {
    struct bp_kernel row;
    uint64_t mark, more;
};
enum {
    MARK = 0x6d61726b
};

static enum bp_status launch(const struct bp_launch *l)
{
    const float *a = l->in[0]->data, *b = l->in[1]->data;
    float *out = l->out[0]->data;

    rogue("launch");
    if (IS("wide_rows") && ((const struct wide_row *)l->kernel)->mark != MARK)
        return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < l->out[0]->count; i++) out[i] = a[i] + b[i];
    return BP_OK;
}

/* A row that ends with launch, the last field that it cannot do without. */
struct short_row {
    uint64_t words[offsetof(struct bp_kernel, accepts) / sizeof(uint64_t)];
};

#define ADD .op = "add", .types = {BP_M(F32)}, .launch = launch
static struct bp_kernel rows[] = {
    {ADD, .name = PLUGIN_NAME "_add", .in_known = 2, .out_known = 1},
    {ADD, .name = PLUGIN_NAME "_elsewhere", .in_known = 2, .out_known = 1,
     .flags = BP_KERNEL_STRIDED},
    {ADD, .name = PLUGIN_NAME "_newer", .in_known = 9, .out_known = 1},
    {.op = "op_of_the_future",
     .name = PLUGIN_NAME "_future",
     .types = {BP_M(F32)},
     .launch = launch},
};
enum {
    ROWS = sizeof rows / sizeof *rows
};
static struct wide_row wide_rows[ROWS];
static struct short_row short_rows[ROWS];

/* Rows with BP_KERNEL_STRIDED are for another machine. A row is the plugin's own, all of it. */
static enum bp_status usable(void *self, const struct bp_kernel *kernel)
{
    const struct bp_host *host = ((struct device *)self)->host;

    if (IS("wide_rows") && ((const struct wide_row *)kernel)->mark != MARK)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "this is not my row");
    if (kernel->flags & BP_KERNEL_STRIDED)
        return bp_fail(host, BP_ERR_UNSUPPORTED, "needs a coprocessor of 1989");
    return BP_OK;
}

static struct bp_kernels kernels = {
    .size = sizeof kernels, .first = rows, .count = ROWS, .stride = sizeof *rows, .usable = usable};

/* Tables with something after their end, as a newer plugin has them. */
static struct {
    struct bp_runtime runtime;
    void *more[4];
} runtime = {
    .runtime = {.size = sizeof(struct bp_runtime),
                .device_count = device_count,
                .device_properties = device_properties,
                .memory_allocate = memory_allocate,
                .memory_free = memory_free,
                .copy_in = copy,
                .copy_out = copy,
                .copy_within = copy,
                .synchronize = synchronize},
    .more = {POISON, POISON, POISON, POISON},
};
static struct {
    struct bp_plugin plugin;
    void *more[4];
} table = {
    .plugin = {.size = sizeof(struct bp_plugin),
               .abi_major = BP_ABI_MAJOR,
               .abi_minor = BP_ABI_MINOR,
               .build = BP_BUILD_FLAGS,
               .name = PLUGIN_NAME,
               .version = "0.1.0",
               .kind = PLUGIN_NAME,
               .create = create,
               .destroy = destroy,
               .runtime = &runtime.runtime,
               .kernels = &kernels},
    .more = {POISON, POISON, POISON, POISON},
};

static enum bp_status capture(void *self, uint32_t device, void *stream)
{
    (void)self;
    (void)device;
    (void)stream;
    return BP_ERR_UNSUPPORTED;
}
static enum bp_status capture_end(void *self, uint32_t device, void *stream, void **out)
{
    (void)out;
    return capture(self, device, stream);
}
static enum bp_status replay(void *self, uint32_t device, void *recording, void *stream)
{
    (void)recording;
    return capture(self, device, stream);
}
static void nothing(void *self, uint32_t device, void *what)
{
    capture(self, device, what);
}
static struct bp_graphs graphs = {.size = sizeof graphs};
static const struct bp_graphs whole_graphs = {
    .size = sizeof graphs, .capture_begin = capture, .capture_end = capture_end,
    .capture_abort = nothing, .replay = replay, .recording_destroy = nothing};

static enum bp_status group(void *self)
{
    (void)self;
    return BP_OK;
}
static const struct bp_ccl half_ccl = {.size = sizeof half_ccl, .group_end = group};

/* Collectives that nobody calls. */
static enum bp_status unique_id(void *self, struct bp_ccl_id *out)
{
    (void)self, (void)out;
    return BP_ERR_UNSUPPORTED;
}
static enum bp_status unique_id_long(void *self, void *out)
{
    return unique_id(self, out);
}
static enum bp_status comm_create(void *self, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm)
{
    (void)self, (void)device, (void)id, (void)rank, (void)n_rank, (void)out_comm;
    return BP_ERR_UNSUPPORTED;
}
static void comm_end(void *self, void *comm)
{
    (void)self, (void)comm;
}
static enum bp_status comm_error(void *self, void *comm)
{
    comm_end(self, comm);
    return BP_OK;
}
static enum bp_status collective(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call)
{
    (void)self, (void)comm, (void)stream, (void)call;
    return BP_ERR_UNSUPPORTED;
}
static struct bp_ccl ccl = {
    .size = sizeof ccl, .unique_id = unique_id, .comm_create = comm_create,
    .comm_destroy = comm_end, .comm_abort = comm_end, .comm_error = comm_error,
    .all_reduce = collective, .reduce = collective, .broadcast = collective,
    .all_gather = collective, .reduce_scatter = collective, .send = collective,
    .recv = collective, .group_begin = group, .group_end = group};

/* Bytes of a struct from field on: what a shorter table does not have is no NULL but anything. */
#define SHORTEN(object, field) \
    shorten(&(object), sizeof(object), (size_t)((char *)&(object).field - (char *)&(object)))
static void shorten(void *object, size_t size, size_t at)
{
    memset((char *)object + at, 0x08, size - at);
    memcpy(object, &at, sizeof at);
}

/* Ids of a size of the plugin's own: long enough, or wrong. */
static void set_ids(void)
{
    if (IS("short_ccl")) SHORTEN(ccl, id_size); /* as of ABI 0.2 */
    else if (IS("long_ids")) ccl.id_size = BP_CCL_ID_MAX;
    else if (IS("longer_ids")) ccl.id_size = BP_CCL_ID_MAX + 1;
    else if (IS("half_ids")) ccl.id_size = 136;
    else if (!IS("empty_ids")) return;
    if (IS("long_ids")) ccl.unique_id = NULL; /* which nobody would call */
    if (!IS("short_ccl") && !IS("half_ids")) ccl.unique_id_long = unique_id_long;
    table.plugin.ccl = &ccl;
}

/* In another major all is different but the first two fields. */
static void become_future(void)
{
    memset((char *)&table + sizeof(size_t), 0xff, sizeof table - sizeof(size_t));
    table.plugin.abi_major = BP_ABI_MAJOR + 1;
}

static void widen_rows(void)
{
    for (int i = 0; i < ROWS; i++) wide_rows[i] = (struct wide_row){.row = rows[i], .mark = MARK};
    kernels.first = &wide_rows[0].row;
    kernels.stride = sizeof *wide_rows;
}

static void shorten_rows(void)
{
    for (int i = 0; i < ROWS; i++) memcpy(&short_rows[i], &rows[i], sizeof short_rows[i]);
    kernels.first = (const struct bp_kernel *)(const void *)short_rows;
    kernels.stride = sizeof *short_rows;
}

static void write_for_ever(void)
{
    static const char line[] = "I have much to say and no end in mind.\n";

    while (write(STDOUT_FILENO, line, sizeof line - 1) > 0) continue;
    abort(); /* nobody listens any more */
}

/* The attack. Runs when the library is opened, so that bp_plugin_get stays as pure as it should
 * be. */
static void __attribute__((constructor)) prepare(void)
{
    rogue("open");
    if (IS("short_plugin")) SHORTEN(table.plugin, kernels);
    if (IS("short_tables")) {
        SHORTEN(table.plugin, ccl);
        SHORTEN(runtime.runtime, stream_create);
        SHORTEN(kernels, usable);
    }
    if (IS("short_rows")) shorten_rows();
    if (IS("long_tables")) {
        table.plugin.size = sizeof table;
        runtime.runtime.size = sizeof runtime;
    }
    if (IS("wide_rows")) widen_rows();
    if (IS("tiny_table")) SHORTEN(table.plugin, name);
    if (IS("huge_table")) table.plugin.size = SIZE_MAX / 2;
    if (IS("future_major")) become_future();
    if (IS("needs_minor")) table.plugin.needs_minor = BP_ABI_MINOR + 1;
    if (IS("other_sanitizer")) table.plugin.build ^= BP_BUILD_ASAN;
    if (IS("bad_name")) table.plugin.name = "a/b\n" PLUGIN_NAME;
    if (IS("no_name")) table.plugin.name = NULL;
    if (IS("no_destroy")) table.plugin.destroy = NULL;
    if (IS("no_runtime")) table.plugin.runtime = NULL;
    if (IS("no_copy_in")) runtime.runtime.copy_in = NULL;
    if (IS("half_events")) runtime.runtime.event_query = query;
    if (IS("half_graphs")) graphs.replay = replay;
    if (IS("no_streams")) graphs = whole_graphs;
    if (IS("half_graphs") || IS("no_streams")) table.plugin.graphs = &graphs;
    if (IS("half_ccl")) table.plugin.ccl = &half_ccl;
    set_ids();
    if (IS("twin_rows")) rows[2].name = rows[0].name;
    if (IS("empty_row")) rows[1].launch = NULL;
    if (IS("odd_stride")) kernels.stride = 12;
    if (IS("constructor_signal")) abort();
    if (IS("constructor_exit")) exit(0); /* success, it claims */
    while (IS("constructor_hang")) pause();
    if (IS("constructor_output")) write_for_ever();
}

#ifdef HOSTILE_NO_SYMBOL
#define bp_plugin_get bp_plugin_fetch
BP_EXPORT const struct bp_plugin *bp_plugin_fetch(void);
#endif
const struct bp_plugin *bp_plugin_get(void)
{
    rogue("entry");
    if (IS("entry_signal")) abort();
    return IS("null_table") ? NULL : &table.plugin;
}
