/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h: what the files of the cpu plugin share: the instance, the callbacks, the team of
 * threads. */
#ifndef CPU_H
#define CPU_H

#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <pthread.h>

/* Instruction sets that kernels are compiled for. Each level includes those before it. */
enum cpu_isa {
    CPU_ISA_PORTABLE = 0,
    CPU_ISA_AVX2 = 1,   /* with FMA and F16C */
    CPU_ISA_AVX512 = 2, /* F, BW, DQ, VL */
};

/* An instance. Constant after create. */
struct cpu {
    const struct bp_host *host;
    uint32_t isa;   /* enum cpu_isa: what this machine has, capped by BP_CPU_ISA */
    uint32_t isa_capped; /* 1: it has more than that */
    uint32_t intel; /* 1: the processor is Intel's */
    pthread_mutex_t packs_lock;
    struct onednn_pack *packs; /* onednn.h */
};

/* device.c, memory.c, copy.c, stream.c: the callbacks of runtime.h. */
enum bp_status cpu_device_count(void *self, uint32_t *out_count);
enum bp_status cpu_device_properties(void *self, uint32_t device, struct bp_device_properties *out);
enum bp_status cpu_memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out);
void cpu_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory);
enum bp_status cpu_memory_info(void *self, uint32_t device, uint64_t *out_free,
                               uint64_t *out_total);
enum bp_status cpu_memory_export(void *self, uint32_t device, uint32_t space,
                                 const struct bp_memory *memory, int32_t *out_fd,
                                 uint64_t *out_offset);
enum bp_status cpu_copy(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status cpu_synchronize(void *self, uint32_t device, void *stream);

/* copy.c: memcpy that stores past the caches; past_end (stream_store.h) comes after the last
 * one. */
void cpu_copy_past(const struct cpu *self, void *to, const void *from, size_t size);

/* A family of formulas (ops/common/kernel_formulas.h) for one dtype and level; number: which
 * formula. */
typedef enum bp_status cpu_typed(const struct bp_launch *launch, int number);

/* isa.c: as users name the levels of enum cpu_isa. */
extern const char *const cpu_isa_name[];

/* Sets isa and isa_capped: what this machine has, capped by the environment variable
 * BP_CPU_ISA=portable|avx2|avx512. */
void cpu_isa_detect(struct cpu *self);

/* The highest level up to isa that kernels are built for. */
uint32_t cpu_isa_built(uint32_t isa);

/* team.c: calls task(arg, i) for each i from 0 to n - 1 on at most width threads, the caller's
 * among them, and returns when all have. Which thread runs which i is not defined: for equal
 * results at any width, what task(arg, i) computes depends on arg and i only. */
void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width);

/* The width for elements of work that costs about as much as an addition each: launch->width, or
 * 1 where waking a team would take longer than the work. */
uint32_t cpu_team_width(const struct bp_launch *launch, double work);

/* How many threads OpenMP regions of libraries called from this thread get, and whether OpenMP may
 * give them fewer. begin sets both and returns what they were, for end. A library divides its work
 * by the team that it was promised; oneDNN's results are wrong if it gets a smaller one. So it is
 * promised no more than OMP_THREAD_LIMIT allows, and OMP_DYNAMIC is off meanwhile. */
struct cpu_team_setting {
    int width, dynamic;
};
struct cpu_team_setting cpu_team_begin(int width);
void cpu_team_end(struct cpu_team_setting before);

#endif
