/* SPDX-License-Identifier: Apache-2.0 */
/* show_dot.c: writes the launches of a program as a graph for Graphviz. */
#include "show_program.h"

#include <stdlib.h>

/* A block of memory, and the launch that wrote it last; NO_LAUNCH: none has. */
enum { NO_LAUNCH = -1 };
struct block {
    uint32_t memory, index;
    long writer;
};
struct blocks {
    struct block *at;
    size_t n;
};

static struct block *block_find(struct blocks *b, const struct bp_operand_info *o)
{
    size_t i = 0;

    while (i < b->n && (b->at[i].memory != o->memory || b->at[i].index != o->index)) i++;
    if (i < b->n) return &b->at[i];
    b->at = realloc(b->at, ++b->n * sizeof *b->at);
    if (!b->at) abort();
    b->at[i] = (struct block){o->memory, o->index, NO_LAUNCH};
    return &b->at[i];
}

/* Text inside a label: quotes and backslashes would end it. */
static void dot_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
    }
}

static void dot_edge(FILE *to, struct blocks *blocks, const struct bp_operand_info *o, uint32_t n)
{
    const struct block *block = block_find(blocks, o);
    char *type = show_type(o->type);

    if (block->writer != NO_LAUNCH) fprintf(to, "  n%ld", block->writer);
    else fprintf(to, "  i%u", o->index);
    fprintf(to, " -> n%u [label=\"%s\\n%s\"];\n", n, type, show_layout(o));
    free(type);
}

static void dot_launch(struct bp_program *program, FILE *to, struct blocks *blocks, uint32_t n,
                       const struct bp_launch_info *l)
{
    struct bp_operand_info o;

    fprintf(to, "  n%u [label=\"", n);
    dot_text(to, l->op);
    fprintf(to, "\\n");
    for (uint32_t i = 0; i < l->sources; i++) {
        dot_text(to, l->source[i]);
        fprintf(to, "\\n");
    }
    dot_text(to, l->kernel);
    fprintf(to, "\"];\n");
    for (uint32_t k = 0; k < l->n_in; k++) {
        if (!show_operand(program, n, k, &o) || o.memory == BP_MEMORY_NONE) continue;
        if (o.memory == BP_MEMORY_CONSTANT && block_find(blocks, &o)->writer == NO_LAUNCH) continue;
        dot_edge(to, blocks, &o, n);
    }
    for (uint32_t k = l->n_in; k < l->n_in + l->n_out; k++)
        if (show_operand(program, n, k, &o)) block_find(blocks, &o)->writer = n;
}

bool show_dot(struct bp_program *program, const char *path)
{
    struct blocks blocks = {0};
    struct bp_launch_info l;
    FILE *to = fopen(path, "w");

    if (!to) return false;
    fprintf(to, "digraph program {\n  node [shape=box];\n");
    for (uint32_t n = 0; show_launch(program, n, &l); n++) dot_launch(program, to, &blocks, n, &l);
    for (size_t i = 0; i < blocks.n; i++)
        if (blocks.at[i].memory == BP_MEMORY_RESULT && blocks.at[i].writer != NO_LAUNCH)
            fprintf(to, "  n%ld -> o%u;\n", blocks.at[i].writer, blocks.at[i].index);
    fprintf(to, "}\n");
    free(blocks.at);
    bool good = !ferror(to);
    return !fclose(to) && good;
}
