/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: plans the workspace and launches the kernels of kernel.h for sorting, search,
 * histograms and suppression. */
#include "kernel.h"
#include "../../dialect/portable.h"

#include <math.h>
#include <stdbool.h>

/* Lines are sorted in groups: as many lines as have pairs of about this size in the workspace, at
 * least one. */
static const int64_t group_bytes = INT64_C(64) << 20;

enum { UNIQUE_PART = 4096, HISTOGRAM_PART = 16384, HISTOGRAM_PARTS = 16 };

/* x as lines of [outer, extent, inner] that are sorted in groups, and the offsets of their pairs in
 * the workspace. */
struct sorting {
    struct sort_args args;
    enum portable_type type;
    const struct bp_view *x;
    int64_t lines, group;
    int64_t pairs, spare; /* bytes from the beginning of the workspace */
};

static int64_t group_of(int64_t lines, int64_t extent)
{
    int64_t each = extent * 2 * (int64_t)sizeof(struct sort_pair);
    int64_t group = each ? group_bytes / each : 1;

    group = group < 1 ? 1 : group;
    return lines < group ? lines : group;
}

static int64_t pairs_bytes(int64_t lines, int64_t extent)
{
    return group_of(lines, extent) * extent * (int64_t)sizeof(struct sort_pair);
}

static struct sorting sorting_of(const struct bp_view *x, struct portable_split s, bool down)
{
    struct sorting sorting = {.args = {0, s.extent, s.inner, down}, .type = portable_type(x->dtype),
                              .x = x, .lines = s.extent ? s.outer * s.inner : 0};

    sorting.group = group_of(sorting.lines, s.extent);
    sorting.spare = pairs_bytes(sorting.lines, s.extent);
    return sorting;
}

static int64_t sorting_bytes(const struct bp_view *x, struct portable_split s)
{
    return 2 * sorting_of(x, s, false).spare;
}

/* Loads the pairs of n lines, beginning with line `first`, unsorted. */
static enum bp_status sort_load_line(const struct bp_launch *launch, struct sorting *s,
                                     int64_t first, int64_t n)
{
    struct sort_args args = s->args;
    struct portable p = PORTABLE(sort, sort_load, s->type, args, n * args.extent, 4);

    args.first = first;
    s->pairs = 0;
    portable_workspace(&p, launch, 0);
    portable_view(&p, s->x);
    return portable_run(launch, &p);
}

/* As sort_load_line, and sorts the lines; sets s->pairs to the offset of the sorted pairs. */
static enum bp_status sort_lines(const struct bp_launch *launch, struct sorting *s, int64_t first,
                                 int64_t n)
{
    int64_t extent = s->args.extent, parts = (extent + SORT_PART - 1) / SORT_PART, other = s->spare;
    int64_t share = extent < SORT_PART ? extent : SORT_PART;
    struct portable p = PORTABLE(sort, sort_parts, s->type, s->args, n * parts,
                                 20.0 * (double)share);
    enum bp_status status = sort_load_line(launch, s, first, n);

    portable_workspace(&p, launch, 0);
    portable_workspace(&p, launch, (size_t)s->spare);
    if (status == BP_OK) status = portable_run(launch, &p);
    for (int64_t width = SORT_PART; width < extent && status == BP_OK; width *= 2) {
        struct sort_merge_args args = {extent, width};
        struct portable m = PORTABLE(sort, sort_merge, s->type, args, n * parts, 4.0 * SORT_PART);
        int64_t from = s->pairs;
        portable_workspace(&m, launch, (size_t)other);
        portable_workspace(&m, launch, (size_t)from);
        status = portable_run(launch, &m);
        s->pairs = other;
        other = from;
    }
    return status;
}

static struct portable_split sort_lines_of(const struct bp_view *x, int64_t axis)
{
    return portable_split(x, portable_axis(axis, x->rank));
}

/* Sorts all lines and writes `take` values of each, beginning with value number `skip`. */
static enum bp_status write_sorted(const struct bp_launch *launch, struct sorting *s, int64_t skip,
                                   int64_t take, const struct bp_view *y,
                                   const struct bp_view *index)
{
    enum bp_status status = BP_OK;

    for (int64_t first = 0; first < s->lines && status == BP_OK; first += s->group) {
        int64_t n = s->lines - first < s->group ? s->lines - first : s->group;
        struct sort_write_args args = {first, s->args.extent, s->args.inner, skip, take};
        struct portable p = PORTABLE(sort, sort_write, s->type, args, n * take, 4);
        status = sort_lines(launch, s, first, n);
        portable_view(&p, y);
        portable_view(&p, index);
        portable_view(&p, s->x);
        portable_workspace(&p, launch, (size_t)s->pairs);
        if (status == BP_OK) status = portable_run(launch, &p);
    }
    return status;
}

/* argsort has this layout of attributes, too. */
enum bp_status portable_sort_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_sort_attrs *a = prep->attrs;

    (void)self;
    return portable_needs(out, sorting_bytes(prep->in[0], sort_lines_of(prep->in[0], a->axis)));
}

/* Number 0: sort; 1: argsort. */
enum bp_status portable_sort(const struct bp_launch *launch)
{
    const struct bp_sort_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0];
    bool argsort = portable_number(launch->kernel) == 1;
    struct sorting s = sorting_of(x, sort_lines_of(x, a->axis), a->descending);

    return write_sorted(launch, &s, 0, s.args.extent, argsort ? NULL : launch->out[0],
                        launch->out[argsort ? 0 : 1]);
}

/* The values that topk (number 0) and kthvalue (number 1) pick from each line. */
static struct pick_args pick_of(const struct bp_kernel *kernel, const void *attrs,
                                const struct bp_view *x)
{
    const struct bp_topk_attrs *top = attrs;
    const struct bp_kthvalue_attrs *kth = attrs;
    bool one = portable_number(kernel) == 1;
    struct portable_split s = sort_lines_of(x, one ? kth->axis : top->axis);

    return (struct pick_args){.extent = s.extent, .inner = s.inner, .down = !one && !top->smallest,
                              .skip = one ? kth->k - 1 : 0, .take = one ? 1 : top->k};
}

static bool picks_few(const struct pick_args *a)
{
    return a->skip + a->take <= PICK_MOST;
}

static struct portable_split pick_lines(const struct pick_args *a, const struct bp_view *x)
{
    struct portable_split s = {1, a->extent, a->inner};

    s.outer = x->count ? x->count / (a->extent * a->inner) : 0;
    return s;
}

enum bp_status portable_pick_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct pick_args a = pick_of(prep->kernel, prep->attrs, prep->in[0]);

    (void)self;
    return portable_needs(
        out, picks_few(&a) ? 0 : sorting_bytes(prep->in[0], pick_lines(&a, prep->in[0])));
}

enum bp_status portable_pick(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    struct pick_args args = pick_of(launch->kernel, launch->attrs, x);
    struct portable_split lines = pick_lines(&args, x);
    struct portable p = PORTABLE(sort, pick, portable_type(x->dtype), args,
                                 args.take ? lines.outer * lines.inner : 0,
                                 4.0 * (double)args.extent);
    struct sorting s;

    if (!picks_few(&args)) {
        s = sorting_of(x, lines, args.down);
        return write_sorted(launch, &s, args.skip, args.take, launch->out[0], launch->out[1]);
    }
    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->out[1]);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_mode_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_mode_attrs *a = prep->attrs;

    (void)self;
    return portable_needs(out, sorting_bytes(prep->in[0], sort_lines_of(prep->in[0], a->axis)));
}

enum bp_status portable_mode(const struct bp_launch *launch)
{
    const struct bp_mode_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct sorting s = sorting_of(x, sort_lines_of(x, a->axis), false);
    enum bp_status status = BP_OK;

    for (int64_t first = 0; first < s.lines && status == BP_OK; first += s.group) {
        int64_t n = s.lines - first < s.group ? s.lines - first : s.group;
        struct mode_args args = {first, s.args.extent, s.args.inner};
        struct portable p = PORTABLE(sort, mode, s.type, args, n, 4.0 * (double)args.extent);
        status = sort_lines(launch, &s, first, n);
        portable_view(&p, launch->out[0]);
        portable_view(&p, launch->out[1]);
        portable_view(&p, x);
        portable_workspace(&p, launch, (size_t)s.pairs);
        if (status == BP_OK) status = portable_run(launch, &p);
    }
    return status;
}

static struct unique_args unique_of(const struct bp_view *x)
{
    return (struct unique_args){x->count, UNIQUE_PART, (x->count + UNIQUE_PART - 1) / UNIQUE_PART};
}

/* The workspace has the pairs, the spare pairs, and a number for each part. */
enum bp_status portable_unique_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *x = prep->in[0];
    struct portable_split whole = {1, x->count, 1};

    (void)self;
    return portable_needs(out, sorting_bytes(x, whole) + 8 * (unique_of(x).parts + 1));
}

/* Counts the distinct values of each part of the pairs, then adds the counts up. */
static enum bp_status unique_count(const struct bp_launch *launch, const struct sorting *s,
                                   struct unique_args args, bool consecutive)
{
    struct portable count = PORTABLE(sort, unique_count, s->type, args, args.parts, UNIQUE_PART);
    struct portable scan = PORTABLE(sort, unique_scan, s->type, args, 1, 1);
    int64_t *result = launch->result;
    enum bp_status status;

    portable_workspace(&count, launch, (size_t)(2 * s->spare));
    portable_workspace(&count, launch, (size_t)s->pairs);
    status = portable_run(launch, &count);
    portable_workspace(&scan, launch, (size_t)(2 * s->spare));
    portable_result(&scan, &result[0]);
    portable_result(&scan, consecutive ? NULL : &result[1]);
    portable_result(&scan, &result[consecutive ? 1 : 2]);
    portable_result(&scan, &result[consecutive ? 2 : 3]);
    return status ? status : portable_run(launch, &scan);
}

/* Number 0: unique; 1: unique_consecutive, which has no output index. */
enum bp_status portable_unique(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    bool consecutive = portable_number(launch->kernel) == 1;
    struct portable_split whole = {1, x->count, 1};
    struct sorting s = sorting_of(x, whole, false);
    struct unique_args args = unique_of(x);
    struct portable p = PORTABLE(sort, unique_write, s.type, args, args.parts, 2 * UNIQUE_PART);
    enum bp_status status = consecutive ? sort_load_line(launch, &s, 0, s.lines)
                                        : sort_lines(launch, &s, 0, s.lines);

    if (status == BP_OK) status = unique_count(launch, &s, args, consecutive);
    portable_view(&p, launch->out[0]);
    portable_view(&p, consecutive ? NULL : launch->out[1]);
    portable_view(&p, launch->out[consecutive ? 1 : 2]);
    portable_view(&p, launch->out[consecutive ? 2 : 3]);
    portable_view(&p, x);
    portable_workspace(&p, launch, (size_t)s.pairs);
    portable_workspace(&p, launch, (size_t)(2 * s.spare));
    return status ? status : portable_run(launch, &p);
}

/* Number 0: searchsorted; 1: bucketize, which has the same attributes and its inputs exchanged. */
enum bp_status portable_searchsorted(const struct bp_launch *launch)
{
    const struct bp_searchsorted_attrs *a = launch->attrs;
    int first = portable_number(launch->kernel) == 1;
    const struct bp_view *sorted = launch->in[first], *x = launch->in[1 - first];
    const struct bp_view *index = launch->out[0];
    struct search_args args = {sorted->shape[sorted->rank - 1], x->rank ? x->shape[x->rank - 1] : 1,
                               sorted->rank == 1, a->right, index->dtype == BP_I64};
    struct portable p = PORTABLE(sort, search, portable_type(x->dtype), args, x->count, 40);

    portable_view(&p, index);
    portable_view(&p, sorted);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_shard_index(const struct bp_launch *launch)
{
    const struct bp_shard_index_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct shard_args args = {a->index_num, (a->index_num - 1) / a->nshards + 1, a->shard_id,
                              a->ignore_value};
    struct portable p = PORTABLE(sort, shard, portable_type(x->dtype), args, x->count, 8);

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

static struct histogram_args histogram_of(const struct bp_view *x, int64_t bins)
{
    struct histogram_args h = {.n = x->count, .parts = x->count / HISTOGRAM_PART, .bins = bins};

    h.parts = h.parts < 1 ? 1 : h.parts > HISTOGRAM_PARTS ? HISTOGRAM_PARTS : h.parts;
    if (h.parts > 1 && bins > HISTOGRAM_PART) h.parts = 1;
    h.part = (x->count + h.parts - 1) / h.parts;
    return h;
}

/* The workspace has the counts of all parts, then their ranges. */
enum bp_status portable_histogram_prepare(void *self, const struct bp_prep *prep,
                                          struct bp_plan *out)
{
    struct histogram_args h = histogram_of(prep->in[0], prep->out[0]->count);

    (void)self;
    return portable_needs(out, 8 * h.parts * h.bins + 16 * h.parts);
}

enum bp_status portable_histogram(const struct bp_launch *launch)
{
    const struct bp_histogram_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    enum portable_type type = portable_type(x->dtype);
    struct histogram_args args = histogram_of(x, y->count);
    size_t ranges = (size_t)(8 * args.parts * args.bins);
    struct portable range = PORTABLE(sort, histogram_range, type, args, args.parts,
                                     (double)args.part);
    struct portable count =
        PORTABLE(sort, histogram_count, type, args, args.parts, 8.0 * (double)args.part);
    struct portable add = PORTABLE(sort, histogram_add, type, args, args.bins, (double)args.parts);
    enum bp_status status = BP_OK;

    args.data = !(a->low < a->high);
    args.low = (real)a->low;
    args.high = (real)a->high;
    portable_workspace(&range, launch, ranges);
    portable_view(&range, x);
    if (args.data) status = portable_run(launch, &range);
    portable_workspace(&count, launch, 0);
    portable_view(&count, x);
    portable_workspace(&count, launch, ranges);
    if (status == BP_OK) status = portable_run(launch, &count);
    portable_view(&add, y);
    portable_workspace(&add, launch, 0);
    return status ? status : portable_run(launch, &add);
}

/* The workspace has the pairs of the scores, the spare pairs, and a byte for each box. */
enum bp_status portable_nms_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *boxes = prep->in[0];
    struct portable_split one = {1, boxes->shape[0], 1};

    (void)self;
    return portable_needs(out, sorting_bytes(boxes, one) + boxes->shape[0] + 1);
}

enum bp_status portable_nms(const struct bp_launch *launch)
{
    const struct bp_nms_attrs *a = launch->attrs;
    const struct bp_view *boxes = launch->in[0], *scores = launch->in[1];
    struct portable_split one = {1, boxes->shape[0], 1};
    struct sorting s = sorting_of(scores ? scores : boxes, one, true);
    struct nms_args args = {.n = boxes->shape[0], .most = boxes->shape[0], .classes = 1,
                            .form = NMS_CORNERS, .threshold = (real)a->iou_threshold};
    struct portable p = PORTABLE(sort, nms, s.type, args, 1, 1);
    enum bp_status status = scores ? sort_lines(launch, &s, 0, s.lines)
                                   : sort_load_line(launch, &s, 0, s.lines);

    portable_view(&p, launch->out[0]);
    portable_result(&p, launch->result);
    portable_view(&p, boxes);
    portable_view(&p, NULL);
    portable_workspace(&p, launch, (size_t)s.pairs);
    portable_workspace(&p, launch, (size_t)(2 * s.spare));
    return status ? status : portable_run(launch, &p);
}

/* Offsets in the workspace of non_max_suppression, after the pairs and the spare pairs: the kept
 * boxes, up to `most` for each line; the number of kept boxes before each line, and in all; and a
 * byte for each box of the lines of a group. */
struct suppressing {
    int64_t most, index, before, removed, bytes;
};

static struct suppressing suppressing_of(const struct bp_view *scores, int64_t max_boxes)
{
    struct sorting s = sorting_of(scores, sort_lines_of(scores, -1), true);
    int64_t n = s.args.extent;
    struct suppressing r = {.most = max_boxes < n ? max_boxes : n, .index = 2 * s.spare};

    r.before = r.index + 8 * s.lines * r.most;
    r.removed = r.before + 8 * (s.lines + 1);
    r.bytes = r.removed + s.group * n;
    return r;
}

enum bp_status portable_non_max_suppression_prepare(void *self, const struct bp_prep *prep,
                                                    struct bp_plan *out)
{
    const struct bp_non_max_suppression_attrs *a = prep->attrs;

    (void)self;
    return portable_needs(out, suppressing_of(prep->in[1], a->max_boxes).bytes);
}

/* Sorts the lines of scores in groups, then suppresses boxes in each line. */
static enum bp_status sort_suppress(const struct bp_launch *launch, struct sorting *s,
                                    struct suppressing r)
{
    const struct bp_non_max_suppression_attrs *a = launch->attrs;
    struct nms_args args = {.n = s->args.extent, .most = r.most, .classes = s->x->shape[1],
                            .form = a->center_point_box ? NMS_CENTRE : NMS_OPPOSITE,
                            .threshold = (real)a->iou_threshold, .score = (real)a->score_threshold};
    enum bp_status status = BP_OK;

    for (int64_t first = 0; first < s->lines && status == BP_OK; first += s->group) {
        int64_t n = s->lines - first < s->group ? s->lines - first : s->group;
        struct portable p = PORTABLE(sort, nms, s->type, args, n,
                                     8.0 * (double)args.n * (double)args.most);
        args.first = first;
        status = sort_lines(launch, s, first, n);
        portable_workspace(&p, launch, (size_t)r.index);
        portable_workspace(&p, launch, (size_t)r.before);
        portable_view(&p, launch->in[0]);
        portable_view(&p, a->score_threshold == -INFINITY ? NULL : s->x);
        portable_workspace(&p, launch, (size_t)s->pairs);
        portable_workspace(&p, launch, (size_t)r.removed);
        if (status == BP_OK) status = portable_run(launch, &p);
    }
    return status;
}

enum bp_status portable_non_max_suppression(const struct bp_launch *launch)
{
    const struct bp_non_max_suppression_attrs *a = launch->attrs;
    const struct bp_view *scores = launch->in[1];
    struct sorting s = sorting_of(scores, sort_lines_of(scores, -1), true);
    struct suppressing r = suppressing_of(scores, a->max_boxes);
    struct unique_args lines = {.parts = s.lines};
    struct nms_write_args args = {r.most, scores->shape[1]};
    struct portable scan = PORTABLE(sort, unique_scan, s.type, lines, 1, (double)s.lines);
    struct portable write = PORTABLE(sort, nms_write, s.type, args, s.lines * r.most, 4);
    enum bp_status status = sort_suppress(launch, &s, r);

    portable_workspace(&scan, launch, (size_t)r.before);
    portable_result(&scan, launch->result);
    portable_workspace(&scan, launch, (size_t)(r.before + 8 * s.lines));
    portable_result(&scan, NULL);
    portable_result(&scan, NULL);
    if (status == BP_OK) status = portable_run(launch, &scan);
    portable_view(&write, launch->out[0]);
    portable_workspace(&write, launch, (size_t)r.index);
    portable_workspace(&write, launch, (size_t)r.before);
    return status ? status : portable_run(launch, &write);
}
