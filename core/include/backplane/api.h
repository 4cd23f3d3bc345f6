/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: the mark of an exported function. */
#ifndef BP_API_H
#define BP_API_H

#include <backplane/status.h>
#include <backplane/types.h>

#define BP_API __attribute__((visibility("default")))

#endif
