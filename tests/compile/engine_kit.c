/* SPDX-License-Identifier: Apache-2.0 */
/* engine_kit.c: compiles graphs of text for a device with an engine (engine_kit.h). */
#include "engine_kit.h"

#include <dlfcn.h>
#include <stdlib.h>

struct engined *engined_of(void)
{
    void *library = dlopen(ENGINED, RTLD_NOW | RTLD_LOCAL);
    struct engined *did = library ? dlsym(library, "engined") : NULL;

    cr_assert_not_null(did);
    return did;
}

struct compiled compiled_with(const char *words, const char *text, uint32_t flags)
{
    struct compiled c = {.info = {.size = sizeof c.info}};
    const struct bp_program_options options = {.size = sizeof options, .flags = flags};
    struct bp_launch_info launch = {.size = sizeof launch};

    setenv("BP_ENGINED", words, 1);
    c.g = text_begin();
    c.did = engined_of();
    text_record(&c.g, text);
    OK(bp_program_create_with(c.g.graph, c.g.f.device, &options, &c.program));
    OK(bp_program_compile(c.program));
    OK(bp_program_get_info(c.program, &c.info));
    for (uint32_t i = 0; i < c.info.launches; i++) {
        OK(bp_program_launch(c.program, i, &launch));
        strcat(strcat(c.launches, i ? " " : ""), launch.op);
    }
    return c;
}

struct compiled compiled_of(const char *words, const char *text)
{
    return compiled_with(words, text, 0);
}

void compiled_finish(struct compiled *c)
{
    bp_program_destroy(c->program);
    text_finish(&c->g);
    cr_assert_eq(atomic_load(&c->did->engines), 0, "an engine is left");
    cr_assert_eq(atomic_load(&c->did->contexts), 0, "a context is left");
}

struct bp_group_info group_of(const struct compiled *c, uint32_t index)
{
    struct bp_group_info group = {.size = sizeof group};

    OK(bp_program_group(c->program, index, &group));
    return group;
}
