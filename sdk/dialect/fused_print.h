/* SPDX-License-Identifier: Apache-2.0 */
/* fused_print.h: declares text that grows, and how instructions of `fused` are printed to it. */
#ifndef BP_DIALECT_FUSED_PRINT_H
#define BP_DIALECT_FUSED_PRINT_H

#include "fused_walk.h"

/* A text in memory from malloc. failed: memory ran out. */
struct text {
    char *at;
    size_t used, room;
    bool failed;
};

/* Appends less than 512 bytes. */
__attribute__((format(printf, 2, 3))) void portable_text_add(struct text *t, const char *format,
                                                             ...);

/* An instruction whose operator this version has. */
struct fused_formula;
struct fused_instruction {
    struct bp_fused_step step;
    const struct fused_formula *of;
};

/* fused_step.c: finds an instruction's operator. false: this version, or a device without f64,
 * does not have the operator. */
bool portable_fused_step(struct bp_dims code, uint32_t i, bool has_f64,
                         struct fused_instruction *out);

/* Returns the cost of the instruction for one element, in additions, about. */
double portable_fused_cost(const struct fused_instruction *i);

/* Whether compilers vectorise the instruction together with others. */
bool portable_fused_is_short(const struct fused_instruction *i);

/* Prints "v<to> = operator(v<from>, ...);". */
void portable_fused_print_step(struct text *t, const struct fused_instruction *i, bool is_f64);

#endif
