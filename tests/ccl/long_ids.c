/* SPDX-License-Identifier: Apache-2.0 */
/* long_ids.c: wraps the simulator with longer ids of communicators, of BP_TEST_ID_SIZE bytes. The
 * simulator's own id is the last part. A rank whose id has other bytes in front than rank 0 wrote
 * does not join. Without the variable, the plugin has the table of ABI 0.2. */
#include <backplane/ccl.h>
#include <backplane/plugin.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { OWN = sizeof(struct bp_ccl_id) };

static struct bp_plugin plugin;
static struct bp_ccl ccl, sim;
static size_t front; /* bytes in front of the simulator's id */

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(31 * i + i / 256 + 7);
}

static enum bp_status make_id(void *self, void *out)
{
    uint8_t *bytes = out;
    struct bp_ccl_id id;
    enum bp_status status = sim.unique_id(self, &id);

    if (status) return status;
    for (size_t i = 0; i < front; i++) bytes[i] = byte_at(i);
    memcpy(bytes + front, &id, OWN);
    return BP_OK;
}

static const struct bp_ccl_id *check_id(const struct bp_ccl_id *id, struct bp_ccl_id *room)
{
    const uint8_t *bytes = (const void *)id;

    for (size_t i = 0; i < front; i++)
        if (bytes[i] != byte_at(i)) return NULL;
    memcpy(room, bytes + front, OWN);
    return room;
}

static enum bp_status long_ids_create(void *self, uint32_t device, const struct bp_ccl_id *id,
                                      uint32_t rank, uint32_t n_rank, void **out_comm)
{
    struct bp_ccl_id own;

    if (!check_id(id, &own)) return BP_ERR_INVALID;
    return sim.comm_create(self, device, &own, rank, n_rank, out_comm);
}

static enum bp_status begin_comm(void *self, uint32_t device, const struct bp_ccl_id *id,
                                 uint32_t rank, uint32_t n_rank, void **out_comm)
{
    struct bp_ccl_id own;

    if (!check_id(id, &own)) return BP_ERR_INVALID;
    return sim.comm_begin(self, device, &own, rank, n_rank, out_comm);
}

static void __attribute__((constructor)) long_ids_prepare(void)
{
    void *library = dlopen(SIM_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);
    const char *size = getenv("BP_TEST_ID_SIZE");

    if (!library) abort();
    *(void **)&get = dlsym(library, "bp_plugin_get");
    memcpy(&plugin, get(), get()->size < sizeof plugin ? get()->size : sizeof plugin);
    memcpy(&sim, plugin.ccl, offsetof(struct bp_ccl, id_size));
    ccl = sim;
    plugin.ccl = &ccl;
    plugin.abi_minor = BP_ABI_MINOR;
    if (!size) {
        memset((char *)&ccl + offsetof(struct bp_ccl, id_size), 0x08,
               sizeof ccl - offsetof(struct bp_ccl, id_size)); /* garbage behind an old table */
        ccl.size = offsetof(struct bp_ccl, id_size);
        return;
    }
    front = strtoul(size, NULL, 10) - OWN;
    ccl.size = sizeof ccl;
    ccl.id_size = front + OWN;
    ccl.unique_id_long = make_id;
    ccl.unique_id = NULL;
    ccl.comm_create = long_ids_create;
    ccl.comm_begin = begin_comm;
}

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
