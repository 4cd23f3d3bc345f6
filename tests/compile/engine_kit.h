/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kit.h: compiles graphs of text for a device whose engine does what BP_ENGINED says
 * (../plugins/engined/engined.h). */
#ifndef BP_TEST_ENGINE_KIT_H
#define BP_TEST_ENGINE_KIT_H

#include "pass_kit.h"

#include "../plugins/engined/engined.h"

#define CHAIN "a = relu(x)\nb = tanh(a)\nc = sigmoid(b)\nd = mul(c, a)\nreturn d"

/* A compiled graph. */
struct compiled {
    struct text_graph g;
    struct bp_program *program;
    struct bp_program_info info;
    struct engined *did;
    char launches[512]; /* their operators */
};

/* The counts of the engine in the plugin ENGINED. */
struct engined *engined_of(void);

/* Compiles a text with these words in BP_ENGINED. */
struct compiled compiled_with(const char *words, const char *text, uint32_t flags);
struct compiled compiled_of(const char *words, const char *text);
/* Destroys all, and asserts that no engine and no context is left. */
void compiled_finish(struct compiled *c);

/* The report of a group; node NULL: there are no more. */
struct bp_group_info group_of(const struct compiled *c, uint32_t index);

#endif
