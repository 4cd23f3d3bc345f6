# SPDX-License-Identifier: Apache-2.0
"""Reads a trace of `bp trace --perfetto` with the protobuf classes of Perfetto's Python package, and compares the result
with the JSON trace of the same profile.

The package's trace processor is a program that it downloads from another server than the registry, so it is not used. The
classes are made from Perfetto's own messages: a field of another number or type would be unknown to them, or unreadable.
"""
import collections
import json
import os

RUN_SECONDS = 60
BUDGETS = {"read": 40}

# Runs in the peer's environment: prints the slices, marks and tracks as JSON, and the number of unknown fields.
READ = """
import json, sys
from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

def count_unknown(message):
    return len(unknown_fields.UnknownFieldSet(message)) + sum(
        count_unknown(part) for field, value in message.ListFields() if field.message_type
        for part in ([value] if hasattr(value, "ListFields") else value))

trace = messages.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
tracks, processes, stacks, slices, marks = {}, {}, {}, [], []
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        if d.HasField("process"):
            processes[d.uuid] = d.process.process_name
        else:
            tracks[d.uuid] = (processes[d.parent_uuid], d.name)
events = [p for p in trace.packet if p.HasField("track_event")]
for packet in sorted(events, key=lambda p: p.timestamp):
    e, stack = packet.track_event, stacks.setdefault(packet.track_event.track_uuid, [])
    if e.type == e.TYPE_SLICE_BEGIN:
        stack.append((e.name, list(e.categories), packet.timestamp))
    elif e.type == e.TYPE_SLICE_END:
        name, categories, begin = stack.pop()
        slices.append([*tracks[e.track_uuid], name, *categories, begin, packet.timestamp])
    elif e.type == e.TYPE_INSTANT:
        marks.append([*tracks[e.track_uuid], e.name, packet.timestamp])
print(json.dumps({"slices": slices, "marks": marks, "open": sum(map(len, stacks.values())), "unknown": count_unknown(trace)}))
"""


def slices_of(trace):
    """[process, track, name, category, begin, end] of the slices of a JSON trace, in nanoseconds."""
    events, processes, tracks = trace["traceEvents"], {}, {}
    for e in events:
        if e["name"] == "process_name":
            processes[e["pid"]] = e["args"]["name"]
        if e["name"] == "thread_name":
            tracks[e["pid"], e["tid"]] = e["args"]["name"]
    return [[processes[e["pid"]], tracks[e["pid"], e["tid"]], e["name"], e["cat"], round(1000 * e["ts"]),
             round(1000 * e["ts"]) + round(1000 * e["dur"])] for e in events if e["ph"] == "X"]


def differences(read, trace):
    """A text that names the differences of the slices that the package has read from the JSON trace; "" if there are none."""
    if read["unknown"] or read["open"]:
        return f"{read['unknown']} unknown fields, {read['open']} slices without an end"
    theirs, ours = (collections.Counter(map(tuple, slices)) for slices in (read["slices"], slices_of(trace)))
    if not ours or theirs != ours:
        return f"{sum(theirs.values())} slices, {sum(ours.values())} in JSON: {[*(theirs - ours)][:2]} {[*(ours - theirs)][:2]}"
    marks = sum(e["ph"] == "i" for e in trace["traceEvents"])
    return "" if len(read["marks"]) == marks else f"{len(read['marks'])} marks, {marks} in JSON"


def test(peer):
    profile, proto, text = (os.path.join(peer.folder, name) for name in ("app.prof", "app.pftrace", "app.json"))
    app = os.path.join(peer.build, "examples", "slow")
    with peer.step("read", BUDGETS["read"]):
        for command in ([peer.bp, "profile", "-o", profile, "--", app],
                        [peer.bp, "trace", profile, "--perfetto", proto, "-o", text],
                        [peer.python, "-c", READ, proto]):
            code, output = peer.call(command, RUN_SECONDS, {"BP_STREAMS": "async"})
            if code:
                peer.count.fail(f"peers/perfetto: {command[:2]}: exit status {code}", output)
                return
        with open(text, encoding="utf-8") as file:
            wrong = differences(json.loads(output.splitlines()[-1]), json.load(file))
        if wrong:
            peer.count.fail("peers/perfetto: another trace than the JSON", wrong)
        else:
            peer.count.pass_()
