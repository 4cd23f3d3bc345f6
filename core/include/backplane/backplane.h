/* SPDX-License-Identifier: Apache-2.0 */
/* backplane.h: includes the whole app API. In reading order: a core finds plugins; an app opens a
 * device by name; a stream orders work; tensors hold data; operators are called; an error message
 * describes each failure.
 *
 * Conventions, unless a comment states otherwise.
 *   Results    every call that can fail returns enum bp_status; the call writes its out_ parameters
 *              on BP_OK only.
 *   Handles    bp_X_create makes a handle, and bp_X_destroy releases it; bp_X_destroy accepts NULL.
 *              A handle keeps the objects from which it was made alive, so the app may destroy
 *              handles in any order. A call refuses NULL and handles of a wrong type with
 *              BP_ERR_INVALID; the use of a destroyed handle is undefined.
 *   Threads    any thread may call any function. The caller orders calls on one stream, and all
 *              uses of the same memory (one tensor, or tensors that share memory) if one of the
 *              uses writes.
 *   Strings    UTF-8, owned by the handle from which the app got the string.
 *   Structs    a parameter struct begins with size: set size to sizeof the struct, and zero the
 *              rest. */
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
#include <backplane/fused_text.h>
#include <backplane/graph.h>
#include <backplane/program.h>
#include <backplane/random.h>
#include <backplane/store.h>
#include <backplane/comm.h>
#include <backplane/observe.h>
#include <backplane/profile.h>
#include <backplane/activity.h>

#endif
