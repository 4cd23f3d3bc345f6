/* SPDX-License-Identifier: Apache-2.0 */
/* team.h: reductions and scans over the lanes of a team.
 *
 *   TEAM_JOIN(name, type, better)   defines type name(int op, type v, LOCAL void *scratch): every
 *                                   lane passes v, and gets the result; better is what a and b
 *                                   become, where a is of the lower lane, and may depend on op.
 *                                   scratch has a place of that type for each lane
 *   TEAM_SCAN(name, type, joined)   defines type name(int op, type v, type none, LOCAL void
 *                                   *scratch, type *all): every lane passes v, and gets what those
 *                                   of lower lanes are together, none in the first lane; all gets
 *                                   what the whole team's are. joined is as better above; the order
 *                                   of lanes is kept
 *
 * Always the same tree, so that results have the same bits: of lanes 128 apart, then 64, and so on.
 * Scans join lanes 1 apart, then 2, up to 16, then groups of 32 from the first on.
 * Where lanes exchange registers (LANES_EXCHANGE), all 256 of a team are there, and each 32 of
 * them make the whole tree: two barriers, where there are ten in memory. A device may run 32 or 64
 * lanes in step. */
#ifndef BP_DIALECT_TEAM_H
#define BP_DIALECT_TEAM_H

#if defined(ON_HOST) || defined(ON_PROCESSOR)
#define TEAM_JOIN(name, type, better) \
    KFN type name(int op, type v, LOCAL void *scratch) \
    { \
        (void)op; \
        (void)scratch; \
        return v; \
    }
#define TEAM_SCAN(name, type, joined) \
    KFN type name(int op, type v, type none, LOCAL void *scratch, type *all) \
    { \
        (void)op; \
        (void)scratch; \
        *all = v; \
        return none; \
    }
#elif defined(LANES_EXCHANGE)
#define TEAM_STEP(type, distance, better) \
    { \
        type a = r[0], b = lane_xor<distance>(a); \
        r[0] = better; \
    }
#define TEAM_JOIN(name, type, better) \
    KFN type name(int op, type v, LOCAL void *scratch) \
    { \
        LOCAL type *s = (LOCAL type *)scratch; \
        type r[MAX_LANES / 32]; \
        (void)op; \
        s[LANE] = v; \
        BARRIER(); \
        UNROLL for (int k = 0; k < MAX_LANES / 32; k++) r[k] = s[LANE % 32 + 32 * k]; \
        BARRIER(); /* s may be used again at once */ \
        UNROLL for (int half = MAX_LANES / 64; half; half /= 2) { \
            UNROLL for (int k = 0; k < half; k++) { \
                type a = r[k], b = r[k + half]; \
                r[k] = better; \
            } \
        } \
        TEAM_STEP(type, 16, better) \
        TEAM_STEP(type, 8, better) \
        TEAM_STEP(type, 4, better) \
        TEAM_STEP(type, 2, better) \
        TEAM_STEP(type, 1, better) \
        return lane_first(r[0]); \
    }
#else
#define TEAM_JOIN(name, type, better) \
    KFN type name(int op, type v, LOCAL void *scratch) \
    { \
        LOCAL type *s = (LOCAL type *)scratch; \
        (void)op; \
        s[LANE] = v; \
        for (i64 width = LANES / 2; width > 0; width /= 2) { \
            BARRIER(); \
            if (LANE < width) { \
                type a = s[LANE], b = s[LANE + width]; \
                s[LANE] = better; \
            } \
        } \
        BARRIER(); \
        v = s[0]; \
        BARRIER(); /* s may be used again at once */ \
        return v; \
    }
#endif

#if !defined(ON_HOST) && !defined(ON_PROCESSOR)
/* What the lane that is distance lanes away has; all lanes of a team come here. */
#ifdef LANES_EXCHANGE
#define TEAM_GET(type, distance, to) to = lane_xor<distance>(v);
#else
#define TEAM_GET(type, distance, to) \
    s[LANE] = v; \
    BARRIER(); \
    to = s[LANE ^ distance]; \
    BARRIER();
#endif
/* v becomes what two groups of lanes are together, before what is before this lane in both. */
#define TEAM_SCAN_STEP(type, distance, joined) \
    { \
        int upper = (LANE & distance) != 0; \
        type a, b, other; \
        TEAM_GET(type, distance, other) \
        a = other; \
        b = before; \
        if (upper) before = joined; \
        a = upper ? other : v; \
        b = upper ? v : other; \
        v = joined; \
    }
#define TEAM_SCAN(name, type, joined) \
    KFN type name(int op, type v, type none, LOCAL void *scratch, type *all) \
    { \
        LOCAL type *s = (LOCAL type *)scratch; \
        type before = none, a, b = none, lower = none; \
        (void)op; \
        TEAM_SCAN_STEP(type, 1, joined) \
        TEAM_SCAN_STEP(type, 2, joined) \
        TEAM_SCAN_STEP(type, 4, joined) \
        TEAM_SCAN_STEP(type, 8, joined) \
        TEAM_SCAN_STEP(type, 16, joined) \
        if (LANE % 32 == 0) s[LANE / 32] = v; \
        BARRIER(); \
        UNROLL for (int k = 0; k < MAX_LANES / 32; k++) { \
            if (k == LANE / 32) lower = b; \
            a = b; \
            b = s[k]; \
            b = joined; \
        } \
        BARRIER(); /* s may be used again at once */ \
        *all = b; \
        a = lower; \
        b = before; \
        return joined; \
    }
#endif

#endif
