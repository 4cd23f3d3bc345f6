/* SPDX-License-Identifier: Apache-2.0 */
/* folders.h: says where Cambricon's libraries are searched for. Their files are lib<NAME>.so.X.Y.Z,
 * with a link of the plain name in the folder of CNToolkit, which the system's loader often does
 * not know. */
#ifndef MLU_FOLDERS_H
#define MLU_FOLDERS_H

#include <kit/library.h>

#define MLU_FOLDERS "$NEUWARE_HOME/lib64:/usr/local/neuware/lib64"

static const enum kit_place mlu_places[] = {KIT_LOADED, KIT_PATH, KIT_FOLDERS, KIT_LOADER,
                                            KIT_PLACES};

#endif
