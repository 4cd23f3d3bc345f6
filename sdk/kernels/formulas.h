/* SPDX-License-Identifier: Apache-2.0 */
/* formulas.h: numbers of the operators that are given by a formula. */
#ifndef BP_KERNELS_FORMULAS_H
#define BP_KERNELS_FORMULAS_H

enum {
#define BINARY_NUMBER(op, formula) BINARY_##op,
#define BINARY_FLOAT(op, formula) BINARY_##op,
#include "binary.def"
};

#endif
