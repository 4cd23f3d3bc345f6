/* SPDX-License-Identifier: Apache-2.0 */
/* topk.h: declares which calls topk.c supports. */
#ifndef CPU_TOPK_H
#define CPU_TOPK_H

/* The largest k: candidates of a line are on the stack. */
enum { TOPK_MOST = 2048 };

#endif
