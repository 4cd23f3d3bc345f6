/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_settings.h: declares the check of the environment variables of collectives. */
#ifndef BP_CCL_SETTINGS_H
#define BP_CCL_SETTINGS_H

#include "../base/base.h"

/* Logs a warning for each variable with a value that is not used. The functions that read the
 * variables later have no core to log to. */
void bp_ccl_check_settings(struct bp_core *core);

#endif
