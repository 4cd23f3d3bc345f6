/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c: gives libFuzzer the fuzzer's own seeds: they are written to the first folder that it is
 * told of, before it reads that. */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);

static void write_seed(const char *folder, int number)
{
    char path[4096];
    FILE *file;

    snprintf(path, sizeof path, "%s/seed_%d", folder, number);
    file = fopen(path, "wb");
    if (!file || fputs(bp_fuzz_seeds[number], file) < 0 || fclose(file)) {
        perror(path);
        exit(2);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int folder = 1;

    while (folder < *argc && (*argv)[folder][0] == '-') folder++;
    for (int i = 0; folder < *argc && bp_fuzz_seeds[i]; i++) write_seed((*argv)[folder], i);
    return 0;
}
