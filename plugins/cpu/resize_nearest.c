/* SPDX-License-Identifier: Apache-2.0 */
/* resize_nearest.c: computes nearest resize over all axes, for elements of one size (elem.h). Lines
 * of the result that take the same line of x are written together. */
#include "resize.h"
#include "cpu.h"
#include "kernels.h"
#include "resize_window.h"
#include <dialect/elem.h>
#include <string.h>

/* Lines of the result that are copies of one: `copies` of them, `step` apart. */
struct nearest_lines {
    elem *y;
    const elem *x;
    int64_t copies, step;
};

/* Elements 2 j and 2 j + 1 are copies of element j. */
static void nearest_twice(elem *restrict y, const elem *restrict x, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n / 2; j++) {
        elem v = x[j];
        y[2 * j] = v;
        y[2 * j + 1] = v;
    }
    if (n % 2) y[n - 1] = x[n / 2];
}

#if defined(__AVX512F__) && defined(ELEM_f32)
static void nearest_near(const struct resize_plan *p, const struct nearest_lines *l)
{
    for (int64_t j = 0; j < p->y_line; j += WINDOW_PART) {
        __mmask16 some = window_mask(p->y_line - j);
        int64_t base = p->place[j];
        struct resize_window w = window_read(l->x + base, p->x_line - base, 2);
        __m512i at = _mm512_sub_epi32(_mm512_maskz_loadu_epi32(some, p->place + j),
                                      _mm512_set1_epi32((int)base));
        __m512 taken = window_take(&w, at);
        for (int64_t k = 0; k < l->copies; k++)
            _mm512_mask_storeu_ps(l->y + k * l->step + j, some, taken);
    }
}

/* Writes two lines of each of `lines` lines of x, in which each element occurs twice. */
static void nearest_pairs(const struct resize_plan *p, elem *y, const elem *x, int64_t lines)
{
    const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(WINDOW_PART / 2));
    int64_t n = p->y_line, whole = n / (2 * WINDOW_PART) * (2 * WINDOW_PART);
    int64_t step = p->line[0].y_step;
    __mmask16 some = window_mask(n - whole), more = window_mask(n - whole - WINDOW_PART);
    __mmask16 read = window_mask((n - whole + 1) / 2);

    for (; lines > 0; lines--, x += p->line[0].x_step, y += 2 * step) {
        for (int64_t j = 0; j < whole; j += 2 * WINDOW_PART) {
            __m512 v = _mm512_loadu_ps(x + j / 2);
            __m512 first = _mm512_permutexvar_ps(low, v), second = _mm512_permutexvar_ps(high, v);
            _mm512_storeu_ps(y + j, first);
            _mm512_storeu_ps(y + j + WINDOW_PART, second);
            _mm512_storeu_ps(y + step + j, first);
            _mm512_storeu_ps(y + step + j + WINDOW_PART, second);
        }
        if (some) {
            __m512 v = _mm512_maskz_loadu_ps(read, x + whole / 2);
            __m512 first = _mm512_permutexvar_ps(low, v), second = _mm512_permutexvar_ps(high, v);
            _mm512_mask_storeu_ps(y + whole, some, first);
            _mm512_mask_storeu_ps(y + step + whole, some, first);
            if (!more) continue;
            _mm512_mask_storeu_ps(y + whole + WINDOW_PART, more, second);
            _mm512_mask_storeu_ps(y + step + whole + WINDOW_PART, more, second);
        }
    }
}
#else
static void nearest_pairs(const struct resize_plan *p, elem *y, const elem *x, int64_t lines)
{
    int64_t step = p->line[0].y_step;

    for (; lines > 0; lines--, x += p->line[0].x_step, y += 2 * step) {
        nearest_twice(y, x, p->y_line);
        memcpy(y + step, y, sizeof *y * (size_t)p->y_line);
    }
}
#endif

static void nearest_line(const struct resize_plan *p, elem *restrict y, const elem *restrict x)
{
    if (!p->has_columns) {
        memcpy(y, x, sizeof *y * (size_t)p->inner);
    } else if (p->twice) {
        nearest_twice(y, x, p->y_line);
    } else if (p->place) {
        for (int64_t j = 0; j < p->y_line; j++) y[j] = x[p->place[j]];
    } else {
        for (int64_t o = 0; o < p->column.out; o++, y += p->inner)
            memcpy(y, x + p->column.at[o], sizeof *y * (size_t)p->inner);
    }
}

static void nearest_run(const struct resize_plan *p, const struct nearest_lines *l)
{
#if defined(__AVX512F__) && defined(ELEM_f32)
    if (p->place && p->reach <= 2 * WINDOW_PART) {
        nearest_near(p, l);
        return;
    }
#endif
    nearest_line(p, l->y, l->x);
    for (int64_t k = 1; k < l->copies; k++)
        memcpy(l->y + k * l->step, l->y, sizeof *l->y * (size_t)p->y_line);
}

/* Computes up to n lines of a plane, from line o of the innermost axis of lines on. Returns their
 * number. */
static int64_t nearest_some(const struct resize_plan *p, struct nearest_lines *l, int64_t o,
                            int64_t n)
{
    const struct resize_axis *line = p->lines ? &p->line[p->lines - 1] : NULL;

    l->copies = 1;
    if (!line) {
        nearest_run(p, l);
        return 1;
    }
    if (p->pairs && o % 2 == 0 && n > 1) {
        nearest_pairs(p, l->y + o * line->y_step, l->x + line->at[o], n / 2);
        return n / 2 * 2;
    }
    while (l->copies < n && o + l->copies < line->out && line->at[o + l->copies] == line->at[o])
        l->copies++;
    l->x += line->at[o];
    l->y += o * line->y_step;
    l->step = line->y_step;
    nearest_run(p, l);
    return l->copies;
}

static void nearest_part(void *arg, int64_t part)
{
    const struct bp_launch *launch = arg;
    const struct resize_plan *p = launch->plan;
    const struct resize_axis *outer = p->lines == 2 ? &p->line[0] : NULL;
    int64_t lines = resize_lines(p), end = lines * (part + 1) / p->parts;
    int64_t inner = p->lines ? p->line[p->lines - 1].out : 1;

    for (int64_t i = lines * part / p->parts; i < end;) {
        int64_t block = i / inner, stop = (block + 1) * inner < end ? (block + 1) * inner : end;
        struct resize_offset at = resize_plane(p, outer ? block / outer->out : block);
        if (outer) at.x += outer->at[block % outer->out];
        if (outer) at.y += block % outer->out * outer->y_step;
        while (i < stop) {
            struct nearest_lines l = {.y = (elem *)launch->out[0]->data + at.y,
                                      .x = (const elem *)launch->in[0]->data + at.x};
            i += nearest_some(p, &l, i - block * inner, stop - i);
        }
    }
}

enum bp_status NAME(resize_nearest)(const struct bp_launch *launch)
{
    const struct resize_plan *p = launch->plan;

    cpu_team_run(nearest_part, (void *)launch, p->parts,
                 cpu_team_width(launch, (double)launch->out[0]->count / 4));
    return BP_OK;
}
