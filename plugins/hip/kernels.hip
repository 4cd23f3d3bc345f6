/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.hip: compiles one family of portable kernels for one type, as clang's input. The build
 * selects the family by -DFAMILY_HEADER=<ops/index/kernel.h>. */
#include "runtime.h"
#include FAMILY_HEADER
