# SPDX-License-Identifier: Apache-2.0
"""Prints TAP for tests of commands: a line for each case, and the plan at the end."""
count = failed = 0


def case(name, good, detail=""):
    global count, failed
    count += 1
    failed += not good
    print(f"{'ok' if good else 'not ok'} {count} - {name}")
    if not good:
        print("\n".join("# " + line for line in str(detail).splitlines()))


def finish():
    """Prints the plan. Returns the exit status."""
    print(f"1..{count}")
    return 1 if failed else 0
