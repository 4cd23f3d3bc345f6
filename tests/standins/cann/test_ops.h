/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.h: declares the callers of operators that generate.py makes for test_ops.c. */
#ifndef STANDINS_CANN_TEST_OPS_H
#define STANDINS_CANN_TEST_OPS_H

#include "op.h"

struct op_caller {
    const char *name, *letters;
    int (*call)(void *function, const union cann_value *value, uint64_t *size, void **executor);
};
extern const struct op_caller op_callers[]; /* up to a name that is NULL */

#endif
