/* SPDX-License-Identifier: Apache-2.0 */
/* operand.h: tensors of kernel cases: filled from a seed, laid out as the case states, each inside
 * a larger allocation whose other bytes have known values. */
#ifndef BP_CONFORM_OPERAND_H
#define BP_CONFORM_OPERAND_H

#include "check.h"
#include <ops/common/cases.h>
#include <ops/common/cases_random.h>

struct operand {
    struct bp_tensor *base, *tensor; /* base: the whole allocation, with one axis; tensor: a view of
                                        it */
    struct ref_array values;         /* the elements of the tensor */
    unsigned char *image;            /* all bytes of the allocation, as they were written to the
                                        device */
    /* elements: size of the allocation. offset: index of the tensor's first element in it. */
    int64_t elements, offset;
    int64_t stride[REF_RANK];
};

/* Fills the array of an input with numbers of the kind that in->data names. index: the number of
 * the input. */
void data_fill(struct ref_array *values, const struct kernel_input *in, int index,
               struct random *random);

/* Creates an input and writes it to the device. guarded: the kernel only reads the input, so the
 * input may lie beside inaccessible pages. Returns false on a failure, which is recorded in the
 * case; the caller must call operand_finish in that case too. */
bool operand_input(struct check *c, const struct kernel_input *in, int index, bool guarded,
                   struct random *random, struct operand *out);

/* Creates a tensor of that shape for a result and fills it with poison (compare_poison). Where the
 * shape is larger than that of expected, the elements beyond expected are poison too. */
bool operand_output(struct check *c, const struct ref_array *expected, const int64_t *shape,
                    enum layout layout, struct operand *out);

/* Reads the allocation and checks that all bytes outside the tensor are as they were written; if
 * all is true, also the bytes inside the tensor. `what`: the name of the tensor in messages. Writes
 * the tensor's elements, dense, to out_data unless that is NULL. */
bool operand_verify(struct check *c, const struct operand *o, const char *what, bool all,
                    void *out_data);

void operand_finish(struct operand *operand);

#endif
