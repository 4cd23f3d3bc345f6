/* SPDX-License-Identifier: Apache-2.0 */
/* stress.h: kernel cases of the suite stress. */
#ifndef BP_CONFORM_STRESS_H
#define BP_CONFORM_STRESS_H

#include <ops/common/cases.h>

/* Those of maker's operator, if it is one that stands for others. They are named as kernel cases
 * are. */
void cases_stress(struct case_maker *maker);

#endif
