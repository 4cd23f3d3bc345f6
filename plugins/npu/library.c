/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens CANN's libraries, finds the functions of operators, and translates codes. */
#include "call_chain.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The toolkit's environment, its usual places, and the places of older releases. */
static const char folders[] =
    "$ASCEND_TOOLKIT_HOME/lib64:$ASCEND_HOME_PATH/lib64"
    ":/usr/local/Ascend/ascend-toolkit/latest/lib64:/usr/local/Ascend/latest/lib64"
    ":/usr/local/Ascend/ascend-toolkit/latest/fwkacllib/lib64"
    ":/usr/local/Ascend/nnrt/latest/lib64";
static const enum kit_place places[] = {KIT_LOADED, KIT_PATH, KIT_FOLDERS, KIT_LOADER, KIT_PLACES};

#define KIT_LIST "npu/calls.def"
#define KIT_TABLE runtime
#define KIT_CALLS struct npu_calls
#include <kit/table.h>

#define KIT_LIST "npu/nnop.def"
#define KIT_TABLE nnop
#define KIT_CALLS struct npu_nnop
#include <kit/table.h>

enum bp_status npu_library_load(struct kit_library *library, const char *setting, const char *name)
{
    const char *const names[] = {name, NULL};
    const struct kit_wanted wanted = {"npu", setting, names, folders, places};

    return kit_library_load(library, &wanted);
}

/* Opens one of the libraries of operators: NULL: `why` has the reason. */
static void *library_operators(const char *name, char why[KIT_WHY_SIZE])
{
    const char *const names[] = {name, NULL};
    const struct kit_wanted wanted = {"npu", "OPERATORS", names, folders, places};
    struct kit_found found;

    return kit_library_open(&wanted, &found, why) ? NULL : found.library;
}

/* Releases before 8 have four libraries of operators, the others one. */
static bool library_open_operators(struct npu *npu)
{
    static const char *const old[NPU_OPERATOR_LIBRARIES] = {
        "libaclnn_math.so", "libaclnn_ops_infer.so", "libaclnn_ops_train.so", "libaclnn_rand.so"};
    char why[KIT_WHY_SIZE];
    int n = 0;

    npu->operators[0] = library_operators("libopapi.so", npu->why_no_rows);
    if (npu->operators[0]) return true;
    for (int i = 0; i < NPU_OPERATOR_LIBRARIES; i++) {
        npu->operators[n] = library_operators(old[i], why);
        if (npu->operators[n]) n++;
    }
    return n > 0;
}

/* Opens what the rows need. Without it, the plugin has memory and copies only. */
static void library_open_rows(struct npu *npu)
{
    static struct kit_library library = KIT_LIBRARY(nnop_symbols, nnop.function,
                                                    ": install CANN 7 or newer");

    if (npu_library_load(&library, "NNOPBASE", "libnnopbase.so"))
        snprintf(npu->why_no_rows, sizeof npu->why_no_rows, "%s", library.why);
    else if (library_open_operators(npu)) npu->nnop = &nnop.call;
    if (npu->nnop)
        npu->repeats = !kit_setting_is_on("npu", "ONCE") &&
                       nnop.call.aclSetAclOpExecutorRepeatable &&
                       nnop.call.aclDestroyAclOpExecutor && nnop.call.aclSetInputTensorAddr &&
                       nnop.call.aclSetOutputTensorAddr;
    else bp_log(npu->host, BP_LOG_WARN, "npu: no operators: %s", npu->why_no_rows);
}

enum bp_status npu_library_open(struct npu *npu)
{
    static struct kit_library library = KIT_LIBRARY(runtime_symbols, runtime.function,
                                                    ": install CANN 7 or newer");
    enum bp_status status = npu_library_load(&library, "RUNTIME", "libascendcl.so");

    if (status) return bp_fail(npu->host, status, "npu: %s", library.why);
    npu->call = &runtime.call;
    library_open_rows(npu);
    return BP_OK;
}

static void *library_symbol(const struct npu *npu, const char *before, const char *name,
                            const char *after)
{
    char symbol[96];
    void *found = NULL;

    snprintf(symbol, sizeof symbol, "%s%s%s", before, name, after);
    for (int i = 0; i < NPU_OPERATOR_LIBRARIES && npu->operators[i] && !found; i++)
        found = dlsym(npu->operators[i], symbol);
    return found;
}

static struct npu_function *library_function(const struct npu *npu, const char *name)
{
    size_t size = sizeof "aclnn" + strlen(name);
    struct npu_function *f = malloc(sizeof *f + size);

    if (!f) return NULL;
    f->next = NULL;
    snprintf(f->name, size, "aclnn%s", name);
    f->sizes = library_symbol(npu, "aclnn", name, "GetWorkspaceSize");
    *(void **)&f->run = library_symbol(npu, "aclnn", name, "");
    return f;
}

const struct npu_function *npu_function_find(struct npu *npu, const char *name)
{
    struct npu_function **at, *f;
    uint32_t hash = 0;

    for (const char *c = name; *c; c++) hash = hash * 31 + (unsigned char)*c;
    pthread_mutex_lock(&npu->functions);
    at = &npu->function[hash % NPU_FUNCTION_LISTS];
    for (f = *at; f && strcmp(f->name + strlen("aclnn"), name); f = f->next) continue;
    if (!f) {
        f = library_function(npu, name);
        if (f) {
            f->next = *at;
            *at = f;
        }
    }
    pthread_mutex_unlock(&npu->functions);
    return f && f->sizes && f->run ? f : NULL;
}

static const struct kit_error known[] = {
#define ERROR(code, status, text) {code, status, text},
#include "errors.def"
};
static const struct kit_errors errors = {known, sizeof known / sizeof *known, NULL};

/* The library's text of this thread's last failure goes to the end of the message. */
static void library_text(const struct npu *npu, const char *known_text, char *out, size_t size)
{
    const char *more = npu->call->aclGetRecentErrMsg ? npu->call->aclGetRecentErrMsg() : NULL;

    snprintf(out, size, "%s%s%s", known_text ? known_text : "failed", more && *more ? ": " : "",
             more ? more : "");
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\r') *c = ' ';
}

enum bp_status npu_check(const struct npu *npu, struct npu_device *device, const char *function,
                         int code)
{
    struct kit_call call;
    struct kit_error error;
    char text[600], advice[KIT_ADVICE_SIZE];

    if (__builtin_expect(!code && !kit_is_traced(), 1)) return BP_OK;
    call = (struct kit_call){npu->host, "npu", device ? (int64_t)device->index : -1,
                             function,  code,  NULL};
    kit_call_trace(&call);
    if (!code) return BP_OK;
    error = kit_error_find(&errors, NULL, code);
    if (error.status == BP_ERR_ABSENT && device) error.status = BP_ERR_DEVICE;
    if (error.status == BP_ERR_DEVICE_LOST && device) atomic_store(&device->lost, true);
    library_text(npu, error.text, text, sizeof text);
    return kit_call_fail(&call, error.status, text,
                         kit_nodes_advice("npu", NPU_NODES, advice) ? advice : NULL);
}

enum bp_status npu_check_phase_one(const struct npu *npu, uint32_t device, const char *row,
                                   const char *function, int code)
{
    enum bp_status status = kit_error_find(&errors, NULL, code).status;
    char text[600];

    if (status != BP_ERR_UNSUPPORTED) return npu_check(npu, &npu->device[device], function, code);
    library_text(npu, NULL, text, sizeof text);
    bp_log(npu->host, BP_LOG_DEBUG, "npu:%u: %s: %s answers %d: %s", device, row, function, code,
           text);
    return status;
}

void npu_note(struct npu_device *device, const char *function, int code)
{
    struct kit_call call = {device->npu->host, "npu", device->index, function, code, NULL};
    struct kit_error error;
    char text[600];

    if (__builtin_expect(!code && !kit_is_traced(), 1)) return;
    kit_call_trace(&call);
    if (!code) return;
    error = kit_error_find(&errors, NULL, code);
    library_text(device->npu, error.text, text, sizeof text);
    if (error.status == BP_ERR_DEVICE_LOST && atomic_exchange(&device->lost, true)) return;
    kit_call_warn(&call, text);
}
