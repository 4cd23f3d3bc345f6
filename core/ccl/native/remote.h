/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h: what the ranks of a native communicator know of those on other hosts. Nobody waits for
 * the others' word in a native call, so what each rank calls is said in the store, ten times a
 * second while there is something to say: by the watch, which reads what others say there. So calls
 * that differ, ranks that have died, and who is missing when time is up are found between hosts
 * too. */
#ifndef BP_FAR_PRIVATE_H
#define BP_FAR_PRIVATE_H

#include "native.h"

enum {
    BP_FAR_POSTS = 256, /* calls that a rank keeps for others to compare */
    BP_FAR_PAIRS = 32, /* ranks of other hosts whose parts are compared; with more they are not */
    BP_FAR_PARTS = 32, /* parts in each direction that are kept */
};

/* A call; sum: of it and all before. */
struct bp_far_post {
    uint64_t what, count, sum;
};

/* Parts to and from another rank, by their numbers, modulo. */
struct bp_far_pair {
    uint32_t rank, zero;
    uint64_t gave, took;
    struct bp_board_part gives[BP_FAR_PARTS], takes[BP_FAR_PARTS];
};

/* What a rank says, of which n_pair pairs are there. */
struct bp_far_word {
    uint64_t posted, settled;
    struct bp_far_post post[BP_FAR_POSTS];
    uint32_t n_pair, zero;
    struct bp_far_pair pair[BP_FAR_PAIRS];
};

struct bp_far {
    struct bp_comm *comm;
    struct bp_hosts *h;
    struct bp_board *b;
    pthread_mutex_t lock; /* of own, and changed */
    struct bp_far_word own;
    uint64_t changed;     /* times */
    /* Of the thread that watches, or of that which makes the communicator, before. */
    uint64_t said;        /* changed, when it was last said */
    uint64_t next;        /* when it may look again */
    uint64_t gone_since;  /* the store was found gone; 0: it is there */
    uint32_t turn;        /* whose word is read next */
    uint32_t left;        /* looks after the last call in which words are read all the same */
    uint64_t *dead_since; /* of each rank; 0: not known to be */
    uint32_t *joins;      /* of each rank: what it last said of being joined */
    struct bp_far_word other, copy;
};

/* remote.c */
enum bp_status bp_far_create(struct bp_comm *comm, struct bp_far **out_far);
/* Waits for nobody; the others know then that this rank has not died. */
void bp_far_destroy(struct bp_far *far);
/* A call was posted, as this number. */
void bp_far_post(struct bp_far *far, const struct bp_collective *c, uint64_t number);
/* A part goes to a rank, or comes from it: the number is 0 where it is not compared. */
struct bp_board_given bp_far_give(struct bp_far *far, const struct bp_collective *c, uint32_t rank,
                                  bool send, uint64_t count);
/* Whether there is something to say that was not said, or to hear of calls that have ended. */
bool bp_far_owes(struct bp_far *far);
void bp_far_say(struct bp_far *far);
/* What a rank says, in far->other; NULL: nothing so far, or the store is gone. */
struct bp_far_word *bp_far_hear(struct bp_far *far, uint32_t rank);
/* A rank's parts with another, in its word; NULL: there are none. */
struct bp_far_pair *bp_far_pair_with(struct bp_far_word *word, uint32_t rank);
/* Says and hears, if it is time to. oldest: the first call that is under way; or NULL. What is
 * wrong is the board's failure. */
void bp_far_look(struct bp_far *far, const struct bp_flight *oldest);

/* remote_failure.c. Ranks of other hosts that have died, and that a call needs; call: what this
 * rank is in. NULL oldest: all are needed. */
enum bp_status bp_far_look_for_dead(struct bp_far *far, const struct bp_flight *oldest);
/* Time is up, and nobody of this host is behind. */
void bp_far_late(struct bp_far *far, const struct bp_flight *flight);
/* While ranks are joined by their library: this one says that it waits there; those of other hosts
 * that have not said so since the last call of the second one are put into the text, which is empty
 * if there are none. */
void bp_far_say_joins(struct bp_far *far);
void bp_far_find_stuck(struct bp_far *far, char *text, size_t size);

#endif
