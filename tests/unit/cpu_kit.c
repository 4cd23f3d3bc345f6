/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_kit.c: runs kernel rows of the cpu plugin without a core, for cpu_kit.h. */
#include <backplane/kernel.h>
#include "cpu_kit.h"
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* C11's CMPLX, which clang's C library headers lack. It does no arithmetic, so an infinity in one
 * part does not change the other. */
static double _Complex complex_of(double real, double imaginary)
{
    double parts[2] = {real, imaginary};
    double _Complex z;

    memcpy(&z, parts, sizeof z);
    return z;
}

enum { GUARD = 64, POISON = 0xa5 };

const struct bp_plugin *kit_plugin;
void *kit_self;

static void cpu_kit_host_log(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    (void)level;
    cr_log_info("%s", text);
}

static enum bp_status cpu_kit_host_fail(void *ctx, uint32_t status, const char *text)
{
    cpu_kit_host_log(ctx, BP_LOG_ERROR, text);
    return (enum bp_status)status;
}

/* Bytes that the plugin has allocated and not freed. */
static _Atomic int64_t held;

static void *cpu_kit_host_allocate(void *ctx, size_t size, size_t alignment)
{
    (void)ctx;
    held += (int64_t)size;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void cpu_kit_host_release(void *ctx, void *memory, size_t size)
{
    (void)ctx;
    held -= (int64_t)size;
    free(memory);
}

void kit_load(void)
{
    static const struct bp_host host = {
        sizeof host,      BP_ABI_MAJOR,      BP_ABI_MINOR,          NULL,
        cpu_kit_host_log, cpu_kit_host_fail, cpu_kit_host_allocate, cpu_kit_host_release};
    void *library = dlopen(CPU_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const struct bp_plugin *(*get)(void);

    cr_assert(library, "%s", dlerror());
    *(void **)&get = dlsym(library, "bp_plugin_get");
    kit_plugin = get();
    cr_assert_eq(kit_plugin->create(&host, &kit_self), BP_OK);
}

void kit_unload(void)
{
    kit_plugin->destroy(kit_self);
    cr_assert_eq(held, 0, "%ld bytes of the host's memory were not given back", (long)held);
}

static int64_t element_bytes(int dtype)
{
    switch (dtype) {
#define X(NAME, name, number, bits, class) case number: return bits / 8;
        BP_DTYPES(X)
#undef X
    }
    return 0;
}

static double cpu_kit_decode(unsigned bits, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> fraction_bits) & top,
        fraction = (int)bits & ((1 << fraction_bits) - 1);
    double value = exponent == top ? (fraction ? NAN : INFINITY)
                   : exponent
                       ? ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)
                       : ldexp(fraction, 1 - bias - fraction_bits);
    return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static unsigned cpu_kit_encode(double value, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    unsigned sign = (unsigned)(value < 0) << 15;

    if (value == 0) return 0;
    double fraction = frexp(fabs(value), &exponent); /* values of tests are exact and normal */
    return sign | (unsigned)(exponent - 1 + bias) << fraction_bits |
           (unsigned)(ldexp(fraction, fraction_bits + 1) - (1 << fraction_bits));
}

static double complex element_read(int dtype, const void *at)
{
    const char *p = at;
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32[2];
        double f64[2];
    } v;

    memcpy(&v, p, (size_t)element_bytes(dtype));
    switch (dtype) {
    case BP_I8: return v.i8;
    case BP_I16: return v.i16;
    case BP_I32: return v.i32;
    case BP_I64: return (double)v.i64;
    case BP_BOOL: case BP_U8: return v.u8;
    case BP_U16: return v.u16;
    case BP_U32: return v.u32;
    case BP_U64: return (double)v.u64;
    case BP_F16: return cpu_kit_decode(v.u16, 5, 10);
    case BP_BF16: return cpu_kit_decode(v.u16, 8, 7);
    case BP_F32: return v.f32[0];
    case BP_F64: return v.f64[0];
    case BP_C64: return complex_of(v.f32[0], v.f32[1]);
    default: return complex_of(v.f64[0], v.f64[1]);
    }
}

static void element_write(int dtype, void *at, double complex value)
{
    double r = creal(value), i = cimag(value);
    union { int64_t i64; uint16_t u16; float f32[2]; double f64[2]; } v;

    switch (dtype) {
    case BP_F16: v.u16 = (uint16_t)cpu_kit_encode(r, 5, 10); break;
    case BP_BF16: v.u16 = (uint16_t)cpu_kit_encode(r, 8, 7); break;
    case BP_F32: case BP_C64: v.f32[0] = (float)r; v.f32[1] = (float)i; break;
    case BP_F64: case BP_C128: v.f64[0] = r; v.f64[1] = i; break;
    default: v.i64 = (int64_t)r; break; /* little-endian: the low bytes are the narrower integer */
    }
    memcpy(at, &v, (size_t)element_bytes(dtype));
}

/* Returns multiples of 1/8 from -2 to 2 for floats, and integers for other dtypes. */
static double cpu_kit_value_of(int dtype, unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    int k = (int)(*state >> 16) % 33 - 16;

    if (dtype == BP_BOOL) return k & 1;
    if (UINT64_C(1) << dtype & (BP_MASK_FLOAT | BP_MASK_COMPLEX)) return k / 8.0;
    return UINT64_C(1) << dtype & BP_MASK_SIGNED ? k : abs(k);
}

void tensor_init(struct tensor *t, int dtype, enum layout layout, unsigned seed, int rank,
                 const int64_t *shape)
{
    static const struct tensor none;
    int64_t step = layout == GAPS ? 2 : 1, count = 1, bytes = element_bytes(dtype);
    unsigned state = seed;

    *t = none;
    for (int i = 0; i < rank; i++) {
        int a = layout == REVERSED ? i : rank - 1 - i;
        t->shape[a] = shape[a];
        t->stride[a] = step;
        step *= shape[a];
        count *= shape[a];
    }
    t->size = (size_t)(step * bytes) + 2 * GUARD;
    t->memory = malloc(t->size);
    memset(t->memory, POISON, t->size);
    t->view = (struct bp_view){.data = count ? t->memory + GUARD : NULL,
                               .shape = t->shape,
                               .stride = t->stride,
                               .count = count,
                               .dtype = (uint8_t)dtype,
                               .rank = (uint8_t)rank,
                               .flags = layout == DENSE ? 0 : BP_VIEW_STRIDED};
    t->value = calloc((size_t)count + 1, sizeof *t->value);
    t->weight = calloc((size_t)count + 1, sizeof *t->weight);
    for (int64_t n = 0; n < count; n++) {
        int64_t index[6], offset = 0;
        double re = cpu_kit_value_of(dtype, &state);
        bool is_complex = dtype == BP_C64 || dtype == BP_C128;

        t->value[n] = is_complex ? complex_of(re, cpu_kit_value_of(dtype, &state)) : re;
        tensor_index(t, n, index);
        for (int a = 0; a < rank; a++) offset += index[a] * t->stride[a];
        element_write(dtype, (char *)t->view.data + offset * bytes, t->value[n]);
    }
}

void tensor_finish(struct tensor *t)
{
    free(t->memory);
    free(t->value);
    free(t->weight);
}

void tensor_clear(struct tensor *t)
{
    memset(t->memory, POISON, t->size);
    memset(t->value, 0, (size_t)t->view.count * sizeof *t->value);
    memset(t->weight, 0, (size_t)t->view.count * sizeof *t->weight);
}

void tensor_index(const struct tensor *t, int64_t number, int64_t *index)
{
    for (int a = t->view.rank - 1; a >= 0; a--) {
        index[a] = number % t->shape[a];
        number /= t->shape[a];
    }
}

int64_t tensor_number(const struct tensor *t, const int64_t *index)
{
    int64_t number = 0;

    for (int a = 0; a < t->view.rank; a++) number = number * t->shape[a] + index[a];
    return number;
}

double complex tensor_read(const struct tensor *t, int64_t number)
{
    int64_t index[6], offset = 0;

    tensor_index(t, number, index);
    for (int a = 0; a < t->view.rank; a++) offset += index[a] * t->stride[a];
    return element_read(t->view.dtype,
                        (char *)t->view.data + offset * element_bytes(t->view.dtype));
}

enum bp_status kit_run(const struct bp_kernel *row, struct tensor *const *in, uint32_t n_in,
                       struct tensor *out, const void *attrs, uint32_t width)
{
    const struct bp_view *views[4] = {NULL}, *result = &out->view;
    struct bp_plan plan = {.size = sizeof plan};

    for (uint32_t i = 0; i < n_in; i++) views[i] = in[i] ? &in[i]->view : NULL;
    struct bp_prep prep = {.size = sizeof prep,
                           .kernel = row,
                           .in = views,
                           .out = &result,
                           .n_in = n_in,
                           .n_out = 1,
                           .attrs = attrs,
                           .width = width};
    if (row->prepare ? row->prepare(kit_self, &prep, &plan)
                     : row->accepts && row->accepts(kit_self, &prep))
        return BP_ERR_UNSUPPORTED;
    void *workspace = aligned_alloc(64, (size_t)(plan.workspace + 127) / 64 * 64);
    struct bp_launch launch = {.self = kit_self,
                               .kernel = row,
                               .plan = plan.plan,
                               .in = views,
                               .out = &result,
                               .n_in = n_in,
                               .n_out = 1,
                               .attrs = attrs,
                               .workspace = workspace,
                               .workspace_size = (size_t)plan.workspace,
                               .width = width};
    enum bp_status status = row->launch(&launch);
    if (plan.plan) row->plan_destroy(kit_self, row, plan.plan);
    free(workspace);
    return status;
}

static double unit_of(int dtype)
{
    switch (dtype) {
    case BP_F16: return 0x1p-11;
    case BP_BF16: return 0x1p-8;
    case BP_F32: case BP_C64: return 0x1p-24;
    case BP_F64: case BP_C128: return 0x1p-53;
    default: return 0;
    }
}

/* Integers wrap: returns the value of an integer in this many bits. (u64 loses low bits of negative
 * numbers, as reading it does.) */
static double cpu_kit_wrap(int dtype, double value)
{
    bool is_signed = UINT64_C(1) << dtype & BP_MASK_SIGNED;
    double range = ldexp(1, (int)element_bytes(dtype) * 8), low = is_signed ? -range / 2 : 0;

    return value - floor((value - low) / range) * range;
}

void kit_check(const struct bp_kernel *row, const struct tensor *out, const char *what)
{
    int dtype = out->view.dtype;
    double unit = unit_of(dtype), unit_sum = unit > 0x1p-24 ? 0x1p-24 : unit;

    for (int64_t n = 0; n < out->view.count; n++) {
        double complex got = tensor_read(out, n), want = out->value[n];
        if (unit == 0) want = cpu_kit_wrap(dtype, creal(want));
        double limit = 1.01 * unit * cabs(want) + 8 * unit_sum * out->weight[n];
        cr_assert(cabs(got - want) <= limit,
                  "%s, %s: element %ld is %g%+gi, expected %g%+gi within %g (off by %g)", row->name,
                  what, (long)n, creal(got), cimag(got), creal(want), cimag(want), limit,
                  cabs(got - want));
    }
    for (int i = 0; i < GUARD; i++)
        cr_assert(out->memory[i] == POISON && out->memory[out->size - 1 - (size_t)i] == POISON,
                  "%s, %s: wrote outside its output", row->name, what);
}
