/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: defines attributes of the functions that the library exports to apps. */
#ifndef BP_API_H
#define BP_API_H

#include <backplane/status.h>
#include <backplane/types.h>

#define BP_API __attribute__((visibility("default")))

/* The function reads and writes what its parameter n (from 1) points to. */
#if defined __GNUC__ && !defined __clang__ && __GNUC__ >= 11
#define BP_READ_WRITE(n) __attribute__((access(read_write, n)))
#else
#define BP_READ_WRITE(n)
#endif

#endif
