/* SPDX-License-Identifier: Apache-2.0 */
/* stress.h: makes the kernel cases of the suite stress. */
#ifndef BP_CONFORM_STRESS_H
#define BP_CONFORM_STRESS_H

#include <ops/common/cases.h>

/* Makes the cases of `maker->op`, if it is one of the operators chosen as examples. The cases
 * have names like those of kernel cases. */
void cases_stress(struct case_builder *builder);

#endif
