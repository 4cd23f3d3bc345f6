/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: divides scans into parts and launches the kernels of kernel.h and kernel_team.h. */
#include "../common/launch_reduce.h"
#include "kernel.h"

#include <stdbool.h>

enum {
    ROWS_INNER = 32,      /* teams scan lines that are closer than this to each other */
    ROW_PLACES = 256,     /* and have at least this many elements, */
    FEW_ROW_PLACES = 32,  /* or, where there are few lines, at least this many */
    TEAMS_MANY = 1024,    /* lines are split until there are this many teams (a large GPU) */
    ROW_PART = 2048,      /* elements of a team's part are a multiple: one tile or several */
    LANES_MANY = 1 << 16, /* as TEAMS_MANY, for lanes that scan lines alone */
    LANE_PART = 32,       /* fewest elements of a lane's part */
    LANE_PARTS = 64,      /* most parts of a line: each lane joins those before its own */
};

/* How a call is divided: whether by teams, and into how many parts of each line. This depends only
 * on shape and device, so that results have the same bits with any number of lanes. */
struct cut {
    struct scan_args args;
    int64_t parts;
    bool rows;
};

/* cumsum, cumprod and logcumsumexp have one layout of attributes. */
static struct cut cut_of(void *self, uint32_t device, const struct bp_cumsum_attrs *attrs,
                         const struct bp_view *x, int64_t op)
{
    struct portable_split s = portable_split(x, portable_axis(attrs->axis, x->rank));
    int64_t lines = s.extent ? s.outer * s.inner : 0, many;
    struct cut c = {{op, s.extent, s.inner, attrs->exclusive, attrs->reverse, lines, s.extent},
                    1, false};

    if (!lines || !portable_has_blocks(self, device)) return c;
    c.rows = s.inner < ROWS_INNER &&
             s.extent >= (lines > TEAMS_MANY ? ROW_PLACES : FEW_ROW_PLACES);
    many = (c.rows ? TEAMS_MANY : LANES_MANY) / lines;
    if (!c.rows && many > LANE_PARTS) many = LANE_PARTS;
    if (many > s.extent / (c.rows ? ROW_PART : LANE_PART))
        many = s.extent / (c.rows ? ROW_PART : LANE_PART);
    if (many < 2) return c;
    c.args.part = (s.extent + many - 1) / many;
    if (c.rows) c.args.part = (c.args.part + ROW_PART - 1) / ROW_PART * ROW_PART;
    c.parts = (s.extent + c.args.part - 1) / c.args.part;
    return c;
}

/* The size in bytes of the states of all parts but the last of each line: two numbers for each
 * part. */
static int64_t sums_of(const struct cut *c)
{
    return (c->parts - 1) * c->args.lines * 16;
}

enum bp_status portable_scan_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct cut c = cut_of(self, prep->device, prep->attrs, prep->in[0], 0);

    return portable_needs(out, sums_of(&c));
}

enum bp_status portable_scan(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    struct cut c = cut_of(launch->self, launch->device, launch->attrs, x,
                          portable_number(launch->kernel));
    enum portable_type type = portable_type(x->dtype);
    double work = (c.args.op == SCAN_exp ? 32 : 2) * (double)c.args.part;
    int64_t sums = (c.parts - 1) * c.args.lines, all = c.parts * c.args.lines;
    struct portable p;

    if (sums) {
        enum bp_status status;
        if (c.rows) p = (struct portable)PORTABLE(scan, scan_row_sums, type, c.args, sums, work);
        else p = (struct portable)PORTABLE(scan, scan_sums, type, c.args, sums, work);
        portable_workspace(&p, launch, 0);
        portable_view(&p, x);
        status = portable_run(launch, &p);
        if (status) return status;
    }
    if (c.rows) p = (struct portable)PORTABLE(scan, scan_rows, type, c.args, all, work);
    else if (sums) p = (struct portable)PORTABLE(scan, scan_parts, type, c.args, all, work);
    else
        p = (struct portable)PORTABLE(scan, scan, type, c.args, all,
                                      reduce_line_work(work, c.args.inner));
    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    if (sums) portable_workspace(&p, launch, 0);
    else if (c.rows) portable_view(&p, NULL);
    return portable_run(launch, &p);
}

enum bp_status portable_linear_scan(const struct bp_launch *launch)
{
    const struct bp_linear_scan_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, portable_axis(attrs->axis, x->rank));
    struct linear_scan_args args = {s.extent, s.inner, attrs->reverse, attrs->shift};
    struct portable p = PORTABLE(scan, linear_scan, portable_type(x->dtype), args,
                                 s.extent ? s.outer * s.inner : 0,
                                 reduce_line_work(2 * (double)s.extent, s.inner));

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
