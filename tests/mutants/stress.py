# SPDX-License-Identifier: Apache-2.0
"""Kernels broken where there is very much to do: counts, places and tasks lose their highest bits. A case of the suite
stress has to notice; those of the suite kernel are too small. Rows as in kernels.py, run where LARGE_TESTS is set.
"""

PORTABLE = "bp_cpu.so.p/portable.c"
COUNT = "rest = t->p->count - begin;", "rest = (t->p->count & 0xfffff) - begin;"
WALK = ("plugins/cpu/walk.c", "int64_t count = blocks->walk->count;",
        "int64_t count = blocks->walk->count & 0x7fffff;", "bp_cpu.so.p/walk.c")
REDUCE, MATMUL = "libcpu_f32_own.a.p/reduce.c", "libcpu_f32_own.a.p/matmul.c"
SOFTMAX, CONV = "libcpu_f32_own.a.p/softmax.c", "libcpu_f32_own.a.p/conv.c"

STRESS = [
    # Of walks 23 bits, of portable kernels' elements and teams 20: who is behind that is not made.
    *((f"{case}: elements behind 2^23 are not visited", WALK[0], WALK[1], WALK[2], WALK[3], f"stress/{case}*")
      for case in ("relu/f32/wide", "add/f32/wide", "add/f32/columns", "where/f32-bool/wide", "assign/f32/wide",
                   "concat/f32/wide")),
    *((f"{case}: what is behind 2^20 is not made", "plugins/cpu/portable.c", *COUNT, PORTABLE, f"stress/{case}*")
      for case in ("argsort/f32-i64/teams", "max/f32/teams", "argmax/f32-i64/teams", "cumsum/f32/teams",
                   "layer_norm/f32/teams", "log_softmax/f32/teams")),
    *((f"{case}: columns behind 2^22 are others", "plugins/cpu/reduce.c",
       "first = chunk % sum->chunks * sum->wide;", "first = chunk % sum->chunks * sum->wide & 0x3fffff;", REDUCE,
       f"stress/{case}*") for case in ("sum/f32/teams", "sum/f32/columns")),
    *((f"{case}: terms behind 2^20 are not added", "plugins/cpu/reduce.c",
       "end < sum->terms.count ? end : sum->terms.count);", "end < (sum->terms.count & 0xfffff) ? end : sum->terms.count & 0xfffff);",
       REDUCE, f"stress/{case}/*") for case in ("sum/f32/deep", "sum/f32/deep.columns")),
    ("products of lines behind 2^16 are not made", "plugins/cpu/gemv.h",
     "cpu_team_run(gemv_task, &g, g.tasks * s->batch.count,", "cpu_team_run(gemv_task, &g, g.tasks * s->batch.count & 0xffff,",
     MATMUL, "stress/matmul/f32/batches*"),
    *((f"{case}: tiles behind 2^12 are not made", "plugins/cpu/matmul.c", "p.shape.batch.count * p.tiles_m * p.tiles_n,",
       "p.shape.batch.count * p.tiles_m * p.tiles_n & 0xfff,", MATMUL, f"stress/{case}*")
      for case in ("matmul/f32/tall", "matmul/f32/flat")),
    ("terms of a product behind 2^16 are not added", "plugins/cpu/matmul.c", "m, n, s->k, pack_a, pack_b}", "m, n, s->k & 0xffff, pack_a, pack_b}",
     MATMUL, "stress/matmul/f32/deep*"),
    *((f"{case}: tiles behind 2^10 are not made", "plugins/cpu/conv.c", "cpu_team_run(conv_tile, &call, tasks,",
       "cpu_team_run(conv_tile, &call, tasks & 0x3ff,", CONV, f"stress/{case}*") for case in ("conv/f32/batches", "conv/f32/flat")),
    ("rows of softmax in tasks behind 2^8 are not made", "plugins/cpu/softmax.c",
     "cpu_team_run(task, &s, s.rows.count / side * s.chunks,", "cpu_team_run(task, &s, s.rows.count / side * s.chunks & 0xff,",
     SOFTMAX, "stress/softmax/f32/teams*"),
    ("terms of a softmax behind 2^20 do not count", "plugins/cpu/softmax.c", "s.n = out->shape[a];", "s.n = out->shape[a] & 0xfffff;",
     SOFTMAX, "stress/softmax/f32/deep*"),
    ("runs of 2^17 are not merged", "sdk/ops/sort/launch.c",
     "for (int64_t width = SORT_PART; width < extent && status == BP_OK; width *= 2) {",
     "for (int64_t width = SORT_PART; width < extent && width < 1 << 17 && status == BP_OK; width *= 2) {",
     "bp_cpu.so.p/.._.._sdk_ops_sort_launch.c", "stress/argsort/f32-i64/deep*"),
    ("places have 18 bits", "sdk/ops/minmax/kernel.h", "found->at = t + begin + i;", "found->at = (t + begin + i) & 0x3ffff;",
     "libcpu_f32_math.a.p/entries_minmax.c", "stress/argmax/f32-i64/deep*"),
    ("a line ends after 2^15", "sdk/ops/scan/kernel.h",
     "i < a->n; i++, at += l.step) {\n        SIMD for (i64 j = 0; j < w; j++)",
     "i < (a->n & 0x7fff); i++, at += l.step) {\n        SIMD for (i64 j = 0; j < w; j++)",
     "libcpu_f32_math.a.p/entries_scan.c", "stress/cumsum/f32/deep*"),
    # Of 2^31 elements and more 31 bits.
    ("sizes of copies have 31 bits", "plugins/cpu/copy.c",
     "cpu_copy_nt(self, copy->dst, copy->src, (size_t)copy->size);",
     "cpu_copy_nt(self, copy->dst, copy->src, (size_t)copy->size & 0x7fffffff);",
     "bp_cpu.so.p/copy.c", "stress/large/copy"),
    ("elements behind 2^31 are not visited", WALK[0], WALK[1], "int64_t count = blocks->walk->count & 0x7fffffff;", WALK[3],
     "stress/large/add"),
    ("a turned row lies where 31 bits say", "plugins/cpu/transpose.c", "t->row_to = walk->stride[0][row] * size;",
     "t->row_to = walk->stride[0][row] * size & 0x7fff;", "bp_cpu.so.p/transpose.c", "stress/large/turn"),
    ("a gathered row lies where 31 bits say", "sdk/ops/index/kernel.h", "from = (o * r->rows + from) * r->inner + i;",
     "from = ((o * r->rows + from) * r->inner + i) & 0x7fffffff;", "libcpu_i8.a.p/entries_index.c", "stress/large/gather"),
    ("places have 31 bits", "sdk/ops/minmax/kernel.h", "found->at = t + begin + i;", "found->at = (t + begin + i) & 0x7fffffff;",
     "libcpu_u8.a.p/entries_minmax.c", "stress/large/argmax"),
]
