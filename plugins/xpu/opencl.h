/* SPDX-License-Identifier: Apache-2.0 */
/* opencl.h: OpenCL as this plugin reaches it: through the loader of the machine (libOpenCL.so.1),
 * opened at run time, so that a machine without it has no such device, and no broken plugin. */
#ifndef XPU_OPENCL_H
#define XPU_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <backplane/plugin.h>

struct xpu_calls {
#define CALL(name) __typeof__(name) *name;
#include "calls.def"
};

/* Opens the loader, once for the process. BP_ERR_ABSENT, with a message: there is none, or it lacks
 * a function. */
enum bp_status xpu_opencl_open(const struct bp_host *host, const struct xpu_calls **out_calls);

/* What an error of OpenCL is: its name, and the status that says it best. */
const char *xpu_opencl_name(cl_int code);
enum bp_status xpu_opencl_status(cl_int code);
/* The same of a call that tells how work has ended, or of that work's own state: there a lack of
 * resources is a kernel that crashed, and the context is dead. */
enum bp_status xpu_opencl_outcome(cl_int code);

#endif
