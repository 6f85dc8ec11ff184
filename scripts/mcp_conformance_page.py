"""Writes the table of a run of the MCP conformance suite into the page that publishes it.

    mcp_conformance_page.py [--check] PAGE TABLE VERSION

The table is between two comments, and the version of the suite before them. With `--check` nothing
is written: the exit code is 1 if the page has another table or version.
"""

import re
import sys

is_check = sys.argv[1] == "--check"
path, table_path, version = sys.argv[-3:]
page, table = (open(name, encoding="utf-8").read() for name in (path, table_path))
written = re.sub(r"(The official suite, version )\S+?(,)", rf"\g<1>{version}\2", page, count=1)
written = re.sub(
    r"(<!-- table -->\n).*?(<!-- end of the table -->)",
    lambda found: f"{found[1]}\n{table}\n{found[2]}",
    written,
    count=1,
    flags=re.S,
)
if is_check:
    sys.exit(0 if written == page else 1)
open(path, "w", encoding="utf-8").write(written)
