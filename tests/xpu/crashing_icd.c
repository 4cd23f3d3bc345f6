/* SPDX-License-Identifier: Apache-2.0 */
/* crashing_icd.c: a driver that crashes as soon as the loader calls it. */
void *clGetExtensionFunctionAddress(const char *name);

void *clGetExtensionFunctionAddress(const char *name)
{
    (void)name;
    __builtin_trap();
}
