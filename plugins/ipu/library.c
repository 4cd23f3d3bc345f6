/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens the shim over Poplar, and translates its codes; see library.h.
 * BP_IPU_SHIM names the file instead ("off": none). */
#include "library.h"
#include <inttypes.h>
#include <kit/call.h>
#include <kit/library.h>
#include <stdio.h>

/* Where the SDK's scripts and the shim's own instructions put libraries. */
static const char folders[] = "$POPLAR_SDK_ENABLED/lib:$HOME/.local/lib:/usr/local/lib"
                              ":/opt/poplar*/lib:/opt/poplar_sdk*/poplar-*/lib:/usr/lib64:/usr/lib";

#define CALL(name, result, parameters) {#name, true},
#define KIT_LIST "ipu/calls.def"
#define KIT_TABLE loaded
#define KIT_CALLS struct ipu_calls
#include <kit/table.h>

enum bp_status ipu_open(const struct bp_host *host, const struct ipu_calls **out_calls)
{
    static const char *const names[] = {"libbp_ipu_shim.so", NULL};
    static const enum kit_place place[] = {KIT_PATH, KIT_FOLDERS, KIT_PLACES};
    static const struct kit_wanted wanted = {"ipu", "SHIM", names, folders, place};
    static struct kit_library library = KIT_LIBRARY(loaded_symbols, loaded.function,
                                                    "; compile it with plugins/ipu/shim/build.sh");
    enum bp_status status = kit_library_load(&library, &wanted);
    uint32_t version;

    if (status) return bp_fail(host, status, "ipu: %s", library.why);
    version = loaded.call.bp_ipu_version();
    if (version != BP_IPU_SHIM_VERSION)
        return bp_fail(host, BP_ERR_DEVICE,
                       "ipu: %s has interface %" PRIu32 ", expected %d; compile it again with "
                       "plugins/ipu/shim/build.sh of this version",
                       library.path, version, BP_IPU_SHIM_VERSION);
    *out_calls = &loaded.call;
    return BP_OK;
}

/* A program that a tile has no room for is not compiled, and so runs by other devices' kernels. */
static const struct kit_error known[] = {
    {BP_IPU_MEMORY, BP_ERR_UNSUPPORTED, "no room on a tile"},
    {BP_IPU_IN_USE, BP_ERR_BUSY, "in use"},
    {BP_IPU_LOST, BP_ERR_DEVICE_LOST, "lost"},
    {BP_IPU_UNSUPPORTED, BP_ERR_UNSUPPORTED, "not supported"},
    {BP_IPU_STALE, BP_ERR_STALE, "stale"},
    {BP_IPU_CANCELLED, BP_ERR_CANCELLED, "cancelled"},
    {BP_IPU_NO_HOST, BP_ERR_MEMORY, "no memory"},
};
static const struct kit_errors errors = {known, sizeof known / sizeof *known, NULL};

enum bp_status ipu_check(const struct bp_host *host, const struct ipu_calls *calls, int64_t device,
                         int code, const char *function)
{
    struct kit_call call = {host, "ipu", device, function, code, NULL};
    enum bp_status status;
    const char *advice = NULL;

    kit_call_trace(&call);
    if (!code) return BP_OK;
    status = kit_error_find(&errors, NULL, code).status;
    if (status == BP_ERR_BUSY) advice = "end that process, or name another device";
    if (status == BP_ERR_DEVICE_LOST) advice = "reset the IPU and start the process again";
    return kit_call_fail(&call, status, calls->bp_ipu_error(), advice);
}
