/* SPDX-License-Identifier: Apache-2.0 */
/* opencl.h: declares OpenCL as the plugin uses it: through the machine's loader (libOpenCL.so.1),
 * which is opened at run time. A machine without the loader has no xpu device, but the plugin is
 * not broken. */
#ifndef XPU_OPENCL_H
#define XPU_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <backplane/plugin.h>

struct xpu_calls {
#define CALL(name) __typeof__(name) *name;
#include "calls.def"
};

/* Opens the loader, once per process. BP_ERR_ABSENT, with a message: there is no loader, or it
 * lacks a function. */
enum bp_status xpu_opencl_open(const struct bp_host *host, const struct xpu_calls **out_calls);

/* The name of an OpenCL error, and the status that describes it best. */
const char *xpu_opencl_name(cl_int code);
enum bp_status xpu_opencl_status(cl_int code);
/* The status of an error that reports how work has ended: a lack of resources then means that a
 * kernel crashed, and the context is unusable. */
enum bp_status xpu_opencl_outcome(cl_int code);

#endif
