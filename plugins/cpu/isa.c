/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c: detects which instruction sets this machine has. */
#include "cpu.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && __has_include(<sys/platform/x86.h>)
#include <cpuid.h>
#include <sys/platform/x86.h>

/* Reads the features that the C library detected when the process began. gcc's own functions query
 * the processor again while the plugin is loaded, some 20 times; under a hypervisor each query can
 * take 4 us. feature: a number with 128 bits for each leaf and 32 for each register. (The header's
 * own function shifts an int by 31.) */
static bool isa_has(unsigned feature)
{
    const struct cpuid_feature *leaf = __x86_get_cpuid_feature_leaf(feature / 128);

    return leaf->active_array[feature % 128 / 32] >> feature % 32 & 1;
}

static enum cpu_isa isa_machine(void)
{
    if (!isa_has(x86_cpu_AVX2) || !isa_has(x86_cpu_FMA)) return CPU_ISA_PORTABLE;
    if (!isa_has(x86_cpu_AVX512F) || !isa_has(x86_cpu_AVX512BW) || !isa_has(x86_cpu_AVX512DQ) ||
        !isa_has(x86_cpu_AVX512VL))
        return CPU_ISA_AVX2;
    return CPU_ISA_AVX512;
}

static bool is_intel(void)
{
    unsigned most, vendor[3];

    __cpuid(0, most, vendor[0], vendor[2], vendor[1]);
    (void)most;
    return !memcmp(vendor, "GenuineIntel", sizeof vendor);
}
#elif defined(__x86_64__) || defined(__i386__)
static enum cpu_isa isa_machine(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return CPU_ISA_AVX2;
    return CPU_ISA_AVX512;
}

static bool is_intel(void)
{
    return __builtin_cpu_is("intel");
}
#else
static enum cpu_isa isa_machine(void)
{
    return CPU_ISA_PORTABLE;
}

static bool is_intel(void)
{
    return false;
}
#endif

const char *const cpu_isa_name[] = {"portable", "avx2", "avx512"};

void cpu_isa_detect(struct cpu *self)
{
    const char *cap = secure_getenv("BP_CPU_ISA");
    enum cpu_isa machine = isa_machine();

    self->isa = machine;
    self->isa_capped = 0;
    self->intel = is_intel();
    if (!cap || !*cap) return;
    for (int level = 0; level <= CPU_ISA_AVX512; level++) {
        if (strcmp(cap, cpu_isa_name[level])) continue;
        self->isa_capped = level < (int)machine;
        if (self->isa_capped) self->isa = (uint32_t)level;
        return;
    }
    bp_log(self->host, BP_LOG_WARN,
           "BP_CPU_ISA=%s is unknown and ignored; expected portable, avx2 or avx512", cap);
}

uint32_t cpu_isa_built(uint32_t isa)
{
#ifdef CPU_AVX512
    if (isa >= CPU_ISA_AVX512) return CPU_ISA_AVX512;
#endif
#ifdef CPU_AVX2
    if (isa >= CPU_ISA_AVX2) return CPU_ISA_AVX2;
#endif
    (void)isa;
    return CPU_ISA_PORTABLE;
}
