"""The official Python SDK client in front of `haft serve`: client.py legacy|modern stdio|http TARGET"""

import asyncio
import os
import sys

import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

VERSION, TRANSPORT, TARGET = sys.argv[1:4]
PROJECT = os.environ["HAFT_PROJECT"]
questions = []
decision = "allow"


async def elicit(_context, params):
    # After a result of a server, a call that may have effects asks as well.
    if "memory__create_entities" not in params.message:
        return types.ElicitResult(action="accept", content={"decision": "allow"})
    questions.append(params.message)
    return types.ElicitResult(action="accept", content={"decision": decision})


def server():
    if TRANSPORT == "http":
        return TARGET
    args = ["serve", "--stdio", "--workspace", PROJECT]
    return stdio_client(StdioServerParameters(command=TARGET, args=args, env=dict(os.environ)))


def text(result):
    return "\n".join(getattr(block, "text", "") for block in result.content)


async def main():
    global decision
    mode = "legacy" if VERSION == "legacy" else "2026-07-28"
    calls = 0
    async with Client(server(), mode=mode, elicitation_callback=elicit) as client:

        async def call(name, arguments, **options):
            nonlocal calls
            calls += 1
            return await client.call_tool(name, arguments, **options)

        names, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if not cursor:
                break
        for name in ("everything__echo", "files__read_text_file", "memory__read_graph", "time__get_current_time", "read_file"):
            assert name in names, f"{name} is missing in {names}"
        assert "everything__get-env" not in names, "a denied tool is not listed"

        assert "hello" in text(await call("everything__echo", {"message": "hello"}))
        assert "beans" in text(await call("files__read_text_file", {"path": f"{PROJECT}/notes/today.txt"}))
        assert "Paris" in text(await call("time__get_current_time", {"timezone": "Europe/Paris"}))
        image = await call("everything__get-tiny-image", {})
        assert any(block.type == "image" for block in image.content), text(image)
        structured = await call("everything__get-structured-content", {"location": "New York"})
        assert structured.structured_content

        secret = await call("files__read_text_file", {"path": os.environ["HAFT_SECRET_FILE"]})
        assert secret.is_error and "hunter2" not in text(secret)
        wrong = await call("everything__echo", {"mesage": "x"})
        assert wrong.is_error and "message" in text(wrong), text(wrong)
        assert (await call("everything__get-env", {})).is_error, "denied"

        name = f"py-{VERSION}-{TRANSPORT}"
        entity = {"entities": [{"name": name, "entityType": "test", "observations": ["x"]}]}
        decision = "deny"
        assert (await call("memory__create_entities", entity)).is_error
        decision = "allow"
        created = await call("memory__create_entities", entity)
        assert not created.is_error, text(created)
        assert len(questions) == 2, questions
        assert "memory__create_entities" in questions[0]
        assert name in text(await call("memory__read_graph", {}))

        notes = []

        async def progressed(progress, total, message):
            notes.append(progress)

        long = await call(
            "everything__trigger-long-running-operation",
            {"duration": 1, "steps": 3},
            progress_callback=progressed,
        )
        assert not long.is_error, text(long)
        assert len(notes) == 3, notes

        resources = (await client.list_resources()).resources
        one = next(r for r in resources if str(r.uri).startswith("haft://everything/"))
        assert (await client.read_resource(str(one.uri))).contents
        prompts = (await client.list_prompts()).prompts
        assert any(prompt.name.startswith("everything__") for prompt in prompts)
        assert (await client.get_prompt("everything__simple-prompt")).messages
    print(f"{len(names)} tools, {calls} calls")


asyncio.run(main())
