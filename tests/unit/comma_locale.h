/* SPDX-License-Identifier: Apache-2.0 */
/* comma_locale.h: sets a locale whose decimal point is a comma, as those of many countries. Few
 * machines have one installed, so localedef makes one of a few lines. */
#ifndef BP_TEST_COMMA_LOCALE_H
#define BP_TEST_COMMA_LOCALE_H

#include <criterion/criterion.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void comma_locale_set(void)
{
    static const char source[] = "comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \",\"\n"
                                 "thousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    const char *parent = getenv("TMPDIR");
    char folder[512], command[2048];
    FILE *pipe;

    snprintf(folder, sizeof folder, "%s/comma.XXXXXX", parent ? parent : "/tmp");
    cr_assert(mkdtemp(folder), "no folder %s", folder);
    snprintf(command, sizeof command,
             "localedef -c -f ANSI_X3.4-1968 -i /dev/stdin '%s/comma' > /dev/null 2>&1", folder);
    pipe = popen(command, "w");
    cr_assert(pipe && fputs(source, pipe) >= 0);
    pclose(pipe); /* localedef exits with 1, because the other categories are missing */
    setenv("LOCPATH", folder, 1);
    cr_assert(setlocale(LC_NUMERIC, "comma"), "localedef has made no locale in %s", folder);
    cr_assert_str_eq(localeconv()->decimal_point, ",");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    cr_assert_eq(system(command), 0);
}

#endif
