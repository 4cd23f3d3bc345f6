/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: makes the list of cases of the suite ccl. */
#ifndef BP_CONFORM_CASES_CCL_H
#define BP_CONFORM_CASES_CCL_H

#include "../suites/ccl.h"

/* Called for each case, with its id without the name of the suite. */
typedef void cases_ccl_fn(void *ctx, const struct ccl_case *k, bool quick, const char *id);
void cases_ccl(cases_ccl_fn *made, void *ctx);

#endif
