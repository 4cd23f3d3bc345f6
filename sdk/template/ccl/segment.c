/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c: creates communicators, whose ranks meet in a segment of shared memory.
 *
 * A real plugin calls the vendor's library instead: its ids, its calls that join ranks, and its
 * communicators. */
#include "ccl.h"
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum bp_status template_ccl_unique_id(void *instance, struct bp_ccl_id *out)
{
    const struct bp_host *host = ((struct template_self *)instance)->host;
    struct bp_ccl_id id = {{0}};

    if (getrandom(id.bytes, 16, 0) != 16)
        return bp_fail(host, BP_ERR_INTERNAL, "template: no random numbers for an id");
    *out = id;
    return BP_OK;
}

static bool segment_open(struct template_comm *comm, const struct bp_ccl_id *id)
{
    int n = snprintf(comm->name, sizeof comm->name, "/bp_template_"), file;
    void *memory;

    for (int i = 0; i < 16; i++)
        n += snprintf(comm->name + n, sizeof comm->name - (size_t)n, "%02x", id->bytes[i]);
    file = shm_open(comm->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return false;
    memory = MAP_FAILED;
    if (!ftruncate(file, sizeof *comm->segment))
        memory = mmap(NULL, sizeof *comm->segment, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    comm->segment = memory == MAP_FAILED ? NULL : memory;
    return comm->segment;
}

/* The last rank that joins removes the segment's name: no other process needs it. */
enum bp_status template_ccl_begin(void *instance, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm)
{
    struct template_self *self = instance;
    struct template_comm *comm;

    if (n_rank > CCL_RANKS)
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "template:%u: %u ranks, at most %d", device,
                       n_rank, CCL_RANKS);
    comm = self->host->allocate(self->host->ctx, sizeof *comm, _Alignof(max_align_t));
    if (!comm) return bp_fail(self->host, BP_ERR_MEMORY, "template:%u: no memory", device);
    *comm = (struct template_comm){.self = self, .device = device, .rank = rank, .n_rank = n_rank};
    if (!segment_open(comm, id)) {
        self->host->release(self->host->ctx, comm, sizeof *comm);
        return bp_fail(self->host, BP_ERR_MEMORY, "template:%u: no shared memory of %zu bytes",
                       device, sizeof *comm->segment);
    }
    if (atomic_fetch_add(&comm->segment->joined, 1) + 1 == n_rank) shm_unlink(comm->name);
    *out_comm = comm;
    return BP_OK;
}

enum bp_status template_ccl_joined(void *self, void *p)
{
    struct template_comm *comm = p;
    enum bp_status status = template_ccl_error(self, comm);

    if (status) return status;
    return atomic_load(&comm->segment->joined) == comm->n_rank ? BP_OK : BP_ERR_TIMEOUT;
}

enum bp_status template_ccl_create(void *self, uint32_t device, const struct bp_ccl_id *id,
                                   uint32_t rank, uint32_t n_rank, void **out_comm)
{
    enum bp_status status;
    unsigned looks = 0;
    void *comm;

    status = template_ccl_begin(self, device, id, rank, n_rank, &comm);
    if (status) return status;
    while ((status = template_ccl_joined(self, comm)) == BP_ERR_TIMEOUT) ccl_pause(&looks);
    if (status) template_ccl_destroy(self, comm);
    else *out_comm = comm;
    return status;
}

void template_ccl_destroy(void *instance, void *p)
{
    const struct bp_host *host = ((struct template_self *)instance)->host;
    struct template_comm *comm = p;

    if (atomic_load(&comm->segment->joined) < comm->n_rank) shm_unlink(comm->name);
    munmap(comm->segment, sizeof *comm->segment);
    host->release(host->ctx, comm, sizeof *comm);
}

/* Calls of this rank that wait for other ranks notice it. */
void template_ccl_abort(void *self, void *comm)
{
    atomic_store(&((struct template_comm *)comm)->aborted, true);
}

enum bp_status template_ccl_error(void *self, void *p)
{
    struct template_comm *comm = p;

    if (!atomic_load(&comm->aborted)) return BP_OK;
    return bp_fail(comm->self->host, BP_ERR_DEVICE, "template:%u: the communicator was aborted",
                   comm->device);
}

void ccl_pause(unsigned *looks)
{
    const struct timespec nap = {.tv_nsec = 50000};

    if ((*looks)++ < 100) sched_yield();
    else nanosleep(&nap, NULL);
}

enum bp_status ccl_meet(struct template_comm *comm)
{
    uint64_t number = ++comm->meetings;
    unsigned looks = 0;

    atomic_store(&comm->segment->arrived[comm->rank], number);
    for (uint32_t i = 0; i < comm->n_rank; i++)
        while (atomic_load(&comm->segment->arrived[i]) < number) {
            if (atomic_load(&comm->aborted)) return template_ccl_error(comm->self, comm);
            ccl_pause(&looks);
        }
    return BP_OK;
}
