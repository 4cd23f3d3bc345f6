/* SPDX-License-Identifier: Apache-2.0 */
/* two_phases.c: compares the time of a row of npu with that of its two calls of CANN made by hand:
 * descriptions of the tensors, phase 1, phase 2, and their end, for each launch. Prints TAP.
 *
 *     two_phases FOLDER      the libraries of the stand-in */
#include <backplane/backplane.h>
#include <backplane/ops.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    N = 64,
    LAUNCHES = 2000,
    ROUNDS = 7,
    INT64 = 9,
    ND = 2
};
static const double most = 1.15;
static const int64_t n = N;

static struct {
    int (*set_device)(int32_t device);
    int (*malloc)(void **out, size_t size, int policy);
    int (*create_stream)(void **out);
    int (*synchronize)(void *stream);
    void *(*create_tensor)(const int64_t *shape, uint64_t rank, int dtype, const int64_t *stride,
                           int64_t offset, int format, const int64_t *storage,
                           uint64_t storage_rank, void *data);
    int (*destroy_tensor)(const void *tensor);
    void *(*create_scalar)(void *value, int dtype);
    int (*destroy_scalar)(const void *scalar);
    int (*sizes)(const void *x, const void *y, const void *alpha, void *out, uint64_t *size,
                 void **executor);
    int (*add)(void *workspace, uint64_t size, void *executor, void *stream);
} call;

static void phases_load(const char *folder)
{
    static const struct {
        const char *library, *name;
        void *at;
    } symbol[] = {
        {"libascendcl.so", "aclrtSetDevice", &call.set_device},
        {"libascendcl.so", "aclrtMalloc", &call.malloc},
        {"libascendcl.so", "aclrtCreateStream", &call.create_stream},
        {"libascendcl.so", "aclrtSynchronizeStream", &call.synchronize},
        {"libnnopbase.so", "aclCreateTensor", &call.create_tensor},
        {"libnnopbase.so", "aclDestroyTensor", &call.destroy_tensor},
        {"libnnopbase.so", "aclCreateScalar", &call.create_scalar},
        {"libnnopbase.so", "aclDestroyScalar", &call.destroy_scalar},
        {"libopapi.so", "aclnnAddGetWorkspaceSize", &call.sizes},
        {"libopapi.so", "aclnnAdd", &call.add},
    };

    for (size_t i = 0; i < sizeof symbol / sizeof *symbol; i++) {
        char path[1000];
        void *found;
        snprintf(path, sizeof path, "%s/%s", folder, symbol[i].library);
        found = dlopen(path, RTLD_NOW);
        found = found ? dlsym(found, symbol[i].name) : NULL;
        if (!found) {
            fprintf(stderr, "%s in %s: %s\n", symbol[i].name, path, dlerror());
            exit(3);
        }
        memcpy(symbol[i].at, &found, sizeof found);
    }
}

/* The time that this thread has used: other work on the machine does not count. */
static double phases_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Puts all threads on one processor: otherwise the time depends on how often the stand-in's thread,
 * which does the work, has to be woken. */
static void phases_stay(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)sched_getcpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *phases_tensor(void *data)
{
    const int64_t one = 1;

    return call.create_tensor(&n, 1, 0, &one, 0, ND, &n, 1, data);
}

static void phases_by_hand_once(void *const memory[3], void *stream)
{
    int64_t one = 1;
    void *x = phases_tensor(memory[0]), *y = phases_tensor(memory[1]);
    void *z = phases_tensor(memory[2]), *alpha = call.create_scalar(&one, INT64), *executor;
    uint64_t size = 0;

    if (call.sizes(x, y, alpha, z, &size, &executor) || size || call.add(NULL, 0, executor, stream))
        exit(4);
    call.destroy_tensor(x);
    call.destroy_tensor(y);
    call.destroy_tensor(z);
    call.destroy_scalar(alpha);
}

/* Microseconds of a launch by hand. */
static double phases_by_hand(void *const memory[3], void *stream)
{
    double start = phases_now(), end;

    for (int i = 0; i < LAUNCHES; i++) phases_by_hand_once(memory, stream);
    end = phases_now();
    if (call.synchronize(stream)) exit(4);
    return (end - start) / LAUNCHES;
}

/* Microseconds of a call of the row, with the core's part. */
static double phases_by_row(struct bp_stream *stream, struct bp_tensor *x, struct bp_tensor *y,
                            struct bp_tensor *z)
{
    double start = phases_now(), end;

    for (int i = 0; i < LAUNCHES; i++)
        if (bp_op_add(bp_stream_scope(stream), x, y, &z)) exit(5);
    end = phases_now();
    if (bp_stream_synchronize(stream)) exit(5);
    return (end - start) / LAUNCHES;
}

static double phases_least(double a, double b)
{
    return a && a < b ? a : b;
}

int main(int argc, char **argv)
{
    static const float numbers[N] = {1};
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *t[3];
    void *memory[3], *raw;
    double hand = 0, row = 0;

    phases_stay();
    phases_load(argc > 1 ? argv[1] : ".");
    if (bp_core_create(NULL, &core) || bp_device_create(core, "npu:0", &device) ||
        bp_stream_create(device, &stream))
        return 5;
    for (int i = 0; i < 3; i++)
        if (bp_tensor_create(device, BP_F32, 1, &n, &t[i]) ||
            bp_tensor_write(stream, t[i], numbers, sizeof numbers))
            return 5;
    if (call.set_device(0) || call.create_stream(&raw)) return 4;
    for (int i = 0; i < 3; i++)
        if (call.malloc(&memory[i], sizeof numbers, 0)) return 4;
    for (int i = 0; i < ROUNDS; i++) {
        hand = phases_least(hand, phases_by_hand(memory, raw));
        row = phases_least(row, phases_by_row(stream, t[0], t[1], t[2]));
    }
    printf("1..1\n# by hand %.2f us, by the row %.2f us: %.2f\n", hand, row, row / hand);
    printf("%sok 1 - a row takes at most %.2f of the time of its two calls\n",
           row <= most * hand ? "" : "not ", most);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(t[i]);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    return row > most * hand;
}
