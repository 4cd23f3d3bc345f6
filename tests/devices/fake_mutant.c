/* SPDX-License-Identifier: Apache-2.0 */
/* fake_mutant.c: defines the kernels and the device of rows=mutant, in which the conformance suite
 * finds no fault, except for the one defect that mutant=NAME selects. The suite must find each
 * (teeth.py). */
#include "fake_parts.h"

#include <backplane/attrs.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char chosen[32]; /* read once, because kernels compare it for each element */

static bool mutant_is(const char *mutant)
{
    return !strcmp(chosen, mutant);
}

/* Kernels. They find elements by strides, or, in a mutant, as if the view were dense. */

static int64_t index_of(const struct bp_view *v, int64_t element, bool dense)
{
    int64_t index = 0;

    if (dense && v->stride[0]) return element; /* with a stride of 0 this would read outside */
    for (int i = v->rank - 1; i >= 0; i--) {
        index += element % v->shape[i] * v->stride[i];
        element /= v->shape[i];
    }
    return index;
}

/* The index of an input's element that broadcasts to an element of out. */
static int64_t broadcast_index(const struct bp_view *v, const struct bp_view *out, int64_t element)
{
    int64_t index = 0;

    for (int i = out->rank - 1; i >= 0; i--) {
        int axis = i - (out->rank - v->rank);
        if (axis >= 0 && v->shape[axis] != 1) index += element % out->shape[i] * v->stride[axis];
        element /= out->shape[i];
    }
    return mutant_is("strides") ? element % v->count : index;
}

/* Makes the processor treat subnormal numbers as zero from now on. */
static void flush_subnormals(void)
{
#if defined __x86_64__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined __aarch64__
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | 1 << 24));
#endif
}

static void mutant_strike(const struct bp_launch *l)
{
    if (mutant_is("ftz-launch")) flush_subnormals();
    if (mutant_is("setenv-launch")) setenv("MUTANT_WAS_HERE", "1", 1);
    if (l->out[0]->count != 924) return;
    if (mutant_is("crash")) raise(11);
    if (mutant_is("exit")) _exit(0);
    if (mutant_is("hang"))
        for (;;) pause();
}

/* The one extent for which a mutant computes a wrong result. */
static int64_t wrong_extent(void)
{
    return mutant_is("extent-17")    ? 17
           : mutant_is("extent-97")  ? 97
           : mutant_is("extent-333") ? 333
                                     : -1;
}

/* Reads an element without using its value. */
static void read_at(const struct bp_view *v, int64_t element)
{
    volatile const float *data = v->data;

    (void)data[element];
}

/* Adds dense tensors with too many elements for index_of, which is slow. */
static void add_many(const struct bp_launch *l)
{
    const float *x = l->in[0]->data, *y = l->in[1]->data;
    float *z = l->out[0]->data;
    int64_t n = l->out[0]->count - mutant_is("unwritten");

    for (int64_t i = 0; i < n; i++) z[i] = x[i] + y[i];
    if (mutant_is("last-16m")) z[n - 1] += 1;
}

static enum bp_status mutant_add(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->in[1], *z = l->out[0];
    float *out = z->data;

    if (mutant_is("fails") && z->count == 924) return BP_ERR_DEVICE;
    mutant_strike(l);
    if (z->count > 1 << 24 && x->count == z->count && y->count == z->count) {
        add_many(l);
        return BP_OK;
    }
    for (int64_t i = 0; i < z->count - mutant_is("unwritten"); i++) {
        float a = ((const float *)x->data)[broadcast_index(x, z, i)],
              b = ((const float *)y->data)[broadcast_index(y, z, i)];
        float sum = a + b;
        if (mutant_is("loses-nan") && a != a) sum = 0;
        if (mutant_is("skips-nan") && sum != sum) continue;
        if (mutant_is("no-subnormals") && fabsf(sum) < 0x1p-126f) sum *= 0;
        if (mutant_is("truncates")) sum = nextafterf(sum, 0);
        if (mutant_is("zero-sign") && sum == 0) sum = 0;
        if (mutant_is("rank8") && z->rank == 8 && i == 7) sum += 1;
        if (mutant_is("magnitude") && fabsf(sum) > 1e30f && fabsf(sum) < 1e37f) sum *= 1.5f;
        if (mutant_is("last") && i == z->count - 1) sum += fabsf(sum) / 1024 + 1;
        out[index_of(z, i, false)] = sum;
    }
    if (z->count == wrong_extent()) out[0] += fabsf(out[0]) + 1;
    if (z->count && mutant_is("reads-end")) read_at(x, x->count);
    if (z->count && mutant_is("reads-4096-on")) read_at(x, x->count + 4096);
    if (z->count && mutant_is("reads-front")) read_at(y, -1);
    if (z->count && mutant_is("past-end")) out[z->count] = 0;
    if (z->count && mutant_is("before-start")) out[-1] = 0;
    if (z->count && mutant_is("writes-input") && x->data != z->data) ((float *)x->data)[0] += 1;
    if (z->count && mutant_is("in-place") && x->data == z->data) out[0] = 0;
    return BP_OK;
}

/* Passes exponentials through memory that all launches share, which is a data race. While the
 * process has several threads, a launch waits until another launch has written there: 32 times in
 * all, and not again after one second in vain. */
static double through_scratch(double value, int64_t i)
{
    static _Atomic double scratch;
    static atomic_int writes, waits;
    struct stat threads;
    int own;

    scratch = value;
    own = ++writes;
    if (i == 0 && waits < 32 && !stat("/proc/self/task", &threads) && threads.st_nlink > 3) {
        int ms = 0;
        while (writes == own && ms < 1000) usleep(1000), ms++;
        waits += ms < 1000 ? 1 : 32;
    }
    return scratch;
}

static enum bp_status mutant_softmax(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];
    const struct bp_softmax_attrs *a = l->attrs;
    int axis = (int)(a->axis < 0 ? a->axis + x->rank : a->axis);
    int64_t length, inner = 1;

    static atomic_int launches;
    bool shares = mutant_is("scratch") || (mutant_is("scratch-late") && ++launches > 12);

    if (mutant_is("axis")) axis = x->rank - 1;
    length = x->shape[axis];
    for (int i = axis + 1; i < x->rank; i++) inner *= x->shape[i];
    for (int64_t line = 0; length && line < x->count / length; line++) {
        int64_t first = line / inner * inner * length + line % inner;
        const float *in = x->data;
        float *out = y->data;
        double max = mutant_is("no-max") ? 0 : -INFINITY, sum = 0;
        for (int64_t i = 0; i < length && !mutant_is("no-max"); i++) {
            double value = in[index_of(x, first + i * inner, mutant_is("strides"))];
            if (!(value <= max)) max = value;
        }
        for (int64_t i = 0; i < length; i++)
            sum += exp(in[index_of(x, first + i * inner, mutant_is("strides"))] - max);
        for (int64_t i = 0; i < length; i++) {
            double value = exp(
                (float)(in[index_of(x, first + i * inner, mutant_is("strides"))] - max));
            if (mutant_is("softmax-huge") && max > 1e30 && max < 1e37) value *= 0.75;
            if (shares) value = through_scratch(value, i);
            if (mutant_is("rough")) value *= 1 + 1e-5;
            out[index_of(y, first + i * inner, false)] = (float)(value / sum);
        }
    }
    return BP_OK;
}

static void add_to_sums(const struct bp_launch *l, double *sums, const bool *is_summed)
{
    const struct bp_view *x = l->in[0];

    for (int64_t e = 0; e < x->count - (mutant_is("drops-last") && x->count > 1000); e++) {
        int64_t to = 0, rest = e, scale = 1, from = index_of(x, e, false);
        for (int i = x->rank - 1; i >= 0; i--) {
            if (!is_summed[i]) to += rest % x->shape[i] * scale, scale *= x->shape[i];
            rest /= x->shape[i];
        }
        sums[to] += ((const float *)x->data)[from];
        if (mutant_is("low-precision")) sums[to] = (float)((int64_t)(sums[to] * 1024)) / 1024;
    }
}

static enum bp_status mutant_sum(const struct bp_launch *l)
{
    static int calls;
    const struct bp_view *x = l->in[0], *y = l->out[0];
    const struct bp_sum_attrs *a = l->attrs;
    bool summed[8] = {0};
    double *sums = calloc((size_t)y->count + 1, sizeof *sums);

    for (int i = 0; i < x->rank; i++) summed[i] = a->axes.n == 0;
    for (int64_t i = 0; i < a->axes.n; i++)
        summed[a->axes.at[i] < 0 ? a->axes.at[i] + x->rank : a->axes.at[i]] = true;
    if (mutant_is("axes") && x->rank == 2 && x->shape[0] == x->shape[1] - 1 && a->axes.n == 1)
        summed[0] = !summed[0], summed[1] = !summed[1];
    add_to_sums(l, sums, summed);
    calls++;
    for (int64_t i = 0; i < y->count; i++) {
        float value = (float)sums[i];
        if (mutant_is("varies") && calls & 1) value = nextafterf(value, INFINITY);
        ((float *)y->data)[index_of(y, i, false)] = value;
    }
    free(sums);
    return BP_OK;
}

/* For the mutants, keeps a BP_ATTR_RUN attribute from the first launch of a plan. */
static enum bp_status mutant_scale(const struct bp_launch *l)
{
    const struct bp_scale_attrs *a = l->attrs;
    const struct bp_view *x = l->in[0], *y = l->out[0];
    double *kept = l->plan;

    if (mutant_is("crash-last")) raise(11);
    if (kept[0] == 0) kept[0] = a->factor, kept[1] = a->bias;
    for (int64_t i = 0; i < y->count; i++) {
        float factor = (float)(mutant_is("run-factor") ? kept[0] : a->factor),
              bias = (float)(mutant_is("run-bias") ? kept[1] : a->bias);
        float value = ((const float *)x->data)[index_of(x, i, false)];
        if (mutant_is("scale-1e25") && fabsf(value) > 1e20f && fabsf(value) < 1e29f) value = 0;
        ((float *)y->data)[index_of(y, i, false)] = value * factor + bias;
    }
    if (mutant_is("scale-16m") && y->count > 1 << 24) ((float *)y->data)[y->count - 1] += 1;
    return BP_OK;
}

static enum bp_status scale_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    BP_SET(out, plan, calloc(2, sizeof(double)));
    return BP_OK;
}

static void plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    free(plan);
}

static enum bp_status mutant_sgd(const struct bp_launch *l)
{
    const struct bp_view *p = l->in[0], *g = l->in[1], *y = l->out[0];
    float rate = *(const float *)l->in[2]->data;

    for (int64_t i = 0; i < y->count; i++) {
        float *grad = (float *)g->data + index_of(g, i, false);
        ((float *)y->data)[index_of(y, i, false)] =
            ((const float *)p->data)[index_of(p, i, false)] - rate * *grad;
        if (mutant_is("clears-grad")) *grad = 0;
    }
    if (y->count == 97 && mutant_is("sgd-97")) ((float *)y->data)[96] += 1;
    if (y->count && mutant_is("past-params")) ((float *)y->data)[y->count] = 0;
    return BP_OK;
}

static enum bp_status mutant_nonzero(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];
    int64_t found = 0;

    for (int64_t i = 0; i < x->count; i++) {
        float value = ((const float *)x->data)[index_of(x, i, false)];
        int64_t rest = i;
        if (mutant_is("nan-is-zero") ? !(value < 0 || value > 0) : value == 0) continue;
        if (mutant_is("nonzero-333") && x->count == 999) continue;
        for (int a = x->rank - 1; a >= 0; a--) {
            ((int64_t *)y->data)[found * y->stride[0] + a * y->stride[1]] = rest % x->shape[a];
            rest /= x->shape[a];
        }
        found++;
    }
    l->result[0] = mutant_is("all-rows") ? x->count : mutant_is("more-rows") ? x->count + 1 : found;
    return BP_OK;
}

static uint32_t random_word(uint64_t seed, uint64_t block, int64_t which)
{
    uint32_t w[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (int round = 0; round < (mutant_is("nine-rounds") ? 9 : 10); round++) {
        uint64_t a = UINT64_C(0xd2511f53) * w[0], b = UINT64_C(0xcd9e8d57) * w[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ w[1] ^ key[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ w[3] ^ key[1], (uint32_t)a};
        memcpy(w, next, sizeof w);
        key[0] += 0x9e3779b9;
        key[1] += 0xbb67ae85;
    }
    return w[which];
}

static enum bp_status mutant_uniform(const struct bp_launch *l)
{
    const struct bp_uniform_attrs *a = l->attrs;
    float low = (float)a->low, high = (float)a->high;

    for (int64_t i = 0; i < l->out[0]->count; i++) {
        uint64_t block = (mutant_is("no-offset") ? 0 : l->offset) + (uint64_t)i / 4;
        float u = (float)(random_word(l->seed, block, i % 4) >> 8) * 0x1p-24f;
        volatile float step = (high - low) * u;
        float y = low + step;
        if (y >= high && high > low && !mutant_is("reaches-high")) y = nextafterf(high, low);
        ((float *)l->out[0]->data)[i] = y;
    }
    return BP_OK;
}

static enum bp_status mutant_accepts(void *self, const struct bp_prep *prep)
{
    bool refuses = mutant_is("refuses-all") || (mutant_is("refuses") && prep->in[0]->rank == 5);
    return refuses ? BP_ERR_UNSUPPORTED : BP_OK;
}

enum {
    FLAGS = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC
};
#define ROW(what, row_types, row_flags, ...) \
    {{BP_OPROW(what), .name = "mutant_" #what "_f32", .types = row_types, .flags = row_flags, \
      .launch = fake_launch, __VA_ARGS__}, mutant_##what, "mutant"}
#define F32 {BP_M(F32), 0, 0, 0}
#define F32_F32 {BP_M(F32), BP_M(F32), 0, 0}
#define F32_TO_I64 {BP_M(F32), 0, BP_M(I64), 0}
static struct fake_row rows[] = {
    ROW(add, F32, FLAGS | BP_KERNEL_IN_PLACE, .accepts = mutant_accepts),
    ROW(softmax, F32, FLAGS, .accepts = NULL),
    ROW(sum, F32, FLAGS, .accepts = NULL),
    ROW(scale, F32, FLAGS, .prepare = scale_prepare, .plan_destroy = plan_destroy),
    ROW(sgd, F32_F32, FLAGS | BP_KERNEL_IN_PLACE, .accepts = NULL),
    ROW(nonzero, F32_TO_I64, FLAGS, .accepts = NULL),
    ROW(uniform, F32, BP_KERNEL_DETERMINISTIC, .accepts = NULL),
};
#undef ROW
#undef F32
#undef F32_F32
#undef F32_TO_I64

/* The device: the fake device's callbacks, changed by the mutant's defect. */
static struct bp_runtime original;
static enum bp_status (*original_create)(const struct bp_host *host, void **out_self);

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    static uint32_t queried;

    *out_count = mutant_is("count-changes") && queried++ % 2 ? 2 : 1;
    return BP_OK;
}

static enum bp_status mutant_device_properties(void *self, uint32_t device,
                                               struct bp_device_properties *out)
{
    static uint32_t queried;

    strcpy(out->name, mutant_is("nameless") ? "" : "mutant");
    if (mutant_is("endless-name")) memset(out->name, 'm', sizeof out->name);
    BP_SET(out, dtypes, mutant_is("all-dtypes") ? UINT64_MAX : BP_M(F32) | BP_M(F64) | BP_MASK_INT);
    BP_SET(out, alignment,
           mutant_is("alignment")     ? 4096
           : mutant_is("alignment-1") ? 1
                                      : fake_alignment());
    BP_SET(out, memory,
           mutant_is("all-memory")    ? UINT64_MAX
           : mutant_is("leaks-large") ? UINT64_C(64) << 30
                                      : 256 << 20);
    BP_SET(out, flags, (mutant_is("never-done") ? 0 : BP_DEVICE_INLINE) | BP_DEVICE_HOST_VISIBLE);
    BP_SET(out, units, mutant_is("units-change") ? ++queried : 1);
    BP_SET(out, dlpack_type, 1);
    if (mutant_is("no-size")) out->size = 0;
    if (mutant_is("larger-size")) out->size += 8;
    if (mutant_is("endless-arch")) memset(out->arch, 'm', sizeof out->arch);
    out->uuid[15] = (uint8_t)(mutant_is("uuid-changes") ? ++queried : 1);
    strcpy(out->pci, mutant_is("crooked-pci") ? "65:00.0" : "0000:65:00.0");
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    static _Alignas(64) char shared[64 << 20];
    static size_t used, ever;
    uint64_t rounded = (size + 63) / 64 * 64;

    if (mutant_is("silent-always") || (mutant_is("silent-memory") && size > UINT64_C(1) << 40))
        return BP_ERR_MEMORY;
    if (mutant_is("leaks") && size < 1 << 30 && (ever += rounded) > 256 << 20)
        return bp_fail(fake_host, BP_ERR_MEMORY, "%llu bytes asked, all is used up",
                       (unsigned long long)size);
    if (mutant_is("leaks-large") && size <= 1 << 30 && (ever += rounded) > (size_t)64 << 30)
        return bp_fail(fake_host, BP_ERR_MEMORY, "%llu bytes asked, all is used up",
                       (unsigned long long)size);
    if (mutant_is("never-frees") && size < 1 << 30) { /* from the heap, which is counted too */
        *out = (struct bp_memory){.data = aligned_alloc(64, rounded)};
        return out->data ? BP_OK : BP_ERR_MEMORY;
    }
    if (!mutant_is("overlaps") || rounded <= 1 << 20 || rounded >= sizeof shared - used)
        return original.memory_allocate(self, device, space, size, out);
    *out = (struct bp_memory){NULL, shared + used, NULL};
    used += rounded - (512 << 10); /* the next allocation overlaps this one's end */
    return BP_OK;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    if (!mutant_is("overlaps") && !mutant_is("never-frees"))
        original.memory_free(self, device, space, memory);
}

static enum bp_status mutant_copy_in(void *self, uint32_t device, void *stream,
                                     const struct bp_copy *c)
{
    struct bp_copy copy = *c;

    if (c->size > 64) copy.size -= mutant_is("short-copy");
    return original.copy_in(self, device, stream, &copy);
}

static enum bp_status mutant_copy_within(void *self, uint32_t device, void *stream,
                                         const struct bp_copy *c)
{
    return mutant_is("no-copy") ? BP_OK : original.copy_within(self, device, stream, c);
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    return mutant_is("never-done") ? BP_ERR_NOT_READY : original.event_query(self, device, event);
}

static enum bp_status mutant_event_wait(void *self, uint32_t device, void *event,
                                        uint64_t timeout_ns)
{
    if (mutant_is("never-done")) return BP_ERR_TIMEOUT;
    return original.event_wait(self, device, event, timeout_ns);
}

static void on_signal(int signal)
{
}

/* Changes state that all code of the process shares. */
static void change_process(void)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    if (mutant_is("signal-mask")) pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if (mutant_is("locale")) setlocale(LC_NUMERIC, "C.UTF-8");
    if (mutant_is("alarm")) alarm(1000);
    if (mutant_is("umask")) umask(077);
    if (mutant_is("rounding")) fesetround(FE_TOWARDZERO);
    if (mutant_is("folder") && chdir("/")) abort();
    if (mutant_is("ftz")) flush_subnormals();
    if (mutant_is("nodump")) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (mutant_is("sigign")) signal(SIGPIPE, SIG_IGN);
    if (mutant_is("handler")) signal(SIGUSR2, on_signal);
    if (mutant_is("setenv")) setenv("HOME", "/mutant", 1);
    if (mutant_is("noenv")) clearenv();
    if (mutant_is("setuid") && setresuid(65534, 65534, 0)) abort();
    if (mutant_is("daemon") && !fork())
        for (;;) pause();
    if (mutant_is("zombie") && !fork()) _exit(0);
}

static enum bp_status mutant_create(const struct bp_host *host, void **out_self)
{
    change_process();
    return original_create(host, out_self);
}

static void *mutant_idle(void *arg)
{
    for (;;) pause();
    return arg;
}

static void spoil_rows(void)
{
    static char endless[1 << 16];

    if (mutant_is("attrs-size")) rows[1].kernel.attrs_size = 8;
    if (mutant_is("stray-dtype")) rows[1].kernel.types[0] |= BP_M(I32);
    if (mutant_is("both-indices")) rows[5].kernel.types[2] |= BP_M(I32);
    if (mutant_is("no-variable")) rows[4].kernel.types[1] = 0;
    if (mutant_is("stray-variable")) rows[1].kernel.types[3] = BP_M(F32);
    if (mutant_is("all-flags")) rows[1].kernel.flags = UINT32_MAX;
    if (mutant_is("html-name")) rows[1].kernel.name = "<b>mutant</b>";
    if (mutant_is("endless-row-name"))
        rows[1].kernel.name = memset(endless, 'm', sizeof endless - 1);
}

void fake_mutate(struct fake_tables *t)
{
    pthread_t thread;

    if (!fake_is("rows", "mutant")) return;
    fake_text("mutant", chosen, "");
    if (mutant_is("prints")) printf("mutant: loaded\n"), fflush(stdout);
    if (mutant_is("thread")) pthread_create(&thread, NULL, mutant_idle, NULL);
    if (mutant_is("crash-at-load")) abort();
    while (mutant_is("hang-at-load")) pause();
    spoil_rows();
    t->kernels.first = &rows[0].kernel;
    t->kernels.count = sizeof rows / sizeof *rows;
    t->table.plugin.kernels = &t->kernels;
    original_create = t->table.plugin.create;
    t->table.plugin.create = mutant_create;
    original = t->runtime;
    t->runtime.device_count = device_count;
    t->runtime.device_properties = mutant_device_properties;
    t->runtime.memory_allocate = memory_allocate;
    t->runtime.memory_free = memory_free;
    t->runtime.copy_in = mutant_copy_in;
    t->runtime.copy_within = mutant_copy_within;
    t->runtime.event_query = event_query;
    t->runtime.event_wait = mutant_event_wait;
}
