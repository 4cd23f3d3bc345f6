/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h: geometries of pools, for the cases of all. */
#ifndef BP_CONFORM_CASES_POOL_H
#define BP_CONFORM_CASES_POOL_H

#include <conformance/kernel_case.h>

struct pool_case {
    const char *variant, *x;
    int64_t window[3], stride[3], dilation[3], pad[6];
    bool ceil, adaptive, quick;
};
extern const struct pool_case pool_case[];
extern const int n_pool_case;
const struct pool_case *pool_case_find(const char *variant);

/* The shape of a pool's result, as text. */
const char *pool_case_result(const struct pool_case *p, char *text, size_t size);

/* A case with these attributes, which begin as those of max_pool. */
struct kernel_case *pool_case_begin(const struct case_maker *maker, const struct pool_case *p,
                                    const char *shapes);

#endif
