/* SPDX-License-Identifier: Apache-2.0 */
/* xblas.h: declares the functions of the rows of XBLAS. */
#ifndef KUNLUN_XBLAS_H
#define KUNLUN_XBLAS_H

#include <backplane/kernel.h>

enum bp_status kunlun_xblas_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out);
enum bp_status kunlun_xblas_run(const struct bp_launch *launch);
void kunlun_xblas_end(void *self, const struct bp_kernel *row, void *plan);

#endif
