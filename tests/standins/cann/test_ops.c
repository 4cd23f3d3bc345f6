/* SPDX-License-Identifier: Apache-2.0 */
/* test_ops.c: tests the operators of the stand-in for CANN: each line of cases.txt is an operator,
 * called right once and wrong once. The libraries are opened by their names, as a plugin opens
 * them.
 *
 *   test_ops CASES FOLDER LIBRARY...       the libraries that have operators
 *
 * A line: the name; an argument for each letter of ops.txt; "!"; the number of an argument, "=",
 * what it is in the wrong call; the code that phase 1 must return. An argument is
 *
 *   DTYPE[EXTENTS]@FORMAT=NUMBERS   a tensor; of an output the expected numbers (? for none); of an
 *                                   updated one the numbers before and, after ">", those after;
 *                                   numbers are repeated as often as needed; @FORMAT may be absent
 *   TENSOR+TENSOR                   a list of them
 *   {1,2}                           an array
 *   -                               NULL
 *   a number or a text              all else
 *
 * TAP. */
#include "test_ops.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIBRARIES = 8,
    NUMBERS = 4096,
    TENSORS = 32
};

static int number, failed;
static void *library[LIBRARIES];
static int n_library;
static void *stream;

static void *library_symbol(const char *name)
{
    for (int i = 0; i < n_library; i++) {
        void *found = dlsym(library[i], name);
        if (found) return found;
    }
    return NULL;
}

/* The functions that the test itself calls. */
#define FUNCTIONS(X) \
    X(int, aclInit, (const char *)) \
    X(int, aclrtSetDevice, (int32_t)) \
    X(int, aclrtResetDevice, (int32_t)) \
    X(int, aclFinalize, (void)) \
    X(int, aclrtCreateStream, (void **)) \
    X(int, aclrtDestroyStream, (void *)) \
    X(int, aclrtSynchronizeStream, (void *)) \
    X(int, aclrtMalloc, (void **, size_t, int)) \
    X(int, aclrtFree, (void *)) \
    X(int, aclrtMemcpy, (void *, size_t, const void *, size_t, int)) \
    X(void *, aclCreateTensor, \
      (const int64_t *, uint64_t, int, const int64_t *, int64_t, int, const int64_t *, uint64_t, \
       void *)) X(void *, aclCreateScalar, (void *, int)) X(void *, aclCreateIntArray, \
                                                            (const int64_t *, uint64_t)) \
        X(void *, aclCreateBoolArray, (const bool *, uint64_t)) X(void *, aclCreateTensorList, \
                                                                  (void *const *, uint64_t)) \
            X(int, aclDestroyTensor, (const void *)) X(int, aclDestroyScalar, (const void *)) \
                X(int, aclDestroyIntArray, \
                  (const void *)) X(int, aclDestroyBoolArray, \
                                    (const void *)) X(int, aclDestroyTensorList, (const void *)) \
                    X(int, aclSetAclOpExecutorRepeatable, (void *)) \
                        X(int, aclDestroyAclOpExecutor, (void *)) \
                            X(int, aclSetInputTensorAddr, (void *, size_t, void *, void *)) \
                                X(int, aclGetViewShape, (const void *, int64_t **, uint64_t *)) \
                                    X(const char *, aclGetRecentErrMsg, (void))
#define X(result, name, parameters) static result(*name) parameters;
FUNCTIONS(X)
#undef X

static bool functions_find(void)
{
    bool all = true;

#define X(result, name, parameters) \
    *(void **)(void *)&name = library_symbol(#name); \
    if (!name) printf("# no function %s\n", #name); \
    all = all && name;
    FUNCTIONS(X)
#undef X
    return all;
}

static void test_ops_report(bool good, const char *name, const char *what)
{
    printf("%s %d - %s%s\n", good ? "ok" : "not ok", ++number, name, what);
    failed += !good;
}

/* A tensor of a case, and its memory. */
struct tensor {
    void *handle, *memory;
    uint32_t dtype;
    int64_t n;
    bool is_in, is_out;
    char *numbers, *after; /* texts in the case's line; NULL: none */
};

/* A call as its line says it. */
struct call {
    const struct op_caller *op;
    char *token[CANN_ARGS];
    union cann_value value[CANN_ARGS];
    struct tensor tensor[TENSORS];
    int n_tensor;
};

static const struct {
    const char *name;
    int acl;
    uint32_t bp;
} dtypes[] = {{"f32", CANN_F32, BP_F32},   {"f16", CANN_F16, BP_F16}, {"bf16", CANN_BF16, BP_BF16},
              {"f64", CANN_F64, BP_F64},   {"i8", CANN_I8, BP_I8},    {"i16", CANN_I16, BP_I16},
              {"i32", CANN_I32, BP_I32},   {"i64", CANN_I64, BP_I64}, {"u8", CANN_U8, BP_U8},
              {"bool", CANN_BOOL, BP_BOOL}};
static const struct {
    const char *name;
    int acl;
} formats[] = {{"NCHW", CANN_NCHW},   {"ND", CANN_ND}, {"NCL", CANN_NCL},
               {"NCDHW", CANN_NCDHW}, {"NC", CANN_NC}, {"NZ", CANN_NZ}};

/* Converts between numbers in f64 and those of a dtype. */
static void numbers_convert(void *from, uint32_t from_dtype, void *to, uint32_t to_dtype, int64_t n)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = to_dtype};
    struct base_tensor a = base_tensor_of(from, from_dtype, 1, &n);
    struct base_tensor b = base_tensor_of(to, to_dtype, 1, &n);
    struct base_call call = {.op = "cast",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {&a},
                             .out = {&b},
                             .type = {from_dtype, to_dtype, BASE_ABSENT, BASE_ABSENT}};

    if (n && base_compute(&call)) printf("# a conversion fails\n");
}

/* Reads numbers, and repeats them up to n. */
static void numbers_read(const char *text, double *out, int64_t n)
{
    int64_t k = 0;
    char *end;

    while (text && *text && k < n) {
        out[k++] = strtod(text, &end);
        text = *end == ',' ? end + 1 : NULL;
    }
    for (int64_t i = k; i < n; i++) out[i] = k ? out[i % k] : 0;
}

/* Makes a tensor of a token such as f32[2,3]@NCHW=1,2 with its numbers on the device. */
static void *tensor_make(struct call *call, char *token, char letter)
{
    struct tensor *t = &call->tensor[call->n_tensor++];
    char dtype[8] = "", format[8] = "ND", *open = strchr(token, '['), *close = strchr(token, ']');
    static double numbers[NUMBERS];
    static char raw[NUMBERS * 16];
    int acl = -1, code = CANN_ND, rank = 0;
    int64_t dims[CANN_RANK] = {0}, storage;

    snprintf(dtype, sizeof dtype, "%.*s", (int)(open - token), token);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, dtype)) {
            acl = dtypes[i].acl;
            t->dtype = dtypes[i].bp;
        }
    t->n = 1;
    for (char *at = open + 1; at < close; at++) {
        dims[rank] = strtoll(at, &at, 10);
        t->n *= dims[rank++];
    }
    if (close[1] == '@') sscanf(close + 2, "%7[A-Z]", format);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (!strcmp(formats[i].name, format)) code = formats[i].acl;
    t->is_in = letter != 'O' && letter != 'M';
    t->is_out = letter == 'O' || letter == 'M' || letter == 'R';
    t->numbers = strchr(close, '=');
    t->after = t->numbers ? strchr(t->numbers, '>') : NULL;
    storage = t->n ? t->n : 1;
    aclrtMalloc(&t->memory, (size_t)storage * 16, 0);
    numbers_read(t->is_in && t->numbers ? t->numbers + 1 : "7", numbers, t->n);
    numbers_convert(numbers, BP_F64, raw, t->dtype, t->n);
    if (t->n) aclrtMemcpy(t->memory, sizeof raw, raw, (size_t)t->n * base_dtype_size(t->dtype), 1);
    return t->handle = aclCreateTensor(dims, (uint64_t)rank, acl, NULL, 0, code, &storage, 1,
                                       t->memory);
}

static void *list_make(struct call *call, char *token, char letter)
{
    void *handles[TENSORS];
    uint64_t n = 0;
    char *next;

    for (; token; token = next) {
        next = strchr(token, '+');
        if (next) *next++ = 0;
        handles[n++] = tensor_make(call, token, letter);
        if (next) next[-1] = '+'; /* the token is read again */
    }
    return aclCreateTensorList(handles, n);
}

static void *array_make(char *token, char letter)
{
    int64_t at[CANN_INTS];
    bool bools[CANN_INTS];
    uint64_t n = 0;

    for (char *c = token + 1; *c && *c != '}'; c++) {
        at[n] = strtoll(c, &c, 10);
        bools[n] = at[n] != 0;
        n++;
        if (*c == '}') break;
    }
    return letter == 'B' ? aclCreateBoolArray(bools, n) : aclCreateIntArray(at, n);
}

static void value_make(struct call *call, int arg)
{
    char letter = call->op->letters[arg], *token = call->token[arg];
    union cann_value *v = &call->value[arg];
    double d = strtod(token, NULL);

    v->p = NULL;
    if (strchr("inubct", letter)) v->i = (int64_t)d;
    else if (strchr("df", letter)) v->d = d;
    else if (!strcmp(token, "-")) v->p = NULL;
    else if (letter == 's') v->p = token;
    else if (letter == 'S') v->p = aclCreateScalar(&d, CANN_F64);
    else if (letter == 'A' || letter == 'B') v->p = array_make(token, letter);
    else if (letter == 'L' || letter == 'M') v->p = list_make(call, token, letter);
    else v->p = tensor_make(call, token, letter);
}

static void value_destroy(struct call *call, int arg)
{
    char letter = call->op->letters[arg];
    const void *p = call->value[arg].p;

    if (strchr("inubctdfs", letter)) return;
    if (letter == 'S') aclDestroyScalar(p);
    else if (letter == 'A') aclDestroyIntArray(p);
    else if (letter == 'B') aclDestroyBoolArray(p);
    else if (letter == 'L' || letter == 'M') aclDestroyTensorList(p);
    else aclDestroyTensor(p);
}

static void call_finish(struct call *call)
{
    for (int i = 0; call->op->letters[i]; i++) value_destroy(call, i);
    for (int i = 0; i < call->n_tensor; i++) aclrtFree(call->tensor[i].memory);
    call->n_tensor = 0;
}

/* Compares an output with the numbers of its token. */
static bool tensor_compare(const struct tensor *t, const char *name)
{
    static double is[NUMBERS], expected[NUMBERS];
    static char raw[NUMBERS * 16];
    const char *text = t->after ? t->after + 1 : t->numbers ? t->numbers + 1 : NULL;
    double tolerance = t->dtype == BP_F16 || t->dtype == BP_BF16 ? 1e-2 : 2e-5;

    if (!t->is_out || !text || *text == '?' || !t->n) return true;
    if (aclrtMemcpy(raw, sizeof raw, t->memory, (size_t)t->n * base_dtype_size(t->dtype), 2))
        return false;
    numbers_convert(raw, t->dtype, is, BP_F64, t->n);
    numbers_read(text, expected, t->n);
    for (int64_t i = 0; i < t->n; i++) {
        if (fabs(is[i] - expected[i]) <= tolerance * (1 + fabs(expected[i]))) continue;
        if (is[i] == expected[i] || (isnan(is[i]) && isnan(expected[i]))) continue;
        printf("# %s: number %d of an output is %g, expected %g\n", name, (int)i, is[i],
               expected[i]);
        return false;
    }
    return true;
}

typedef int launch_function(void *workspace, uint64_t size, void *executor, void *stream);

static launch_function *launch_of(const struct op_caller *op)
{
    launch_function *launch;
    char name[128];
    void *found;

    snprintf(name, sizeof name, "aclnn%s", op->name);
    found = library_symbol(name);
    memcpy(&launch, &found, sizeof launch);
    return launch;
}

static int case_prepare(struct call *call, uint64_t *size, void **executor)
{
    char name[128];
    void *function;

    snprintf(name, sizeof name, "aclnn%sGetWorkspaceSize", call->op->name);
    function = library_symbol(name);
    return function ? call->op->call(function, call->value, size, executor) : -1;
}

/* Calls an operator right: one phase 2, then two of a repeatable executor. */
static void case_right(struct call *call)
{
    launch_function *launch = launch_of(call->op);
    void *executor = NULL, *workspace = NULL;
    size_t before = base_misuses();
    uint64_t size = 0;
    bool good = true;
    int code;

    for (int i = 0; call->op->letters[i]; i++) value_make(call, i);
    code = case_prepare(call, &size, &executor);
    if (code) printf("# %s: phase 1 returns %d: %s\n", call->op->name, code, aclGetRecentErrMsg());
    if (!code && size) code = aclrtMalloc(&workspace, size, 0);
    if (!code) code = launch(workspace, size, executor, stream);
    if (!code) code = aclrtSynchronizeStream(stream);
    if (code) printf("# %s: phase 2 returns %d: %s\n", call->op->name, code, aclGetRecentErrMsg());
    for (int i = 0; i < call->n_tensor && !code; i++)
        good = tensor_compare(&call->tensor[i], call->op->name) && good;
    test_ops_report(!code && good && base_misuses() == before, call->op->name, " computes");
    if (workspace) aclrtFree(workspace);
}

/* An executor serves once; a workspace that is too small, or of the host, is refused. */
static void case_executor(struct call *call)
{
    launch_function *launch = launch_of(call->op);
    void *executor = NULL, *workspace = NULL;
    size_t before = base_misuses(), wrong = 1;
    static char host[1 << 14];
    uint64_t size = 0;
    bool good;

    call_finish(call); /* extents that depend on data are other ones now */
    for (int i = 0; call->op->letters[i]; i++) value_make(call, i);
    good = !case_prepare(call, &size, &executor);

    if (good && size) {
        good = !aclrtMalloc(&workspace, size, 0);
        good = good && launch(workspace, size - 1, executor, stream) == 161002;
        good = good && launch(NULL, size, executor, stream) == 161002;
        good = good && launch(host, size, executor, stream) == 161002;
        wrong += 3;
    }
    good = good && !launch(workspace, size, executor, stream);
    good = good && launch(workspace, size, executor, stream) == 361001; /* again */
    good = good && !aclrtSynchronizeStream(stream) && base_misuses() == before + wrong;
    test_ops_report(good, call->op->name, " takes an executor once, with a whole workspace");
    if (workspace) aclrtFree(workspace);
}

/* One wrong argument: phase 1 refuses it, with a message. */
static void case_wrong(struct call *call, char *wrong, int expected)
{
    int arg = (int)strtol(wrong, &wrong, 10), code;
    void *executor = NULL;
    uint64_t size = 0;

    value_destroy(call, arg);
    call->token[arg] = wrong + 1;
    value_make(call, arg);
    code = case_prepare(call, &size, &executor);
    if (code != expected) printf("# %s: returns %d\n", call->op->name, code);
    if (!code) aclDestroyAclOpExecutor(executor);
    test_ops_report(code == expected && aclGetRecentErrMsg(), call->op->name,
                    " refuses a wrong call");
}

/* Runs a line; returns its operator's number, -1 if the line cannot be read. */
static int case_run(char *line)
{
    static struct call call;
    char *name = strtok(line, " \n"), *token, *wrong = NULL;
    int k = 0, n = 0;

    while (op_callers[k].name && strcmp(op_callers[k].name, name) != 0) k++;
    if (!op_callers[k].name) return -1;
    memset(&call, 0, sizeof call);
    call.op = &op_callers[k];
    while ((token = strtok(NULL, " \n")) && *token != '!' && n < CANN_ARGS) call.token[n++] = token;
    wrong = strtok(NULL, " \n");
    token = strtok(NULL, " \n");
    if (n != (int)strlen(call.op->letters) || !wrong || !token) return -1;
    case_right(&call);
    case_executor(&call);
    case_wrong(&call, wrong, atoi(token));
    call_finish(&call);
    return k;
}

static bool libraries_open(int n, char **names, const char *folder)
{
    static const char *const first[] = {"libascendcl.so", "libnnopbase.so"};
    char path[4096];

    for (int i = 0; i < n + 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i < 2 ? first[i] : names[i - 2]);
        library[n_library] = dlopen(path, RTLD_NOW);
        if (!library[n_library]) printf("# %s\n", dlerror());
        if (!library[n_library++]) return false;
    }
    return functions_find();
}

static void cases_run(const char *path)
{
    static bool seen[1024];
    FILE *file = fopen(path, "r");
    char line[2048], copy[64];
    int k;

    while (file && fgets(line, sizeof line, file)) {
        if (*line == '#' || *line == '\n') continue;
        snprintf(copy, sizeof copy, "%.40s", line);
        k = case_run(line);
        if (k < 0) test_ops_report(false, "a line that cannot be read: ", copy);
        else seen[k] = true;
    }
    if (file) fclose(file);
    for (k = 0; op_callers[k].name; k++)
        if (!seen[k]) test_ops_report(false, op_callers[k].name, " has no line");
}

int main(int argc, char **argv)
{
    if (argc < 4) return 2;
    setenv("BP_STANDIN_LOG", "/dev/null", 1);
    setenv("ASCEND_OPP_PATH", "/nowhere", 1);
    test_ops_report(libraries_open(argc - 3, argv + 3, argv[2]), "the libraries", " are there");
    if (failed) return 1;
    test_ops_report(!aclInit(NULL) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream), "begin",
                    "");
    cases_run(argv[1]);
    test_ops_report(!aclrtDestroyStream(stream) && !aclrtResetDevice(0) && !aclFinalize() &&
                        !base_live(),
                    "nothing", " is left");
    base_live_print();
    printf("1..%d\n", number);
    return failed != 0;
}
