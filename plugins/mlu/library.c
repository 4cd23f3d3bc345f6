/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens the library of Cambricon's runtime, libcnrt.so, and translates its codes.
 *
 * BP_MLU_CNRT names the file of the library instead ("off": none). */
#include "folders.h"
#include "mlu.h"

#define KIT_LIST "mlu/cnrt.def"
#define KIT_TABLE loaded
#define KIT_CALLS struct mlu_calls
#include <kit/table.h>

static struct kit_library library = KIT_LIBRARY(loaded_symbols, loaded.function,
                                                ": install CNRT 5 or newer, of a CNToolkit 3");

/* Takes the function for copies under the name that this version has. */
static bool library_choose(struct mlu *self)
{
    self->copy = loaded.call.cnrtMemcpyAsync;
    if (!self->copy) self->copy = loaded.call.cnrtMemcpyAsync_V3;
    if (!self->copy) self->copy = loaded.call.cnrtMemcpyAsync_V2;
    return self->copy != NULL;
}

/* Codes and names were others up to CNRT 4, which was for older cards. */
static enum bp_status library_admit(struct mlu *self)
{
    int *v = self->version;

    TRY(mlu_check(self, NULL, "cnrtGetLibVersion",
                  self->call->cnrtGetLibVersion(&v[0], &v[1], &v[2])));
    if (v[0] >= 5) return BP_OK;
    return bp_fail(self->host, BP_ERR_DEVICE,
                   "mlu: %s is CNRT %d.%d.%d: version 5 or newer is needed, of a CNToolkit 3",
                   library.path, v[0], v[1], v[2]);
}

enum bp_status mlu_library_open(struct mlu *self)
{
    static const char *const names[] = {"libcnrt.so", "libcnrt.so.*", NULL};
    static const struct kit_wanted wanted = {"mlu", "CNRT", names, MLU_FOLDERS, mlu_places};
    enum bp_status status = kit_library_load(&library, &wanted);

    if (status) return bp_fail(self->host, status, "mlu: %s", library.why);
    if (!library_choose(self))
        return bp_fail(self->host, BP_ERR_DEVICE,
                       "mlu: %s has no function cnrtMemcpyAsync, cnrtMemcpyAsync_V3 or "
                       "cnrtMemcpyAsync_V2: install CNRT 5 or newer, of a CNToolkit 3",
                       library.path);
    self->call = &loaded.call;
    return library_admit(self);
}

static const struct kit_error known[] = {
#define ERROR(code, status, text) {code, status, text},
#include "errors.def"
};

static const char *library_text(const void *of, int code)
{
    return ((const struct mlu *)of)->call->cnrtGetErrorStr(code);
}

static const struct kit_errors errors = {known, sizeof known / sizeof *known, library_text};

static struct kit_call library_made(const struct mlu *self, const struct mlu_device *device,
                                    const char *function, int code)
{
    struct kit_call call = {self->host, "mlu", device ? (int64_t)device->number : -1,
                            function,   code,  NULL};

    kit_call_trace(&call);
    return call;
}

static enum bp_status library_fail(const struct mlu *self, const struct mlu_device *device,
                                   const char *function, int code, bool is_wait)
{
    struct kit_call call = library_made(self, device, function, code);
    char advice[KIT_ADVICE_SIZE] = "";
    struct kit_error error;

    if (code == MLU_SUCCESS) return BP_OK;
    error = kit_error_find(&errors, self, code);
    if (!device) kit_nodes_advice("mlu", MLU_NODES, advice);
    if (error.status == BP_ERR_ABSENT && device) error.status = BP_ERR_DEVICE;
    if (code == MLU_UNKNOWN && is_wait) error.status = BP_ERR_DEVICE_LOST;
    return kit_call_fail(&call, error.status, error.text,
                         error.status == BP_ERR_DEVICE_LOST ? "start the process again" : advice);
}

enum bp_status mlu_check(const struct mlu *self, const struct mlu_device *device,
                         const char *function, int code)
{
    if (__builtin_expect(code == MLU_SUCCESS && !kit_is_traced(), 1)) return BP_OK;
    return library_fail(self, device, function, code, false);
}

enum bp_status mlu_check_wait(const struct mlu_device *device, const char *function, int code)
{
    if (__builtin_expect(code == MLU_SUCCESS && !kit_is_traced(), 1)) return BP_OK;
    return library_fail(device->self, device, function, code, true);
}

void mlu_note(const struct mlu_device *device, const char *function, int code)
{
    struct kit_call call;

    if (__builtin_expect(code == MLU_SUCCESS && !kit_is_traced(), 1)) return;
    call = library_made(device->self, device, function, code);
    if (code != MLU_SUCCESS) kit_call_warn(&call, kit_error_find(&errors, device->self, code).text);
}
