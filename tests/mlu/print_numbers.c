/* SPDX-License-Identifier: Apache-2.0 */
/* print_numbers.c: prints plugins/mlu/numbers.h with the numbers of an SDK of Cambricon: it
 * compiles with the SDK's cnnl.h. numbers.h has the command. A number that is filled in already and
 * differs from the SDK's is reported on the error output, and the exit status is 1. */
#include <cnnl.h>
#include <numbers.h>
#include <stdio.h>

enum {
    OPEN = -1000000
};

struct number {
    const char *name;
    int known, sdk;
};

int main(void)
{
    static const struct number numbers[] = {
#define NUMBER(name, number) {#name, number, (int)name},
        MLU_NUMBERS(NUMBER, OPEN)
#undef NUMBER
    };
    const size_t n = sizeof numbers / sizeof *numbers;
    int status = 0;

    printf("/* SPDX-License-Identifier: Apache-2.0 */\n"
           "/* numbers.h: has the numbers of CNNL's enumerations that the plugin passes to CNNL,\n"
           " * as tests/mlu/print_numbers.c has printed them with the cnnl.h of an SDK. */\n"
           "#ifndef MLU_NUMBERS_H\n#define MLU_NUMBERS_H\n\n#define MLU_NUMBERS(NUMBER, OPEN)");
    for (size_t i = 0; i < n; i++) {
        printf(" \\\n    NUMBER(%s, %d)", numbers[i].name, numbers[i].sdk);
        if (numbers[i].known == OPEN || numbers[i].known == numbers[i].sdk) continue;
        fprintf(stderr, "print_numbers: %s is %d in numbers.h and %d in cnnl.h\n", numbers[i].name,
                numbers[i].known, numbers[i].sdk);
        status = 1;
    }
    printf("\n\n#endif\n");
    return status;
}
