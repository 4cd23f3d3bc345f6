/* SPDX-License-Identifier: Apache-2.0 */
/* test_segment.c: tests a rank that writes nonsense to the shared-memory segment: the other rank
 * must end with a failure, and not read or write outside of its buffers.
 *
 * Rank 1 writes nonsense while its calls are in progress. Rank 0, which begins each call slightly
 * later, must survive. Each test ends when rank 0 reports a failure, or has made enough calls. */
#include "../../core/ccl/shm/shm_segment.h"
#include "failing.h"

#include <sys/stat.h>
#include <sys/uio.h>

enum { HEADER = 4096, WRONG = 3000, CALLS_MADE = 40, ELEMENTS = 300000 };

struct nonsense {
    void (*write)(char *segment, size_t size, unsigned *seed);
    bool ends; /* rank 0 must report a failure */
    const char *ways;
    enum { REDUCE, RAGGED, SEND } call;
    unsigned seed;
};

/* The segment, as this process has mapped it. */
static char *find_segment(size_t *out_size)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long from = 0, to = 0;
    char line[400];
    bool found = false;

    CHECK(maps, "no maps");
    while (!found && fgets(line, sizeof line, maps))
        found = strstr(line, "memfd:backplane-ccl") && sscanf(line, "%lx-%lx", &from, &to) == 2;
    fclose(maps);
    CHECK(found, "no board");
    *out_size = to - from;
    return (char *)from;
}

static struct bp_shm_rank_state *rank_at(char *segment, uint32_t rank)
{
    return (struct bp_shm_rank_state *)(void *)(segment + HEADER) + rank;
}

/* The channel of messages from rank 1 to rank 0, of 2 ranks. */
static struct bp_shm_channel *channel_at(char *segment)
{
    return (struct bp_shm_channel *)(void *)rank_at(segment, 2) + 2;
}

static void write_location(struct bp_buffer_location *location)
{
    struct stat s;

    if (location->fd >= 0 && location->inode && !fstat(location->fd, &s) && s.st_size > 4096)
        location->offset = (uint64_t)s.st_size - 4096;
}

/* Rank 1's buffers begin one page before the end of their file. */
static void corrupt_places(char *segment, size_t size, unsigned *seed)
{
    struct bp_shm_rank_state *r = rank_at(segment, 1);

    (void)size;
    (void)seed;
    for (int i = 0; i < 2; i++) {
        write_location(&r->location[i].src);
        write_location(&r->location[i].dst);
    }
}

static void corrupt_messages(char *segment, size_t size, unsigned *seed)
{
    struct bp_shm_channel *p = channel_at(segment);

    (void)size;
    (void)seed;
    for (uint32_t i = 0; i < BP_SHM_CELLS; i++) {
        if (!p->message[i].access) continue;
        write_location(&p->message[i].location);
    }
}

/* Rank 1 claims to be rank 0's process, with buffers at an invalid address. */
static void corrupt_processes(char *segment, size_t size, unsigned *seed)
{
    struct bp_shm_rank_state *r = rank_at(segment, 1);

    (void)size;
    (void)seed;
    r->pid = rank_at(segment, 0)->pid;
    for (int i = 0; i < 2; i++) r->location[i].src.address = r->location[i].dst.address = 64;
}

/* The counts that rank 0 has for itself in a ragged call; other ranks use only their maximum. */
static void corrupt_counts(char *segment, size_t size, unsigned *seed)
{
    uint64_t *count = (uint64_t *)(void *)((struct bp_shm_channel *)(void *)rank_at(segment, 2) +
                                           4);

    (void)size;
    count[0] = count[2] = UINT64_C(1) << 30 | (uint64_t)rand_r(seed);
}

/* A failure with an invalid status, and with a text without an end. */
static void corrupt_failure(char *segment, size_t size, unsigned *seed)
{
    struct bp_shm_header *h = (struct bp_shm_header *)(void *)segment;

    (void)size;
    (void)seed;
    memset(h->text, 'x', HEADER - offsetof(struct bp_shm_header, text));
    h->status = 4711;
    h->failed = 2;
}

/* Any word of rank 1's state, and of the messages that it sends. */
static void corrupt_anything(char *segment, size_t size, unsigned *seed)
{
    uint32_t *word = (uint32_t *)(void *)rank_at(segment, 1);
    size_t n = sizeof(struct bp_shm_rank_state) / 4, m = sizeof(struct bp_shm_channel) / 4;

    (void)size;
    for (int i = 0; i < 40; i++) {
        size_t at = (size_t)rand_r(seed) % (n + m);
        uint32_t value = (uint32_t)rand_r(seed) * (rand_r(seed) % 2 ? 1u : 65537u);
        if (at < n) word[at] = value;
        else ((uint32_t *)(void *)channel_at(segment))[at - n] = value;
    }
}

static enum bp_status make_call(const struct nonsense *what, struct bp_comm *comm,
                                struct bp_tensor *x, struct bp_tensor *y)
{
    const int64_t parts[] = {ELEMENTS / 2, ELEMENTS / 2};

    switch (what->call) {
    case REDUCE: return bp_comm_all_reduce(comm, stream, x, y, BP_REDUCE_SUM);
    case RAGGED: return bp_comm_all_to_all_ragged(comm, stream, x, parts, y, parts);
    default:
        return bp_comm_rank(comm) ? bp_comm_send(comm, stream, x, 0)
                                  : bp_comm_recv(comm, stream, y, 1);
    }
}

struct writer {
    const struct nonsense *what;
    _Atomic bool end;
};

static void *write_nonsense(void *arg)
{
    struct writer *w = arg;
    unsigned seed = w->what->seed;
    size_t size;
    char *segment = find_segment(&size);

    while (!w->end) {
        w->what->write(segment, size, &seed);
        sched_yield();
    }
    return NULL;
}

struct job {
    struct bp_comm_id id;
    const struct nonsense *what;
};

static void corrupt_rank(uint32_t rank, uint32_t size, void *ctx)
{
    const struct job *job = ctx;
    struct writer writer = {.what = job->what};
    enum bp_status status = BP_OK;
    pthread_t thread;

    setenv("BP_CCL_WAYS", job->what->ways, 1);
    struct bp_comm *comm = join(&job->id, rank, size);
    struct bp_tensor *x = make(BP_F32, ELEMENTS), *y = make(BP_F32, ELEMENTS);
    OK(bp_comm_set_timeout(comm, SECOND));
    status = bp_comm_barrier(comm, stream); /* rank 1 may write before rank 0 has ended it */
    if (rank) CHECK(!pthread_create(&thread, NULL, write_nonsense, &writer), "no thread");
    for (int i = 0; i < (job->what->ends ? WRONG : CALLS_MADE) && !status; i++) {
        if (!rank) usleep(2000);
        status = make_call(job->what, comm, x, y);
    }
    if (rank) _exit(0); /* its own memory may be damaged */
    CHECK(status <= BP_ERR_PEER, "status %d", (int)status);
    CHECK(status || !job->what->ends, "%d calls, and no failure", WRONG);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void run_with(struct nonsense what)
{
    struct job job = {.what = &what};

    OK(bp_comm_id_create(&job.id));
    kit_processes(2, corrupt_rank, &job, 1, NULL);
}

static void places_outside_of_files(void)
{
    run_with((struct nonsense){corrupt_places, true, "map", REDUCE, 1});
    run_with((struct nonsense){corrupt_messages, true, "map", SEND, 1});
}

/* A container's system call filter may refuse process_vm_readv. Then ranks copy through shared
 * memory, and a wrong process number in the segment does no harm. */
static bool may_read_processes(void)
{
    char from = 1, to = 0;
    struct iovec theirs = {&from, 1}, mine = {&to, 1};

    return process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == 1 && to == 1;
}

static void processes_of_others(void)
{
    run_with((struct nonsense){corrupt_processes, false, "map", REDUCE, 1});
    run_with((struct nonsense){corrupt_processes, may_read_processes(), "vm", REDUCE, 1});
}

static void counts_of_ragged_calls(void)
{
    run_with((struct nonsense){corrupt_counts, false, "staged", RAGGED, 1});
}

static void failures_without_end(void)
{
    run_with((struct nonsense){corrupt_failure, true, "map", REDUCE, 1});
}

static void anything_at_random(void)
{
    static const char *const ways[] = {"map", "vm", "staged"};

    for (unsigned i = 0; i < 6; i++)
        run_with((struct nonsense){corrupt_anything, false, ways[i % 3], i % 2 ? SEND : REDUCE, i});
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"places_outside_of_files", places_outside_of_files},
        {"processes_of_others", processes_of_others},
        {"counts_of_ragged_calls", counts_of_ragged_calls},
        {"failures_without_end", failures_without_end},
        {"anything_at_random", anything_at_random},
    };

    return KIT_CASES(cases, argc, argv);
}
