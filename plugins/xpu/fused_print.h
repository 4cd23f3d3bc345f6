/* SPDX-License-Identifier: Apache-2.0 */
/* fused_print.h: declares text that grows, and how instructions of `fused` are printed to it. */
#ifndef XPU_FUSED_PRINT_H
#define XPU_FUSED_PRINT_H

#include "fused.h"

/* A text in memory from malloc. failed: memory ran out. */
struct text {
    char *at;
    size_t used, room;
    bool failed;
};

/* Appends less than 512 bytes. */
__attribute__((format(printf, 2, 3))) void xpu_text_add(struct text *t, const char *format, ...);

/* An instruction whose operator this plugin has. */
struct fused_formula;
struct fused_instruction {
    struct bp_fused_step step;
    const struct fused_formula *of;
};

/* fused_step.c: finds an instruction's operator. false: this plugin, or a device without f64, does
 * not have the operator. */
bool xpu_fused_step(struct bp_dims code, uint32_t i, bool has_f64, struct fused_instruction *out);

/* Returns the cost of the instruction for one element, in additions, about. */
double xpu_fused_cost(const struct fused_instruction *i);

/* Whether compilers vectorise the instruction together with others. */
bool xpu_fused_is_short(const struct fused_instruction *i);

/* Prints "v<to> = operator(v<from>, ...);". */
void xpu_fused_print_step(struct text *t, const struct fused_instruction *i, bool is_f64);

#endif
