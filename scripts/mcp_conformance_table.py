"""Reads the log of one run of the MCP conformance suite and prints one row of the table.

Counts whole scenarios: a scenario with one failed check has failed. Scenarios that the suite does
not score for the revision are counted apart. The exit code is 1 if a scored scenario failed, or if
none ran.
"""

import re
import sys

label, log = sys.argv[1], open(sys.argv[2], encoding="utf-8").read()
summary = re.split(r"^.*SUMMARY.*$", log, flags=re.M)[-1]
scored_part, _, unscored_part = summary.partition("Not scored for")
unscored = set(re.findall(r"^\s*[✓✗] (\S+) \(", unscored_part, flags=re.M))
counts = {"passed": 0, "failed": 0, "unscored passed": 0, "unscored failed": 0}
failures = []
for mark, name in re.findall(r"^([✓✗~!]) ([^:\n]+): \d+ passed", scored_part, flags=re.M):
    outcome = "passed" if mark == "✓" else "failed"
    if name in unscored:
        outcome = "unscored " + outcome
    counts[outcome] += 1
    if outcome.endswith("failed"):
        failures.append(f"{outcome}: {name}")
total = counts["passed"] + counts["failed"]
extra = counts["unscored passed"] + counts["unscored failed"]
print(f"| {label} | {counts['passed']} of {total} | {counts['unscored passed']} of {extra} |")
for failure in failures:
    print(f"  {failure}", file=sys.stderr)
sys.exit(0 if counts["failed"] == 0 and total > 0 else 1)
