/* SPDX-License-Identifier: Apache-2.0 */
/* backplane.h: the whole app API. In reading order: a core finds plugins; a device is opened by
 * name; a stream orders work; tensors hold data; operators are called; errors say what went wrong.
 *
 * Conventions, unless a comment says otherwise.
 *   Answers    every call that can fail returns enum bp_status; out_ parameters are written on
 *              BP_OK only.
 *   Handles    made by bp_X_create, given back by bp_X_destroy, which takes NULL. A handle keeps
 *              what it was made from alive: destroy in any order. NULL and handles of a wrong type
 *              are refused with BP_ERR_INVALID; the use of a destroyed handle is undefined.
 *   Threads    any thread may call anything. Calls on one stream, and uses of memory of which one
 *              writes (one tensor, or tensors that share it), are ordered by the caller.
 *   Strings    UTF-8, owned by the handle they came from.
 *   Structs    parameters begin with size: set it to sizeof, zero the rest. */
#ifndef BP_BACKPLANE_H
#define BP_BACKPLANE_H

#include <backplane/error.h>
#include <backplane/log.h>
#include <backplane/dtype.h>
#include <backplane/core.h>
#include <backplane/device.h>
#include <backplane/stream.h>
#include <backplane/event.h>
#include <backplane/buffer.h>
#include <backplane/tensor.h>
#include <backplane/dlpack.h>
#include <backplane/call.h>
#include <backplane/ops.h>
#include <backplane/prepared.h>
#include <backplane/graph.h>
#include <backplane/program.h>
#include <backplane/random.h>
#include <backplane/store.h>
#include <backplane/comm.h>
#include <backplane/observe.h>
#include <backplane/activity.h>

#endif
