/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reduce_args.h: numbers of the kernels that reduce, which launches work out. */
#ifndef BP_KERNELS_REDUCE_ARGS_H
#define BP_KERNELS_REDUCE_ARGS_H

#include "../../dialect/dialect.h"
#include "kernel_formulas.h"

enum {
    REDUCE_AXES = 4,     /* of eight axes that stay and go in turn, joined with like neighbours */
    REDUCE_COLUMNS = 64, /* results that a team makes side by side */
};

/* A contiguous x of which some axes stay and some go; y is contiguous. Results are made in teams of
 * `wide` neighbours, with REDUCE_COLUMNS at most, or by rows, one a team. The terms of each are cut
 * into parts, so that a few results have many teams: team t makes part t / teams of results t %
 * teams. Other teams join the parts of `ends` neighbouring results, a lane each result; or of one,
 * by all lanes. */
struct reduce_args {
    i64 op;
    i64 outputs, terms;     /* results, terms of each */
    i64 parts, part, teams; /* terms in a part; teams of one part */
    i64 wide, blocks;       /* results of a team; teams in a run of the innermost axis that stays */
    i64 ends;               /* results that a team joins the parts of */
    i64 kept_rank, term_rank;
    i64 kept_shape[REDUCE_AXES], kept_stride[REDUCE_AXES];
    i64 term_shape[REDUCE_AXES], term_stride[REDUCE_AXES];
    i64 index_wide; /* results are i64, else i32 or u8 */
    host_real p;    /* of a norm */
};

#endif
