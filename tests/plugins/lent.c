/* SPDX-License-Identifier: Apache-2.0 */
/* lent.c: defines the symbols of libraries that hostile plugins are linked with. */
#ifdef LENT_GONE
/* The library's soname is a name that no file has, so the dynamic linker will not find it. */
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

/* A dependency's symbol: the loader must not take it for that of a plugin that has none. */
const struct bp_plugin *bp_plugin_get(void)
{
    return NULL;
}
#endif
