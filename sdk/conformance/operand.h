/* SPDX-License-Identifier: Apache-2.0 */
/* operand.h: tensors of kernel cases: made from a seed, laid out as a case says, each inside a
 * larger allocation whose other bytes are known. */
#ifndef BP_CONFORM_OPERAND_H
#define BP_CONFORM_OPERAND_H

#include "check.h"
#include <ops/common/cases.h>
#include <ops/common/cases_random.h>

struct operand {
    struct bp_tensor *base, *tensor; /* the allocation, one axis; and the tensor in it */
    struct ref_array values;         /* its elements */
    unsigned char *image;            /* all bytes of the allocation, as they were written */
    int64_t elements, offset;        /* of the allocation; of the first element of the tensor */
    int64_t stride[REF_RANK];
};

/* Fills the array of an input with numbers of its kind. index: which input it is. */
void data_fill(struct ref_array *values, const struct kernel_input *in, int index,
               struct random *random);

/* An input, written to the device. guarded: the kernel only reads it, and it may lie beside pages
 * that nobody may touch. On a failure that the case has recorded answers false; finish it
 * then too. */
bool operand_input(struct check *c, const struct kernel_input *in, int index, bool guarded,
                   struct random *random, struct operand *out);

/* A place for a result of that shape, all of it poison (compare_poison): where the shape is larger
 * than that of expected, also what lies beyond. */
bool operand_output(struct check *c, const struct ref_array *expected, const int64_t *shape,
                    enum layout layout, struct operand *out);

/* Reads the allocation and tells whether all bytes outside the tensor, or with all also those
 * inside, are as they were written; what names it in the message. out_data: the tensor's
 * elements, dense. */
bool operand_verify(struct check *c, const struct operand *o, const char *what, bool all,
                    void *out_data);

void operand_finish(struct operand *operand);

#endif
