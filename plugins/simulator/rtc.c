/* SPDX-License-Identifier: Apache-2.0 */
/* rtc.c: simulates NVRTC, or hiprtc (-DSIM_HIPRTC): implements the functions of gpu/rtc.def. The
 * build machine's C++ compiler makes a shared object of a source, between rtc_begin.cc and
 * rtc_end.cc, and the simulator runs this object's entry. The stand-in refuses the calls and
 * sources that the library refuses: a source must not include headers, and its language must be
 * named. */
#include "sim.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef SIM_HIPRTC
#define NAME(nvrtc, hiprtc) hiprtc
enum {
    IS_HIP = 1
};
#define CALL_OF_ONE(result, name, nvrtc, hiprtc, parameters)
#define DEFINE "-DSIM_HIPRTC"
#else
#define NAME(nvrtc, hiprtc) nvrtc
enum {
    IS_HIP = 0
};
#define DEFINE "-DSIM_NVRTC"
#endif
#define NUMBER_OF(nvrtc, hiprtc) NAME(SIM_CALL_##nvrtc, SIM_CALL_##hiprtc)

#define CALL(result, name, nvrtc, hiprtc, parameters) result NAME(nvrtc, hiprtc) parameters;
#include "gpu/rtc.def"

enum {
    INVALID_INPUT = 3,
    INVALID_PROGRAM = 4,
    INVALID_OPTION = 5,
    COMPILATION = 6
};
enum {
    PROGRAM = 0x27c,
    LOG = 4096,
    PATH = 256
};

extern char **environ;

struct program {
    int magic;
    bool compiled, good;
    bool is_virtual; /* the code is PTX */
    char *source, log[LOG];
    struct sim_program *code; /* and the object behind it */
};

const char *NAME(nvrtcGetErrorString, hiprtcGetErrorString)(int code)
{
    static const char *const text[] = {
        "success",         "out of memory",  "a program cannot be created", "invalid input",
        "invalid program", "invalid option", "compilation failed"};

    return code >= 0 && (size_t)code < sizeof text / sizeof *text ? text[code] : "a failure";
}

int NAME(nvrtcVersion, hiprtcVersion)(int *out_major, int *out_minor)
{
    int code = sim_enter(NUMBER_OF(nvrtcVersion, hiprtcVersion));

    *out_major = IS_HIP ? 6 : 12;
    *out_minor = 4;
    return sim_leave(code);
}

#ifndef SIM_HIPRTC
/* The architectures of the library; the devices of stand-ins for drivers have one of them. */
static const int archs[] = {20, 75, 80, 90};
enum {
    ARCHS = sizeof archs / sizeof *archs
};

int nvrtcGetNumSupportedArchs(int *out)
{
    int code = sim_enter(SIM_CALL_nvrtcGetNumSupportedArchs);

    *out = ARCHS;
    return sim_leave(code);
}

int nvrtcGetSupportedArchs(int *out)
{
    int code = sim_enter(SIM_CALL_nvrtcGetSupportedArchs);

    memcpy(out, archs, sizeof archs);
    return sim_leave(code);
}
#endif

int NAME(nvrtcCreateProgram, hiprtcCreateProgram)(void **out, const char *source, const char *name,
                                                  int n, const char *const *headers,
                                                  const char *const *header_names)
{
    int code = sim_enter(NUMBER_OF(nvrtcCreateProgram, hiprtcCreateProgram));
    struct program *program;

    if (!code && (!out || !source || !name || n || headers || header_names)) code = INVALID_INPUT;
    if (code) return sim_leave(code);
    program = calloc(1, sizeof *program);
    if (program) program->source = strdup(source);
    if (!program || !program->source) abort();
    program->magic = PROGRAM;
    sim.live++;
    *out = program;
    return sim_leave(0);
}

/* Destroys the program even if the call is set to fail. */
int NAME(nvrtcDestroyProgram, hiprtcDestroyProgram)(void **p)
{
    int code = sim_enter(NUMBER_OF(nvrtcDestroyProgram, hiprtcDestroyProgram));
    struct program *program = *p;

    if (!program || program->magic != PROGRAM) return sim_leave(INVALID_PROGRAM);
    program->magic = 0;
    free(program->source);
    free(program->code);
    free(program);
    *p = NULL;
    sim.live--;
    return sim_leave(code);
}

/* ---- compilation ---- */

/* Whether an option names an architecture that the library has. */
static bool rtc_has(struct program *program, const char *option)
{
#ifdef SIM_HIPRTC
    (void)program;
    return !strncmp(option, "--offload-arch=gfx", 18) ||
           !strncmp(option, "--offload-arch=sim_", 19);
#else
    int arch;

    program->is_virtual = sscanf(option, "--gpu-architecture=compute_%d", &arch) == 1;
    if (!program->is_virtual && sscanf(option, "--gpu-architecture=sm_%d", &arch) != 1)
        return false;
    for (int k = 0; k < ARCHS; k++)
        if (arch == archs[k]) return true;
    return false;
#endif
}

/* Checks the options, which must be an architecture and the language. */
static int read_options(struct program *program, int n, const char *const *option)
{
    bool has_arch = false, has_language = false;

    for (int i = 0; i < n; i++) {
        if (!strcmp(option[i], "-std=c++17")) has_language = true;
        else if (rtc_has(program, option[i])) has_arch = true;
        else return INVALID_OPTION;
    }
    return has_arch && has_language ? 0 : INVALID_OPTION;
}

static bool rtc_write(const char *path, const char *source)
{
    FILE *f = fopen(path, "we");
    bool good = f && fprintf(f,
                             "#include \"%s/rtc_begin.cc\"\n#line 1 \"fused.cu\"\n%s\n#include "
                             "\"%s/rtc_end.cc\"\n",
                             SIM_SOURCES, source, SIM_SOURCES) > 0;

    return f && !fclose(f) && good;
}

/* Reads a file to memory from malloc, with `before` bytes in front. */
static void *rtc_read(const char *path, size_t before, size_t *out_size)
{
    FILE *f = fopen(path, "re");
    char *at = NULL;
    long size;

    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    if (size >= 0) at = calloc(1, before + (size_t)size + 1);
    if (at && fread(at + before, 1, (size_t)size, f) != (size_t)size) {
        free(at);
        at = NULL;
    }
    fclose(f);
    *out_size = (size_t)size;
    return at;
}

/* Runs the compiler; returns whether it succeeded. Its messages go to a file. */
static bool rtc_spawn(const char *source, const char *object, const char *messages)
{
    const char *const argv[] = {SIM_COMPILER,
                                "-x",
                                "c++",
                                "-std=c++17",
                                "-nostdinc++",
                                DEFINE,
                                "-O1",
                                "-w",
                                "-fPIC",
                                "-shared",
                                "-nostdlib",
                                "-fvisibility=hidden",
                                "-fno-math-errno",
                                "-fno-trapping-math",
                                "-ffp-contract=fast",
                                "-fno-exceptions",
                                "-fno-rtti",
                                source,
                                "-o",
                                object,
                                "-lm",
                                "-lc",
                                NULL};
    posix_spawn_file_actions_t actions;
    int status = -1;
    pid_t child;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
    posix_spawn_file_actions_addopen(&actions, 2, messages, O_WRONLY | O_CREAT, 0600);
    if (!posix_spawn(&child, SIM_COMPILER, &actions, NULL, (char *const *)argv, environ))
        while (waitpid(child, &status, 0) < 0) continue;
    posix_spawn_file_actions_destroy(&actions);
    return status == 0;
}

/* Reads from the object the sizes of the kernel's parameters. */
static bool rtc_describe(const char *object, struct sim_program *out)
{
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    const size_t *sizes = library ? dlsym(library, "sim_compiled_sizes") : NULL;

    if (sizes) {
        out->args_size = sizes[0];
        out->operands = sizes[1];
    }
    if (library) dlclose(library);
    return sizes != NULL;
}

static bool rtc_build(struct program *program, const char *folder)
{
    char source[PATH], object[PATH], messages[PATH], *text;
    size_t size = 0;
    bool good;

    snprintf(source, sizeof source, "%s/source.cc", folder);
    snprintf(object, sizeof object, "%s/object.so", folder);
    snprintf(messages, sizeof messages, "%s/messages", folder);
    good = rtc_write(source, program->source) && rtc_spawn(source, object, messages);
    text = rtc_read(messages, 0, &size);
    if (text) snprintf(program->log, sizeof program->log, "%s", text);
    free(text);
    if (good) program->code = rtc_read(object, sizeof *program->code, &size);
    if (program->code) {
        *program->code = (struct sim_program){SIM_IMAGE_COMPILED, .size = size};
        good = rtc_describe(object, program->code);
    }
    unlink(source);
    unlink(object);
    unlink(messages);
    return good && program->code;
}

int NAME(nvrtcCompileProgram, hiprtcCompileProgram)(void *p, int n, const char *const *options)
{
    int code = sim_enter(NUMBER_OF(nvrtcCompileProgram, hiprtcCompileProgram));
    char folder[] = "/tmp/bp-sim-rtc-XXXXXX";
    struct program *program = p;

    if (!code && (!program || program->magic != PROGRAM || program->compiled))
        code = INVALID_PROGRAM;
    if (!code) code = read_options(program, n, options);
    if (code) return sim_leave(code);
    program->compiled = true;
    sim_leave(0);
    if (strstr(program->source, "#include")) {
        snprintf(program->log, sizeof program->log, "catastrophic error: cannot open source file");
        return COMPILATION;
    }
    if (!mkdtemp(folder)) return COMPILATION;
    program->good = rtc_build(program, folder);
    rmdir(folder);
    return program->good ? 0 : COMPILATION;
}

/* ---- results ---- */

/* Begins a call that reads something of a compiled program. */
static int rtc_begin(enum sim_call call, const struct program *program, bool is_code)
{
    int code = sim_enter(call);

    if (code) return code;
    if (!program || program->magic != PROGRAM || !program->compiled) return INVALID_PROGRAM;
    return is_code && !program->good ? INVALID_PROGRAM : 0;
}

int NAME(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(void *p, size_t *out)
{
    const struct program *program = p;
    int code = rtc_begin(NUMBER_OF(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize), p, false);

    if (!code) *out = strlen(program->log) + 1;
    return sim_leave(code);
}

int NAME(nvrtcGetProgramLog, hiprtcGetProgramLog)(void *p, char *out)
{
    const struct program *program = p;
    int code = rtc_begin(NUMBER_OF(nvrtcGetProgramLog, hiprtcGetProgramLog), p, false);

    if (!code) strcpy(out, program->log);
    return sim_leave(code);
}

static size_t program_bytes(const struct program *program)
{
    return sizeof *program->code + (size_t)program->code->size;
}

/* A program for a virtual architecture has no code of a device: its size is 0. */
int NAME(nvrtcGetCUBINSize, hiprtcGetCodeSize)(void *p, size_t *out)
{
    const struct program *program = p;
    int code = rtc_begin(NUMBER_OF(nvrtcGetCUBINSize, hiprtcGetCodeSize), p, true);

    if (!code) *out = program->is_virtual ? 0 : program_bytes(program);
    return sim_leave(code);
}

int NAME(nvrtcGetCUBIN, hiprtcGetCode)(void *p, char *out)
{
    const struct program *program = p;
    int code = rtc_begin(NUMBER_OF(nvrtcGetCUBIN, hiprtcGetCode), p, true);

    if (!code && program->is_virtual) code = INVALID_PROGRAM;
    if (!code) memcpy(out, program->code, program_bytes(program));
    return sim_leave(code);
}

#ifndef SIM_HIPRTC
int nvrtcGetPTXSize(void *p, size_t *out)
{
    const struct program *program = p;
    int code = rtc_begin(SIM_CALL_nvrtcGetPTXSize, p, true);

    if (!code) *out = program_bytes(program);
    return sim_leave(code);
}

int nvrtcGetPTX(void *p, char *out)
{
    const struct program *program = p;
    int code = rtc_begin(SIM_CALL_nvrtcGetPTX, p, true);

    if (!code) memcpy(out, program->code, program_bytes(program));
    return sim_leave(code);
}
#endif
