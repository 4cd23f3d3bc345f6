/* SPDX-License-Identifier: Apache-2.0 */
/* earlier.h: reads the JSON report of an earlier run of the suite: as the baseline of a run, as the
 * times of its cases, and to compare two reports. */
#ifndef BP_CONFORM_EARLIER_H
#define BP_CONFORM_EARLIER_H

#include "report/report.h"
#include <cjson/cJSON.h>

struct earlier_case {
    char *id, *message;
    enum outcome outcome; /* OUTCOME_COUNT: it had no result */
    double seconds;
};

struct earlier {
    struct earlier_case *at; /* n cases, sorted by id */
    size_t n;
    char *device, *level;
    double seed;
};

/* Reads a file as JSON. Returns NULL, with the reason in out_why, if it cannot be read or holds no
 * JSON object. */
cJSON *earlier_parse(const char *path, char *out_why, size_t size);

/* Takes the cases of a report; path is for messages. False: the JSON is no report of the suite, and
 * out_why says why. */
bool earlier_init(struct earlier *e, const cJSON *json, char *out_why, size_t size);
/* Both of these in one. */
bool earlier_read(struct earlier *e, const char *path, char *out_why, size_t size);
void earlier_finish(struct earlier *e);

/* Returns the case of this id, or NULL. */
const struct earlier_case *earlier_find(const struct earlier *e, const char *id);

/* Whether the case did not pass, expected or not: a baseline knows such a failure. */
bool earlier_failed(const struct earlier_case *c);

/* Makes each failure that the baseline knows an expected one, and marks the cases that it knows and
 * that pass now. */
void earlier_apply(const struct earlier *e, struct report *report);

/* Keeps, of the selected cases, those of part `shard` of `shards` (from 1). The parts take about
 * the same time: each case, the longest first, goes to the part with the shortest time. A case that
 * the earlier run did not have counts as the mean of its suite. Returns the number of cases that
 * are kept. */
size_t earlier_shard(const struct earlier *e, struct report *report, uint32_t shard,
                     uint32_t shards);

#endif
