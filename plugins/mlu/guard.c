/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: checks indices on the device in front of the calls that use them; see cnnl.h. CNNL does
 * not check them: one that is out of range reads or writes other memory.
 *
 * With wide = the indices moved into least - 1 to most + 1, and good = those moved into least to
 * most, (wide - good)^2 is 1 where an index is out of range, and 0 where not. Its largest element
 * is the fault. No difference of two indices overflows in this way. */
#include "cnnl.h"
#include <string.h>

static int guard_call_difference(const struct mlu_run *r, const struct mlu_step *s)
{
    int (*f)(void *h, const void *da, const void *a, const void *db, const void *b, const void *dy,
             void *y, void *w, size_t n);

    memcpy(&f, &mlu_cnnl.function[s->fn], sizeof f);
    return f(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1),
             mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work);
}

static void guard_difference(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                             struct mlu_tensor out)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlSquaredDifference, guard_call_difference,
                                  MLU_TENSORS(x, y, out));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetSquaredDifferenceWorkspaceSize(
        b->handle, mlu_desc(s, 0), mlu_desc(s, 1), mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetSquaredDifferenceWorkspaceSize, code, size);
}

/* out = the larger of out and x. */
static void guard_maximum(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor out)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlMaximum, guard_call_difference,
                                  MLU_TENSORS(out, x, out));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetMaximumWorkspaceSize(b->handle, mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetMaximumWorkspaceSize, code, size);
}

static int guard_call_largest(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlTopKTensor_v3(
        r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), 1, 0, true, true, true, mlu_work(r, s),
        s->work, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2));
}

static struct mlu_tensor guard_largest(struct mlu_build *b, struct mlu_tensor x)
{
    const int64_t one = 1;
    struct mlu_tensor y = mlu_temporary(b, BP_I32, 1, &one);
    struct mlu_tensor at = mlu_temporary(b, BP_I32, 1, &one);
    struct mlu_step *s = mlu_step(b, FN_cnnlTopKTensor_v3, guard_call_largest,
                                  MLU_TENSORS(x, y, at));
    size_t size = 0;
    int code;

    if (!s) return y;
    code = mlu_cnnl.call.cnnlGetTopKTensorWorkspaceSize(b->handle, mlu_desc(s, 0), 1, 0, true,
                                                        mlu_desc(s, 1), mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetTopKTensorWorkspaceSize, code, size);
    return y;
}

/* Indices below 0 count from the end: index modulo n, which is 0 or has the sign of n. */
static struct mlu_tensor guard_wrap(struct mlu_build *b, struct mlu_tensor index, int64_t n)
{
    const int64_t one = 1;
    struct mlu_tensor modulus = mlu_temporary(b, BP_I32, 1, &one);
    struct mlu_tensor y = mlu_temporary(b, BP_I32, 1, index.shape);
    struct mlu_step *s;
    size_t size = 0;
    int code;

    mlu_step_fill(b, (double)n, modulus);
    s = mlu_step(b, FN_cnnlFloorMod, guard_call_difference, MLU_TENSORS(index, modulus, y));
    if (!s) return y;
    code = mlu_cnnl.call.cnnlGetFloorModWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                      mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetFloorModWorkspaceSize, code, size);
    return y;
}

struct mlu_tensor mlu_guard(struct mlu_build *b, struct mlu_tensor index, int64_t n, bool wraps)
{
    int32_t least = wraps ? (int32_t)-n : 0, most = (int32_t)(n - 1);
    struct mlu_tensor wide, good, differs;

    index = mlu_flat(index);
    if (n < 1 || n >= INT32_MAX || index.dtype != BP_I32) {
        mlu_refuse(b);
        return index;
    }
    wide = mlu_temporary(b, BP_I32, 1, index.shape);
    good = mlu_temporary(b, BP_I32, 1, index.shape);
    differs = mlu_temporary(b, BP_I32, 1, index.shape);
    mlu_step_clip(b, index, least - 1, most + 1, wide);
    mlu_step_clip(b, index, least, most, good);
    guard_difference(b, wide, good, differs);
    guard_maximum(b, guard_largest(b, differs), mlu_word(b));
    return wraps ? guard_wrap(b, good, n) : good;
}
