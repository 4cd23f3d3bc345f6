/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile_read.c: tests bp_profile_open and its events on files that the test writes: whole
 * ones, files of killed processes, and damaged ones. */
#include "profile_kit.h"
#include "../../core/profile/convert.h"
#include "../../core/profile/ticks.h"

#define OK(call) cr_assert_eq((call), BP_OK, #call ": %s", bp_error_message())

static struct bp_profile_event read_event(struct bp_profile *p, uint64_t i)
{
    struct bp_profile_event e = {.size = sizeof e};

    OK(bp_profile_get_event(p, i, &e));
    return e;
}

static struct bp_profile_info read_info(struct bp_profile *p)
{
    struct bp_profile_info i = {.size = sizeof i};

    OK(bp_profile_get_info(p, &i));
    return i;
}

/* Two threads, a device with a clock of its own, names in two chunks. */
static void image_fill(struct image *f, uint32_t chunk_bytes, uint64_t length)
{
    image_begin(f, chunk_bytes, length);
    uint32_t main = image_name(f, "main"), add = image_name(f, "add");
    uint32_t row = image_name(f, "cpu_add_f32"), gpu = image_name(f, "sim:0");
    uint32_t host = image_add(f, BP_PROFILE_CHUNK_RECORDS, 11, main);
    uint32_t other = image_add(f, BP_PROFILE_CHUNK_RECORDS, 12, image_name(f, "a worker"));
    uint32_t device = image_add(f, BP_PROFILE_CHUNK_RECORDS, 0, 0);

    f->names = image_add(f, BP_PROFILE_CHUNK_NAMES, 0, 0);
    image_record(
        f, host,
        (struct bp_profile_record){200, 300, 7, 0, add, 0, 0, 0, gpu, 1, BP_PROFILE_SUBMIT, 0, 0});
    image_record(f, host,
                 (struct bp_profile_record){100, 900, 0, 0, add, row, 0,
                                            image_name(f, "f32[2] -> f32[2]"), gpu, 1,
                                            BP_PROFILE_CALL, 0, 0});
    image_record(f, other,
                 (struct bp_profile_record){150, 160, 4096, 64, 0, 0, 0, 0, gpu, 0,
                                            BP_PROFILE_ALLOCATE, 0, 0});
    for (uint64_t i = 0; i < 3; i++) /* at 0, 500 and 1000 the clock shows 10,000, 10,500, 11,500 */
        image_record(f, device,
                     (struct bp_profile_record){.begin = 500 * i,
                                                .end = 10000 + 500 * i + (i == 2) * 500,
                                                .device = gpu,
                                                .kind = BP_PROFILE_KIND_CLOCK});
    image_record(f, device,
                 (struct bp_profile_record){10400, 10700, 7, 8, 0, row, 0, 0, gpu, 1,
                                            BP_RECORD_KERNEL,
                                            BP_PROFILE_ON_DEVICE | BP_PROFILE_RAW_CLOCK, 2});
}

Test(profile_read, events_are_ordered_and_have_names_and_threads)
{
    struct bp_profile *p;
    struct image f;

    image_fill(&f, BP_PROFILE_CHUNK, 1000);
    image_write(&f, image_size(&f));
    OK(bp_profile_open(f.path, &p));
    cr_assert_eq(bp_profile_events(p), 4);
    struct bp_profile_event e = read_event(p, 0);
    cr_assert(e.begin_ns == 100 && e.end_ns == 900 && e.kind == BP_PROFILE_CALL && e.thread == 11);
    cr_assert_str_eq(e.name, "add");
    cr_assert_str_eq(e.kernel, "cpu_add_f32");
    cr_assert_str_eq(e.shapes, "f32[2] -> f32[2]");
    cr_assert_str_eq(e.device, "sim:0");
    cr_assert_str_eq(e.node, "");
    e = read_event(p, 1);
    cr_assert(e.kind == BP_PROFILE_ALLOCATE && e.total == 4096 && e.bytes == 64 && !e.tag);
    e = read_event(p, 2);
    cr_assert(e.kind == BP_PROFILE_SUBMIT && e.tag == 7 && e.stream == 1 && !e.on_device);
    e = read_event(p, 3); /* the second line of the clock is half as fast */
    cr_assert(e.begin_ns == 400 && e.end_ns == 600 && e.on_device && e.thread == 0 && e.queue == 2);
    cr_assert_str_eq(bp_profile_thread_name(p, 12), "a worker");
    cr_assert_str_eq(bp_profile_thread_name(p, 13), "");
    struct bp_profile_info i = read_info(p);
    cr_assert(i.length_ns == 1000 && i.lost == 3 && i.late == 4 && !i.misdated && i.process == 77);
    cr_assert(i.is_finished && i.start_unix_ns == 1700000000000000000);
    cr_assert_str_eq(i.command, "app --fast");
    bp_profile_destroy(p);
    image_end(&f);
}

Test(profile_read, records_with_impossible_times_are_counted_not_events)
{
    const uint16_t raw = BP_PROFILE_ON_DEVICE | BP_PROFILE_RAW_CLOCK;
    struct bp_profile *p;
    struct image f;

    image_fill(&f, BP_PROFILE_CHUNK, 1000);
    uint32_t c = image_add(&f, BP_PROFILE_CHUNK_RECORDS, 0, 0);
    struct bp_profile_record good = {10100, 10200, .device = 4, .kind = BP_RECORD_COPY,
                                     .flags = raw};
    struct bp_profile_record backwards = good, before = good, after = good, unknown = good,
                             plain = {2000000, 2000001, .kind = BP_RECORD_COPY,
                                      .flags = BP_PROFILE_ON_DEVICE},
                             early = plain, long_ago = plain;
    backwards.begin = 10300;
    before.begin = 0, before.end = 1;
    before.device = unknown.device = 2;
    after.begin = after.end = 900000000;
    early.begin = (uint64_t)-500000, early.end = 50; /* 0.5 ms before the start: cut off */
    long_ago.begin = (uint64_t)-2000000, long_ago.end = 50;
    image_record(&f, c,
                 (struct bp_profile_record){
                     .begin = 2000000, .end = 0, .device = 2, .kind = BP_PROFILE_KIND_CLOCK});
    image_record(&f, c, good);
    image_record(&f, c, backwards);
    image_record(&f, c, after);
    image_record(&f, c, plain);
    image_record(&f, c, early);
    image_record(&f, c, long_ago);
    image_record(&f, c, before); /* on a clock that shows 0 at 2 ms: after the end */
    unknown.device = 1;          /* without a point of its clock */
    image_record(&f, c, unknown);
    image_write(&f, image_size(&f));
    OK(bp_profile_open(f.path, &p));
    cr_assert_eq(bp_profile_events(p), 6);
    cr_assert_eq(read_info(p).misdated, 6);
    cr_assert(read_event(p, 0).begin_ns == 0 && read_event(p, 0).end_ns == 50);
    bp_profile_destroy(p);
    image_end(&f);
}

Test(profile_read, a_file_of_a_killed_process_has_all_counted_records)
{
    struct bp_profile *p;
    struct image f;

    image_fill(&f, BP_PROFILE_CHUNK, 0);
    image_write(&f, image_size(&f) - BP_PROFILE_CHUNK + 100);
    OK(bp_profile_open(f.path, &p));
    cr_assert(bp_profile_events(p) == 4 && read_info(p).length_ns == 900 &&
              !read_info(p).is_finished);
    bp_profile_destroy(p);
    image_chunk(&f, 1)->used = 1; /* the call was being written */
    image_write(&f, image_size(&f));
    OK(bp_profile_open(f.path, &p));
    cr_assert(bp_profile_events(p) == 3 && read_info(p).length_ns == 600);
    bp_profile_destroy(p);
    image_end(&f);
}

Test(profile_read, other_files_are_refused_with_a_reason)
{
    struct bp_profile *p = NULL;
    struct image f;

    cr_assert_eq(bp_profile_open("/tmp/there-is-no-such-profile", &p), BP_ERR_NOT_FOUND);
    cr_assert_eq(bp_profile_open("/tmp", &p), BP_ERR_INVALID);
    cr_assert_eq(bp_profile_open(NULL, &p), BP_ERR_INVALID);
    cr_assert_eq(bp_profile_open("/proc/self/exe", &p), BP_ERR_INVALID);
    cr_assert(strstr(bp_error_message(), "is no profile"), "%s", bp_error_message());
    image_fill(&f, BP_PROFILE_CHUNK, 1000);
    for (size_t bytes = 0; bytes < sizeof(struct bp_profile_header); bytes += 211) {
        image_write(&f, bytes);
        cr_assert_eq(bp_profile_open(f.path, &p), BP_ERR_INVALID);
    }
    image_header(&f)->version = 2;
    image_write(&f, image_size(&f));
    cr_assert_eq(bp_profile_open(f.path, &p), BP_ERR_INVALID);
    cr_assert(strstr(bp_error_message(), "version 2"), "%s", bp_error_message());
    cr_assert(!p && !bp_profile_events(NULL));
    cr_assert_str_eq(bp_profile_thread_name(NULL, 1), "");
    bp_profile_destroy(NULL);
    image_end(&f);
}

/* Reads all there is to read; every text is read to its end. */
static void read_all(const char *path)
{
    struct bp_profile_event before = {0};
    struct bp_profile *p;
    uint64_t last = 0;
    size_t letters = 0;

    if (bp_profile_open(path, &p)) return;
    struct bp_profile_info i = read_info(p);
    for (uint64_t n = 0; n < bp_profile_events(p); n++) {
        struct bp_profile_event e = read_event(p, n);
        cr_assert(e.begin_ns >= last && e.end_ns >= e.begin_ns && e.end_ns <= i.length_ns);
        last = e.begin_ns;
        if (n) cr_assert(before.begin_ns < e.begin_ns || before.end_ns >= e.end_ns);
        before = e;
        letters += strlen(e.name) + strlen(e.kernel) + strlen(e.node) + strlen(e.shapes) +
                   strlen(e.device) + strlen(bp_profile_thread_name(p, e.thread)) +
                   strlen(bp_profile_kind_name(e.kind));
    }
    cr_assert(letters < 1000000 && strlen(i.command) < BP_PROFILE_COMMAND);
    bp_profile_destroy(p);
}

Test(profile_read, damaged_and_cut_files_never_crash_the_reader, .timeout = 60)
{
    struct image f;
    size_t head = sizeof(struct bp_profile_header) - BP_PROFILE_COMMAND, content = 256;

    for (uint64_t finished = 0; finished < 2; finished++) {
        image_fill(&f, 4096, 1000 * finished);
        srand(7);
        for (int round = 0; round < 3000; round++) {
            unsigned char *saved = malloc(image_size(&f));
            memcpy(saved, f.bytes, image_size(&f));
            for (int flips = 1 + rand() % 4; flips; flips--) {
                size_t at = rand() % 4 ? BP_PROFILE_HEADER + (size_t)rand() % f.chunks * 4096 +
                                             (size_t)rand() % content
                                       : (size_t)rand() % head;
                f.bytes[at] = rand() % 2 ? (unsigned char)rand() : f.bytes[at] ^ 0xff;
            }
            image_write(&f, round % 3 ? image_size(&f) : (size_t)rand() % image_size(&f));
            read_all(f.path);
            memcpy(f.bytes, saved, image_size(&f));
            free(saved);
        }
        image_end(&f);
    }
}

Test(profile_read, times_beyond_the_points_of_a_clock_go_on_at_the_rate_of_the_last_line)
{
    struct bp_clock_points points = {0};
    int64_t since;

    bp_clock_add(&points, (struct bp_clock_point){2, 900, 90});
    cr_assert(!bp_clock_convert(&points, 1, 5, &since));
    cr_assert(bp_clock_convert(&points, 2, 100, &since) && since == 910); /* the same rate */
    bp_clock_add(&points, (struct bp_clock_point){1, 1000, 5000});
    bp_clock_add(&points, (struct bp_clock_point){1, 3000, 6000});
    bp_clock_add(&points, (struct bp_clock_point){1, 6000, 9000});
    bp_clock_add(&points, (struct bp_clock_point){1, 100, 9500}); /* backwards: not used */
    bp_clock_order(&points);
    cr_assert_eq(points.n, 4);
    cr_assert(bp_clock_convert(&points, 1, 4400, &since) && since == -200);
    cr_assert(bp_clock_convert(&points, 1, 5500, &since) && since == 2000);
    cr_assert(bp_clock_convert(&points, 1, 7500, &since) && since == 4500);
    cr_assert(bp_clock_convert(&points, 1, 9500, &since) && since == 6500);
    cr_assert(!bp_clock_convert(&points, 1, UINT64_MAX, &since));
    free(points.at);
}

/* A moment by ticks, between two by CLOCK_MONOTONIC. */
struct moments {
    uint64_t before, ns, after;
};

static struct moments moments_now(const struct bp_profile_line *line)
{
    struct moments m = {.before = bp_clock_ns()};

    m.ns = bp_profile_ns(line, bp_profile_now());
    m.after = bp_clock_ns();
    return m;
}

/* Of the processor's counter where this machine can use it, and of CLOCK_MONOTONIC. */
Test(profile_read, ticks_are_as_long_as_measured)
{
    struct bp_profile_line line = bp_profile_line_start();

    for (int way = 0; way < 2; way++) {
        if (way) atomic_store(&bp_profile_counter, false);
        line = bp_profile_line_start();
        struct moments from = moments_now(&line);
        usleep(200000);
        struct moments to = moments_now(&line);
        uint64_t passed = to.ns - from.ns, slack = passed / 1000;
        cr_assert(from.ns + line.start_ns + 10000 > from.before &&
                  from.ns + line.start_ns < from.after + 10000);
        cr_assert(passed + slack > to.before - from.after &&
                      passed < to.after - from.before + slack,
                  "%llu ns by ticks, from %llu to %llu", (unsigned long long)passed,
                  (unsigned long long)(to.before - from.after),
                  (unsigned long long)(to.after - from.before));
    }
}

Test(profile_read, many_events_are_sorted)
{
    enum {
        CHUNKS = 60,
        EACH = 4000
    };
    struct bp_profile *p;
    struct image f;

    image_begin(&f, BP_PROFILE_CHUNK, 1ull << 40);
    srand(3);
    for (uint32_t c = 0; c < CHUNKS; c++) {
        uint32_t chunk = image_add(&f, BP_PROFILE_CHUNK_RECORDS, c + 1, 0);
        for (uint64_t i = 0; i < EACH; i++) {
            uint64_t at = (uint64_t)rand() << 9 ^ (uint64_t)rand();
            image_record(
                &f, chunk,
                (struct bp_profile_record){at, at + 5, at ^ 99, i, .kind = BP_PROFILE_MARK});
        }
    }
    image_write(&f, image_size(&f));
    OK(bp_profile_open(f.path, &p));
    cr_assert_eq(bp_profile_events(p), CHUNKS * EACH);
    for (uint64_t i = 0, last = 0; i < CHUNKS * EACH; i++) {
        struct bp_profile_event e = read_event(p, i);
        cr_assert(e.begin_ns >= last && e.tag == (e.begin_ns ^ 99) && e.end_ns == e.begin_ns + 5);
        last = e.begin_ns;
    }
    bp_profile_destroy(p);
    image_end(&f);
}
