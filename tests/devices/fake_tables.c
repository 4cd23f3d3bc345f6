/* SPDX-License-Identifier: Apache-2.0 */
/* fake_tables.c: makes the fake plugin's tables wrong or unusual, as the word spoil of the script
 * demands. */
#include "fake_parts.h"

#include <backplane/ccl.h>
#include <backplane/capture.h>
#include <backplane/engine.h>
#include <backplane/passes.h>
#include <string.h>

/* Interfaces whose functions no test calls. */
static enum bp_status stream_call(void *self, uint32_t device, void *stream)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status capture_end(void *self, uint32_t device, void *stream, void **out)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status tables_replay(void *self, uint32_t device, void *recording, void *stream)
{
    return BP_ERR_UNSUPPORTED;
}

static void stream_end(void *self, uint32_t device, void *what) {}

static struct bp_captures captures = {
    .size = sizeof captures, .capture_begin = stream_call, .capture_end = capture_end,
    .capture_abort = stream_end, .replay = tables_replay, .recording_destroy = stream_end};

static enum bp_status tables_group(void *self)
{
    return BP_OK;
}

static enum bp_status unique_id(void *self, struct bp_ccl_id *out)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status unique_id_long(void *self, void *out)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status comm_create(void *self, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm)
{
    return BP_ERR_UNSUPPORTED;
}

static void comm_end(void *self, void *comm) {}

static enum bp_status comm_error(void *self, void *comm)
{
    return BP_OK;
}

static enum bp_status tables_collective(void *self, void *comm, void *stream,
                                        const struct bp_ccl_call *call)
{
    return BP_ERR_UNSUPPORTED;
}

static const struct bp_ccl half_ccl = {.size = sizeof half_ccl, .group_end = tables_group};
static struct bp_ccl ccl = {
    .size = sizeof ccl, .unique_id = unique_id, .comm_create = comm_create,
    .comm_destroy = comm_end, .comm_abort = comm_end, .comm_error = comm_error,
    .all_reduce = tables_collective, .reduce = tables_collective, .broadcast = tables_collective,
    .all_gather = tables_collective, .reduce_scatter = tables_collective, .send = tables_collective,
    .recv = tables_collective, .group_begin = tables_group, .group_end = tables_group};

static enum bp_status tables_claim(void *self, const struct bp_graph_data *graph,
                                   struct bp_claim *out)
{
    return BP_OK;
}

static enum bp_status tables_compile(void *self, const struct bp_engine_compile *compile,
                                     struct bp_engine_compiled *out)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status tables_run(const struct bp_engine_run *run)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status context_create(void *self, uint32_t device, void *engine, void **out_context)
{
    return BP_ERR_UNSUPPORTED;
}

static struct bp_engine_op known = {.op = "add", .in_known = 2, .out_known = 1};
static struct bp_engines engines = {.size = sizeof engines, .known = &known, .n_known = 1,
                                    .known_stride = sizeof known, .claim = tables_claim,
                                    .compile = tables_compile, .run = tables_run,
                                    .engine_destroy = stream_end};

/* Cuts a struct off at a field. The bytes from the field on, which a shorter table does not have,
 * become garbage rather than NULL. */
#define SHORTEN(object, field) \
    tables_shorten(&(object), sizeof(object), (size_t)((char *)&(object).field - (char *)&(object)))
static void tables_shorten(void *object, size_t size, size_t at)
{
    memset((char *)object + at, 0x08, size - at);
    memcpy(object, &at, sizeof at);
}

static bool tables_is(const char *what)
{
    return fake_is("spoil", what);
}

/* Ids of the plugin's own size: a valid one, or a wrong one. */
static void spoil_ids(struct bp_plugin *plugin)
{
    if (tables_is("half_ccl")) plugin->ccl = &half_ccl;
    if (tables_is("short_ccl")) SHORTEN(ccl, id_size); /* as of ABI 0.2 */
    else if (tables_is("long_ids")) ccl.id_size = BP_CCL_ID_MAX;
    else if (tables_is("longer_ids")) ccl.id_size = BP_CCL_ID_MAX + 1;
    else if (tables_is("half_ids")) ccl.id_size = 136;
    else if (!tables_is("empty_ids")) return;
    if (tables_is("long_ids")) ccl.unique_id = NULL; /* the core must not call it */
    if (!tables_is("short_ccl") && !tables_is("half_ids")) ccl.unique_id_long = unique_id_long;
    plugin->ccl = &ccl;
}

/* An engine that claims nothing, and wrong ones. short_engines: as of ABI 0.9, without save. */
static void spoil_engines(struct bp_plugin *plugin)
{
    if (tables_is("short_engines")) SHORTEN(engines, context_create);
    else if (tables_is("half_engines")) engines.compile = NULL;
    else if (tables_is("half_contexts")) engines.context_create = context_create;
    else if (tables_is("tiny_engines")) engines.size = 24;
    else if (tables_is("no_known")) engines.n_known = 0;
    else if (tables_is("odd_known")) engines.known_stride = 12;
    else if (tables_is("empty_known")) known.op = NULL;
    else return;
    plugin->engines = &engines;
}

static const struct bp_pattern no_patterns[65];
static struct bp_passes fake_passes = {sizeof fake_passes, no_patterns, 65, sizeof *no_patterns};

/* Patterns that are too many, or that cannot be walked. */
static void spoil_passes(struct bp_plugin *plugin)
{
    if (tables_is("odd_patterns")) fake_passes.stride = 12;
    else if (tables_is("tiny_passes")) fake_passes.size = 8;
    else if (!tables_is("many_patterns")) return;
    plugin->passes = &fake_passes;
}

/* Rows that end with `launch`, the last field that is required. */
static void shorten_rows(struct bp_kernels *kernels)
{
    static struct {
        uint64_t words[offsetof(struct bp_kernel, accepts) / sizeof(uint64_t)];
    } rows[8];
    struct fake_row *row = (void *)kernels->first;

    for (size_t i = 0; i < kernels->count; i++) {
        row[i].kernel.launch = row[i].run;
        memcpy(&rows[i], &row[i], sizeof *rows);
    }
    kernels->first = (const void *)rows;
    kernels->stride = sizeof *rows;
}

static void spoil_rows(struct bp_kernels *kernels)
{
    struct fake_row *row = (void *)kernels->first;

    if (tables_is("short_rows")) shorten_rows(kernels);
    if (tables_is("twin_rows")) row[2].kernel.name = row[0].kernel.name;
    if (tables_is("empty_row")) row[1].kernel.launch = NULL;
    if (tables_is("odd_stride")) kernels->stride = 12;
}

static void spoil_plugin(struct fake_tables *t)
{
    struct bp_plugin *p = &t->table.plugin;

    if (tables_is("tiny_table")) SHORTEN(*p, name);
    if (tables_is("huge_table")) p->size = SIZE_MAX / 2;
    if (tables_is("needs_minor")) p->needs_minor = BP_ABI_MINOR + 1;
    if (tables_is("other_sanitizer")) p->build ^= BP_BUILD_ASAN;
    if (tables_is("bad_name")) p->name = "a/b\nh_bad_name";
    if (tables_is("no_name")) p->name = NULL;
    if (tables_is("no_destroy")) p->destroy = NULL;
    if (tables_is("no_runtime")) p->runtime = NULL;
    if (tables_is("half_graphs"))
        captures = (struct bp_captures){.size = sizeof captures, .replay = tables_replay};
    if (tables_is("half_graphs") || tables_is("no_streams")) p->captures = &captures;
    if (tables_is("future_major")) { /* all but the first two fields may differ there */
        memset((char *)p + sizeof(size_t), 0xff, sizeof *p - sizeof(size_t));
        p->abi_major = BP_ABI_MAJOR + 1;
    }
}

void fake_spoil(struct fake_tables *t)
{
    if (tables_is("short_plugin")) SHORTEN(t->table.plugin, kernels);
    if (tables_is("short_tables")) {
        SHORTEN(t->table.plugin, ccl);
        SHORTEN(t->runtime, stream_create);
        SHORTEN(t->kernels, usable);
    }
    if (tables_is("long_tables")) {
        memset(t->after_table, 0x08, sizeof t->after_table);
        memset(t->after_runtime, 0x08, sizeof t->after_runtime);
        t->table.plugin.size = sizeof t->table + sizeof t->after_table;
        t->runtime.size += sizeof t->after_runtime;
    }
    if (tables_is("no_copy_in")) t->runtime.copy_in = NULL;
    if (tables_is("half_events")) t->runtime.event_query = stream_call;
    spoil_ids(&t->table.plugin);
    spoil_engines(&t->table.plugin);
    spoil_passes(&t->table.plugin);
    spoil_rows(&t->kernels);
    spoil_plugin(t);
}
