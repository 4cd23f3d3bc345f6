/* SPDX-License-Identifier: Apache-2.0 */
/* isa.c: which instruction sets this machine has. */
#include "cpu.h"
#include <stdlib.h>
#include <string.h>

static enum cpu_isa isa_machine(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return CPU_ISA_AVX2;
    return CPU_ISA_AVX512;
#else
    return CPU_ISA_PORTABLE;
#endif
}

void cpu_isa_detect(struct cpu *self)
{
    static const char *const name[] = {"portable", "avx2", "avx512"};
    const char *cap = secure_getenv("BP_CPU_ISA");
    enum cpu_isa machine = isa_machine();

    self->isa = machine;
    self->isa_capped = 0;
    if (!cap || !*cap) return;
    for (int level = 0; level <= CPU_ISA_AVX512; level++) {
        if (strcmp(cap, name[level])) continue;
        self->isa_capped = level < (int)machine;
        if (self->isa_capped) self->isa = (uint32_t)level;
        return;
    }
    bp_log(self->host, BP_LOG_WARN,
           "BP_CPU_ISA=%s is unknown and ignored; expected portable, avx2 or avx512", cap);
}
