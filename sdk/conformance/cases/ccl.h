/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: the list of the suite ccl. */
#ifndef BP_CONFORM_CASES_CCL_H
#define BP_CONFORM_CASES_CCL_H

#include "../suites/ccl.h"

/* Calls made for each case, with its id without the suite. */
typedef void cases_ccl_fn(void *ctx, const struct ccl_case *k, bool quick, const char *id);
void cases_ccl(cases_ccl_fn *made, void *ctx);

#endif
