"""A pytest plugin, `-p tests.faults.table`: how often each fault was tried, and what came of it."""

from __future__ import annotations

from collections import Counter

from _pytest.terminal import TerminalReporter


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    tries: Counter[str] = Counter()
    survived: Counter[str] = Counter()
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, []):
            test = report.nodeid.rpartition("::")[2].partition("[")[0]
            fault = test.removeprefix("test_").replace("_", " ")
            count = dict(report.user_properties).get("tries", 1)  # a test may try many times
            tries[fault] += count
            survived[fault] += count * (outcome == "passed")
    rows = [(f, str(n), str(survived[f]), str(n - survived[f])) for f, n in tries.items()]
    total = (sum(tries.values()), sum(survived.values()))
    rows.append(("all", *map(str, total), str(total[0] - total[1])))
    width = max(len(row[0]) for row in rows)
    terminalreporter.section("faults")
    for row in [("fault", "tries", "survived", "lost"), *sorted(rows[:-1]), rows[-1]]:
        terminalreporter.write_line(f"{row[0]:{width}} {row[1]:>8} {row[2]:>8} {row[3]:>8}")
