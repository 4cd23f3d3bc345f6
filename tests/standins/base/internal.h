/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h: declares what the files of the base share, and stand-ins do not use. */
#ifndef STANDINS_BASE_INTERNAL_H
#define STANDINS_BASE_INTERNAL_H

#include "base.h"
#include <time.h>

enum {
    BASE_FAULTS = 64,
    BASE_KEEP = 512,
    BASE_CAPTURE_STREAMS = 32
};

/* One fault on demand. */
struct base_fault {
    char call[64];
    unsigned long at, seen; /* the call that fails, and the calls so far, from 1 */
    int code;
    long late; /* microseconds; a fault has either a code or these */
};

struct base {
    pthread_mutex_t lock;
    pthread_cond_t moved; /* some work has ended, or no longer matters */
    unsigned delay, seed;
    uint64_t memory;
    size_t keep; /* destroyed handles whose memory is not reused yet */
    int devices;
    bool read; /* the environment was read */
    struct base_fault fault[BASE_FAULTS];
    int n_fault;
    size_t misuses;
};
extern struct base base;

/* settings.c: the fault of this call or of "work", or NULL; counts the call. Under the lock. */
const struct base_fault *base_fault_of(const char *call);
void base_settings_read(void);
/* The time `ms` from now, on the clock of base.moved. */
struct timespec base_deadline(int ms);
/* Waits for base.moved, until a deadline if there is one; false: the time is over. */
bool base_wait(const struct timespec *deadline);

/* handle.c */
size_t base_handles_live(void);
void base_handles_print(void);
/* memory.c */
size_t base_memory_live(void);
void base_memory_print(void);

/* Work with its data. */
struct base_item {
    struct base_item *next;
    const struct base_work *work;
    size_t size;
    _Alignas(16) unsigned char data[];
};
struct base_item *base_item_create(const struct base_work *work, const void *data, size_t size);
void base_item_drop(struct base_item *item); /* calls drop, frees the item */

/* The work of each captured stream that comes before a position, by the streams' numbers in the
 * capture. */
struct base_clock {
    uint32_t at[BASE_CAPTURE_STREAMS];
};

struct base_mark {
    int refs;
    bool done;
    struct timespec time;
};

struct base_stream {
    struct base_stream *next;
    struct base_device *device;
    void *owner;
    pthread_t thread;
    pthread_cond_t more;
    struct base_item *first, **last;
    uint64_t given, done;
    unsigned pauses;
    bool ending;
    struct base_capture *capture; /* NULL: not captured */
    int member;                   /* its number in the capture; 0 began it */
    struct base_clock clock;      /* what it has seen */
};

struct base_event {
    struct base_device *device;
    void *owner;
    uint32_t flags;
    struct base_mark *mark;  /* NULL: not recorded outside a capture */
    uint64_t capture;        /* number of the capture in which it was recorded last; 0: none */
    struct base_clock clock; /* in this capture */
};

/* capture.c */
int base_capture_add(struct base_stream *stream, struct base_item *item);
int base_capture_spoil(struct base_capture *capture); /* returns BASE_CAPTURED or INVALIDATED */
struct base_capture *base_capture_numbered(uint64_t number); /* NULL: it has ended */
uint64_t base_capture_number(const struct base_capture *capture);
int base_capture_join(struct base_stream *stream, const struct base_event *event);
void base_capture_leave(struct base_stream *stream); /* a stream that is destroyed */
bool base_capture_spoil_all(const struct base_device *device);

#endif
