/* SPDX-License-Identifier: Apache-2.0 */
/* seeds.c: passes the fuzzer's seeds to libFuzzer. It writes them to the first folder on the
 * command line before libFuzzer reads that folder. */
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
