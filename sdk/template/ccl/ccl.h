/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.h: declares the collectives' communicators. Read next: ccl.c. */
#pragma once
#include "template.h"
#include <stdbool.h>

enum {
    CCL_RANKS = 16,        /* the most ranks of a communicator */
    CCL_WINDOW = 64 << 10, /* bytes that a rank shows to the others at once */
    CCL_MAIL = 4 << 10,    /* bytes on their way from one rank to another */
};

/* Shared by the ranks: threads, or processes of one machine. All bytes are 0 at first. */
struct ccl_segment {
    _Atomic uint32_t joined;             /* ranks */
    _Atomic uint64_t arrived[CCL_RANKS]; /* times that each rank has come to a meeting */
    struct ccl_mail {
        _Atomic uint64_t written, read; /* pieces ever; at most one is on its way */
        unsigned char bytes[CCL_MAIL];
    } mail[CCL_RANKS][CCL_RANKS]; /* from, to */
    unsigned char window[CCL_RANKS][CCL_WINDOW];
};

/* One rank of a communicator. */
struct template_comm {
    struct template_self *self;
    uint32_t device, rank, n_rank;
    struct ccl_segment *segment;
    char name[64];     /* of the segment */
    uint64_t meetings; /* that this rank has come to */
    _Atomic bool aborted;
};

/* Defined in segment.c: the callbacks that create, join and end communicators. */
enum bp_status template_ccl_unique_id(void *self, struct bp_ccl_id *out);
enum bp_status template_ccl_create(void *self, uint32_t device, const struct bp_ccl_id *id,
                                   uint32_t rank, uint32_t n_rank, void **out_comm);
enum bp_status template_ccl_begin(void *self, uint32_t device, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm);
enum bp_status template_ccl_joined(void *self, void *comm);
void template_ccl_destroy(void *self, void *comm);
void template_ccl_abort(void *self, void *comm);
enum bp_status template_ccl_error(void *self, void *comm);

/* Pauses between two looks at shared memory. *looks: 0 before the first. */
void ccl_pause(unsigned *looks);
/* Waits until all ranks have come to this meeting. */
enum bp_status ccl_meet(struct template_comm *comm);
