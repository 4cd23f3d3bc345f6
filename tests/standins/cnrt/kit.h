/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h: declares what the tests of the stand-ins for Cambricon's libraries share. */
#ifndef STANDINS_CNRT_KIT_H
#define STANDINS_CNRT_KIT_H

#include "cnrt.h"

/* Prints a TAP line. kit_end prints the plan, and returns the program's exit status: a failure if a
 * handle or memory was not released, or if the library found a misuse that was not expected. */
void kit_report(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));
int kit_end(void);

/* Whether a call was refused with this code, as one misuse since the last call of this function. */
bool kit_misused(int got, int code);
void kit_forget(void); /* the misuses so far were expected */

/* Memory of device 0 with these bytes; ends the program if there is none. The thread must have a
 * device. */
void *kit_device_memory(const void *bytes, size_t size);
void *kit_queue(void);
/* Copies device memory to the host, or from it, after the queue's work. */
void kit_write(void *queue, void *memory, const void *bytes, size_t size);
void kit_read(void *queue, void *out, void *memory, size_t size);

#endif
