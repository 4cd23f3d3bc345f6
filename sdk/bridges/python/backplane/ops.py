# SPDX-License-Identifier: Apache-2.0
"""All operators as functions, made from the library's table: inputs by position, attributes by name.

Inputs that are no tensors (numbers, lists, arrays) are converted. The keywords of each function: `out`, a tensor or a
list of tensors to write; `row`, the kernel row to run; and, where their number varies, `outputs`, how many to return.
A call runs on the current stream (`with stream:`); of a symbolic tensor, or in a `with graph:` block, it is recorded.
"""
from . import _backplane

globals().update(_backplane._operators)
__all__ = sorted(_backplane._operators)
