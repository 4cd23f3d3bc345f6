/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.h: declares how the app cancels a compilation, which reads this state from time to
 * time. */
#ifndef BP_COMPILE_CANCEL_H
#define BP_COMPILE_CANCEL_H

#include "../base/base.h"

enum {
    BP_CANCEL_IDLE,
    BP_CANCEL_RUNS,
    BP_CANCEL_SET
};

/* Whether a program is being compiled, and whether the app has cancelled that. */
struct bp_cancel {
    _Atomic uint32_t state;
};

/* NULL: a compilation that nothing cancels. */
static inline bool bp_cancel_is_set(const struct bp_cancel *c)
{
    return c && atomic_load(&c->state) == BP_CANCEL_SET;
}

static inline enum bp_status bp_cancel_check(const struct bp_cancel *c)
{
    return bp_cancel_is_set(c) ? bp_error(BP_ERR_CANCELLED, "the app has cancelled the compilation")
                               : BP_OK;
}

#endif
