/* SPDX-License-Identifier: Apache-2.0 */
/* lent.c: what libraries beside a hostile plugin have in them. */
#ifdef LENT_GONE
/* The dynamic linker will look for it under a name that no file has. */
void bp_hostile_gone(void);
void bp_hostile_gone(void)
{
}
#else
#include <backplane/plugin.h>

BP_EXPORT void bp_hostile_lent(void);
void bp_hostile_lent(void)
{
}

/* Found through a plugin that has none itself. */
const struct bp_plugin *bp_plugin_get(void)
{
    return NULL;
}
#endif
