# SPDX-License-Identifier: Apache-2.0
"""Writes files as a profiler does (core/profile/format.h), for the tests of `bp trace`."""
import struct

CHUNK, HEADER, COMMAND = 256 * 1024, 8192, 4096
KERNEL, COPY, MEMORY, COLLECTIVE, WAIT = 1, 2, 3, 4, 5
CALL, SUBMIT, RUN, ALLOCATE, FREE, RANGE, MARK, STEP, COMPILE = range(16, 25)
ON_DEVICE = 1


class File:
    def __init__(self, length, command=b"app"):
        self.length, self.command = length, command
        self.names, self.records = {}, {}

    def name(self, text):
        """The number of a name: str or bytes."""
        text = text.encode() if isinstance(text, str) else text
        return self.names.setdefault(text, len(self.names) + 1) if text else 0

    def thread(self, number, name):
        self.records.setdefault(number, (self.name(name), []))

    def add(self, thread, kind, begin, end, name="", kernel="", node="", shapes="", device="", stream=0, tag=0, size=0,
            flags=0, queue=0):
        self.thread(thread, "")
        self.records[thread][1].append(struct.pack(
            "<4Q6I2HI", begin, end, tag, size, *map(self.name, (name, kernel, node, shapes, device)), stream, kind, flags, queue))

    def bytes(self):
        out = struct.pack("<8s6IQQQQQ4096s", b"BPPROF", 1, HEADER, CHUNK, 64, 1234, 1, 5, 1700000000 * 10**9, self.length,
                          0, 0, self.command)
        out = out.ljust(HEADER, b"\0")
        for thread, (name, records) in self.records.items():
            most = (CHUNK - 64) // 64
            for i in range(0, len(records), most):
                part = records[i:i + most]
                out += (struct.pack("<4I48x", 1, thread, name, len(part)) + b"".join(part)).ljust(CHUNK, b"\0")
        texts = b"".join(struct.pack("<2I", number, len(text)) + text + b"\0" * (-len(text) % 8)
                         for text, number in self.names.items())
        return out + (struct.pack("<4I48x", 2, 0, 0, len(texts)) + texts).ljust(CHUNK, b"\0")

    def write(self, path):
        with open(path, "wb") as f:
            f.write(self.bytes())
