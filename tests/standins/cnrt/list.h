/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: declares memory, descriptors and reports for the list of operators of the stand-in for
 * CNNL. Each entry of the list is one right call with its result, and one wrong
 * call, which is refused. */
#ifndef STANDINS_CNRT_LIST_H
#define STANDINS_CNRT_LIST_H

#include "cnnl.h"
#include "kit.h"

enum {
    SMALL = 8, /* bytes: too few for a workspace */
    ROOM = 4096
};

extern void *handle, *queue;
/* Memory of the device: inputs of floats, ints and bools; results; the workspace. */
extern void *x, *y, *w, *ones, *nans, *ints, *picks, *bools, *result, *second, *third, *room;
extern size_t need; /* the size of a workspace, as the library reports it */

/* A descriptor, released at the end of the program; of floats with one axis, two axes; of another
 * dtype; of floats with four axes. */
void *desc_of(int layout, int dtype, int n, const int *dims);
void *floats_1(int n);
void *floats_2(int n, int m);
void *desc_1(int dtype, int n);
void *desc_2(int dtype, int n, int m);
void *floats_4(int layout, int a, int b, int c, int d);

/* Reports an entry of the list: a right call that returned `right` and whose result is good, and a
 * wrong call that returned `wrong`. */
void list_report(const char *name, int right, bool good, int wrong);
/* Whether n elements at an address of the device are these. */
bool floats_are(void *at, int n, const float *expected);
bool ints_are(void *at, int n, const int *expected);
/* An entry with n elements in `result`. */
void list_floats(const char *name, int right, int n, const float *expected, int wrong);
void list_bools(const char *name, int right, int n, const char *expected, int wrong);
void list_ints(const char *name, int right, int n, const int *expected, int wrong);
/* An entry of a function that reports the size of a workspace in `need`. */
void list_size(const char *name, int right, int wrong);

#define F(...) ((float[]){__VA_ARGS__})

void list_start(void);
/* Reports the operators of cnnl.def that have no entry. */
void list_check(void);
void list_end(void);

/* list_waiting.c: the operators whose numbers no public source confirms. */
void list_waiting(void);

#endif
