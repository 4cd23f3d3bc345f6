/* SPDX-License-Identifier: Apache-2.0 */
/* cache.h: the eager calls of a stream, prepared and found again by their signature. */
#ifndef BP_CACHE_H
#define BP_CACHE_H

struct bp_cache;

void bp_cache_destroy(struct bp_cache *cache);

#endif
