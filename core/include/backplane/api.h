/* SPDX-License-Identifier: Apache-2.0 */
/* api.h: defines BP_API, the attribute of every function that the library exports to apps. */
#ifndef BP_API_H
#define BP_API_H

#include <backplane/status.h>
#include <backplane/types.h>

#define BP_API __attribute__((visibility("default")))

#endif
