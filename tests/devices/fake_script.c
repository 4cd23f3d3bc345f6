/* SPDX-License-Identifier: Apache-2.0 */
/* fake_script.c: defines the parts of the fake device that each library has by itself: its name,
 * its script and its one exported symbol. FAKE_NEEDS is a function of another library, or of none;
 * with FAKE_SYMBOL the symbol has that name, and with FAKE_EXTRA there is a second one. */
#include "fake_parts.h"

const char fake_name[] = FAKE_NAME, fake_script[] = FAKE_SCRIPT;

#ifdef FAKE_NEEDS
void FAKE_NEEDS(void);
extern void (*const fake_needs)(void);
void (*const fake_needs)(void) = FAKE_NEEDS;
#endif

#ifdef FAKE_EXTRA
BP_EXPORT int FAKE_EXTRA(void);
int FAKE_EXTRA(void)
{
    return 1;
}
#endif

#ifdef FAKE_SYMBOL
#define bp_plugin_get FAKE_SYMBOL
BP_EXPORT const struct bp_plugin *bp_plugin_get(void);
#endif
const struct bp_plugin *bp_plugin_get(void)
{
    return fake_get();
}
