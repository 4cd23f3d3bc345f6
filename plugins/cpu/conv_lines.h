/* SPDX-License-Identifier: Apache-2.0 */
/* conv_lines.h: computes a product of conv.c line by line of the result, for f32 and f64. All taps
 * read lines of the image in place, each at its own shift; only the columns at the ends, where some
 * taps are outside of the image, are computed one by one. So the image is not packed, and filters
 * are packed once for many lines. Parts with the even and the odd columns are computed together, so
 * that the result is written in order. conv.c includes it. */
#ifndef CPU_CONV_LINES_H
#define CPU_CONV_LINES_H

#ifndef ELEM_HALF
enum { LINE_TAPS = 512, LINE_MOST = 1024, LINES = 16 }; /* LINES: lines of a task */

typedef acc vec_any __attribute__((vector_size(VECTOR), aligned(sizeof(acc)), may_alias));
enum { LANES_OF_VEC = VECTOR / (int)sizeof(acc) };

static const elem line_zeros[LINE_MOST]; /* a line outside of the image */

/* A line of the result, and the line of the image under column 0 for each tap. Columns begin to end
 * - 1 have all taps inside of the image. */
struct conv_line {
    const struct conv_call *call;
    const acc *a; /* panels of rows (gemm.h), k deep */
    const elem *bias;
    elem *c;
    int64_t rows, columns, begin, end;
    const elem *src[LINE_TAPS];
};

static bool conv_has_lines(const struct conv_product *p)
{
    const struct conv_image *image = &p->image;

    return p->k > 0 && p->k <= LINE_TAPS && image->position[3] <= LINE_MOST &&
           image->every[0] == 1 && image->every[1] == 1 && image->every[2] == 1 &&
           image->step[2] == 1 && (image->stride[2] == 1 || image->extent[2] == 1) &&
           !p->taps_are_columns;
}

/* The number of blocks of LINES lines. */
static int64_t lines_blocks(const struct conv_product *p)
{
    int64_t lines = p->image.position[0] * p->image.position[1] * p->image.position[2];

    return (lines + LINES - 1) / LINES;
}

/* The rows of a task: fewer where there are few lines, so that threads share the rows. */
static int64_t lines_rows(const struct conv_product *p)
{
    enum { FEW_TASKS = 4, ENOUGH = 8 };
    int64_t tasks = lines_blocks(p) * p->groups;
    int64_t parts = tasks < FEW_TASKS ? (ENOUGH + tasks - 1) / tasks : 1;
    int64_t rows = ((p->m + parts - 1) / parts + MR - 1) / MR * MR;

    return rows < TILE_M ? rows : TILE_M;
}

static int64_t lines_tasks(const struct conv_product *p)
{
    int64_t rows = lines_rows(p);

    return lines_blocks(p) * ((p->m + rows - 1) / rows) * p->groups;
}

/* The shift of a tap along the line. */
static int64_t line_shift(const struct conv_image *image, const int64_t tap[4])
{
    return image->origin[2] + tap[3] * image->tap_step[2];
}

/* Finds the lines of the image for the line of the result at `at`. */
static void line_find(struct conv_line *line, const elem *image_data, const int64_t at[4])
{
    const struct conv_product *p = &line->call->p;
    const struct conv_image *image = &p->image;
    int64_t tap[4];

    line->begin = 0;
    line->end = line->columns;
    grid_locate(image->tap, 0, tap);
    for (int64_t k = 0; k < p->k; k++, grid_next(image->tap, tap)) {
        int64_t shift = line_shift(image, tap), t[2];
        const elem *from = image_data + at[0] * image->batch + tap[0] * image->channel + shift;
        bool inside = true;
        for (int d = 0; d < 2; d++) {
            t[d] = at[d + 1] * image->step[d] + image->origin[d] + tap[d + 1] * image->tap_step[d];
            inside = inside && t[d] >= 0 && t[d] < image->extent[d];
        }
        if (-shift > line->begin) line->begin = -shift;
        if (image->extent[2] - shift < line->end) line->end = image->extent[2] - shift;
        line->src[k] = inside ? from + t[0] * image->stride[0] + t[1] * image->stride[1]
                              : line_zeros;
    }
    if (line->begin > line->columns) line->begin = line->columns;
    if (line->end < line->begin) line->end = line->begin;
}

static void line_put(const struct conv_line *line, int64_t row, int64_t j, int64_t n,
                     const acc *sum)
{
    const struct conv_product *p = &line->call->p;
    int64_t step = p->c_column.stride[3];
    elem *to = line->c + row * p->c_row + j * step;
    acc more = line->bias ? line->bias[row * p->bias_step] : 0;

    if (line->bias)
        for (int64_t i = 0; i < n; i++) to[i * step] = sum[i] + more;
    else
        for (int64_t i = 0; i < n; i++) to[i * step] = sum[i];
}

/* Computes one column outside of begin to end - 1. */
static void line_column(const struct conv_line *line, int64_t j)
{
    const struct conv_product *p = &line->call->p;
    int64_t tap[4], panels = (line->rows + MR - 1) / MR;
    acc sum[TILE_M] = {0};

    grid_locate(p->image.tap, 0, tap);
    for (int64_t k = 0; k < p->k; k++, grid_next(p->image.tap, tap)) {
        int64_t t = j + line_shift(&p->image, tap);
        if (t < 0 || t >= p->image.extent[2]) continue;
        acc value = line->src[k][j];
        for (int64_t q = 0; q < panels; q++) {
            const acc *a = line->a + (q * p->k + k) * MR;
            for (int i = 0; i < MR; i++) sum[q * MR + i] += a[i] * value;
        }
    }
    for (int64_t i = 0; i < line->rows; i++) line_put(line, i, j, 1, sum + i);
}

/* Computes MR rows of the columns from j on and, with `both`, of those from other on: a vector of
 * columns each. */
static inline __attribute__((always_inline)) void line_block(const struct conv_line *line,
                                                             int64_t row, int64_t j, bool both,
                                                             int64_t other)
{
    int64_t depth = line->call->p.k;
    const acc *a = line->a + row * depth;
    vec_any sum[MR][2];
    acc out[LANES_OF_VEC];

    for (int i = 0; i < MR; i++) sum[i][0] = sum[i][1] = (vec_any){0};
    for (int64_t k = 0; k < depth; k++, a += MR) {
        vec_any b0 = *(const vec_any *)(line->src[k] + j), b1 = b0;
        if (both) b1 = *(const vec_any *)(line->src[k] + other);
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * b0;
            if (both) sum[i][1] += a[i] * b1;
        }
    }
    for (int i = 0; i < MR && row + i < line->rows; i++) {
        memcpy(out, &sum[i][0], sizeof out);
        line_put(line, row + i, j, LANES_OF_VEC, out);
        if (both) memcpy(out, &sum[i][1], sizeof out);
        if (both) line_put(line, row + i, other, LANES_OF_VEC, out);
    }
}

/* Computes columns begin to end - 1, at least one vector of them. The last vector may compute
 * columns of the vector before it again. */
static void line_blocks(const struct conv_line *line)
{
    int64_t last = line->end - LANES_OF_VEC;

    for (int64_t row = 0; row < line->rows; row += MR)
        for (int64_t j = line->begin; j < line->end; j += 2 * LANES_OF_VEC) {
            int64_t other = j + LANES_OF_VEC;
            if (other >= line->end) line_block(line, row, j < last ? j : last, false, 0);
            else line_block(line, row, j, true, other < last ? other : last);
        }
}

/* The same for few rows, one row after the other. */
static void line_few_rows(const struct conv_line *line)
{
    int64_t n = line->end - line->begin, depth = line->call->p.k;
    acc sum[LINE_MOST];

    for (int64_t row = 0; row < line->rows; row++) {
        for (int64_t j = 0; j < n; j++) sum[j] = 0;
        for (int64_t k = 0; k < depth; k++) {
            const elem *from = line->src[k] + line->begin;
            acc by = line->a[k * MR + row];
#pragma omp simd
            for (int64_t j = 0; j < n; j++) sum[j] += by * from[j];
        }
        line_put(line, row, line->begin, n, sum);
    }
}

static void line_run(struct conv_line *line)
{
    int64_t n = line->end - line->begin;

    if (line->rows <= FEW_ROWS) line_few_rows(line);
    else if (n >= LANES_OF_VEC) line_blocks(line);
    else line->end = line->begin; /* all columns one by one */
    for (int64_t j = 0; j < line->begin; j++) line_column(line, j);
    for (int64_t j = line->end; j < line->columns; j++) line_column(line, j);
}

/* The lines of a task: of one group, `rows` rows from row `first_row` on, and lines `first` to end
 * - 1. */
struct lines_task {
    int64_t group, first_row, rows, first, end;
};

static struct lines_task lines_task_at(const struct conv_product *p, int64_t task)
{
    const int64_t *position = p->image.position;
    int64_t lines = position[0] * position[1] * position[2], blocks = lines_blocks(p);
    int64_t rows = lines_rows(p), tiles = (p->m + rows - 1) / rows, first = task % blocks * LINES;
    int64_t row = task / blocks % tiles * rows;

    return (struct lines_task){.group = task / blocks / tiles, .first_row = row,
                               .rows = p->m - row < rows ? p->m - row : rows, .first = first,
                               .end = first + LINES < lines ? first + LINES : lines};
}

/* Packs the filters of a task into a, which has TILE_M * LINE_TAPS elements. */
static void line_begin(struct conv_line *line, const struct conv_call *call,
                       const struct lines_task *t, acc *a)
{
    const struct conv_product *p = &call->p;
    struct tile tile = {.p = p, .a = call->a + t->group * p->a_group + t->first_row * p->a_row,
                        .m = t->rows};

    memset(a, 0, sizeof *a * (size_t)((t->rows + MR - 1) / MR * MR * p->k));
    pack_a(&tile, 0, p->k, a);
    line->call = call;
    line->a = a;
    line->rows = t->rows;
    line->columns = p->image.position[3];
    line->bias = call->bias ? call->bias + (t->group * p->m + t->first_row) * p->bias_step : NULL;
}

/* Goes to line number k. */
static void line_go(struct conv_line *line, const struct lines_task *t, int64_t k)
{
    const struct conv_call *call = line->call;
    const struct conv_product *p = &call->p;
    int64_t at[4];

    grid_locate(p->image.position, k * p->image.position[3], at);
    line_find(line, call->image + t->group * p->image_group, at);
    line->c = call->c + t->group * p->c_group + t->first_row * p->c_row +
              grid_offset(p->c_column.stride, at);
}

/* Computes the lines of a task. */
static void conv_lines(void *arg, int64_t task)
{
    const struct conv_call *call = arg;
    struct lines_task t = lines_task_at(&call->p, task);
    struct conv_line line;
    _Alignas(64) acc a[TILE_M * LINE_TAPS];

    line_begin(&line, call, &t, a);
    for (int64_t k = t.first; k < t.end; k++) {
        line_go(&line, &t, k);
        line_run(&line);
    }
}

/* Whether the columns of b are between those of a, in the same lines of the result, so that
 * conv_line_pairs computes both: the even and the odd columns of a stride of 2. In a result of one
 * column, parts of neighbouring lines are as close, but may differ in their number of lines. With
 * the 16 registers of AVX2 and SSE, products of many taps are faster apart. */
static bool conv_is_pair(const struct conv_call *a, const struct conv_call *b)
{
    enum { PAIR_TAPS = VECTOR == 64 ? LINE_TAPS : 128 };

    return conv_has_lines(&a->p) && conv_has_lines(&b->p) && a->p.k == b->p.k &&
           a->p.k <= PAIR_TAPS && a->p.m > FEW_ROWS && b->c == a->c + 1 &&
           !memcmp(a->p.image.position, b->p.image.position, 3 * sizeof *a->p.image.position) &&
           a->p.c_column.stride[3] == 2 && b->p.c_column.stride[3] == 2;
}

/* Computes MR / 2 rows of both lines of a pair, of the columns from j on and, with `both`, of those
 * from other on. Both lines together fill elements one after the other. */
static inline __attribute__((always_inline)) void line_pair_block(const struct conv_line *line,
                                                                  int64_t row, int64_t j, bool both,
                                                                  int64_t other)
{
    enum { ROWS = MR / 2 };
    int64_t depth = line->call->p.k, c_row = line->call->p.c_row;
    const acc *a[2] = {line[0].a + row / MR * MR * depth + row % MR,
                       line[1].a + row / MR * MR * depth + row % MR};
    vec_any sum[ROWS][2][2];

    for (int i = 0; i < ROWS; i++)
        for (int l = 0; l < 2; l++) sum[i][l][0] = sum[i][l][1] = (vec_any){0};
    for (int64_t k = 0; k < depth; k++) {
        for (int l = 0; l < 2; l++) {
            vec_any b0 = *(const vec_any *)(line[l].src[k] + j), b1 = b0;
            if (both) b1 = *(const vec_any *)(line[l].src[k] + other);
            for (int i = 0; i < ROWS; i++) {
                sum[i][l][0] += a[l][k * MR + i] * b0;
                if (both) sum[i][l][1] += a[l][k * MR + i] * b1;
            }
        }
    }
    for (int i = 0; i < ROWS && row + i < line->rows; i++) {
        acc more = line->bias ? line->bias[(row + i) * line->call->p.bias_step] : 0;
        for (int h = 0; h < 1 + both; h++) {
            elem *to = line->c + (row + i) * c_row + 2 * (h ? other : j);
            acc even[LANES_OF_VEC], odd[LANES_OF_VEC];
            memcpy(even, &sum[i][0][h], sizeof even);
            memcpy(odd, &sum[i][1][h], sizeof odd);
#pragma omp simd
            for (int k = 0; k < LANES_OF_VEC; k++) {
                to[2 * k] = even[k] + more;
                to[2 * k + 1] = odd[k] + more;
            }
        }
    }
}

/* Computes both lines of a pair. */
static void line_pair_run(struct conv_line line[2])
{
    int64_t begin = line[0].begin > line[1].begin ? line[0].begin : line[1].begin;
    int64_t end = line[0].end < line[1].end ? line[0].end : line[1].end;
    int64_t last = end - LANES_OF_VEC;

    if (last < begin) end = begin; /* all columns one by one */
    for (int64_t row = 0; row < line->rows; row += MR / 2)
        for (int64_t j = begin; j < end; j += 2 * LANES_OF_VEC) {
            int64_t other = j + LANES_OF_VEC;
            if (other >= end) line_pair_block(line, row, j < last ? j : last, false, 0);
            else line_pair_block(line, row, j, true, other < last ? other : last);
        }
    for (int l = 0; l < 2; l++) {
        for (int64_t j = 0; j < begin; j++) line_column(&line[l], j);
        for (int64_t j = end; j < line[l].columns; j++) line_column(&line[l], j);
    }
}

/* As conv_lines, for two calls of which conv_is_pair is true. */
static void conv_line_pairs(void *arg, int64_t task)
{
    const struct conv_call *call = arg;
    struct lines_task t = lines_task_at(&call->p, task);
    struct conv_line line[2];
    _Alignas(64) acc a[2][TILE_M * LINE_TAPS];

    for (int l = 0; l < 2; l++) line_begin(&line[l], &call[l], &t, a[l]);
    for (int64_t k = t.first; k < t.end; k++) {
        for (int l = 0; l < 2; l++) line_go(&line[l], &t, k);
        line_pair_run(line);
    }
}
#endif

#endif
