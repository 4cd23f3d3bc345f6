#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The model test has teeth: each rule of the allocator is broken once, in a copy of the file that keeps
it, and the traces must notice.

    pool_mutants.py ROOT BUILD TEST_POOL_MODEL

A mutant is a piece of text that stands exactly once in its file, and what it becomes: one that is not
found any more is a failure too, since then nothing was tested.
"""
import json
import os
import shlex
import subprocess
import sys

ROOT, BUILD, MODEL = sys.argv[1:4]
TRACES = 400  # each breaks off at the first one that notices

POOL, CHUNK, HEAP = "core/memory/pool.c", "core/memory/chunk.c", "core/memory/heap.c"
STORAGE, EXHAUST = "core/memory/storage.c", "core/memory/exhaust.c"
CAPTURE, STATS = "core/memory/capture.c", "core/memory/stats.c"
SEEN, LINES = "core/device/seen.c", "core/device/timelines.c"

# name, file, text, what it becomes
MUTANTS = [
    # 2, 4, 5: what was used by others waits for them.
    ("memory goes back without its users", POOL, "if (is_ready(pool, users, &s->block.stamp)) {", "if (true) {"),
    ("the last user is forgotten", POOL, "for (uint32_t i = 0; i < users->n; i++) {\n        const struct bp_user *user = user_at(users, i);\n        if (!open && bp_timeline_passed(user->timeline, user->number)) continue;\n        if (!bp",
     "for (uint32_t i = 0; i + 1 < users->n; i++) {\n        const struct bp_user *user = user_at(users, i);\n        if (!open && bp_timeline_passed(user->timeline, user->number)) continue;\n        if (!bp"),
    ("uses are not noted", STORAGE, "noted = bp_users_add(&storage->pending.users, timeline, number);", "noted = timeline != NULL && number;"),
    ("a user's first use counts", SEEN, "if (user->number < number) user->number = number;", ""),
    ("pending memory is free", POOL, "if (!is_ready(pool, users, &block->stamp)) continue;", "is_ready(pool, users, &block->stamp);"),
    ("a borrower is no user", POOL, "if (s->home != pool->home)\n        bp_users_add(", "if (false)\n        bp_users_add("),
    # 6: other streams take what has ended, or what they come after.
    ("no stamp", POOL, "if (block->stamp < last) block->stamp = last;", "block->stamp = 0 * last;"),
    ("the stamp of a block that came early is lost", POOL, "if (block->stamp < last) block->stamp = last;", "block->stamp = last;"),
    ("users that home waits for have ended", POOL, "if (behind && *stamp < next) *stamp = next;", "(void)behind, (void)next;"),
    ("what home waits for does not matter", POOL, "bp_timeline_passed(home, last) &&\n           bp_timeline_waits_passed(home, false);", "bp_timeline_passed(home, last);"),
    ("all free memory is everybody's", POOL, "if (bp_timeline_passed(home, block->stamp)) return true;", "return true;"),
    ("regions go back before their work has ended", CHUNK, "block->hi != &region->edge ||\n            !bp_pool_is_common(pool, block))", "block->hi != &region->edge)"),
    ("any stream borrows anything", EXHAUST, "bp_timeline_behind(taker, home, block->stamp);", "true;"),
    ("one order is everywhere", EXHAUST, "a->device->emulated & BP_EMULATED_STREAMS && ", ""),
    ("waits reach further than they do", SEEN, "if (other->seen[i].at < number) copy", "copy"),
    ("a wait covers later work", SEEN, "seen[i].number >= number;", "seen[i].number + 3 >= number;"),
    ("memory is stolen without a wait", EXHAUST, "if (bp_timeline_follow(w->pool->home, pool->home, stamp) == BP_OK) w->storage", "if (true) w->storage"),
    # 7, 10: the host, and streams that end.
    ("the host comes after everything", SEEN, "if (timeline->now) return false;", "if (timeline->now) return true;"),
    ("pinned memory is a stream's", STORAGE, "if (space) home = device->host;", ""),
    ("a stream ends before what it waits for", LINES, "bp_timeline_waits_passed(timeline, false) &&\n           (!timeline->queue", "(!timeline->queue"),
    # 8: blocks merge.
    ("stamps merge to the smaller", HEAP, "if (a->stamp < b->stamp) a->stamp = b->stamp;", "if (a->stamp > b->stamp) a->stamp = b->stamp;"),
    ("what is left over has no stamp", HEAP, "b->stamp = block->stamp;", "b->stamp = 0;"),
    ("live neighbours merge", HEAP, "if (hi->state == BP_PIECE_FREE) {", "if (hi->state == BP_PIECE_FREE || (hi->state == BP_PIECE_LIVE && hi->n == 64)) {"),
    ("neighbours do not merge", HEAP, "if (lo->state == BP_PIECE_FREE) {", "if (false) {"),
    ("kept whole and free", HEAP, "block->state = BP_PIECE_QUICK;", "block->state = BP_PIECE_FREE;"),
    ("a block is too small", HEAP, "if (block->n >= n && (!fits", "if (block->n + 1 >= n && (!fits"),
    ("a bin's blocks are too small", HEAP, "bin_of(n + (UINT64_C(1) << scale_of(n)) - 1)", "bin_of(n)"),
    # 11: captures.
    ("a capture has no place", CAPTURE, "atomic_store(&home->pool[BP_SPACE_DEVICE], pool);", ""),
    ("a stream's own memory is not seen while it is captured", STORAGE, "if (aside) return aside;", "if (aside) return pool;"),
    ("others borrow of a capture", EXHAUST, "pool != w->common && !pool->captures)", "pool != w->common)"),
    ("a capture's regions go back at any time", POOL, "(pool->capture != BP_CAPTURE_OVER ||", "(false ||"),
    ("a capture goes back before its last run has ended", POOL, "!bp_timeline_passed(ran->timeline, ran->number))))", "false)))"),
    ("a capture opens twice", CAPTURE, "open = bp_is_capturing(home);", "open = false;"),
    ("a capture stays in place", CAPTURE, "atomic_store(&home->aside, NULL);", ""),
    ("what a capture holds is not allocated", STATS, "if (pool->capture == BP_CAPTURE_OPEN || pool->capture == BP_CAPTURE_CLOSED) as_one", "if (false) as_one"),
    # 12, 13: limits and sums.
    ("no limit", CHUNK, "if (limit && (m->reserved", "if (false && (m->reserved"),
    ("the limit forgets what goes", CHUNK, "m->reserved -= size;", ""),
    ("what is freed is not counted", POOL, "pool->counts.free += bytes_of(pool, block);", "pool->counts.free += (block->n - (block->n > 9)) << pool->shift;"),
    ("rounding is forgotten", POOL, "c->taken -= bytes_of(pool, block);", "c->taken -= s->size;"),
    ("what is lost is forgotten", CHUNK, "if (filled) common->counts.lost += region->raw_size - region->size;", ""),
    ("pending is not counted down", POOL, "pool->counts.pending -= bytes_of(pool, block);", ""),
    ("lent memory counts twice", CHUNK, "if (block) common->counts.reserved -= block->n << common->shift;", ""),
    ("free chunks are kept", EXHAUST, "bp_pools_visit(w->device, BP_SPACES, release, NULL);", ""),
    ("own regions are kept", EXHAUST, "bp_pools_visit(w->device, BP_SPACES, give_back, NULL);", ""),
    ("nothing is waited for", EXHAUST, "if (!is_working(w->device)) return BP_OK;", "if (w) return BP_OK;"),
    ("misaligned", CHUNK, "first = (data + granule - 1) & ~(granule - 1);", "first = data + 32;"),
    # The device lives as long as its memory.
    ("storages do not keep the device", STORAGE, "*(bool *)ctx |= pool->counts.live > 0;", "(void)pool, (void)ctx;"),
]


def commands():
    """source -> compiler command of the static library of the core."""
    done = subprocess.run(["ninja", "-C", BUILD, "-t", "compdb"], capture_output=True, text=True, check=True)
    found = {}
    for entry in json.loads(done.stdout):
        if "libbackplane_parts" in entry["output"]:
            path = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
            found[os.path.relpath(path, ROOT)] = shlex.split(entry["command"])
    return found


def built(number, path, old, new, command):
    """The model test with one file of the core broken."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        text = f.read()
    assert text.count(old) == 1, f"'{old}' stands {text.count(old)} times in {path}, expected once"
    folder = os.path.join(BUILD, "tests", "unit", "pool_mutants")
    os.makedirs(folder, exist_ok=True)
    source, result = (os.path.join(folder, f"{number}{end}") for end in (".c", ""))
    with open(source, "w", encoding="utf-8") as f:
        f.write(text.replace(old, new))
    flags = [a for a in command[1:] if a.startswith(("-I", "-D", "-std", "-pthread", "-fsanitize", "-f"))]
    objects = [os.path.join(BUILD, "tests", "unit", "test_pool_model.p", f"{name}.c.o")
               for name in ("test_pool_model", "pool_capture", "pool_check")]
    subprocess.run([command[0], *flags, "-O1", "-w", f"-I{os.path.dirname(os.path.join(ROOT, path))}", source, *objects,
                    os.path.join(BUILD, "core", "libbackplane_parts.a"), "-lltdl", "-lcjson", "-ldl", "-pthread",
                    "-o", result], cwd=BUILD, check=True)
    return result


def main():
    every = commands()
    print(f"1..{len(MUTANTS)}", flush=True)
    failed = 0
    for number, (name, path, old, new) in enumerate(MUTANTS, 1):
        try:
            program = built(number, path, old, new, every[path])
            done = subprocess.run([program, str(TRACES)], capture_output=True, text=True, timeout=120)
            noticed = done.returncode != 0
            why = [line for line in done.stdout.splitlines() if not line.startswith("ok")][-1:] or [f"status {done.returncode}"]
        except subprocess.TimeoutExpired:
            noticed, why = True, ["it came to no end"]
        except (AssertionError, subprocess.CalledProcessError) as error:
            noticed, why = False, [str(error)]
        failed += not noticed
        print(f"{'ok' if noticed else 'not ok'} {number} - {name}")
        print(f"# {why[0] if noticed or why[0][0] != '1' else f'{TRACES} traces did not notice'}", flush=True)
    return failed > 0


sys.exit(main())
