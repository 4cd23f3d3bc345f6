/* SPDX-License-Identifier: Apache-2.0 */
/* version.c: defines the version of the folder of libraries that it is linked into. */
#include "cann.h"

const int cann_version = CANN_FOLDER;
