/* SPDX-License-Identifier: Apache-2.0 */
/* too_old.c: a libascendcl.so with few functions, as those of old releases. */
__attribute__((visibility("default"))) int aclInit(const char *config);
int aclInit(const char *config)
{
    return config != 0;
}
