/* SPDX-License-Identifier: Apache-2.0 */
/* counts.c: counts the cost of a call besides its kernel: instructions, atomic read-modify-writes,
 * locks and allocations. These counts do not drift as times do. Prints one TAP line for each limit.
 *
 *     counts DEVICE
 *
 * The calls counted are those that an app makes again and again: on an inline stream, after earlier
 * calls of the same kind. */
#include "../../sdk/tools/bench.h"
#include "step.h"

#include <backplane/buffer.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- malloc and locks of this program, which count for all libraries in the process ----------- */

static long allocations, locks;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
    allocations++;
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    allocations++;
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    allocations++;
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : 12 /* ENOMEM */;
}

typedef int lock_function(pthread_mutex_t *mutex);
typedef int rw_function(pthread_rwlock_t *lock);
static lock_function *real_lock, *real_trylock;
static rw_function *real_read, *real_write;

/* Finds a function of the C library; the wrappers below call this at the first lock. */
static void *counts_real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function) abort();
    return function;
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    locks++;
    if (!real_lock) *(void **)&real_lock = counts_real("pthread_mutex_lock");
    return real_lock(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    locks++;
    if (!real_trylock) *(void **)&real_trylock = counts_real("pthread_mutex_trylock");
    return real_trylock(mutex);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
    locks++;
    if (!real_read) *(void **)&real_read = counts_real("pthread_rwlock_rdlock");
    return real_read(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
    locks++;
    if (!real_write) *(void **)&real_write = counts_real("pthread_rwlock_wrlock");
    return real_write(lock);
}

/* --- the calls that are counted --------------------------------------------------------------- */

enum { WARM = 1000, CALLS = 16 };

struct kit {
    struct bench bench;
    struct bp_tensor *xyz[3];
    struct bp_prepared *prepared;
    struct bench_kernel kernel;
    struct bp_buffer *buffer;
    struct bp_tensor *over; /* one f32 of the buffer */
    uint64_t at;
    bool failed;
};

static void counts_prepared(void *ctx)
{
    struct kit *k = ctx;

    k->failed |= bp_prepared_run(k->prepared, k->bench.stream, k->xyz, 2, &k->xyz[2], 1, NULL) != 0;
}

static void counts_eager(void *ctx)
{
    struct kit *k = ctx;
    struct bp_tensor *z = NULL;

    k->failed |= bp_op_add(k->bench.scope, k->xyz[0], k->xyz[1], &z) != 0;
    bp_tensor_destroy(z);
}

static void counts_storage(void *ctx)
{
    struct kit *k = ctx;
    struct bp_buffer *s = NULL;

    k->failed |= bp_buffer_create(k->bench.device, k->bench.stream, BP_SPACE_DEVICE, 4096, &s) != 0;
    bp_buffer_destroy(s);
}

static void counts_rebind(void *ctx)
{
    struct kit *k = ctx;

    k->at = (k->at + sizeof(float)) % 4096;
    k->failed |= bp_tensor_rebind(k->over, k->buffer, k->at) != 0;
}

static void counts_kernel(void *ctx)
{
    struct kit *k = ctx;

    k->failed |= !bench_kernel_run(&k->kernel);
}

/* The cost of one call: the largest figure of CALLS calls. */
struct cost {
    long instructions, locked, locks, allocations;
};

static long counts_larger(long a, long b)
{
    return a > b ? a : b;
}

static struct cost cost_of(struct kit *k, void (*body)(void *ctx))
{
    struct cost cost = {0};

    for (int i = 0; i < WARM; i++) body(k);
    for (int i = 0; i < CALLS; i++) {
        long locks_before = locks, allocations_before = allocations;
        struct step_counts c = step_count(body, k);
        cost.instructions = counts_larger(cost.instructions, c.instructions);
        cost.locked = counts_larger(cost.locked, c.locked);
        cost.locks = counts_larger(cost.locks, locks - locks_before);
        cost.allocations = counts_larger(cost.allocations, allocations - allocations_before);
    }
    return cost;
}

/* --- the limits ------------------------------------------------------------------------------- */

static int tests, failures;

static void counts_gate(const char *what, const char *of, long count, long most, bool can)
{
    bool good = count <= most;

    tests++;
    if (!can) {
        printf("ok %d - %s: %s # SKIP cannot be counted in this build\n", tests, what, of);
        return;
    }
    failures += !good;
    printf("%s %d - %s: %s\n# %ld, at most %ld\n", good ? "ok" : "not ok", tests, what, of, count,
           most);
}

/* The limits are for instructions of an optimised build; a build without optimisation executes
 * more. */
static bool can_count_instructions(void)
{
#ifdef __OPTIMIZE__
    return step_can();
#else
    return false;
#endif
}

static void counts_gates(const char *what, struct cost cost, struct cost most)
{
    counts_gate(what, "instructions", cost.instructions, most.instructions,
                can_count_instructions());
    counts_gate(what, "atomic read-modify-writes", cost.locked, most.locked, step_can());
    counts_gate(what, "locks", cost.locks, most.locks, true);
    counts_gate(what, "allocations", cost.allocations, most.allocations, true);
}

/* Events that the counters must count: a test of the counters themselves. */
static void counts_known(void *ctx)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic int number;
    void *volatile memory = malloc(1);

    (void)ctx;
    free(memory);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    number++; /* the third: the mutex has two */
}

static void check_counters(struct kit *k)
{
    struct cost cost = cost_of(k, counts_known);

    counts_gate("the counters", "allocations that they missed", 1 - cost.allocations, 0, true);
    counts_gate("the counters", "locks that they missed", 1 - cost.locks, 0, true);
    counts_gate("the counters", "atomic read-modify-writes that they missed", 3 - cost.locked, 0,
                step_can());
}

/* In a process with one thread the C library omits the atomic instructions of its locks, and the
 * core may omit its own. So the calls are counted in a process with several threads, too. */
static void *counts_sleeper(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

static bool counts_setup(struct kit *k, const char *device)
{
    struct bp_arg in[2] = {{&k->xyz[0], 1}, {&k->xyz[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    const struct bp_tensor_options scalar = {.size = sizeof scalar, .dtype = BP_F32};
    const int64_t shape[1] = {1};
    float one = 1;

    if (bp_core_create(NULL, &k->bench.core) ||
        bp_device_create(k->bench.core, device, &k->bench.device) ||
        bp_stream_create_with(k->bench.device, BP_STREAM_INLINE, &k->bench.stream))
        return false;
    k->bench.scope = bp_stream_scope(k->bench.stream);
    for (int i = 0; i < 3; i++)
        if (bp_tensor_create(k->bench.device, BP_F32, 1, shape, &k->xyz[i]) ||
            bp_tensor_write(k->bench.stream, k->xyz[i], &one, sizeof one))
            return false;
    if (bp_buffer_create(k->bench.device, NULL, BP_SPACE_DEVICE, 4096, &k->buffer) ||
        bp_tensor_create_over(k->buffer, 0, &scalar, &k->over))
        return false;
    return !bp_prepared_create(k->bench.device, &call, NULL, 0, &k->prepared) &&
           bench_kernel_open(&k->bench, bp_prepared_kernel(k->prepared), k->xyz, &k->kernel);
}

static void counts_finish(struct kit *k)
{
    bench_kernel_close(&k->kernel);
    bp_prepared_destroy(k->prepared);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(k->xyz[i]);
    bp_tensor_destroy(k->over);
    bp_buffer_destroy(k->buffer);
    bp_stream_destroy(k->bench.stream);
    bp_device_destroy(k->bench.device);
    bp_core_destroy(k->bench.core);
}

/* The limits: the counts when the limit was set; for instructions a quarter more. */
static const struct limits {
    const char *call;
    void (*body)(void *ctx);
    bool beside_kernel; /* instructions of the kernel do not count */
    struct cost alone, threads;
} limits[] = {
    {"a counts_prepared run", counts_prepared, true, {170, 0, 0, 0}, {170, 0, 0, 0}},
    {"an eager call", counts_eager, true, {740, 0, 0, 0}, {900, 4, 2, 0}},
    {"memory taken and given back", counts_storage, false, {360, 0, 0, 0}, {540, 4, 2, 0}},
    {"a tensor moved in a buffer", counts_rebind, false, {230, 0, 0, 0}, {230, 0, 0, 0}},
};

static void count_all(struct kit *k, bool threads)
{
    struct cost alone = cost_of(k, counts_kernel);

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct limits *l = &limits[i];
        struct cost cost = cost_of(k, l->body);
        char what[128];
        snprintf(what, sizeof what, "%s%s in a process of %s", l->call,
                 l->beside_kernel ? " beside its kernel" : "", threads ? "threads" : "one thread");
        if (l->beside_kernel) cost.instructions -= alone.instructions;
        counts_gates(what, cost, threads ? l->threads : l->alone);
    }
}

int main(int argc, char **argv)
{
    static pthread_mutex_t closed = PTHREAD_MUTEX_INITIALIZER;
    pthread_t other;
    struct kit k = {0};

    if (argc != 2 || !counts_setup(&k, argv[1])) {
        printf("Bail out! %s\n", argc == 2 ? bp_error_message() : "usage: counts DEVICE");
        return 1;
    }
    count_all(&k, false);
    pthread_mutex_lock(&closed);
    if (pthread_create(&other, NULL, counts_sleeper, &closed)) return 1;
    check_counters(&k);
    count_all(&k, true);
    counts_gate("all calls", "failures", k.failed, 0, true);
    printf("1..%d\n", tests);
    pthread_mutex_unlock(&closed);
    pthread_join(other, NULL);
    counts_finish(&k);
    return failures > 0;
}
