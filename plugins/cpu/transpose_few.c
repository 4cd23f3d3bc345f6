/* SPDX-License-Identifier: Apache-2.0 */
/* transpose_few.c: moves elements between a few planes (the channels of a row-major image) and
 * groups of one element of each plane (the pixels of a channels-last image). The loops are compiled
 * for each number of planes, so that they become a few vector shuffles. */
#include "transpose.h"
#include <dialect/elem.h>

/* Element i of plane c becomes element c of group i. */
static inline void few_join(elem *restrict groups, const elem *restrict planes, int64_t plane,
                            int64_t n, int few)
{
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < few; c++) groups[i * few + c] = planes[c * plane + i];
}

/* The reverse. */
static inline void few_split(elem *restrict planes, const elem *restrict groups, int64_t plane,
                             int64_t n, int few)
{
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < few; c++) planes[c * plane + i] = groups[i * few + c];
}

cpu_transpose_few NAME(transpose_join), NAME(transpose_split);

void NAME(transpose_join)(void *groups, const void *planes, int64_t plane, int64_t n, int few)
{
    switch (few) {
    case 2: few_join(groups, planes, plane, n, 2); break;
    case 3: few_join(groups, planes, plane, n, 3); break;
    case 4: few_join(groups, planes, plane, n, 4); break;
    case 5: few_join(groups, planes, plane, n, 5); break;
    case 6: few_join(groups, planes, plane, n, 6); break;
    default: few_join(groups, planes, plane, n, 7); break;
    }
}

void NAME(transpose_split)(void *planes, const void *groups, int64_t plane, int64_t n, int few)
{
    switch (few) {
    case 2: few_split(planes, groups, plane, n, 2); break;
    case 3: few_split(planes, groups, plane, n, 3); break;
    case 4: few_split(planes, groups, plane, n, 4); break;
    case 5: few_split(planes, groups, plane, n, 5); break;
    case 6: few_split(planes, groups, plane, n, 6); break;
    default: few_split(planes, groups, plane, n, 7); break;
    }
}
