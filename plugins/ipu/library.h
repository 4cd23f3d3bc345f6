/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: declares the functions of the shim over Poplar (shim/shim.h), whose library is opened
 * at run time. A machine without the library has no ipu device, but the plugin is not broken. */
#ifndef IPU_LIBRARY_H
#define IPU_LIBRARY_H

#include "shim/shim.h"

#include <backplane/plugin.h>

struct ipu_calls {
#define CALL(name, result, parameters) result(*name) parameters;
#include "calls.def"
};

/* Opens the shim, once in a process, and never closes it. BP_ERR_ABSENT: it was not found; the
 * message names the files and the folders that were searched. BP_ERR_DEVICE: its file cannot be
 * opened, as when Poplar's libraries are missing, or has another interface. */
enum bp_status ipu_open(const struct bp_host *host, const struct ipu_calls **out_calls);

/* Translates the result of the shim's function `call`: BP_OK, or the failure, whose message has the
 * shim's text. device: its number; below 0: none. */
enum bp_status ipu_check(const struct bp_host *host, const struct ipu_calls *calls, int64_t device,
                         int code, const char *call);

#endif
