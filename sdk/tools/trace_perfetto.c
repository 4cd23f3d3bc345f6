/* SPDX-License-Identifier: Apache-2.0 */
/* trace_perfetto.c: writes a profile as a protobuf trace of Perfetto: a descriptor for each process
 * and track, and the begin and end of each event. Such a file has about a third of the size of
 * the JSON. */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

/* The numbers of the fields in Perfetto's published messages. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_DESCRIPTOR = 60,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PROCESS = 3,
    DESCRIPTOR_PARENT = 5,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    EVENT_TYPE = 9,
    EVENT_TRACK = 11,
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_BEGIN = 1,
    EVENT_END = 2,
    EVENT_INSTANT = 3,
};
enum {
    PERFETTO_NAME = 1000,           /* longer names are cut */
    PERFETTO_ROOM = 4096,           /* of a message: it holds two names at most */
    PERFETTO_FIRST_TRACK = 1 << 16, /* tracks have numbers behind those of processes */
};

struct perfetto_message {
    uint8_t byte[PERFETTO_ROOM];
    size_t n;
};
struct perfetto {
    FILE *file;
    struct trace_walk walk;
    bool *named; /* processes that have a descriptor */
    uint32_t room;
};

static void perfetto_varint(struct perfetto_message *m, uint64_t number)
{
    for (; number > 127; number >>= 7) m->byte[m->n++] = (uint8_t)(number | 128);
    m->byte[m->n++] = (uint8_t)number;
}

static void perfetto_number(struct perfetto_message *m, uint32_t field, uint64_t number)
{
    perfetto_varint(m, (uint64_t)field << 3);
    perfetto_varint(m, number);
}

static void perfetto_bytes(struct perfetto_message *m, uint32_t field, const void *bytes, size_t n)
{
    perfetto_varint(m, (uint64_t)field << 3 | 2);
    perfetto_varint(m, n);
    memcpy(m->byte + m->n, bytes, n);
    m->n += n;
}

static void perfetto_text(struct perfetto_message *m, uint32_t field, const char *text)
{
    char *clean = bp_text_clean(text);
    size_t n = strlen(clean);

    if (n > PERFETTO_NAME) /* not within a character of UTF-8 */
        for (n = PERFETTO_NAME; n && (clean[n] & 0xc0) == 0x80;) n--;
    perfetto_bytes(m, field, clean, n);
    free(clean);
}

/* Writes a packet: its event or descriptor, with the time if there is one. */
static void perfetto_packet(struct perfetto *p, uint32_t field, const struct perfetto_message *part,
                            bool timed, uint64_t ns)
{
    struct perfetto_message packet = {.n = 0}, head = {.n = 0};

    if (timed) perfetto_number(&packet, PACKET_TIMESTAMP, ns);
    perfetto_number(&packet, PACKET_SEQUENCE, 1);
    perfetto_bytes(&packet, field, part->byte, part->n);
    perfetto_varint(&head, TRACE_PACKET << 3 | 2);
    perfetto_varint(&head, packet.n);
    fwrite(head.byte, 1, head.n, p->file);
    fwrite(packet.byte, 1, packet.n, p->file);
}

/* The number of the process that holds a track: the host, a device, or its communication. */
static uint32_t perfetto_process(const struct trace_track *t)
{
    return t->group == TRACE_HOST ? 1 : 2 + 2 * t->device + (t->group == TRACE_COMM);
}

static void perfetto_name_process(struct perfetto *p, const struct trace_track *t)
{
    uint32_t number = perfetto_process(t);
    struct bp_profile_info info = {.size = sizeof info};
    struct perfetto_message process = {.n = 0}, descriptor = {.n = 0};
    char *name;

    for (; number >= p->room; p->room++) {
        p->named = bp_trace_must(realloc(p->named, (p->room + 1) * sizeof *p->named));
        p->named[p->room] = false;
    }
    if (p->named[number]) return;
    p->named[number] = true;
    bp_profile_get_info(p->walk.profile, &info);
    name = t->group == TRACE_HOST
               ? bp_text_format("%s", info.command)
               : bp_text_format(t->group == TRACE_COMM ? "%s communication" : "%s",
                                p->walk.tracks.device[t->device]);
    perfetto_number(&process, PROCESS_PID, number);
    perfetto_text(&process, PROCESS_NAME, name);
    perfetto_number(&descriptor, DESCRIPTOR_UUID, number);
    perfetto_bytes(&descriptor, DESCRIPTOR_PROCESS, process.byte, process.n);
    perfetto_packet(p, PACKET_DESCRIPTOR, &descriptor, false, 0);
    free(name);
}

static void perfetto_name_track(struct perfetto *p, uint32_t track)
{
    const struct trace_track *t = &p->walk.tracks.track[track];
    char *name = bp_trace_track_name(&p->walk.tracks, p->walk.profile, track);
    struct perfetto_message descriptor = {.n = 0};

    perfetto_name_process(p, t);
    perfetto_number(&descriptor, DESCRIPTOR_UUID, PERFETTO_FIRST_TRACK + (uint64_t)track);
    perfetto_number(&descriptor, DESCRIPTOR_PARENT, perfetto_process(t));
    perfetto_text(&descriptor, DESCRIPTOR_NAME, name);
    perfetto_packet(p, PACKET_DESCRIPTOR, &descriptor, false, 0);
    free(name);
}

static void perfetto_event(struct perfetto *p)
{
    const struct bp_profile_event *e = &p->walk.event;
    bool mark = e->kind == BP_PROFILE_MARK;
    struct perfetto_message begin = {.n = 0}, end = {.n = 0};
    uint64_t track = PERFETTO_FIRST_TRACK + (uint64_t)p->walk.track;

    if (p->walk.is_new) perfetto_name_track(p, p->walk.track);
    perfetto_number(&begin, EVENT_TYPE, mark ? EVENT_INSTANT : EVENT_BEGIN);
    perfetto_number(&begin, EVENT_TRACK, track);
    perfetto_text(&begin, EVENT_CATEGORY, bp_profile_kind_name(e->kind));
    perfetto_text(&begin, EVENT_NAME,
                  *e->name     ? e->name
                  : *e->kernel ? e->kernel
                               : bp_profile_kind_name(e->kind));
    perfetto_packet(p, PACKET_EVENT, &begin, true, e->begin_ns);
    if (mark) return;
    perfetto_number(&end, EVENT_TYPE, EVENT_END);
    perfetto_number(&end, EVENT_TRACK, track);
    perfetto_packet(p, PACKET_EVENT, &end, true, e->end_ns);
}

int bp_trace_perfetto(struct bp_profile *profile, FILE *file)
{
    struct perfetto p = {.file = file, .walk = {.profile = profile}};

    while (bp_trace_next(&p.walk)) perfetto_event(&p);
    bp_trace_end(&p.walk);
    free(p.named);
    if (!fflush(file) && !ferror(file)) return BP_EXIT_GOOD;
    bp_complain("trace", "the trace cannot be written");
    return BP_EXIT_BROKEN;
}
