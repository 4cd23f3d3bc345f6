/* SPDX-License-Identifier: Apache-2.0 */
/* acme_standin.h: declares what the files of libacme.so.2 share. Acme is a vendor that does not
 * exist: the example of docs/new-target.md is a plugin for its devices. The library keeps the rules
 * of vendors' libraries: a device for each thread, handles of one device, work that runs late, and
 * pageable memory that is read when a copy runs. base.h describes its environment. The library in
 * the folder old lacks acmeEmbedding. */
#ifndef STANDINS_ACME_H
#define STANDINS_ACME_H

#include "../base/base.h"

#define ACME_API BASE_API

enum {
    ACME_WRONG = 1,
    ACME_NO_MEMORY = 2,
    ACME_NO_DEVICE = 100,
    ACME_NOT_READY = 600,
    ACME_ILLEGAL = 700,
    ACME_FAILED = 719
};

extern struct base_vendor acme_vendor;

/* Begin a call of the thread's device; the second one goes on although the device has failed.
 * Return a code that the call returns without any effect. */
int acme_enter(const char *name, struct base_device **out);
int acme_enter_release(const char *name, struct base_device **out);
int acme_leave(int code); /* with a code of the base */
/* Checks that a stream is one, of this device. Under the lock. */
int acme_stream_check(void *stream, const struct base_device *device);

#endif
