/* SPDX-License-Identifier: Apache-2.0 */
/* engaged.h: declares programs of small networks whose groups an engine compiles, which the cases
 * of the suite graph share. */
#ifndef BP_CONFORM_ENGAGED_H
#define BP_CONFORM_ENGAGED_H

#include "networks.h"

struct engaged {
    struct network n;
    struct bp_program *program;
    uint32_t groups;
};

/* Records a network and compiles it. false: the case has ended. In any case the caller calls
 * engaged_finish. */
bool engaged_begin(struct engaged *e, struct check *c, int64_t network);
/* The same with another first extent and other weights: see network_record_as. like: NULL, or a
 * program with other weights. */
bool engaged_begin_as(struct engaged *e, struct check *c, int64_t network, int64_t rows,
                      uint32_t weights, const struct engaged *like);
void engaged_finish(struct engaged *e);

/* Checks that all groups that the engine has claimed were compiled, and counts them. */
bool engaged_check_groups(struct engaged *e);

/* Runs the program once for the input of a seed, and compares with kernels. */
bool engaged_run(struct engaged *e, uint32_t seed, const char *what);

#endif
