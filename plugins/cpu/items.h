/* SPDX-License-Identifier: Apache-2.0 */
/* items.h: selects and sorts items: words with the key of a value in the upper 32 bits, and its
 * position in the lower ones. So items are in the order of the keys, and equal keys in the order of
 * positions. topk.c and nms.c include it, for one float dtype of at most 32 bits (elem.h). */
#ifndef CPU_ITEMS_H
#define CPU_ITEMS_H

#include <dialect/elem.h>
#include <stdbool.h>
#include <string.h>

/* The key of a value in ascending, or with `down` in descending order. NaN is above all numbers;
 * all NaN are one value, and so are both zeros. */
static inline u32 item_key(elem x, bool down)
{
    f32 v = (f32)elem_get(x) + 0.0f;
    u32 bits, sign = 0x80000000u;

    memcpy(&bits, &v, sizeof bits);
    bits = v != v ? ~(u32)0 : bits & sign ? ~bits : bits | sign;
    return down ? ~bits : bits;
}

static inline u64 item_make(u32 key, i64 at)
{
    return (u64)key << 32 | (u64)at;
}

static inline i64 item_at(u64 item)
{
    return (i64)(u32)item;
}

/* Moves the k smallest of n items to the front, in any order; 0 < k <= n. Quickselect; pivots are
 * drawn at random, so that no order of the items is slow. */
static void items_select(u64 *item, i64 n, i64 k)
{
    u64 random = 0x9e3779b97f4a7c15u;

    while (n > k) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        u64 pivot = item[random % (u64)n];
        i64 low = 0, high = n - 1;
        while (low <= high) {
            while (item[low] < pivot) low++;
            while (item[high] > pivot) high--;
            if (low > high) break;
            u64 moved = item[low];
            item[low++] = item[high];
            item[high--] = moved;
        }
        /* item[0..high] <= pivot <= item[low..n - 1]; between the two there is the pivot, if any */
        if (k <= high + 1) {
            n = high + 1;
        } else if (k <= low) {
            return;
        } else {
            item += low;
            n -= low;
            k -= low;
        }
    }
}

/* Sorts n items; spare has room for as many. Runs of 8 are sorted by insertion, then merged. */
static void items_sort(u64 *item, i64 n, u64 *spare)
{
    enum { RUN_LENGTH = 8 };
    u64 *from = item, *to = spare;

    for (i64 first = 0; first < n; first += RUN_LENGTH) {
        i64 end = first + RUN_LENGTH < n ? first + RUN_LENGTH : n;
        for (i64 i = first + 1; i < end; i++) {
            u64 mine = item[i];
            i64 k = i;
            for (; k > first && item[k - 1] > mine; k--) item[k] = item[k - 1];
            item[k] = mine;
        }
    }
    for (i64 width = RUN_LENGTH; width < n; width *= 2) {
        for (i64 i = 0; i < n; i += 2 * width) {
            i64 middle = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;
            i64 a = i, b = middle;
            for (i64 t = i; t < end; t++) {
                bool first = b >= end || (a < middle && from[a] < from[b]);
                to[t] = from[first ? a : b];
                a += first;
                b += !first;
            }
        }
        u64 *other = from;
        from = to;
        to = other;
    }
    if (from != item) memcpy(item, from, sizeof *item * (size_t)n);
}

#endif
