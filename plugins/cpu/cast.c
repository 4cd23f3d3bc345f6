/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: implements the cast operator for every pair of real dtypes, f8 types and bool;
 * cast_run.c converts the elements. */
#include "cast.h"
#include "cpu.h"
#include "kernels.h"
#include "loop.h"

cpu_cast_fn cpu_cast_run, cpu_cast_run_avx2, cpu_cast_run_avx512;

struct cast {
    struct loop loop;
    cpu_cast_fn *run; /* the function of the kernel row's instruction level */
    uint8_t from, to;
    struct cast_rule rule;
};

static void cast_run(const struct loop *loop, int64_t n, void *y, const void *const *x)
{
    const struct cast *c = (const struct cast *)loop;

    c->run(c->from, c->to, c->rule, n, y, x[0], c->loop.lines && loop_nt(loop, y));
}

enum bp_status cpu_cast(const struct bp_launch *launch)
{
    static cpu_cast_fn *const run[] = {
        [CPU_ISA_PORTABLE] = cpu_cast_run,
#ifdef CPU_AVX2
        [CPU_ISA_AVX2] = cpu_cast_run_avx2,
#endif
#ifdef CPU_AVX512
        [CPU_ISA_AVX512] = cpu_cast_run_avx512,
#endif
    };
    const struct bp_cast_attrs *a = launch->attrs;
    struct cast c = {.loop.run = cast_run,
                     .run = run[cpu_level(launch->kernel)],
                     .from = launch->in[0]->dtype,
                     .to = launch->out[0]->dtype,
                     .rule = {!a->overflow, (uint8_t)a->round}};

    c.loop.lines = cpu_level(launch->kernel) && ((c.from == BP_F16 && c.to == BP_F32) ||
                                                 (c.from == BP_F32 && c.to == BP_F16));
    cpu_loop_run(&c.loop, launch, launch->out[0], launch->in, 1);
    return BP_OK;
}
