/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: lists the status codes that every call of Backplane returns, in plugins and in apps.
 *
 * A call returns BP_OK, or the code below that names the class of the failure. The exact text of
 * the failure (which file, which argument, expected, got, how to correct it) is written by the
 * first function that knows the cause: a plugin writes it through host->fail, the core writes its
 * own. An app reads it with bp_error_message(). A call that fails leaves its out parameters
 * untouched. */
#ifndef BP_STATUS_H
#define BP_STATUS_H

/* X(name, number, text). Numbers are part of the ABI: they are never reused, only appended. A code
 * that the reader does not know means "failed": if a plugin's callback returns an unknown code, the
 * core's call returns BP_ERR_DEVICE, and the message contains the number. */
#define BP_STATUSES(X) \
    X(OK, 0, "success") \
    X(ERR_INVALID, 1, "an argument is wrong") \
    X(ERR_UNSUPPORTED, 2, "not supported by this device, row or version") \
    X(ERR_MEMORY, 3, "out of memory") \
    X(ERR_NOT_FOUND, 4, "no such file, plugin, device or operator") \
    X(ERR_ABSENT, 5, "the hardware or its driver is not on this machine") \
    X(ERR_PLUGIN, 6, "a plugin is broken, untrusted or of another ABI") \
    X(ERR_DEVICE, 7, "the device's driver reported a failure") \
    X(ERR_DEVICE_LOST, 8, "the device is gone and its contents with it") \
    X(ERR_TIMEOUT, 9, "a deadline passed") \
    X(ERR_BUSY, 10, "in use by another thread, process or capture; it may be free later") \
    X(ERR_FAULT, 11, "a kernel found an error in its data") \
    X(ERR_INTERNAL, 12, "a defect of Backplane itself") \
    X(ERR_BLOCKED, 13, "the call would wait, and waiting is forbidden (BP_BLOCK=deny)") \
    X(ERR_SHUTDOWN, 14, "the library has been shut down, or the handle is from before a fork") \
    X(ERR_PEER, 15, "another process or rank of the job is gone") \
    X(ERR_NO_KERNEL, 16, "no kernel of the device takes the call") \
    X(ERR_NOT_READY, 17, "the work has not ended yet") \
    X(ERR_CANCELLED, 18, "the app has cancelled the stream") \
    X(ERR_STALE, 19, "saved data belongs to another version or device")

enum bp_status {
#define X(name, number, text) BP_##name = number,
    BP_STATUSES(X)
#undef X
};

#endif
