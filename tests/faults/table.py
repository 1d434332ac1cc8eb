"""A pytest plugin, `-p tests.faults.table`: how often each fault was tried, and what came of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath

from _pytest.terminal import TerminalReporter

FAULTS = [  # (file, part of the test's name, what goes wrong); the first that fits counts
    ("resume", "kill_9|baseline", "kill -9 at random moments"),
    ("resume", "", "stopped by a signal, resumed"),
    ("disk", "killed", "kill -9 inside a write"),
    ("disk", "", "disk full, at each write"),
    ("signals", "", "Ctrl-C, SIGTERM, SIGHUP, a second signal"),
    ("output", "memory", "too little memory"),
    ("output", "", "output that nobody reads or that has no room"),
    ("torn|checkpoint", "", "torn or changed checkpoint"),
    ("lock", "", "two processes on one run, stale lock"),
    ("ranks", "", "one of several processes dies or is stopped"),
    ("conditions", "", "resumed under other conditions"),
    ("numbers", "", "NaN and infinity"),
    ("gpu_failure", "", "the GPU fails"),
    ("memory", "", "too little memory"),
    ("degenerate", "", "degenerate data"),
    ("folders", "", "folders that change, are slow or have odd names"),
    ("names", "", "names that look alike"),
    ("record", "", "changed or foreign files in a run folder"),
    ("doctored", "", "malicious files"),
    ("code", "", "dangerous calls in the code"),
    ("network", "", "use of the network"),
    ("fuzz", "", "random input"),
]


def fault_of(nodeid: str) -> str:
    """What the test is about."""
    path, _, test = nodeid.partition("::")
    file = PurePosixPath(path).stem.removeprefix("test_")
    fits = (
        what for where, part, what in FAULTS if re.fullmatch(where, file) and re.search(part, test)
    )
    return next(fits, file)


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    tries: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            fault = fault_of(report.nodeid)
            count = dict(report.user_properties).get("tries", 1)  # a test may try many times
            tries[fault] += count
            survived[fault] += count * (outcome == "passed")
    order = list(dict.fromkeys(what for *_, what in FAULTS))
    faults = sorted(tries, key=lambda f: order.index(f) if f in order else len(order))
    rows = [(f, tries[f], survived[f]) for f in faults]
    rows.append(("all", tries.total(), survived.total()))
    terminalreporter.section("faults")
    terminalreporter.write_line("| fault | tries | survived | lost |")
    terminalreporter.write_line("|---|---|---|---|")
    for fault, count, well in rows:
        terminalreporter.write_line(f"| {fault} | {count:,} | {well:,} | {count - well:,} |")
