/* SPDX-License-Identifier: Apache-2.0 */
/* tuner.c: keeps the choices of kernel rows that were measured (tuner.h). */
#include "tuner.h"

#include "saved.h"

#include <stdlib.h>
#include <string.h>

enum {
    CHOICES_MAX = 1 << 16
};

struct tuner_choice {
    struct bp_digest call;
    char row[BP_TUNER_ROW]; /* "": the row of highest priority */
};

struct bp_tuner {
    struct bp_device *device;
    char path[BP_KEPT_PATH]; /* "": no file */
    struct bp_digest key;    /* of the device */
    bool measures, changed;
    struct tuner_choice *choice;
    uint32_t n_choice, room;
};

static const struct tuner_choice *choice_find(const struct bp_tuner *t, struct bp_digest call)
{
    for (uint32_t i = 0; i < t->n_choice; i++)
        if (bp_digest_same(t->choice[i].call, call)) return &t->choice[i];
    return NULL;
}

/* Adds a choice, unless there is one for the call. Without memory nothing is kept. */
static const struct tuner_choice *choice_add(struct bp_tuner *t, struct bp_digest call,
                                             const char *row)
{
    struct tuner_choice *to;

    if (choice_find(t, call) || t->n_choice == CHOICES_MAX || strlen(row) >= BP_TUNER_ROW)
        return NULL;
    if (t->n_choice == t->room) {
        uint32_t room = 2 * t->room + 32;
        to = realloc(t->choice, room * sizeof *to);
        if (!to) return NULL;
        t->choice = to;
        t->room = room;
    }
    to = &t->choice[t->n_choice++];
    *to = (struct tuner_choice){.call = call};
    strcpy(to->row, row);
    return to;
}

/* Adds the choices of the file that are not known yet. */
static void tuner_read(struct bp_tuner *t)
{
    struct bp_kept_reader r = {0};
    unsigned char *bytes = NULL;
    size_t n;
    uint32_t count;

    if (!*t->path || bp_kept_file_read(t->path, BP_KEPT_CHOICES, t->key, &bytes, &n)) return;
    r = (struct bp_kept_reader){bytes, bytes + n, false};
    count = bp_kept_get_count(&r, sizeof(struct bp_digest) + 5);
    for (uint32_t i = 0; i < count && !r.failed; i++) {
        const void *at = bp_kept_get_bytes(&r, sizeof(struct bp_digest));
        const char *row = bp_kept_get_text(&r);
        struct bp_digest call;
        if (r.failed) break;
        memcpy(&call, at, sizeof call);
        choice_add(t, call, row);
    }
    free(bytes);
}

static enum bp_status tuner_write(struct bp_tuner *t)
{
    struct bp_kept_writer w = {0};

    tuner_read(t); /* of programs that were compiled meanwhile */
    bp_kept_u32(&w, t->n_choice);
    for (uint32_t i = 0; i < t->n_choice; i++) {
        bp_kept_bytes(&w, &t->choice[i].call, sizeof t->choice[i].call);
        bp_kept_text(&w, t->choice[i].row);
    }
    return bp_kept_file_write(t->path, BP_KEPT_CHOICES, t->key, &w);
}

enum bp_status bp_tuner_create(struct bp_device *device, const char *folder, bool measures,
                               struct bp_tuner **out_tuner)
{
    struct bp_tuner *t = calloc(1, sizeof *t);
    char *before = strdup(bp_error_message());

    if (!t) {
        free(before);
        return bp_error(BP_ERR_MEMORY, "no host memory to choose kernels");
    }
    t->device = device;
    t->measures = measures;
    t->key = bp_digest_begin();
    bp_saved_add_device(&t->key, device);
    if (folder)
        snprintf(t->path, sizeof t->path, "%.4000s/%016llx.choices", folder,
                 (unsigned long long)t->key.a);
    tuner_read(t);
    if (before) bp_error_write("%s", before);
    free(before);
    *out_tuner = t;
    return BP_OK;
}

enum bp_status bp_tuner_destroy(struct bp_tuner *t)
{
    enum bp_status status = BP_OK;

    if (!t) return BP_OK;
    if (t->changed && *t->path) status = tuner_write(t);
    free(t->choice);
    free(t);
    return status;
}

static struct bp_digest call_digest(const struct bp_invocation *inv)
{
    struct bp_digest d = bp_digest_begin();

    bp_digest_add_text(&d, inv->row->info.name);
    bp_digest_add_word(&d, inv->want);
    bp_digest_add_word(&d, inv->allow);
    bp_digest_add(&d, inv->in_at, (inv->row->info.n_in + 1u) * sizeof *inv->in_at);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *v = inv->in[i];
        bp_digest_add_word(&d, v ? (uint64_t)v->dtype << 32 | v->rank << 8 | v->flags : UINT64_MAX);
        if (!v) continue;
        bp_digest_add(&d, v->shape, v->rank * sizeof *v->shape);
        bp_digest_add(&d, v->stride, v->rank * sizeof *v->stride);
    }
    bp_saved_add_attrs(&d, &inv->row->info, inv->attrs);
    return d;
}

/* Calls whose repetition changes their operands, or draws random numbers, are not timed. */
static bool may_measure(const struct bp_tuner *t, const struct bp_invocation *inv)
{
    const struct bp_opdef *row = inv->row;

    return !inv->kernel && !row->random && !row->updates && !row->bound && !row->is_view &&
           !row->varies && t->device->host_visible && t->device->is_inline;
}

const char *bp_tuner_choose(struct bp_tuner *t, const struct bp_invocation *inv)
{
    const struct tuner_choice *choice;
    char row[BP_TUNER_ROW];
    struct bp_digest call;

    if (!may_measure(t, inv)) return NULL;
    call = call_digest(inv);
    choice = choice_find(t, call);
    if (!choice && t->measures && bp_tuner_measure(t->device, inv, row)) {
        choice = choice_add(t, call, row);
        t->changed |= choice != NULL;
    }
    return choice && *choice->row ? choice->row : NULL;
}
