/* SPDX-License-Identifier: Apache-2.0 */
/* old_driver.c: acts as a driver for the simulator's plugin that has only one function. With
 * NEEDS_REMOVED_FUNCTION it also needs a library that existed at build time only. */
int sim_initialise(unsigned flags);

#ifdef NEEDS_REMOVED_FUNCTION
void bp_hostile_gone(void);
#endif

int sim_initialise(unsigned flags)
{
#ifdef NEEDS_REMOVED_FUNCTION
    bp_hostile_gone();
#endif
    return flags != 0;
}
