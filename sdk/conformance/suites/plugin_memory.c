/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_memory.c: checks that a plugin releases all host memory that it allocates, at the latest
 * when it is destroyed, and with the same sizes.
 *
 * A separate process opens the device, in a core whose allocator records each block. There the
 * largest quick case that each kernel row accepts is run, and one with frozen inputs, for as many
 * rows as time allows. A row that ends the process or does not return is no failure of this
 * case. */
#include "suites.h"
#include "../list.h"
#include "../case_fixture.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS_S = 10, PATIENCE_S = 40, DOING = 80 };

/* The header in front of each block. */
struct block {
    struct block *next, **at; /* the pointer that points to this block */
    void *base;
    size_t size;
    char doing[DOING]; /* the activity during which it was allocated */
};

/* The findings of the process, in memory shared with the process of the case. */
struct account {
    char doing[DOING];
    uint64_t left, bytes; /* blocks that were not released */
    uint64_t misfits;     /* releases with a wrong size; below: sizes of the first */
    size_t allocated, released;
    struct block first; /* the first block that is left, or that was released with a wrong size */
    bool ended;         /* the process has reached its end */
};

/* `lock` protects the variables below. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* newest first */
static struct account *account;

static void *memory_allocate(void *ctx, size_t size, size_t alignment)
{
    struct block *block;
    size_t ahead;
    void *base;

    (void)ctx;
    if (alignment < sizeof base) alignment = sizeof base;
    ahead = (sizeof *block + alignment - 1) / alignment * alignment;
    if (size > SIZE_MAX / 2 || posix_memalign(&base, alignment, ahead + size)) return NULL;
    block = (void *)((char *)base + ahead - sizeof *block);
    pthread_mutex_lock(&lock);
    *block = (struct block){.next = blocks, .at = &blocks, .base = base, .size = size};
    memcpy(block->doing, account->doing, sizeof block->doing);
    if (blocks) blocks->at = &block->next;
    blocks = block;
    pthread_mutex_unlock(&lock);
    return block + 1;
}

static void memory_release(void *ctx, void *memory, size_t size)
{
    struct block *block = (struct block *)memory - 1;

    (void)ctx;
    pthread_mutex_lock(&lock);
    *block->at = block->next;
    if (block->next) block->next->at = block->at;
    if (size != block->size && !account->misfits++) {
        account->first = *block;
        account->allocated = block->size;
        account->released = size;
    }
    pthread_mutex_unlock(&lock);
    free(block->base);
}

static void memory_now(const char *what, const char *name)
{
    pthread_mutex_lock(&lock);
    snprintf(account->doing, sizeof account->doing, "%s%s", what, name);
    pthread_mutex_unlock(&lock);
}

/* Runs the first of a row's cases, the largest first, that the row executes: a quick one or one of
 * real size, with or without frozen inputs. Whether the case passes does not matter here. */
static void run_row(struct fixture *fixture, const struct kernel_case *row, bool frozen)
{
    struct listed one = {.suite = SUITE_KERNEL, .row = 0};
    struct result result = {0};

    for (int i = 0; i < row->n_twice && !result.executed; i++) {
        const struct kernel_case *made = row->of_twice[i];
        bool has_frozen = kernel_case_facts(made) >> ROW_FROZEN & 1;
        if (has_frozen != frozen || !(made->quick || made->real)) continue;
        snprintf(one.id, sizeof one.id, "%s", made->id);
        one.kernel = (struct kernel_case *)made; /* only read */
        listed_run(fixture, &one, &result);
    }
}

/* Runs each row with a few launches: those rows that have a case on two streams (`.twice`), which
 * lists the row's cases. */
static void run_rows(struct fixture *fixture)
{
    const struct selection wanted = {.suites = "kernel"};
    struct timespec start, time;
    struct list list;

    clock_gettime(CLOCK_MONOTONIC, &start);
    list_init(&list, fixture, LIST_ALL, &wanted);
    for (size_t i = 0; i < list.n; i++) {
        const struct kernel_case *row = list.at[i].kernel;
        if (!row || !row->twice) continue;
        clock_gettime(CLOCK_MONOTONIC, &time);
        if (time.tv_sec - start.tv_sec > ROWS_S) break;
        memory_now("a launch of row ", row->row);
        run_row(fixture, row, false);
        run_row(fixture, row, true);
    }
    list_finish(&list);
}

/* Lets a stream wait for another stream's event; copies to, within and from each memory space. */
static void memory_use(struct fixture *fixture)
{
    struct bp_stream *other = NULL;
    struct bp_event *event = NULL;
    struct bp_tensor *t[2];
    unsigned char bytes[256] = {0};
    int64_t n = sizeof bytes / 4;

    if (bp_stream_create(fixture->device, &other) || bp_event_create(fixture->device, &event))
        return;
    for (uint32_t space = 0; space < 3; space++) {
        struct bp_tensor_options o = {
            .size = sizeof o, .dtype = BP_F32, .rank = 1, .shape = &n, .space = space};
        for (int i = 0; i < 2; i++)
            if (bp_tensor_create_with(fixture->device, &o, &t[i])) t[i] = NULL;
        if (t[0] && t[1] && !bp_tensor_write(fixture->stream, t[0], bytes, sizeof bytes) &&
            !bp_event_record(event, fixture->stream) && !bp_stream_wait(other, event) &&
            !bp_tensor_copy(other, t[1], t[0]))
            bp_tensor_read(other, t[1], bytes, sizeof bytes);
        bp_tensor_destroy(t[0]);
        bp_tensor_destroy(t[1]);
    }
    bp_event_destroy(event);
    bp_stream_destroy(other);
}

static void no_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    (void)text;
}

static void open_and_close(const struct fixture *from)
{
    static const struct bp_allocator allocator = {NULL, memory_allocate, memory_release};
    struct bp_core_options options = {
        .size = sizeof options, .log = no_log, .allocator = &allocator};
    struct fixture fixture = {.name = from->library, .seed = from->seed};

    if (bp_core_create(&options, &fixture.core) == BP_OK &&
        bp_core_load_path(fixture.core, from->library, &fixture.plugin) == BP_OK &&
        bp_device_create_at(fixture.core, fixture.plugin, 0, &fixture.device) == BP_OK &&
        bp_stream_create(fixture.device, &fixture.stream) == BP_OK) {
        fixture.properties.size = sizeof fixture.properties;
        bp_device_get_properties(fixture.device, &fixture.properties);
        memory_now("streams, events and copies", "");
        memory_use(&fixture);
        run_rows(&fixture);
    }
    memory_now("destroy of the plugin", "");
    fixture_finish(&fixture);
}

static void take_account(void)
{
    for (struct block *b = blocks; b; b = b->next) {
        account->left++;
        account->bytes += b->size;
        /* The list has the newest block first, so the last one is the oldest. */
        if (!account->misfits) account->first = *b;
    }
    account->ended = true;
}

/* Runs in the separate process. */
static _Noreturn void keep_account(const struct fixture *from)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE_S);
    open_and_close(from);
    take_account();
    _exit(0);
}

static void memory_judge(struct check *c, const struct account *a)
{
    if (!a->ended)
        check_skip(c, "its process crashed, or did not end within %d s, after it had come to %s: "
                   "what other cases say of that is to be mended first", PATIENCE_S, a->doing);
    else if (a->misfits)
        check_that(c, false,
                   "host->release was called %llu times with another size than host->allocate; the "
                   "first time with %zu for %zu bytes, which had been allocated in %s",
                   (unsigned long long)a->misfits, a->released, a->allocated, a->first.doing);
    else
        check_that(c, !a->left,
                   "%llu allocations of host->allocate, %llu bytes in all, were not released when "
                   "the plugin had been destroyed; the first: %zu bytes, allocated in %s",
                   (unsigned long long)a->left, (unsigned long long)a->bytes, a->first.size,
                   a->first.doing);
}

void plugin_memory(struct check *c, const int64_t *arg)
{
    pid_t child;

    (void)arg;
    account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (!check_that(c, account != MAP_FAILED, "no memory for an account")) return;
    memory_now("create of the plugin", "");
    fflush(NULL);
    child = fork();
    if (child == 0) keep_account(c->fixture);
    if (check_that(c, child > 0, "no process of its own could be started")) {
        waitpid(child, NULL, 0);
        memory_judge(c, account);
    }
    munmap(account, sizeof *account);
}
