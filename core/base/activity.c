/* SPDX-License-Identifier: Apache-2.0 */
/* activity.c: stores the plugin call in which each thread is, in a fixed table of notes. Each note
 * is written by one thread and read by all, also by signal handlers, without locks: a reader copies
 * a note and checks whether it changed meanwhile. */
#include "activity.h"
#include "clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    NOTES = 128,
    NONE = UINT32_MAX,
    WORDS = sizeof((struct bp_activity *)NULL)->plugin / sizeof(uint64_t),
};

struct note {
    _Atomic uint32_t thread;   /* 0: the note is free */
    _Atomic uint32_t sequence; /* odd while the members below are written */
    _Atomic uint32_t step;
    _Atomic uint64_t order;    /* of two notes of one thread, the larger is the inner one */
    _Atomic uint64_t start_ns;
    _Atomic uint64_t plugin[WORDS], what[WORDS];
};

static struct note notes[NOTES];
static _Atomic uint64_t last_order;

/* Copies a name. Control characters are replaced, because they could split a message into two
 * lines. */
static void note_write_name(_Atomic uint64_t *to, const char *name)
{
    char text[WORDS * sizeof(uint64_t)] = "";
    uint64_t words[WORDS];

    for (size_t i = 0; name && name[i] && i < sizeof text - 1; i++)
        text[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7f ? '?' : name[i];
    memcpy(words, text, sizeof words);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&to[i], words[i], memory_order_release);
}

static void note_read_name(const _Atomic uint64_t *from, char *name)
{
    uint64_t words[WORDS];

    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&from[i], memory_order_acquire);
    memcpy(name, words, sizeof words);
    name[sizeof words - 1] = 0;
}

/* Between these two calls readers ignore the note. Members are stored with release order and read
 * with acquire order: a reader that has read a new member reads the new sequence number after
 * it. */
static void note_begin_write(struct note *note)
{
    atomic_fetch_add_explicit(&note->sequence, 1, memory_order_relaxed);
}

static void note_end_write(struct note *note)
{
    atomic_fetch_add_explicit(&note->sequence, 1, memory_order_release);
}

uint32_t bp_activity_begin(enum bp_activity_step step, const char *plugin, const char *what)
{
    uint32_t thread = (uint32_t)gettid();

    for (uint32_t i = 0; i < NOTES; i++) {
        uint32_t at = (thread + i) % NOTES, free_ = 0;
        struct note *note = &notes[at];

        if (atomic_load_explicit(&note->thread, memory_order_relaxed)) continue;
        if (!atomic_compare_exchange_strong(&note->thread, &free_, thread)) continue;
        note_begin_write(note);
        atomic_store_explicit(&note->step, (uint32_t)step, memory_order_release);
        atomic_store_explicit(&note->order, atomic_fetch_add(&last_order, 1) + 1,
                              memory_order_release);
        atomic_store_explicit(&note->start_ns, bp_clock_ns(), memory_order_release);
        note_write_name(note->plugin, plugin);
        note_write_name(note->what, what);
        note_end_write(note);
        return at;
    }
    return NONE;
}

void bp_activity_end(uint32_t at)
{
    if (at == NONE) return;
    note_begin_write(&notes[at]);
    atomic_store_explicit(&notes[at].order, 0, memory_order_release); /* readers ignore the note */
    note_end_write(&notes[at]);
    atomic_store_explicit(&notes[at].thread, 0, memory_order_release);
}

void bp_activity_after_fork(void)
{
    memset(notes, 0, sizeof notes);
}

/* A copy of a note at one moment. */
struct copy {
    uint64_t order, start_ns;
    uint32_t thread, step;
    char plugin[WORDS * sizeof(uint64_t)], what[WORDS * sizeof(uint64_t)];
};

/* Copies a note. false: it is free, or it changed meanwhile. The writer may be this thread,
 * interrupted by a signal, so the reader must not wait. */
static bool note_read(const struct note *note, struct copy *out)
{
    uint32_t before = atomic_load_explicit(&note->sequence, memory_order_acquire);

    if (before & 1) return false;
    out->thread = atomic_load_explicit(&note->thread, memory_order_acquire);
    out->order = atomic_load_explicit(&note->order, memory_order_acquire);
    out->start_ns = atomic_load_explicit(&note->start_ns, memory_order_acquire);
    out->step = atomic_load_explicit(&note->step, memory_order_acquire);
    note_read_name(note->plugin, out->plugin);
    note_read_name(note->what, out->what);
    return out->thread && out->order &&
           atomic_load_explicit(&note->sequence, memory_order_relaxed) == before;
}

/* Finds the innermost call of a thread; for thread 0, the oldest of all calls. */
static bool activity_find(uint32_t thread, struct copy *out)
{
    struct copy copy;
    bool found = false;

    for (uint32_t i = 0; i < NOTES; i++) {
        if (!note_read(&notes[i], &copy) || (thread && copy.thread != thread)) continue;
        if (found && (thread ? copy.order < out->order : copy.order > out->order)) continue;
        *out = copy;
        found = true;
    }
    return found;
}

bool bp_activity_find(uint32_t thread, struct bp_activity *out)
{
    static const char *const words[][2] = {
#define X(NAME, word, text) {#word, text},
        BP_ACTIVITIES(X)
#undef X
    };
    struct bp_activity full = {0};
    struct copy copy;
    int error = errno;
    uint64_t now = bp_clock_ns();

    if (!out || out->size < sizeof out->size || !activity_find(thread, &copy)) return false;
    if (!thread) activity_find(copy.thread, &copy);
    full.size = out->size < sizeof full ? out->size : sizeof full;
    memcpy(full.plugin, copy.plugin, sizeof full.plugin);
    memcpy(full.what, copy.what, sizeof full.what);
    full.word = words[copy.step][0];
    full.text = words[copy.step][1];
    full.elapsed_ns = now > copy.start_ns ? now - copy.start_ns : 0;
    full.step = copy.step;
    full.thread = copy.thread;
    memcpy(out, &full, full.size);
    errno = error;
    return true;
}
