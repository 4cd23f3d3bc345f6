/* SPDX-License-Identifier: Apache-2.0 */
/* fused_text.h: converts the code of the operator `fused` (fused.h) from and to text.
 *
 *     r0 = mul x0 x1; r1 = clip r0 min=0 max=6; y0 = add r1 x2
 *
 * An instruction is the place of its result, the operator's name, its operands, and those
 * attributes that do not have their default value. A place alone ("x3;") declares an input or
 * register that no instruction uses. Spaces and newlines have no meaning. */
#ifndef BP_FUSED_TEXT_H
#define BP_FUSED_TEXT_H

#include <backplane/api.h>
#include <backplane/fused.h>
#include <backplane/status.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BP_FUSED_TEXT = 16384 }; /* bytes that hold the text of any code */

/* Converts text to code. out_code has room for BP_FUSED_WORDS words, *out_n of which are used.
 * BP_ERR_INVALID: the text is wrong, or its code is invalid. */
BP_API enum bp_status bp_fused_parse(const char *text, int64_t *out_code, size_t *out_n);

/* Converts code of n words to text, which bp_fused_parse converts to the same words. out_text has
 * `room` bytes; BP_FUSED_TEXT are enough. BP_ERR_INVALID: the code is invalid, or there is not
 * enough room. */
BP_API enum bp_status bp_fused_print(const int64_t *code, size_t n, char *out_text, size_t room);

#ifdef __cplusplus
}
#endif

#endif
