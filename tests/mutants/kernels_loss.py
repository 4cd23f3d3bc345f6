# SPDX-License-Identifier: Apache-2.0
"""Kernels of losses, broken: see kernels.py."""

KERNELS = [
    ("label_loss without the largest", "sdk/ops/cross_entropy/kernel.h",
     "y = w * (size + (most - elem_get(x[k])));",
     "y = w * (size - elem_get(x[k]));",
     "libcpu_f32_math.a.p/entries_cross_entropy.c", "kernel/label_loss/f32*"),
    ("label_loss of columns counts ignored lines", "sdk/ops/cross_entropy/kernel.h",
     "if (k >= 0 && e != 0) y =",
     "if (e != 0) y =",
     "libcpu_f32_math.a.p/entries_cross_entropy.c", "kernel/label_loss/f32*"),
    ("label_loss_grad forgets the other classes' part of smoothing", "sdk/ops/cross_entropy/kernel.h",
     "if (e != 0) d -= each * label_weight(weight, i);",
     "if (e != 0) d -= each;",
     "libcpu_f32_math.a.p/entries_cross_entropy.c", "kernel/label_loss_grad/f32*"),
    ("label_loss_grad of columns writes ignored lines", "sdk/ops/cross_entropy/kernel.h",
     "elem_put(label_at[j] < 0 ? 0 : g[j] * d)",
     "elem_put(g[j] * d)",
     "libcpu_f32_math.a.p/entries_cross_entropy.c", "kernel/label_loss_grad/f32*"),
    ("ctc skips from any state two before", "sdk/ops/ctc/kernel.h",
     "return k != a->blank && k != ctc_class(a, l, label, state - 2);",
     "return k != a->blank;",
     "libcpu_f32.a.p/entries_ctc.c", "kernel/ctc_lines/f32*"),
    ("ctc_lines_grad leaves the class of the step behind", "sdk/ops/ctc/kernel.h",
     "beta[s] += elem_get(x[k]);",
     "beta[s] += 0;",
     "libcpu_f32.a.p/entries_ctc.c", "kernel/ctc_lines_grad/f32*"),
]
