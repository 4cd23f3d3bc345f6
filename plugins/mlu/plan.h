/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: declares how the table of rows makes plans and launches them. */
#ifndef MLU_PLAN_H
#define MLU_PLAN_H

#include "cnnl.h"

enum bp_status mlu_plan_prepare(struct mlu *self, const struct bp_prep *prep,
                                const struct mlu_row *row, struct bp_plan *out);
void mlu_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan);
enum bp_status mlu_plan_launch(const struct bp_launch *launch);

#endif
