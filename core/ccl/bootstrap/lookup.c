/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c: the addresses of a host name, until a deadline. The system's resolver takes as long as
 * it likes: so a thread asks it, and is left behind where that takes too long. */
#include "store.h"

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A question. Freed by whoever leaves it last: the thread, or the caller. */
struct lookup {
    struct bp_store_place place;
    struct addrinfo hints;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t ended;
    bool done, left;
    int why;
    struct addrinfo *list;
};

static int ask(const struct bp_store_place *place, const struct addrinfo *hints,
               struct addrinfo **out_list)
{
    return getaddrinfo(place->host, *place->port ? place->port : "0", hints, out_list);
}

static void free_lookup(struct lookup *l)
{
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->ended);
    free(l);
}

static void *resolve(void *arg)
{
    struct addrinfo *list = NULL;
    struct lookup *l = arg;
    int why = ask(&l->place, &l->hints, &list);
    bool left;

    pthread_mutex_lock(&l->lock);
    l->why = why;
    l->list = why ? NULL : list;
    l->done = true;
    left = l->left;
    pthread_cond_signal(&l->ended);
    pthread_mutex_unlock(&l->lock);
    if (!left) return NULL;
    if (!why) freeaddrinfo(list);
    free_lookup(l);
    return NULL;
}

/* Signals are the app's threads' business. */
static struct lookup *begin(const struct bp_store_place *place, const struct addrinfo *hints)
{
    struct lookup *l = calloc(1, sizeof *l);
    sigset_t all, before;
    pthread_t thread;
    int late;

    if (!l) return NULL;
    l->place = *place;
    l->hints = *hints;
    pthread_mutex_init(&l->lock, NULL);
    bp_cond_init(&l->ended);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    late = pthread_create(&thread, NULL, resolve, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!late) {
        pthread_detach(thread);
        return l;
    }
    free_lookup(l);
    return NULL;
}

int bp_lookup(const struct bp_store_place *place, int flags, uint64_t deadline,
              struct addrinfo **out_list)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICHOST};
    uint64_t longest = bp_deadline(BP_LOOKUP_NS);
    int why = ask(place, &hints, out_list), late = 0; /* a number: nobody is asked */
    struct timespec until = bp_timespec(deadline < longest ? deadline : longest);
    struct lookup *l;
    bool done;

    if (why != EAI_NONAME) return why;
    hints.ai_flags = flags;
    l = begin(place, &hints);
    if (!l) return EAI_MEMORY;
    pthread_mutex_lock(&l->lock);
    while (!l->done && !late) late = pthread_cond_timedwait(&l->ended, &l->lock, &until);
    done = l->done;
    l->left = !done;
    why = done ? l->why : EAI_AGAIN;
    if (done && !why) *out_list = l->list;
    pthread_mutex_unlock(&l->lock);
    if (done) free_lookup(l);
    return why;
}
