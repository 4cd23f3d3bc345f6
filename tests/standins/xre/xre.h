/* SPDX-License-Identifier: Apache-2.0 */
/* xre.h: declares what the files of the stand-in for Kunlun's runtime, XRE 5, share. The libraries
 * have the names and functions of CUDA's runtime and of cuBLAS, as far as XRE is known to have
 * them; the simulator (plugins/simulator/sim.h) does the work, and its environment applies.
 * BP_STANDIN_FAIL and BP_STANDIN_CALLS (base.h) apply to the names of these functions. A build
 * of libcudart.so with XRE_FEW lacks the functions of which it is not known whether XRE has them.
 *
 * As in CUDA's runtime, each thread has a current device, at first device 0, whose context exists
 * from its first use on until the process ends. */
#ifndef STANDINS_XRE_H
#define STANDINS_XRE_H

#include <stddef.h>

#define XRE_API __attribute__((visibility("default")))

/* Begins a call of an exported function, and notes its name. Returns the code of a failure on
 * demand, with which the function returns, or 0. */
XRE_API int xre_enter(const char *function);
/* Makes the context of the thread's device current. Returns 0 or the code of a failure. */
XRE_API int xre_use(void);

#endif
