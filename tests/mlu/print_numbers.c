/* SPDX-License-Identifier: Apache-2.0 */
/* print_numbers.c: prints plugins/mlu/numbers.h with the numbers of an SDK of Cambricon: it
 * compiles with the SDK's cnnl.h. numbers.h has the command. Arguments state facts: NAME=1 for one
 * that holds, NAME=0 for one that does not; the other facts keep their values. A number that is
 * filled in already and differs from the SDK's is reported on the error output, and the exit status
 * is 1. */
#include <cnnl.h>
#include <numbers.h>
#include <stdio.h>
#include <string.h>

enum {
    OPEN = -1000000
};

struct number {
    const char *name;
    int known, sdk;
};

struct fact {
    const char *name;
    int value;
    const char *needed, *text;
};

static const struct number numbers[] = {
#define NUMBER(name, number) {#name, number, (int)name},
    MLU_NUMBERS(NUMBER, OPEN)
#undef NUMBER
};

static struct fact facts[] = {
#define FACT(name, value, needed, text) {#name, value, needed, text},
    MLU_FACTS(FACT, OPEN, "YES", "EITHER")
#undef FACT
};

/* Takes a fact, NAME=0 or NAME=1; returns whether there is such a fact. */
static int fact_take(const char *word)
{
    const char *value = strchr(word, '=');

    for (size_t i = 0; value && i < sizeof facts / sizeof *facts; i++) {
        size_t n = strlen(facts[i].name);
        if ((size_t)(value - word) != n || strncmp(word, facts[i].name, n) != 0) continue;
        if (strcmp(value, "=0") != 0 && strcmp(value, "=1") != 0) break;
        facts[i].value = value[1] - '0';
        return 1;
    }
    fprintf(stderr,
            "print_numbers: %s is no fact of numbers.h: NAME=1 if it holds, NAME=0 if not\n", word);
    return 0;
}

/* Prints the numbers; returns how many differ from those that are filled in. */
static int numbers_print(void)
{
    int differ = 0;

    printf("#define MLU_NUMBERS(NUMBER, OPEN)");
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct number *n = &numbers[i];
        printf(" \\\n    NUMBER(%s, %d)", n->name, n->sdk);
        if (n->known == OPEN || n->known == n->sdk) continue;
        fprintf(stderr, "print_numbers: %s is %d in numbers.h and %d in cnnl.h\n", n->name,
                n->known, n->sdk);
        differ++;
    }
    printf("\n\n");
    return differ;
}

static void facts_print(void)
{
    printf("#define MLU_FACTS(FACT, OPEN, YES, EITHER)");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        const struct fact *f = &facts[i];
        printf(" \\\n    FACT(%s, ", f->name);
        if (f->value == OPEN) printf("OPEN");
        else printf("%d", f->value);
        printf(", %s, \\\n         \"%s\")", f->needed, f->text);
    }
    printf("\n\n");
}

int main(int argc, char **argv)
{
    int differ;

    for (int i = 1; i < argc; i++)
        if (!fact_take(argv[i])) return 2;
    printf("/* SPDX-License-Identifier: Apache-2.0 */\n"
           "/* numbers.h: has the numbers of CNNL's enumerations that the plugin passes to CNNL,\n"
           " * and facts about CNNL, as tests/mlu/print_numbers.c has printed them with the\n"
           " * cnnl.h of an SDK. */\n"
           "#ifndef MLU_NUMBERS_H\n#define MLU_NUMBERS_H\n\n");
    differ = numbers_print();
    facts_print();
    printf("#endif\n");
    return differ != 0;
}
