/* SPDX-License-Identifier: Apache-2.0 */
/* tuned.c: wraps the cpu plugin as a device with three rows of add that differ in speed. */
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    ROWS = 3
};

__attribute__((visibility("default"))) int tuned_launches[ROWS];

/* The row of the highest priority waits for the microseconds of BP_TUNED_FIRST in each launch, the
 * second row for those of BP_TUNED_SECOND, the last row for those of BP_TUNED_LAST. A variable has
 * a list, "300,300,100", of which launches take one number after the other. Returns number n of a
 * list, which is repeated without end. */
static long long tuned_number(const char *text, int n)
{
    int count = 1;

    if (!text) return 0;
    for (const char *at = text; (at = strchr(at, ',')); at++) count++;
    for (n %= count; n > 0; n--) text = strchr(text, ',') + 1;
    return strtoll(text, NULL, 10);
}

static void tuned_wait(const char *variable, int launches)
{
    long long wait = tuned_number(getenv(variable), launches) * 1000, passed = 0;
    struct timespec begin, now;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (passed < wait) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        passed = (now.tv_sec - begin.tv_sec) * 1000000000LL + now.tv_nsec - begin.tv_nsec;
    }
}

static enum bp_status tuned_add(const struct bp_launch *l, int row)
{
    const float *a = l->in[0]->data, *b = l->in[1]->data;
    float *y = l->out[0]->data;

    tuned_launches[row]++;
    for (int64_t i = 0; i < l->out[0]->count; i++) y[i] = a[i] + b[i];
    return BP_OK;
}

static enum bp_status tuned_first(const struct bp_launch *l)
{
    tuned_wait("BP_TUNED_FIRST", tuned_launches[0]);
    return tuned_add(l, 0);
}

static enum bp_status tuned_second(const struct bp_launch *l)
{
    tuned_wait("BP_TUNED_SECOND", tuned_launches[1]);
    return tuned_add(l, 1);
}

static enum bp_status tuned_last(const struct bp_launch *l)
{
    tuned_wait("BP_TUNED_LAST", tuned_launches[2]);
    return tuned_add(l, 2);
}

#define ROW(row_name, level, function) \
    { \
        .op = "add", .name = row_name, .types = {1u << BP_F32}, .flags = BP_KERNEL_SAME_SHAPE, \
        .priority = level, .in_known = 2, .out_known = 1, .launch = function \
    }

static const struct bp_kernel rows[ROWS] = {
    ROW("tuned_add_first", 100, tuned_first),
    ROW("tuned_add_second", 50, tuned_second),
    ROW("tuned_add_last", 0, tuned_last),
};

const struct bp_plugin *bp_plugin_get(void)
{
    static struct bp_plugin plugin;
    static struct bp_kernels kernels;
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    if (!library) return NULL;
    *(void **)&get = dlsym(library, "bp_plugin_get");
    plugin = *get();
    kernels = (struct bp_kernels){
        .size = sizeof kernels, .first = rows, .count = ROWS, .stride = sizeof *rows};
    plugin.name = plugin.kind = "tuned";
    plugin.kernels = &kernels;
    return &plugin;
}
