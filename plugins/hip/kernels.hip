/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.hip: one family of portable kernels for one type: the build says which, with
 * -DFAMILY_HEADER=<ops/index/kernel.h>. */
#include "runtime.h"
#include FAMILY_HEADER
