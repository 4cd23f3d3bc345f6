/* SPDX-License-Identifier: Apache-2.0 */
/* graph_text.h: records graphs from text, so that a test states a graph in a line.
 *
 * The language is that of the compiler's patterns, with more of it:
 *
 *     y = conv(x[1,4,5,5], w![6,4,3,3], _)
 *     relu(add(y, 0.5))
 *
 * A line is a statement: `name = call`, a call for its effect, or `return a, b`; without a return,
 * the last call is the output. A name that no line has defined is an input of the graph; with "!" a
 * frozen constant, with "~" a constant that is not frozen. Behind a name or a number may stand its
 * dtype (":i64") and its shape; "_" is an absent operand. A number is a frozen constant whose
 * elements all equal it. Behind a semicolon stand attributes; "_" joins the values of a list. Of
 * operators that "|" separates, the first one is called. `relu@cpu_relu(x)` names a kernel row. */
#ifndef BP_TEST_GRAPH_TEXT_H
#define BP_TEST_GRAPH_TEXT_H

#include "../unit/fixture.h"

enum {
    TEXT_VALUES = 128,
    TEXT_MADE = 256,
    TEXT_OUTPUTS = 40
};

/* One deviation from the text, at the number-th place where it is possible. */
struct text_edit {
    enum {
        TEXT_AS_IS,
        TEXT_NUMBER,        /* a number is 1 % larger; 0 becomes 0.01 */
        TEXT_LIVE_NUMBER,   /* a number or "$" is a constant that is not frozen */
        TEXT_LIVE_CONSTANT, /* a constant with "!" is not frozen */
        TEXT_READER,        /* a call has a second reader, whose result is an output */
        TEXT_OUTPUT,        /* the result of a call is an output too */
        TEXT_ATTR,          /* an attribute of the text has another value */
        TEXT_OTHER_ATTR,    /* a number attribute that the text does not name is not its default */
        TEXT_EXCHANGE,      /* the operands of a subtraction or division are exchanged */
        TEXT_PIN,           /* a call names the kernel that has to run it */
        TEXT_OTHER_INPUT,   /* a name that was read before is another input */
        TEXT_UPDATE,        /* a node updates an input after its last reader */
        TEXT_EDITS
    } kind;
    uint32_t number;
};

struct text_value {
    const char *text; /* the name, or the text of a call */
    size_t length;
    struct bp_tensor *tensor;
};

struct text_graph {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_scope *scope;
    /* Set before the text is read: */
    uint32_t dtype, rank; /* of values whose type is not stated, of inputs and constants */
    int64_t shape[4], constant_shape[4];
    uint32_t constant_rank;
    char special; /* first letter of the inputs that have NaN, infinities, zeros of both signs and
                     large numbers; 0: none */
    bool apart;  /* calls with equal text are separate nodes */
    struct text_edit edit;
    /* Found in the text: */
    uint32_t places;  /* where the edit was possible */
    uint32_t refused; /* calls that the graph refused */
    struct text_value value[TEXT_VALUES];
    uint32_t n_value;
    struct bp_tensor *made[TEXT_MADE]; /* owned */
    uint32_t n_made;
    struct bp_tensor *in[TEXT_VALUES]; /* tensors for the graph's inputs */
    uint32_t n_in;
    struct bp_tensor *output[TEXT_OUTPUTS]; /* symbolic, of `made` */
    uint32_t n_output;
    const char *at; /* where the text is read */
};

/* The device of the graphs unless TEXT_DEVICE in the environment names one; "cpu:0" unless a test
 * sets another one. */
extern const char *text_device;

/* Opens a core, the device and a graph. Values are f32, of shape 4x4x4, and constants of
 * shape 4. */
struct text_graph text_begin(void);
/* The same with another device. library: the path of its plugin; NULL: it is found. */
struct text_graph text_begin_on(const char *device, const char *library);
void text_finish(struct text_graph *g);

/* Records the text, and its outputs. A call that the graph refuses ends the reading if there is an
 * edit, and is a failure of the test if there is none. Returns whether all was recorded. */
bool text_record(struct text_graph *g, const char *text);

/* Returns the tensor of a name that the text defines: a symbolic one, or a constant. */
struct bp_tensor *text_find(const struct text_graph *g, const char *name);

/* The tensor for the graph's input of this name. */
struct bp_tensor *text_input(const struct text_graph *g, const char *name);

#endif
