/* SPDX-License-Identifier: Apache-2.0 */
/* words_end.h: removes OP, OPA and every word of words.h. */
#undef OP
#undef OPA
#undef FAMILY
#undef IN
#undef OPT
#undef VAR
#undef OUT
#undef OPTOUT
#undef MAY_SHARE
#undef I64
#undef F64
#undef FLAG
#undef DTYPE
#undef INTS
#undef DIMS
#undef TYPES
#undef INFER
#undef GRAD
#undef NODIFF
#undef CASES
#undef TOL
#undef ALIAS
#undef DOC
