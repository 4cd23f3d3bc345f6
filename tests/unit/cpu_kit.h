/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_kit.h: runs rows of the cpu plugin without a core: loads bp_cpu.so, makes tensors of any
 * layout, and compares what a row writes with values in double. */
#ifndef CPU_KIT_H
#define CPU_KIT_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <complex.h>

/* How a tensor lies in memory. */
enum layout { DENSE, REVERSED /* first axis innermost */, GAPS /* every other element */, LAYOUTS };

struct tensor {
    struct bp_view view;
    int64_t shape[6], stride[6];
    unsigned char *memory; /* data lies inside, guarded on both sides */
    size_t size;
    double complex *value; /* count, row-major: what it holds, or should hold */
    double *weight;        /* count: the sum of the magnitudes of the terms of each value */
};

/* What was loaded, once for a process. */
extern const struct bp_plugin *kit_plugin;
extern void *kit_self;
void kit_load(void);
void kit_unload(void); /* asserts that the instance gave all memory back */

/* A tensor of small values that each dtype holds exactly, other ones for each seed. */
void tensor_init(struct tensor *t, int dtype, enum layout layout, unsigned seed, int rank,
                 const int64_t *shape);
void tensor_finish(struct tensor *t);
void tensor_clear(struct tensor *t); /* value and weight become 0 */

/* Which element a row-major number is: fills index. */
void tensor_index(const struct tensor *t, int64_t number, int64_t *index);
int64_t tensor_number(const struct tensor *t, const int64_t *index);

/* Reads an element of t as it lies in memory. */
double complex tensor_read(const struct tensor *t, int64_t number);

/* Runs a row on its inputs; out is written. BP_ERR_UNSUPPORTED: it does not take them. */
enum bp_status kit_run(const struct bp_kernel *row, struct tensor *const *in, uint32_t n_in,
                       struct tensor *out, const void *attrs, uint32_t width);

/* Asserts that out holds its value, within what rounding of the dtype explains, and that nothing
 * around it was written. */
void kit_check(const struct bp_kernel *row, const struct tensor *out, const char *what);

#endif
