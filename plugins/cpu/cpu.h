/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h: declares the types and functions that the files of the cpu plugin share: the instance, the
 * callbacks and the thread team. */
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

/* An instance. The fields before packs_lock are constant after create; packs_lock guards
 * the packs. */
struct cpu {
    const struct bp_host *host;
    uint32_t isa;   /* enum cpu_isa: the machine's level, capped by BP_CPU_ISA */
    uint32_t isa_capped; /* 1: the machine has a higher level than `isa` */
    uint32_t intel; /* 1: the processor is Intel's */
    pthread_mutex_t packs_lock;
    struct onednn_pack *packs; /* oneDNN's packed constants: onednn.h */
    struct recurrent_pack *recurrent_packs; /* packed weights of recurrent layers: recurrent.h */
};

/* device.c, memory.c, copy.c, stream.c: the callbacks of runtime.h. */
enum bp_status cpu_device_count(void *self, uint32_t *out_count);
enum bp_status cpu_device_properties(void *self, uint32_t device, struct bp_device_properties *out);
enum bp_status cpu_memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                   struct bp_memory *out);
void cpu_memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory);
enum bp_status cpu_memory_discard(void *self, uint32_t device, uint32_t space,
                                  const struct bp_memory *memory, uint64_t offset, uint64_t size);
/* Makes sure of the contents of a constant input, before prepare reads them. */
enum bp_status cpu_constant_read(const struct cpu *self, const struct bp_prep *prep, int input);
enum bp_status cpu_memory_info(void *self, uint32_t device, uint64_t *out_free,
                               uint64_t *out_total);
enum bp_status cpu_memory_export(void *self, uint32_t device, uint32_t space,
                                 const struct bp_memory *memory, int32_t *out_fd,
                                 uint64_t *out_offset);
enum bp_status cpu_copy(void *self, uint32_t device, void *stream, const struct bp_copy *copy);
enum bp_status cpu_synchronize(void *self, uint32_t device, void *stream);

/* copy.c: memcpy with streaming stores. The caller calls nt_fence (stream_store.h) after the last
 * copy. */
void cpu_copy_nt(const struct cpu *self, void *to, const void *from, size_t size);

/* Runs one formula of a family (ops/common/kernel_formulas.h) for one dtype and instruction level.
 * number: the formula. */
typedef enum bp_status cpu_typed(const struct bp_launch *launch, int number);

/* Computes n contiguous elements by one formula of a family, for `fused`. y may be an input: each
 * element is read before it is written. number: the operator's first three attributes. */
typedef void cpu_span(int formula, int64_t n, void *y, const void *const *x, const double *number);

/* isa.c: the names of the levels of enum cpu_isa for users. */
extern const char *const cpu_isa_name[];

/* Sets self->isa, self->isa_capped and self->intel: the level of this machine, capped by the
 * environment variable BP_CPU_ISA=portable|avx2|avx512. */
void cpu_isa_detect(struct cpu *self);

/* The highest level up to isa for which kernels are built. */
uint32_t cpu_isa_built(uint32_t isa);

/* team.c: calls task(arg, i) for each i from 0 to n - 1 on at most `width` threads, including the
 * calling thread, and returns when all calls have returned. Which thread runs which i is not
 * defined. To give equal results at any width, a task's result must depend only on arg and i. */
void cpu_team_run(void (*task)(void *arg, int64_t i), void *arg, int64_t n, uint32_t width);

/* The number of threads for `work` operations that each cost about as much as an addition:
 * launch->width, or 1 if waking a team would take longer than the work. */
uint32_t cpu_team_width(const struct bp_launch *launch, double work);

/* The rule of cpu_team_width, for at most `most` threads. */
uint32_t cpu_width_choose(uint32_t most, double work);

/* The work, in additions, of a product in a library: `terms` multiplications that are added, of
 * tensors of `bytes` in all. */
double cpu_product_work(double terms, double bytes);

/* Sets how many threads the OpenMP regions of libraries called from this thread receive, and
 * forbids OpenMP to provide fewer (OMP_DYNAMIC is off). Returns the previous setting, which the
 * caller passes to cpu_team_end. A library divides its work by the expected size of its team, and
 * oneDNN's results are wrong if the team is smaller. The width is therefore limited to
 * OMP_THREAD_LIMIT. */
struct cpu_team_setting {
    int width, dynamic;
};
struct cpu_team_setting cpu_team_begin(int width);
void cpu_team_end(struct cpu_team_setting before);

#endif
