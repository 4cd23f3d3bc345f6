/* SPDX-License-Identifier: Apache-2.0 */
/* old.c: is a runtime of major version 4, whose functions have other names and codes; a plugin has
 * to refuse it. */

int cnrtInit(unsigned flags);
int cnrtGetDeviceCount(unsigned *out);
int cnrtCreateQueue(void **out);
int cnrtDestroyQueue(void *queue);

enum {
    NOT_POSSIBLE = 632007
};

int cnrtInit(unsigned flags)
{
    return flags ? NOT_POSSIBLE : 0;
}

int cnrtGetDeviceCount(unsigned *out)
{
    *out = 1;
    return 0;
}

int cnrtCreateQueue(void **out)
{
    (void)out;
    return NOT_POSSIBLE;
}

int cnrtDestroyQueue(void *queue)
{
    (void)queue;
    return NOT_POSSIBLE;
}
