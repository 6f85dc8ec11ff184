#!/usr/bin/env python3
"""Prepares exported tools and their calls for an oracle.

    oracle_lines.py EXPORTED CALLS FOLDER   writes FOLDER/shown.jsonl and FOLDER/calls.jsonl

EXPORTED holds the lines of `haft tools export --json`. A tool with an invalid schema is left out,
and its report must say so. If the export renames a property, the calls use the new name too, under an
id of their own; the runtime maps the name back.
"""
import collections
import json
import pathlib
import re
import sys


def renamed(line):
    """Returns the exported names of a tool's properties, by their original names."""
    names = {}
    for loss in line["report"]:
        place = re.fullmatch("/properties/([^/]*)", loss["pointer"])
        if loss["kind"] == "renamed" and place:
            own = place[1].replace("~1", "/").replace("~0", "~")
            names[own] = re.fullmatch("shown as `(.*)`", loss["note"])[1]
    return names


def main(exported, calls, folder):
    of_tool = collections.defaultdict(list)
    for text in pathlib.Path(calls).read_text().splitlines():
        call = json.loads(text)
        of_tool[call["schema_ref"]].append(call)
    shown, more, left_out, silent = [], {}, 0, []
    for text in pathlib.Path(exported).read_text().splitlines():
        line = json.loads(text)
        if line["tool"] is None:
            left_out += 1
            if not any(loss["kind"] == "refused" for loss in line["report"]):
                silent.append(f"{line['provider']}: {line['id']} is left out without a reason")
            continue
        names = renamed(line)
        if names:
            own, line["id"] = line["id"], f"{line['id']}/{line['provider']}"
            more[line["id"]] = [
                {
                    **call,
                    "schema_ref": line["id"],
                    "arguments": {names.get(key, key): value for key, value in call["arguments"].items()},
                }
                for call in of_tool[own]
                if isinstance(call["arguments"], dict)
            ]
        shown.append(line)
    folder = pathlib.Path(folder)
    lines = [call for several in [*of_tool.values(), *more.values()] for call in several]
    (folder / "shown.jsonl").write_text("".join(json.dumps(line) + "\n" for line in shown))
    (folder / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    print("\n".join(silent + [f"oracle: {len(shown)} exports shown, {left_out} left out with a reason"]))
    return bool(shown) and not silent


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if main(*sys.argv[1:]) else 1)
