/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.cu: compiles one family of portable kernels for one type, as nvcc's input. The build
 * selects the family by -DFAMILY_HEADER=<ops/index/kernel.h>. */
#include FAMILY_HEADER
