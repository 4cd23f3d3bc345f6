/* SPDX-License-Identifier: Apache-2.0 */
/* old_driver.c: a driver for the simulator's plugin that lacks all functions but one; with
 * NEEDS_WHAT_IS_GONE, also a library that was there at build time only. */
int sim_initialise(unsigned flags);

#ifdef NEEDS_WHAT_IS_GONE
void bp_hostile_gone(void);
#endif

int sim_initialise(unsigned flags)
{
#ifdef NEEDS_WHAT_IS_GONE
    bp_hostile_gone();
#endif
    return flags != 0;
}
