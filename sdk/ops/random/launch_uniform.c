/* SPDX-License-Identifier: Apache-2.0 */
/* launch_uniform.c: launches the kernel of kernel_uniform.h. */
#include "kernel_uniform.h"
#include "launch.h"

enum bp_status portable_uniform(const struct bp_launch *launch)
{
    const struct bp_uniform_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    struct uniform_args args = {random_source(launch), y->count, (real)attrs->low,
                                (real)attrs->high};
    struct portable p = PORTABLE(uniform, uniform, portable_type(y->dtype), args, random_blocks(y),
                                 24);

    portable_view(&p, y);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}
