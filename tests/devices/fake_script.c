/* SPDX-License-Identifier: Apache-2.0 */
/* fake_script.c: the name and the script of one library; all else of it is built once. */
#include "fake_parts.h"

const char fake_name[] = FAKE_NAME, fake_script[] = FAKE_SCRIPT;
