/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_kit.h: runs kernel rows of the cpu plugin without a core: loads bp_cpu.so, creates tensors of
 * any layout, and compares the results of a row with values in double. */
#ifndef CPU_KIT_H
#define CPU_KIT_H

#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <complex.h>

/* The layout of a tensor in memory. */
enum layout { DENSE, REVERSED /* first axis innermost */, GAPS /* every other element */, LAYOUTS };

struct tensor {
    struct bp_view view;
    int64_t shape[6], stride[6];
    unsigned char *memory; /* contains the data, with guard bytes on both sides */
    size_t size;
    double complex *value; /* count, row-major: the values that it holds or should hold */
    double *weight;        /* count: the sum of the magnitudes of the terms of each value */
};

/* The plugin and its instance, loaded once for a process. */
extern const struct bp_plugin *kit_plugin;
extern void *kit_self;
void kit_load(void);
void kit_unload(void); /* asserts that the instance freed all memory */

/* Creates a tensor of small values that each dtype holds exactly; each seed gives other values. */
void tensor_init(struct tensor *t, int dtype, enum layout layout, unsigned seed, int rank,
                 const int64_t *shape);
void tensor_finish(struct tensor *t);
void tensor_clear(struct tensor *t); /* sets value and weight to 0 */

/* tensor_index fills index from a row-major element number; tensor_number is its inverse. */
void tensor_index(const struct tensor *t, int64_t number, int64_t *index);
int64_t tensor_number(const struct tensor *t, const int64_t *index);

/* Reads an element of t from its memory. */
double complex tensor_read(const struct tensor *t, int64_t number);

/* Runs a row on its inputs and writes out. BP_ERR_UNSUPPORTED: the row declines these inputs. */
enum bp_status kit_run(const struct bp_kernel *row, struct tensor *const *in, uint32_t n_in,
                       struct tensor *out, const void *attrs, uint32_t width);

/* Asserts that out holds its values, within the rounding errors of its dtype, and that no byte
 * around it was written. */
void kit_check(const struct bp_kernel *row, const struct tensor *out, const char *what);

#endif
