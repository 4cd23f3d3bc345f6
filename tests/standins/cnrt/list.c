/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: implements the list of operators of the stand-in for CNNL; see list.h. */
#include "list.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MANY = 1024
};

void *handle, *queue;
/* Memory of the device: inputs of floats, ints and bools; results; the workspace. */
void *x, *y, *w, *ones, *nans, *ints, *picks, *bools, *result, *second, *third, *room;
size_t need; /* the size of a workspace, as the library reports it */

/* Descriptors and memory that this program releases at its end. */
static void *made[MANY];
static int n_made;

void *desc_of(int layout, int dtype, int n, const int *dims)
{
    void *desc = NULL;

    if (n_made == MANY || cnnlCreateTensorDescriptor(&desc) ||
        cnnlSetTensorDescriptor(desc, layout, dtype, n, dims))
        abort();
    return made[n_made++] = desc;
}

/* Descriptors: of floats with one axis, two axes; of another dtype; of a layout with four axes. */
void *floats_1(int n)
{
    return desc_of(CNNL_ARRAY, CNNL_FLOAT, 1, &n);
}

void *floats_2(int n, int m)
{
    return desc_of(CNNL_ARRAY, CNNL_FLOAT, 2, (int[]){n, m});
}

void *desc_1(int dtype, int n)
{
    return desc_of(CNNL_ARRAY, dtype, 1, &n);
}

void *desc_2(int dtype, int n, int m)
{
    return desc_of(CNNL_ARRAY, dtype, 2, (int[]){n, m});
}

void *floats_4(int layout, int a, int b, int c, int d)
{
    return desc_of(layout, CNNL_FLOAT, 4, (int[]){a, b, c, d});
}

/* The operators, and whether the list has them. */
static struct {
    const char *name;
    bool listed;
} operators[] = {
#define CALL(type, name, parameters) {#name, false},
#include "cnnl.def"
};

static void operator_mark(const char *name)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (!strcmp(operators[i].name, name)) operators[i].listed = true;
}

/* Reports an entry of the list: a right call that returned `right` and whose result are n elements
 * at `at`, and a wrong call that returned `wrong`. */
void list_report(const char *name, int right, bool good, int wrong)
{
    operator_mark(name);
    kit_report(!right && good && wrong == CNNL_BAD_PARAM,
               "%s: the right call %d, %s; the wrong call %d", name, right,
               good ? "right" : "a wrong result", wrong);
    kit_forget();
}

bool floats_are(void *at, int n, const float *expected)
{
    float got[64];
    bool good = true;

    kit_read(queue, got, at, (size_t)n * sizeof *got);
    for (int i = 0; i < n; i++) {
        good = good && fabsf(got[i] - expected[i]) <= 1e-5f * fmaxf(1, fabsf(expected[i]));
        if (!good) printf("# element %d is %g, not %g\n", i, got[i], expected[i]);
        if (!good) break;
    }
    return good;
}

bool ints_are(void *at, int n, const int *expected)
{
    int got[64];

    kit_read(queue, got, at, (size_t)n * sizeof *got);
    return !memcmp(got, expected, (size_t)n * sizeof *got);
}

static bool bools_are(void *at, int n, const char *expected)
{
    char got[64];

    kit_read(queue, got, at, (size_t)n);
    return !memcmp(got, expected, (size_t)n);
}

/* An entry with floats in `result`. */
void list_floats(const char *name, int right, int n, const float *expected, int wrong)
{
    list_report(name, right, floats_are(result, n, expected), wrong);
}

void list_bools(const char *name, int right, int n, const char *expected, int wrong)
{
    list_report(name, right, bools_are(result, n, expected), wrong);
}

void list_ints(const char *name, int right, int n, const int *expected, int wrong)
{
    list_report(name, right, ints_are(result, n, expected), wrong);
}

/* An entry of a function that reports the size of a workspace. */
void list_size(const char *name, int right, int wrong)
{
    list_report(name, right, need > SMALL, wrong);
}

/* The names of functions that are no operators: test_cnnl.c tests them. */
static bool operator_is(const char *name)
{
    static const char *const others[] = {"cnnlCreate",
                                         "cnnlDestroy",
                                         "cnnlSetTensor",
                                         "cnnlSetQueue",
                                         "cnnlReset",
                                         "cnnlGetErrorString",
                                         "cnnlMatMulDesc",
                                         "cnnlMatMulAlgo",
                                         "cnnlBatchMatMulBCastDesc",
                                         "cnnlBatchMatMulBCastAlgo"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strncmp(name, others[i], strlen(others[i]))) return false;
    return true;
}

void list_check(void)
{
    int missing = 0;

    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        if (operators[i].listed || !operator_is(operators[i].name)) continue;
        printf("# not in the list: %s\n", operators[i].name);
        missing++;
    }
    kit_report(!missing, "the list has all operators");
}

void list_start(void)
{
    cnrtSetDevice(0);
    queue = kit_queue();
    if (cnnlCreate(&handle) || cnnlSetQueue(handle, queue)) abort();
    x = kit_device_memory(F(-1.5f, 2, -3, 4, .5f, -6), 24);
    y = kit_device_memory(F(1, 2, 4, .25f, .5f, 8), 24);
    w = kit_device_memory(F(1, 2, 3, 2, 1, 0), 24);
    ones = kit_device_memory(F(1, 1, 1, 1, 1, 1), 24);
    nans = kit_device_memory(F(1, NAN, INFINITY, -INFINITY, 2, 3), 24);
    ints = kit_device_memory((int[]){1, 2, 3, 4, 5, 6}, 24);
    picks = kit_device_memory((int[]){1, 0, 0, 1, 0, 0, 0, 0}, 32);
    bools = kit_device_memory("\1\1\0\1\0\0", 6);
    result = kit_device_memory(NULL, 256);
    second = kit_device_memory(NULL, 256);
    third = kit_device_memory(NULL, 256);
    room = kit_device_memory(NULL, ROOM);
}

void list_end(void)
{
    void *memory[] = {x, y, w, ones, nans, ints, picks, bools, result, second, third, room};

    cnrtQueueSync(queue);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) cnrtFree(memory[i]);
    for (int i = 0; i < n_made; i++) cnnlDestroyTensorDescriptor(made[i]);
    cnnlDestroy(handle);
    cnrtQueueDestroy(queue);
}
