/* SPDX-License-Identifier: Apache-2.0 */
/* invoke.h: calls a vendor's function whose parameters are known at run time only, from a table:
 * hundreds of functions with prototypes of their own would need a call each.
 *
 * The calling conventions of x86-64 and AArch64 on Linux make this possible: integers, bools and
 * pointers of any size take registers or slots of 8 bytes in their order, and floating-point
 * parameters take other registers, in their own order, as long as there are at most 8 of them. A
 * function with fewer parameters ignores the others. */
#ifndef KIT_INVOKE_H
#define KIT_INVOKE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    KIT_INVOKE_WORDS = 24,
    KIT_INVOKE_FLOATS = 8
};

/* The parameters of a call. Zero at first. */
struct kit_invocation {
    uint64_t word[KIT_INVOKE_WORDS];
    double real[KIT_INVOKE_FLOATS];
    uint32_t n_word, n_real;
    bool too_many; /* parameters that did not fit */
};

/* Add a parameter: of any integer type, sign-extended; a pointer; a double; a float. */
void kit_invoke_word(struct kit_invocation *call, int64_t value);
void kit_invoke_pointer(struct kit_invocation *call, const void *value);
void kit_invoke_double(struct kit_invocation *call, double value);
void kit_invoke_float(struct kit_invocation *call, float value);

/* Whether this machine's calling convention is known. */
bool kit_invoke_works(void);
/* Calls the function, which returns an int. */
int kit_invoke(void *function, const struct kit_invocation *call);

#endif
