/* SPDX-License-Identifier: Apache-2.0 */
/* save.c: saves a compiled group: a header, and Poplar's executable, which has no weights. */
#include "engine.h"

#include <stdio.h>
#include <string.h>

/* In front of the executable, which is meant for the same shim, device and group. */
struct head {
    char magic[8];
    char device[64];
    uint64_t size, hash, group; /* hash: of the bytes that follow; group: of the shim's graph */
};
static const char magic[8] = "bp-ipu3";

static uint64_t hash_bytes(uint64_t hash, const void *data, uint64_t size)
{
    const unsigned char *byte = data;
    uint64_t word;

    for (; size >= sizeof word; size -= sizeof word, byte += sizeof word) {
        memcpy(&word, byte, sizeof word);
        hash = (hash ^ word) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
    }
    while (size--) hash = (hash ^ *byte++) * UINT64_C(1099511628211);
    return hash;
}

static uint64_t hash_begin(void)
{
    return UINT64_C(14695981039346656037);
}

/* Types, nodes and links of a graph, without the contents of weights. */
static uint64_t group_hash(const struct bp_ipu_graph *g)
{
    uint64_t hash = hash_begin();

    for (uint32_t i = 0; i < g->n_tensor; i++) {
        struct bp_ipu_tensor t = g->tensor[i];
        t.data = NULL;
        hash = hash_bytes(hash, &t, sizeof t);
    }
    for (uint32_t i = 0; i < g->n_node; i++) {
        const struct bp_ipu_node *n = &g->node[i];
        const uint32_t link[] = {n->op, n->n_in, n->n_out};
        hash = hash_bytes(hash, link, sizeof link);
        hash = hash_bytes(hash, n->in, n->n_in * sizeof *n->in);
        hash = hash_bytes(hash, n->out, n->n_out * sizeof *n->out);
        hash = hash_bytes(hash, n->number, sizeof n->number);
        hash = hash_bytes(hash, n->real, sizeof n->real);
    }
    hash = hash_bytes(hash, g->in, g->n_in * sizeof *g->in);
    hash = hash_bytes(hash, g->out, g->n_out * sizeof *g->out);
    hash = hash_bytes(hash, g->after, g->n_in * sizeof *g->after);
    return hash_bytes(hash, &g->fast, sizeof g->fast);
}

static enum bp_status head_make(struct ipu *self, const struct ipu_engine *e, const void *data,
                                uint64_t size, struct head *out)
{
    struct bp_ipu_facts facts = {.size = sizeof facts};

    TRY(IPU(self, e->device, bp_ipu_device_info, self->devices, e->device, &facts));
    memset(out, 0, sizeof *out); /* the bytes between the members too */
    memcpy(out->magic, magic, sizeof magic);
    /* The name without the number of the device: the code runs on equal ones. */
    snprintf(out->device, sizeof out->device, "target %u%s", (unsigned)self->target,
             strchr(facts.name, ',') ? strchr(facts.name, ',') : "");
    out->size = size;
    out->hash = hash_bytes(hash_begin(), data, size);
    out->group = group_hash(&e->model.graph);
    return BP_OK;
}

struct saving {
    struct ipu *self;
    const struct ipu_engine *engine;
    void *ctx;
    enum bp_status (*write)(void *ctx, const void *data, uint64_t size);
};

static int save_write(void *ctx, const void *data, uint64_t size)
{
    const struct saving *s = ctx;
    struct head head;
    enum bp_status status = head_make(s->self, s->engine, data, size, &head);

    if (!status) status = s->write(s->ctx, &head, sizeof head);
    if (!status) status = s->write(s->ctx, data, size);
    return (int)status;
}

enum bp_status ipu_save(void *p, uint32_t device, void *engine, void *ctx,
                        enum bp_status (*write)(void *ctx, const void *data, uint64_t size))
{
    struct ipu *self = p;
    struct ipu_engine *e = engine;
    struct saving saving = {self, e, ctx, write};
    int written = 0, code;

    (void)device;
    code = self->call->bp_ipu_save(e->program, &saving, save_write, &written);
    if (written) return (enum bp_status)written;
    return ipu_check(self->host, self->call, e->device, code, "bp_ipu_save");
}

enum bp_status ipu_load(struct ipu *self, struct ipu_engine *e, const void *blob, uint64_t size)
{
    const char *data = (const char *)blob + sizeof(struct head);
    struct head head;

    if (size <= sizeof head) return BP_ERR_STALE;
    TRY(head_make(self, e, data, size - sizeof head, &head));
    if (memcmp(blob, &head, sizeof head)) return BP_ERR_STALE;
    return self->call->bp_ipu_restore(self->devices, e->device, &e->model.graph, data,
                                      size - sizeof head, &e->program)
               ? BP_ERR_STALE
               : BP_OK;
}
