/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_icd.c: a driver that dies as soon as the loader asks it for anything. */
void *clGetExtensionFunctionAddress(const char *name);

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    __builtin_trap();
}
