/* SPDX-License-Identifier: Apache-2.0 */
/* seqlog.h: what ranks note of calls, and of parts, that they give to their devices. */
#ifndef BP_SEQLOG_PRIVATE_H
#define BP_SEQLOG_PRIVATE_H

#include "../collective.h"

/* A part that was given to the device: the other rank, and its number among those. */
struct bp_board_given {
    uint32_t rank;   /* far: of another host, as the app numbers ranks */
    bool send, far;
    uint64_t number; /* 0: it is not known how far the other is */
};

/* Says what this rank gives to its device, and compares: *out_number of the post. Waits
 * for ranks that are many calls behind, only. */
enum bp_status bp_board_post(struct bp_shm_rank *b, const struct bp_collective *c,
                             uint64_t *out_number);
/* Waits until all have posted so many. */
enum bp_status bp_board_await_posts(struct bp_shm_rank *b, uint64_t number);

/* The same of a part that goes to a rank, or comes from it: a send, a receive, or what
 * all_to_all_ragged has for one rank. Nobody is waited for. Compared with the other side's, if that
 * was given before and is no more than BP_BOARD_GIVEN ago. */
enum bp_status bp_board_give(struct bp_shm_rank *b, const struct bp_collective *c, uint32_t rank,
                             bool send, uint64_t count, struct bp_board_given *out_given);
/* What one side says, of so many elements of c; whether both say the same, by the numbers that the
 * app knows ranks by. */
struct bp_board_part bp_part_of(const struct bp_collective *c, uint64_t count);
enum bp_status bp_part_compare(struct bp_shm_rank *b, uint32_t from, uint32_t to,
                               const struct bp_board_part *sent, const struct bp_board_part *taken);
/* Whether the other rank has given its side of it. */
bool bp_board_is_met(const struct bp_shm_rank *b, const struct bp_board_given *given);

/* Time is up for a call that was posted, on any thread; for n sends and receives that were given to
 * the device together, of which what and count are of the first. */
enum bp_status bp_board_late_post(struct bp_shm_rank *b, uint64_t number, uint64_t what,
                                  uint64_t count, uint64_t timeout_ns);
enum bp_status bp_board_late_given(struct bp_shm_rank *b, const struct bp_board_given *given,
                                   uint32_t n, uint64_t what, uint64_t count,
                                   uint64_t timeout_ns);
/* Whether a rank here has not posted so many, or not given its side of one of those. */
bool bp_board_is_post_due(const struct bp_shm_rank *b, uint64_t number);
bool bp_board_is_given_due(const struct bp_shm_rank *b, const struct bp_board_given *given,
                           uint32_t n);
/* Time is up for ranks that their library joins; before: what they said of that a while ago; far:
 * ranks of other hosts to be named, or "". */
enum bp_status bp_board_late_join(struct bp_shm_rank *b, const uint32_t *before, const char *far,
                                  uint64_t timeout_ns);

#endif
