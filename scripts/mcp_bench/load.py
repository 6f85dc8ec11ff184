"""Measures what a tools/call costs at several MCP endpoints, side by side.

    load.py [--rounds N] [--calls N] BACKEND_URL NAME=URL;tool=T;pid=P ...

Each unit of concurrency has a connection and a session of its own. The targets take turns, so that
a moment of load meets all of them; the best and the median round count. The backend counts the
requests that reach it. Prints a Markdown table, and whether the goals are met.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
import urllib.request
from urllib.parse import urlsplit

CONCURRENCY = (1, 32)
WARM_UP = 50
TICKS = os.sysconf("SC_CLK_TCK")


class Session:
    """One HTTP connection and one MCP session of 2025-11-25."""

    def __init__(self, url):
        self.url, self.session, self.id = urlsplit(url), None, 0

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(self.url.hostname, self.url.port)
        info = {"name": "bench", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        await self.request("initialize", params)
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    async def request(self, method, params):
        self.id += 1
        message = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}
        return await self.post(message)

    async def post(self, message):
        body = json.dumps(message).encode()
        head = [
            f"POST {self.url.path} HTTP/1.1",
            f"Host: {self.url.netloc}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
            f"Content-Length: {len(body)}",
        ]
        if self.session:
            head += [f"Mcp-Session-Id: {self.session}", "MCP-Protocol-Version: 2025-11-25"]
        self.writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        status = int((await self.reader.readline()).split()[1])
        headers = {}
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        self.session = headers.get("mcp-session-id", self.session)
        body = await self.body(headers)
        if status >= 400:
            raise RuntimeError(f"HTTP {status}: {body[:200]!r}")
        return answer_of(body)

    async def body(self, headers):
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return b""
        body = b""
        while size := int(await self.reader.readline(), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readline()
        await self.reader.readline()
        return body


def answer_of(body):
    """The response in a body of JSON or of events."""
    text = body.decode()
    if not text.startswith(("{", "[")):
        data = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
        text = next((part for part in reversed(data) if part), "")
    return json.loads(text) if text else None


async def measure(url, tool, concurrency, calls, sample):
    sessions = [await Session(url).open() for _ in range(concurrency)]
    times, failed = [], 0

    async def work(session, count, keep):
        nonlocal failed
        for _ in range(count):
            began = time.perf_counter()
            answer = await session.request("tools/call", {"name": tool, "arguments": {"text": "x"}})
            took = time.perf_counter() - began
            content = (answer or {}).get("result", {})
            if content.get("isError") or "content" not in content:
                failed += 1
            if keep:
                times.append(took * 1_000)

    await asyncio.gather(*(work(session, max(1, WARM_UP // concurrency), False) for session in sessions))
    before, began = sample(), time.perf_counter()
    await asyncio.gather(*(work(session, calls // concurrency, True) for session in sessions))
    took, after = time.perf_counter() - began, sample()
    for session in sessions:
        session.writer.close()
    times.sort()
    at = lambda share: times[min(len(times) - 1, int(len(times) * share))]
    upstream, cpu = (late - early for late, early in zip(after, before))
    return {
        "p50": at(0.5),
        "p99": at(0.99),
        "rate": len(times) / took,
        "failed": failed,
        "cpu": cpu * 1_000 / len(times),
        "upstream": upstream / len(times),
    }


async def idle_session_kib(url, pid, count=500):
    """The memory that a session takes which is opened and left."""
    session = Session(url)
    await session.open()
    info = {"name": "bench", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}

    async def leave(sessions):
        for _ in range(sessions):
            session.session = None
            await session.request("initialize", params)

    await leave(100)
    before = resident_kib(pid)
    await leave(count)
    return (resident_kib(pid) - before) / count


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def requests_at(backend):
    with urllib.request.urlopen(backend.replace("/mcp", "/stats")) as response:
        return sum(json.load(response).values())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("backend")
    parser.add_argument("targets", nargs="+")
    args = parser.parse_args()
    targets = []
    for target in args.targets:
        name, _, rest = target.partition("=")
        url, *options = rest.split(";")
        targets.append((name, url, dict(option.split("=", 1) for option in options)))
    rounds = {}
    for _ in range(args.rounds):
        for name, url, options in targets:
            for concurrency in CONCURRENCY:
                # A slow proxy need not be called as often.
                calls = int(options.get("calls", args.calls))
                sample = lambda: (requests_at(args.backend), cpu_seconds(options["pid"]))
                tool = options.get("tool", "echo")
                one = asyncio.run(measure(url, tool, concurrency, calls, sample))
                rounds.setdefault((name, concurrency), []).append(one)
    report(rounds, {name: options for name, _, options in targets})
    for name, url, options in targets:
        if name == "haft":
            kib = asyncio.run(idle_session_kib(url, options["pid"]))
            print(f"- {kib:.0f} KiB of memory for each idle session; there are at most 1 000")


def report(rounds, options):
    print("| target | at once | p50 ms | p99 ms | calls/s | CPU ms per call | requests at the server per call | failed |")
    print("|---|---|---|---|---|---|---|---|")
    best = {}
    for (name, concurrency), all_rounds in rounds.items():
        def pair(key, of=min, form=".2f"):
            values = [one[key] for one in all_rounds]
            return f"{of(values):{form}} ({statistics.median(values):{form}})"

        cpu = statistics.median(one["cpu"] for one in all_rounds)
        upstream = statistics.median(one["upstream"] for one in all_rounds)
        failed = sum(one["failed"] for one in all_rounds)
        shown = "stdio" if options[name].get("stdio") else f"{upstream:.2f}"
        print(
            f"| {name} | {concurrency} | {pair('p50')} | {pair('p99')} | {pair('rate', max, '.0f')} "
            f"| {cpu:.2f} | {shown} | {failed} |"
        )
        best[name, concurrency] = {
            "p50": min(one["p50"] for one in all_rounds),
            "rate": max(one["rate"] for one in all_rounds),
            "cpu": cpu,
            "upstream": upstream,
        }
    goals(best)


def goals(best):
    """Compares haft with its goals."""
    own, many, direct = best["haft", 1], best["haft", 32], best["direct", 1]
    added = own["p50"] - direct["p50"]
    lines = [
        (f"added p50 {added:.2f} ms, goal below 1 ms", added < 1),
        (f"CPU {many['cpu']:.2f} ms per call at 32, goal at most 0.5 ms", many["cpu"] <= 0.5),
        (f"{own['upstream']:.2f} requests at the server per call, goal 1", round(own["upstream"], 2) == 1),
    ]
    if ("fastmcp", 32) in best:
        times = many["rate"] / best["fastmcp", 32]["rate"]
        lines.append((f"{times:.0f} times the calls/s of FastMCP at 32, goal 10", times >= 10))
    print()
    for text, is_met in lines:
        print(f"- {text}: {'met' if is_met else '**missed**'}")


main()
