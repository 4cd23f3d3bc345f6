/* SPDX-License-Identifier: Apache-2.0 */
/* launch_randint.c: launches the kernel of kernel_randint.h. */
#include "kernel_randint.h"
#include "launch.h"

enum bp_status portable_randint(const struct bp_launch *launch)
{
    const struct bp_randint_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    struct randint_args args = {random_source(launch), y->count, (uint64_t)attrs->low,
                                (uint64_t)attrs->high - (uint64_t)attrs->low};
    struct portable p = PORTABLE(randint, randint, portable_type(y->dtype), args, random_blocks(y),
                                 24);

    portable_view(&p, y);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}
