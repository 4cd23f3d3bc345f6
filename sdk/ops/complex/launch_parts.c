/* SPDX-License-Identifier: Apache-2.0 */
/* launch_parts.c: launches the kernel of kernel_parts.h for as_real and as_complex. */
#include "kernel_parts.h"
#include "../../dialect/portable.h"
#include <stdbool.h>

enum bp_status portable_complex_parts(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    bool wide = x->dtype == BP_C128 || x->dtype == BP_F64;
    int64_t count = x->count > y->count ? x->count : y->count; /* number of parts */
    struct complex_parts_args args = {0};
    struct portable p = PORTABLE(complex_parts, complex_parts, wide ? TYPE_i64 : TYPE_i32, args,
                                 count, 1);

    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}
