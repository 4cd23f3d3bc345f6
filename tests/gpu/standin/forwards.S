/* SPDX-License-Identifier: Apache-2.0 */
/* forwards.S: defines the driver's functions: each jumps to the simulator's function with the same
 * arguments, unless another file defines it. The build sets the driver: -DSYMBOL_cuda or
 * -DSYMBOL_hip. */
    .macro FORWARD symbol, to
    .weak \symbol
    .type \symbol, %function
\symbol:
#if defined(__x86_64__)
    jmp \to@PLT
#elif defined(__aarch64__)
    b \to
#else
#error "how does this processor jump to a function of another library?"
#endif
    .size \symbol, . - \symbol
    .endm

#ifdef SYMBOL_cuda
#define CALL(name, cuda, hip, parameters) FORWARD cuda, sim_##name
#else
#define CALL(name, cuda, hip, parameters) FORWARD hip, sim_##name
#endif
    .text
#include "gpu/calls.def"
    .section .note.GNU-stack,"",%progbits
