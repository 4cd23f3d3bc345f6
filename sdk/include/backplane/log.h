/* SPDX-License-Identifier: Apache-2.0 */
/* log.h: defines the levels of log messages, of plugins and of the core. BP_LOG selects levels, and
 * bp_core_options.log receives the messages. */
#ifndef BP_LOG_H
#define BP_LOG_H

enum bp_log_level {
    BP_LOG_ERROR = 0,
    BP_LOG_WARN = 1,
    BP_LOG_INFO = 2,
    BP_LOG_DEBUG = 3,
};

#endif
