/* SPDX-License-Identifier: Apache-2.0 */
/* sources.c: prints the sources that plugins/gpu would compile at run time, for all operators of
 * `fused`, all dtypes and all kinds of operands, and compiles them by NVRTC, which needs no GPU.
 *
 *   sources FOLDER           writes the sources into an existing folder, for other compilers
 *   sources nvrtc FILE...    compiles them by the first of these libraries that can be opened, and
 *                            compares the parameters of the code with those of a launch */
#include "../standin/standin.h"
#include "gpu/rtc.h"
#include <backplane/fused.h>
#include <dialect/fused_walk.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The operators, of which the first have no truth values. */
static const struct member {
    const char *name;
    int n, from, to; /* operands; masks of truth values among operands and results */
} members[] = {
#define MEMBER(name, n) {#name, n, 0, 0},
#define TRUTH_MEMBER(name, n, from, to) {#name, n, from, to},
    BP_FUSED_OPS(MEMBER) BP_FUSED_TRUTH_OPS(TRUTH_MEMBER)};
enum {
    MEMBERS = sizeof members / sizeof *members,
    NUMBERS = 2,
    TRUTHS = 2
};

/* Registers 0 and 1 hold numbers, 2 and 3 truth values. */
enum {
    N_IN = 4,
    R = BP_FUSED_R,
    FIRST_TRUTH = BP_FUSED_R + NUMBERS
};

/* Adds an instruction that reads inputs and registers in turn. */
static void code_add(int64_t *code, uint32_t i, const struct member *m)
{
    struct bp_fused_step step = {.from = {BP_FUSED_NONE, BP_FUSED_NONE, BP_FUSED_NONE}};

    snprintf(step.op, sizeof step.op, "%s", m->name);
    for (int k = 0; k < m->n; k++)
        step.from[k] = (uint8_t)(m->from >> k & 1 ? (uint32_t)(FIRST_TRUTH + k % TRUTHS)
                                 : k % 2          ? (uint32_t)R + i % NUMBERS
                                                  : (i + (uint32_t)k) % N_IN);
    step.to = (uint8_t)(m->to ? FIRST_TRUTH + i % TRUTHS : R + i % NUMBERS);
    step.number[0] = i % 2;
    step.number[1] = 0.5;
    bp_fused_put(code, i, &step);
}

/* Writes code with the operators from `first` on, as many as fit; returns the next one. The
 * registers get values first, and are the results. */
static int code_make(int first, int64_t *code, int64_t *out_n)
{
    static const struct member neg = {"neg", 1, 0, 0}, less = {"less_than", 2, 0, 1};
    struct bp_fused_step last = {.op = "add", .to = BP_FUSED_Y, .from = {R, R + 1, BP_FUSED_NONE}};
    uint32_t n = 0;

    code[0] = bp_fused_head_truths(N_IN, 1, NUMBERS + TRUTHS, 3u << NUMBERS);
    while (n < NUMBERS) code_add(code, n++, &neg);
    while (n < NUMBERS + TRUTHS) code_add(code, n++, &less);
    while (n < BP_FUSED_STEPS - 1 && first < MEMBERS) code_add(code, n++, &members[first++]);
    bp_fused_put(code, n++, &last);
    *out_n = 1 + (int64_t)n * BP_FUSED_STEP_WORDS;
    return first;
}

/* Operands that lie in the ways of one kind or another, the result and the inputs; rank 0: dense
 * and scalar ones alone. */
static struct fused_walk walk_of(int which)
{
    static const enum fused_kind kinds[][N_IN + 1] = {
        {FUSED_DENSE, FUSED_DENSE, FUSED_SCALAR, FUSED_DENSE, FUSED_SCALAR},
        {FUSED_DENSE, FUSED_ROW, FUSED_HELD, FUSED_STRIDED, FUSED_SCALAR},
        {FUSED_STRIDED, FUSED_DENSE, FUSED_HELD, FUSED_ROW, FUSED_STRIDED},
    };
    struct fused_walk walk = {
        .n_out = 1, .n = N_IN + 1, .rank = which ? 1 + 3 * which : 0, .count = 4096};

    memcpy(walk.kind, kinds[which], sizeof kinds[which]);
    return walk;
}
enum {
    WALKS = 3
};

/* Calls `use` for each source, with the bytes of parameters that a launch of its kernel passes;
 * returns for how many the call failed. */
typedef bool use_source(void *arg, const char *name, const char *source, size_t parameters);
static int sources_each(enum portable_type type, use_source *use, void *arg, int *out_n)
{
    static const struct fused_device device = {.has_f64 = true};
    int64_t code[BP_FUSED_WORDS] = {0}, n, args[FUSED_ARGS];
    int bad = 0;

    for (int first = 0, next; first < MEMBERS; first = next) {
        next = code_make(first, code, &n);
        for (int w = 0; w < WALKS; w++) {
            const struct fused_walk walk = walk_of(w);
            double work;
            char *text = portable_fused_print((struct bp_dims){code, n}, type, &device, &walk,
                                              &work);
            char *source = text ? rtc_source(type, text) : NULL, name[64];
            snprintf(name, sizeof name, "%s_%d_%d", portable_type_name(type), first, w);
            bad += !source || !use(arg, name, source,
                                   portable_fused_args(&walk, args) + (N_IN + 2) * sizeof *args);
            (*out_n)++;
            free(source);
            free(text);
        }
    }
    return bad;
}

static bool source_write(void *folder, const char *name, const char *source, size_t parameters)
{
    char path[4096];
    FILE *f;

    (void)parameters;
    snprintf(path, sizeof path, "%s/%s.cu", (const char *)folder, name);
    f = fopen(path, "we");
    return f && fputs(source, f) >= 0 && !fclose(f);
}

/* Writes a source whose product a compiler would join with the sum behind it. */
static bool separate_write(char *folder, enum portable_type type)
{
    static const struct fused_device device = {.has_f64 = true};
    struct bp_fused_step mul = {.op = "mul", .to = R, .from = {0, 1, BP_FUSED_NONE}},
                         add = {.op = "add", .to = BP_FUSED_Y, .from = {R, 0, BP_FUSED_NONE}};
    const struct fused_walk walk = {.n_out = 1, .n = 3, .count = 4096};
    int64_t code[1 + 2 * BP_FUSED_STEP_WORDS] = {bp_fused_head(2, 1, 1)};
    char *text, *source, name[64];
    double work;
    bool good;

    bp_fused_put(code, 0, &mul);
    bp_fused_put(code, 1, &add);
    text = portable_fused_print((struct bp_dims){code, 1 + 2 * BP_FUSED_STEP_WORDS}, type, &device,
                                &walk, &work);
    source = text ? rtc_source(type, text) : NULL;
    snprintf(name, sizeof name, "separate_%s", portable_type_name(type));
    good = source && source_write(folder, name, source, 0);
    free(source);
    free(text);
    return good;
}

/* ---- NVRTC ---- */

struct compiler {
    struct rtc_calls call;
    char arch[40];
};

static bool compiler_open(struct compiler *c, const char *path)
{
    static const char *const names[] = {
#define CALL(result, name, nvrtc, hiprtc, parameters) #nvrtc,
#include "gpu/rtc.def"
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *function[sizeof names / sizeof *names];
    int n = 0, *archs;

    for (size_t i = 0; library && i < sizeof names / sizeof *names; i++) {
        function[i] = dlsym(library, names[i]);
        if (!function[i]) library = NULL;
    }
    if (!library) return false;
    memcpy(&c->call, function, sizeof c->call);
    if (c->call.n_arch(&n) || n < 1) return false;
    archs = calloc((size_t)n, sizeof *archs);
    if (archs && !c->call.archs(archs))
        snprintf(c->arch, sizeof c->arch, "--gpu-architecture=sm_%d", archs[0]);
    free(archs);
    return c->arch[0];
}

/* The stand-ins' reader of code needs this. */
const struct standin standin = {.library = "NVRTC", .most = UINT64_MAX};

/* Whether the code of a program takes this many bytes of parameters. */
static bool code_takes(const struct compiler *c, void *program, size_t size, size_t parameters)
{
    struct standin_image image = {0};
    char *code = malloc(size);
    bool good = code && !c->call.code(program, code) && !standin_read_cubin(code, size, &image) &&
                image.n == 1 && image.kernel->size == parameters;

    if (!good && image.n)
        printf("# the code takes %zu bytes of parameters, a launch has %zu\n", image.kernel->size,
               parameters);
    standin_forget(&image);
    free(code);
    return good;
}

static bool source_compile(void *arg, const char *name, const char *source, size_t parameters)
{
    const struct compiler *c = arg;
    const char *const options[] = {c->arch, "-std=c++17"};
    size_t size = 0, code = 0;
    void *program = NULL;
    char *log;
    bool good = !c->call.create(&program, source, "fused.cu", 0, NULL, NULL);

    good = good && !c->call.compile(program, 2, options) && !c->call.code_size(program, &code) &&
           code_takes(c, program, code, parameters);
    if (!good && program && !c->call.log_size(program, &size)) {
        log = calloc(1, size + 1);
        if (log && !c->call.log(program, log)) printf("# %s: %.2000s\n", name, log);
        free(log);
    }
    return !c->call.destroy(&program) && good;
}

static const enum portable_type types[] = {TYPE_f32, TYPE_f64, TYPE_f16, TYPE_bf16};
enum {
    TYPES = sizeof types / sizeof *types
};

static int compile_all(int n, char **path)
{
    struct compiler compiler = {.arch = ""};
    int i = 0, bad, made, failed = 0;

    while (i < n && !compiler_open(&compiler, path[i])) i++;
    printf("1..%d\n", TYPES);
    for (int t = 0; t < TYPES; t++) {
        const char *name = portable_type_name(types[t]);
        if (i == n) {
            printf("ok %d - %s # SKIP no NVRTC\n", t + 1, name);
            continue;
        }
        made = 0;
        bad = sources_each(types[t], source_compile, &compiler, &made);
        failed += bad;
        printf("%sok %d - %s compiles %d sources of %s for %s\n", bad ? "not " : "", t + 1, path[i],
               made, name, compiler.arch);
    }
    return failed != 0;
}

int main(int argc, char **argv)
{
    int bad = 0, n = 0;

    if (argc > 1 && !strcmp(argv[1], "nvrtc")) return compile_all(argc - 2, argv + 2);
    if (argc != 2) return 2;
    for (int t = 0; t < TYPES; t++) bad += sources_each(types[t], source_write, argv[1], &n);
    return bad || !separate_write(argv[1], TYPE_f32) || !separate_write(argv[1], TYPE_f64);
}
