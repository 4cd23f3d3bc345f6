/* SPDX-License-Identifier: Apache-2.0 */
/* team.h: defines reductions and scans over the lanes of a team.
 *
 *   TEAM_JOIN(name, type, better)  defines type name(int op, type v, LOCAL void *scratch): every
 *                                  lane passes its v, and gets the result; `better` is the
 *                                  expression that joins a and b, where a belongs to the lower
 *                                  lane; it may depend on op. scratch has one element of that type
 *                                  for each lane
 *   TEAM_SCAN(name, type, joined)  defines type name(int op, type v, type none, LOCAL void
 *                                  *scratch, type *all): every lane passes its v, and gets the
 *                                  joined values of all lower lanes, the first lane none; all gets
 *                                  the joined values of the whole team. `joined` is an expression
 *                                  like `better` above; the order of lanes is kept
 *
 * The tree of a reduction is always the same, so that results have the same bits: it joins lanes
 * 128 apart, then 64 apart, and so on. Scans join lanes 1 apart, then 2, up to 16, then groups of
 * 32, beginning with the first. If lanes exchange registers (LANES_EXCHANGE), a team has all 256
 * lanes, and each group of 32 lanes computes the whole tree: this needs two barriers, where the
 * tree in memory needs ten. A device may run 32 or 64 lanes in step. */
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
        BARRIER(); /* the caller may reuse s immediately */ \
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
        BARRIER(); /* the caller may reuse s immediately */ \
        return v; \
    }
#endif

#if !defined(ON_HOST) && !defined(ON_PROCESSOR)
/* Gets the value of the lane whose number differs by distance (exclusive or); all lanes of a team
 * execute it. */
#ifdef LANES_EXCHANGE
#define TEAM_GET(type, distance, to) to = lane_xor<distance>(v);
#else
#define TEAM_GET(type, distance, to) \
    s[LANE] = v; \
    BARRIER(); \
    to = s[LANE ^ distance]; \
    BARRIER();
#endif
/* Joins two neighbouring groups of lanes: v becomes the joined value of both groups, and `before`
 * the joined value of the lanes below this lane within both. */
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
        BARRIER(); /* the caller may reuse s immediately */ \
        *all = b; \
        a = lower; \
        b = before; \
        return joined; \
    }
#endif

#endif
