#!/usr/bin/env python3
"""Reads whole request bodies with the vendors' own types.

    vendor_types.py FOLDER              FOLDER/<dialect>/<case>.json, one body each
    vendor_types.py --some FOLDER       the same, and a dialect may be missing
    vendor_types.py --self-test FOLDER  broken bodies, each of which must be refused

A body passes when the type that the vendor's SDK gives to a request takes all of it. Three things
make the check able to fail. Typed dictionaries are walked here, because a validator would ignore
keys it does not know and would leave iterables unread. Models that drop unknown keys are serialized
again, and a missing key was unknown. Service models are also checked for the patterns and enumerations
that the SDK leaves to the server.

No network is used. The packages are listed in vendor-types.txt.
"""
import base64
import binascii
import collections.abc
import copy
import datetime
import json
import pathlib
import re
import sys
import types
import typing
import warnings

import typing_extensions


class Refused(Exception):
    """The vendor's type does not accept this body."""


# ------------------------------------------------------------------------------- typed dictionaries

PLAIN = {str: "text", bool: "true or false", type(None): "null"}
_hints = {}


def hints(typed):
    """Returns the annotations of a typed dictionary, with forward references resolved."""
    if typed not in _hints:
        _hints[typed] = typing_extensions.get_type_hints(typed, include_extras=True)
    return _hints[typed]


def bare(annotation):
    """Unwraps a type: returns it and whether the key is declared as required."""
    required = None
    while True:
        origin = typing_extensions.get_origin(annotation)
        if origin is typing_extensions.Required:
            required, annotation = True, annotation.__args__[0]
        elif origin is typing_extensions.NotRequired:
            required, annotation = False, annotation.__args__[0]
        elif origin is typing_extensions.Annotated:
            annotation = annotation.__args__[0]
        elif origin is typing_extensions.ReadOnly:
            annotation = annotation.__args__[0]
        else:
            return annotation, required


def problems(value, annotation, at):
    """Returns the errors of a value, as lines that start with the location."""
    annotation, _ = bare(annotation)
    origin = typing_extensions.get_origin(annotation)
    if isinstance(annotation, typing.TypeVar):
        return []
    if isinstance(annotation, typing_extensions.TypeAliasType):
        return problems(value, annotation.__value__, at)
    if isinstance(origin, typing_extensions.TypeAliasType):
        inner = dict(zip(origin.__type_params__, typing_extensions.get_args(annotation)))
        return problems(value, substituted(origin.__value__, inner), at)
    if annotation in (typing.Any, object):
        return []
    if annotation is None:
        annotation = type(None)
    if annotation in PLAIN:
        good = isinstance(value, annotation)
        return [] if good else [f"{at}: {PLAIN[annotation]} expected, found {shown(value)}"]
    if annotation in (int, float):
        kinds = (int, float) if annotation is float else int
        good = isinstance(value, kinds) and not isinstance(value, bool)
        return [] if good else [f"{at}: a number expected, found {shown(value)}"]
    if annotation is datetime.datetime or annotation is datetime.date:
        return problems(value, str, at)
    if typing_extensions.is_typeddict(annotation):
        return of_dictionary(value, annotation, at)
    if origin is typing_extensions.Literal or origin is typing.Literal:
        allowed = typing_extensions.get_args(annotation)
        good = any(type(value) is type(one) and value == one for one in allowed)
        return [] if good else [f"{at}: one of {list(allowed)} expected, found {shown(value)}"]
    if origin in (typing.Union, types.UnionType):
        return of_union(value, typing_extensions.get_args(annotation), at)
    if isinstance(origin or annotation, type):
        whole, inner = origin or annotation, typing_extensions.get_args(annotation)
        if issubclass(whole, collections.abc.Mapping):
            if not isinstance(value, dict):
                return [f"{at}: an object expected, found {shown(value)}"]
            of = inner[1] if len(inner) == 2 else typing.Any
            return [p for key, one in value.items() for p in problems(one, of, f"{at}.{key}")]
        if issubclass(whole, collections.abc.Iterable) and not issubclass(whole, (bytes, str)):
            if not isinstance(value, list):
                return [f"{at}: a list expected, found {shown(value)}"]
            of = inner[0] if inner else typing.Any
            return [p for n, one in enumerate(value) for p in problems(one, of, f"{at}[{n}]")]
        # Open files, paths, bytes: not possible in JSON.
        return [f"{at}: {whole.__name__} expected, found {shown(value)}"]
    raise TypeError(f"{at}: no rule for the annotation {annotation!r}")


def substituted(annotation, inner):
    """Substitutes the arguments of a generic alias for its variables."""
    if isinstance(annotation, typing.TypeVar):
        return inner.get(annotation, typing.Any)
    args = typing_extensions.get_args(annotation)
    if not args or typing_extensions.get_origin(annotation) is typing.Literal:
        return annotation
    args = tuple(substituted(one, inner) for one in args)
    origin = typing_extensions.get_origin(annotation)
    return typing.Union[args] if origin in (typing.Union, types.UnionType) else origin[args]


def is_total(typed, key):
    """Returns whether the class that declares a key requires its keys."""
    for base in getattr(typed, "__orig_bases__", ()):
        if typing_extensions.is_typeddict(base) and key in hints(base):
            return is_total(base, key)
    return getattr(typed, "__total__", True)


def of_dictionary(value, typed, at):
    if not isinstance(value, dict):
        return [f"{at}: an object expected, found {shown(value)}"]
    found, known = [], hints(typed)
    for key, annotation in known.items():
        inner, required = bare(annotation)
        # The keys that a class counts as required are wrong under postponed annotations.
        if required is None:
            required = is_total(typed, key)
        if key in value:
            found += problems(value[key], inner, f"{at}.{key}")
        elif required:
            found.append(f"{at}: `{key}` is missing ({typed.__name__})")
    for key in value:
        if key not in known:
            found.append(f"{at}: `{key}` is unknown ({typed.__name__})")
    return found


def of_union(value, branches, at):
    """Tries every branch; reports the errors of the most likely one."""
    tried = []
    for branch in branches:
        found = problems(value, branch, at)
        if not found:
            return []
        tried.append((strangeness(value, branch), len(found), found))
    return min(tried, key=lambda one: one[:2])[2]


def strangeness(value, branch):
    """Returns how unlikely a branch is: its literals differ, or its type."""
    branch, _ = bare(branch)
    if isinstance(branch, typing_extensions.TypeAliasType):
        branch, _ = bare(branch.__value__)
    if typing_extensions.is_typeddict(branch) and isinstance(value, dict):
        fixed = {
            key: typing_extensions.get_args(bare(annotation)[0])
            for key, annotation in hints(branch).items()
            if typing_extensions.get_origin(bare(annotation)[0]) is typing.Literal
        }
        return sum(key in value and value[key] not in allowed for key, allowed in fixed.items())
    return 1 if isinstance(value, list) and typing_extensions.get_origin(branch) else 9


def shown(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def refuse_if(found):
    if found:
        more = [f"and {len(found) - 5} more"] if len(found) > 5 else []
        raise Refused("\n".join(found[:5] + more))


# ------------------------------------------------------------------------------------------ models


def parsed(model, value, at, **options):
    """Validates with a model; a warning is an error, because unknown enum values only warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return model.model_validate(value, **options)
        except (ValueError, Warning) as error:
            raise Refused(f"{at}: {error}") from error


def dropped(value, kept, at, free=()):
    """Returns the keys that a model dropped. Below a free-form key any key is allowed."""
    if isinstance(value, list) and isinstance(kept, list):
        return [p for n, (a, b) in enumerate(zip(value, kept)) for p in dropped(a, b, f"{at}[{n}]", free)]
    if not isinstance(value, dict) or not isinstance(kept, dict):
        return []
    found = [f"{at}: `{key}` is unknown" for key in value if key not in kept]
    for key in value:
        if key in kept and key not in free:
            found += dropped(value[key], kept[key], f"{at}.{key}", free)
    return found


def invented(model, at):
    """Returns the keys that a model kept without knowing them."""
    found = []
    if hasattr(type(model), "model_fields"):
        found += [f"{at}: `{key}` is unknown ({type(model).__name__})" for key in model.model_extra or {}]
        for key in type(model).model_fields:
            found += invented(getattr(model, key), f"{at}.{key}")
    elif isinstance(model, (list, tuple)):
        found += [p for n, one in enumerate(model) for p in invented(one, f"{at}[{n}]")]
    return found


def is_base64(text):
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, TypeError):
        return False


# ----------------------------------------------------------------------------------------- vendors


def anthropic(body, _case):
    from anthropic.types import message_count_tokens_params as counting
    from anthropic.types import message_create_params as creating

    streamed = creating.MessageCreateParamsStreaming
    refuse_if(problems(body, streamed if "stream" in body else creating.MessageCreateParamsNonStreaming, "body"))
    counted = {key: value for key, value in body.items() if key not in ("max_tokens", "stream")}
    refuse_if(problems(counted, counting.MessageCountTokensParams, "count_tokens"))
    # The type takes any object for a schema; the service takes an object's.
    for n, tool in enumerate(body.get("tools", [])):
        if "input_schema" in tool and tool["input_schema"].get("type") != "object":
            raise Refused(f"body.tools[{n}].input_schema: `type` must be object")


def openai_responses(body, _case):
    from openai.types.responses import response_create_params as creating

    streamed = creating.ResponseCreateParamsStreaming
    refuse_if(problems(body, streamed if "stream" in body else creating.ResponseCreateParamsNonStreaming, "body"))
    # The type also accepts an output without an id, which only agents of the service write.
    items = [one for one in body["input"] if one.get("type", "").startswith("function_call")]
    asked = {one["call_id"] for one in items if one["type"] == "function_call"}
    for one in items:
        if one.get("call_id") not in asked:
            raise Refused(f"body.input: {shown(one)} answers no call")


def openai_chat(body, _case):
    from openai.types.chat import completion_create_params as creating

    streamed = creating.CompletionCreateParamsStreaming
    refuse_if(problems(body, streamed if "stream" in body else creating.CompletionCreateParamsNonStreaming, "body"))


GEMINI_FREE = ("args", "response", "default", "parametersJsonSchema", "responseJsonSchema")


def gemini(body, _case):
    from google.genai import models, types as genai

    # The SDK has one model for the fields of a body besides the conversation.
    config = {key: value for key, value in body.items() if key not in ("contents", "generationConfig")}
    if "generationConfig" in body:
        generation = parsed(genai.GenerationConfig, body["generationConfig"], "generationConfig")
        refuse_if(dropped(body["generationConfig"], written(generation), "generationConfig", GEMINI_FREE))
    known = parsed(genai.GenerateContentConfig, config, "config")
    refuse_if(dropped(config, written(known), "config", GEMINI_FREE))
    if not isinstance(body.get("contents"), list) or not body["contents"]:
        raise Refused("body: `contents` is missing")
    for n, content in enumerate(body["contents"]):
        at = f"contents[{n}]"
        if content.get("role") not in ("user", "model"):
            raise Refused(f"{at}.role: user or model expected, found {shown(content.get('role'))}")
        if not content.get("parts"):
            raise Refused(f"{at}: `parts` is missing or empty")
        known = parsed(genai.Content, content, at)
        refuse_if(dropped(content, written(known), at, GEMINI_FREE))
        for part in known.parts:
            if not part.model_fields_set - {"thought", "thought_signature"}:
                raise Refused(f"{at}: a part says nothing")
        developer(models._Content_to_mldev, known, at)
    for n, tool in enumerate(body.get("tools", [])):
        developer(models._Tool_to_mldev, parsed(genai.Tool, tool, f"tools[{n}]"), f"tools[{n}]")
    if "toolConfig" in body:
        developer(models._ToolConfig_to_mldev, parsed(genai.ToolConfig, body["toolConfig"], "toolConfig"), "toolConfig")


def written(model):
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def developer(convert, model, at):
    """Runs the SDK's conversion for the developer API, which rejects what only Vertex accepts."""
    try:
        convert(model, {}, None)
    except (ValueError, TypeError) as error:
        raise Refused(f"{at}: {error}") from error


_bedrock = []


def bedrock(body, _case):
    if not _bedrock:
        import botocore.session
        from botocore.validate import ParamValidator

        service = botocore.session.Session().get_service_model("bedrock-runtime")
        _bedrock.extend((ParamValidator(), service.operation_model("Converse").input_shape))
    validator, shape = _bedrock
    report = validator.validate(body, shape)
    if report.has_errors():
        raise Refused(report.generate_report())
    refuse_if(of_shape(body, shape, "body"))


def of_shape(value, shape, at):
    """Returns what the SDK leaves to the server: enumerations, patterns, maximum sizes, unions."""
    found = []
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False):
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            found.append(f"{at}: exactly one key expected, found {list(value)}")
        for key, one in value.items():
            found += of_shape(one, shape.members[key], f"{at}.{key}")
    elif shape.type_name == "list":
        for n, one in enumerate(value):
            found += of_shape(one, shape.member, f"{at}[{n}]")
        found += of_size(len(value), shape, at)
    elif shape.type_name == "map":
        for key, one in value.items():
            found += of_shape(one, shape.value, f"{at}.{key}")
    elif shape.type_name == "string":
        if shape.enum and value not in shape.enum:
            found.append(f"{at}: one of {shape.enum} expected, found {shown(value)}")
        pattern = shape.metadata.get("pattern")
        # A few patterns are written for another regex engine.
        if pattern and "\\p{" not in pattern and not re.fullmatch(pattern, value):
            found.append(f"{at}: {shown(value)} does not match {pattern}")
        found += of_size(len(value), shape, at)
    elif shape.type_name == "blob" and not is_base64(value):
        found.append(f"{at}: base64 expected, found {shown(value)}")
    return found


def of_size(size, shape, at):
    most = shape.metadata.get("max")
    return [f"{at}: at most {most} expected, found {size}"] if most is not None and size > most else []


MISTRAL_FREE = ("parameters", "arguments")


def mistral(body, _case):
    from mistralai.client import models

    refuse_if(problems(body, models.ChatCompletionRequestTypedDict, "body"))
    known = parsed(models.ChatCompletionRequest, body, "body")
    kept = known.model_dump(mode="json", by_alias=True, exclude_unset=True)
    refuse_if(dropped(body, kept, "body", MISTRAL_FREE))
    for n, message in enumerate(body["messages"]):
        ids = [call.get("id") for call in message.get("tool_calls") or []]
        if message["role"] == "tool":
            ids.append(message.get("tool_call_id"))
        for one in ids:
            if not re.fullmatch("[a-zA-Z0-9]{9}", one or ""):
                raise Refused(f"messages[{n}]: {shown(one)} is no id of nine letters and digits")


# The client keeps four keys of a property, and the server reads the whole schema.
OLLAMA_FREE = ("parameters", "arguments")


def ollama(body, _case):
    from ollama import _types as client

    known = parsed(client.ChatRequest, body, "body")
    kept = known.model_dump(mode="json", by_alias=True, exclude_unset=True)
    refuse_if(dropped(body, kept, "body", OLLAMA_FREE))
    for n, message in enumerate(body["messages"]):
        at = f"messages[{n}]"
        # The type of a request also takes any mapping for a message, so each is read alone.
        one = parsed(client.Message, wrapped(message), at)
        if message["role"] not in ("system", "user", "assistant", "tool"):
            raise Refused(f"{at}.role: {shown(message['role'])} is no role")
        if message["role"] == "tool" and not one.tool_name:
            raise Refused(f"{at}: `tool_name` is missing")
        for picture in message.get("images", []):
            if not is_base64(picture):
                raise Refused(f"{at}.images: base64 expected, found {shown(picture)}")
        kept = one.model_dump(mode="json", by_alias=True, exclude_unset=True)
        # The client has no field for a call's id; the server takes one and gives one.
        for call in kept.get("tool_calls") or []:
            call["id"] = ""
        kept["tool_call_id"] = ""
        refuse_if(dropped(message, kept, at, OLLAMA_FREE))


def wrapped(message):
    """Does what the client does with pictures before it reads a message."""
    pictures = message.get("images")
    return {**message, "images": [{"value": one} for one in pictures]} if pictures else message


def mcp(body, case):
    from mcp import types as protocol

    if case.startswith("tools-list"):
        model, result = protocol.ListToolsResult, body
    elif "error" in body:
        model, result = protocol.JSONRPCError, body
    else:
        refuse_if(problems({k: v for k, v in body.items() if k != "result"}, Answer, "body"))
        model, result = protocol.CallToolResult, body.get("result")
    known = parsed(model, result, "result")
    kept = known.model_dump(mode="json", by_alias=True, exclude_unset=True)
    free = ("inputSchema", "outputSchema", "structuredContent", "data")
    refuse_if(dropped(result, kept, "result", free) + invented(known, "result"))


class Answer(typing_extensions.TypedDict):
    """The envelope of the result of a JSON-RPC request."""

    jsonrpc: typing_extensions.Required[typing.Literal["2.0"]]
    id: typing_extensions.Required[typing.Union[str, int]]


VENDORS = {
    "anthropic": anthropic,
    "openai-responses": openai_responses,
    "openai-chat": openai_chat,
    "gemini": gemini,
    "gemini-json": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
    "ollama": ollama,
    "mcp": mcp,
}


# --------------------------------------------------------------------------------------- self-test


def sound():
    """Returns one valid body for each dialect."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    function = {"type": "function", "function": {"name": "warmth", "description": "d", "parameters": schema}}
    call = {"id": "callAaaa1", "type": "function", "function": {"name": "warmth", "arguments": "{}"}}
    chat = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "a", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "callAaaa1", "content": "7"},
        ],
        "tools": [function],
    }
    ollama_chat = copy.deepcopy(chat)
    ollama_chat["messages"][1]["tool_calls"] = [{"function": {"name": "warmth", "arguments": {}}}]
    ollama_chat["messages"][2] = {"role": "tool", "tool_name": "warmth", "content": "7"}
    gemini_body = {
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {"role": "model", "parts": [{"functionCall": {"id": "a", "name": "warmth", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "warmth", "response": {"output": "7"}}}]},
        ],
        "tools": [{"functionDeclarations": [{"name": "warmth", "description": "d", "parameters": schema}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    }
    gemini_json = copy.deepcopy(gemini_body)
    declaration = gemini_json["tools"][0]["functionDeclarations"][0]
    declaration["parametersJsonSchema"] = declaration.pop("parameters")
    return {
        "anthropic": {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "warmth", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "7"}]},
            ],
            "tools": [{"name": "warmth", "description": "d", "input_schema": schema}],
            "tool_choice": {"type": "auto"},
        },
        "openai-responses": {
            "model": "m",
            "input": [
                {"role": "user", "content": "q"},
                {"type": "function_call", "call_id": "a", "name": "warmth", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": "7"},
            ],
            "tools": [{"type": "function", "name": "warmth", "parameters": schema, "strict": False}],
        },
        "openai-chat": chat,
        "gemini": gemini_body,
        "gemini-json": gemini_json,
        "bedrock": {
            "modelId": "m",
            "messages": [
                {"role": "user", "content": [{"text": "q"}]},
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "warmth", "input": {}}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "a", "content": [{"text": "7"}], "status": "success"}}]},
            ],
            "toolConfig": {"tools": [{"toolSpec": {"name": "warmth", "inputSchema": {"json": schema}}}]},
        },
        "mistral": chat,
        "ollama": ollama_chat,
        "mcp": {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {"content": [{"type": "text", "text": "7"}], "isError": False, "resultType": "complete"},
        },
    }


GONE = object()

# The mutation of each body: location and new value.
BROKEN = {
    "anthropic": [
        ("messages.0.role", "tool"),
        ("messages.2.content.0.tool_use_id", GONE),
        ("messages.2.content.0.extra", 1),
        ("messages.2.content.0.is_error", "yes"),
        ("messages.1.content.0.input", "{}"),
        ("max_tokens", GONE),
        ("tools.0.parameters", {}),
        ("tools.0.input_schema.type", "array"),
        ("tools.0.input_schema", GONE),
        ("tool_choice.type", "required"),
        ("toolChoice", {}),
        ("stream", "yes"),
    ],
    "openai-responses": [
        ("input.0.role", "tool"),
        ("input.2.call_id", GONE),
        ("input.2.extra", 1),
        ("input.1.arguments", {}),
        ("input.2.output", {"a": 1}),
        ("input.1.type", "tool_call"),
        ("tools.0.strict", "yes"),
        ("tools.0.parameters", GONE),
        ("tools.0.function", {}),
        ("tool_choice", "any"),
        ("messages", []),
        ("stream", "yes"),
    ],
    "openai-chat": [
        ("stream", "yes"),
        ("stream_options", {"usage": True}),
        ("messages.0.role", "human"),
        ("messages.2.tool_call_id", GONE),
        ("messages.2.name", "warmth"),
        ("messages.1.tool_calls.0.function.arguments", {}),
        ("messages.1.tool_calls.0.id", GONE),
        ("messages.2.content", [{"type": "image_url", "image_url": {"url": "u"}}]),
        ("tools.0.function.name", GONE),
        ("tools.0.name", "warmth"),
        ("tool_choice", "any"),
        ("parallel_tool_calls", "no"),
        ("model", GONE),
    ],
    "gemini": [
        ("generationConfig", {"maxTokens": 1}),
        ("generationConfig", {"maxOutputTokens": "many"}),
        ("contents.1.role", "assistant"),
        ("contents.2.parts.0.functionResponse.extra", 1),
        ("contents.2.parts.0.functionResponse.response", "7"),
        ("contents.2.parts.0.function_response", {}),
        ("contents.1.parts.0.functionCall.args", "{}"),
        ("contents.0.parts", []),
        ("contents.0.parts.0.text", 5),
        ("tools.0.functionDeclarations.0.parameters.$ref", "#"),
        ("tools.0.functionDeclarations.0.parameters.type", "thing"),
        ("tools.0.functionDeclarations.0.name", 5),
        ("toolConfig.functionCallingConfig.mode", "REQUIRED"),
        ("tool_config", {}),
    ],
    "bedrock": [
        ("messages.1.role", "model"),
        ("messages.2.content.0.toolResult.toolUseId", GONE),
        ("messages.2.content.0.toolResult.toolUseId", "a b"),
        ("messages.2.content.0.toolResult.extra", 1),
        ("messages.2.content.0.toolResult.status", "failed"),
        ("messages.2.content.0.toolResult.content", "7"),
        ("messages.2.content.0.text", "two keys"),
        ("messages.0.content.0.text", 5),
        ("toolConfig.tools.0.toolSpec.name", "a name"),
        ("toolConfig.tools.0.toolSpec.description", ""),
        ("toolConfig.toolChoice", {"none": {}}),
        ("modelId", GONE),
    ],
    "mistral": [
        ("messages.0.role", "human"),
        ("messages.2.tool_call_id", GONE),
        ("messages.2.tool_call_id", "too-long-for-it"),
        ("messages.2.extra", 1),
        ("messages.1.tool_calls.0.function.arguments", 5),
        ("messages.1.tool_calls.0.function.name", GONE),
        ("tools.0.function.extra", 1),
        ("tools.0.function.parameters", "none"),
        ("tool_choice", "all"),
        ("parallel_tool_calls", {}),
    ],
    "ollama": [
        ("messages.0.role", "human"),
        ("messages.2.tool_name", GONE),
        ("messages.2.extra", 1),
        ("messages.2.content", ["7"]),
        ("messages.1.tool_calls.0.function.arguments", "{}"),
        ("messages.0.images", ["no picture!"]),
        ("tools.0.function.parameters.type", "array"),
        ("tools.0.function.extra", 1),
        ("tool_choice", "any"),
    ],
    "mcp": [
        ("id", GONE),
        ("result.content", "7"),
        ("result.content.0.type", "picture"),
        ("result.content.0.extra", 1),
        ("result.is_error", False),
        ("result.isError", "maybe"),
        ("result.structured", {}),
        ("jsonrpc", "1.0"),
    ],
}
BROKEN["gemini-json"] = [
    (at.replace("parameters.", "parametersJson."), value)
    for at, value in BROKEN["gemini"]
    if "parameters" not in at
] + [("tools.0.functionDeclarations.0.parameters_json", {})]


def broken(body, at, value):
    body = copy.deepcopy(body)
    *way, last = [int(step) if step.isdigit() else step for step in at.split(".")]
    place = body
    for step in way:
        place = place[step]
    if value is GONE:
        del place[last]
    else:
        place[last] = value
    return body


# Below these keys a body holds data of a tool or a model, so any key is allowed.
SAID = {"input_schema", "input_examples", "parameters", "parametersJsonSchema", "output_schema", "json"}
SAID |= {"inputSchema", "outputSchema", "args", "response", "arguments", "structuredContent", "data"}


def places(value, way=()):
    """Yields the objects of a body that belong to the vendor. Of a list, only the first few."""
    if isinstance(value, dict):
        yield way
        for key, one in value.items():
            is_said = key in SAID or (key == "input" and isinstance(one, dict))
            if not is_said:
                yield from places(one, way + (key,))
    elif isinstance(value, list):
        for n, one in enumerate(value[:6]):
            yield from places(one, way + (n,))


def strangers(folder):
    """Inserts an unknown key into every object of a few real bodies; returns the count and the accepted ones."""
    missed, count = [], 0
    for dialect, check in VENDORS.items():
        for case in ("dispatched", "everything", "tools-one", "tools-list", "tools-call-1", "tools-call-4"):
            file = folder / dialect / f"{case}.json"
            body = json.loads(file.read_text()) if file.exists() else []
            for way in places(body):
                count += 1
                place = body
                for step in way:
                    place = place[step]
                place["stranger"] = 1
                try:
                    check(body, case)
                    at = ".".join(map(str, way)) or "body"
                    missed.append(f"{dialect}/{case}: an unknown key in `{at}` was taken")
                except Refused:
                    pass
                del place["stranger"]
    return missed, count


def self_test(folder):
    missed, count = strangers(folder)
    if not count:
        missed.append(f"there are no bodies in {folder}")
    for dialect, body in sound().items():
        check = VENDORS[dialect]
        try:
            check(body, "self-test")
        except Refused as error:
            missed.append(f"{dialect}: a sound body was refused: {error}")
        for at, value in BROKEN[dialect]:
            count += 1
            try:
                check(broken(body, at, value), "self-test")
            except Refused:
                continue
            said = "missing" if value is GONE else shown(value)
            missed.append(f"{dialect}: `{at}` = {said} was taken")
    print("\n".join(missed + [f"self-test: {count - len(missed)} of {count} broken bodies refused"]))
    return not missed


# -------------------------------------------------------------------------------------------- main


def check_directory(folder, some=False):
    refused, count = 0, 0
    for dialect, check in VENDORS.items():
        files = sorted((folder / dialect).glob("*.json"))
        if not files and some:
            continue
        if not files:
            print(f"{dialect}: no bodies in {folder / dialect}")
            refused += 1
        bad = 0
        for file in files:
            try:
                check(json.loads(file.read_text()), file.stem)
            except Refused as error:
                bad += 1
                lines = "\n    ".join(str(error).splitlines()[:12])
                print(f"refused: {dialect}/{file.stem}\n    {lines}")
        print(f"{dialect}: {len(files) - bad} of {len(files)} bodies taken")
        refused, count = refused + bad, count + len(files)
    unknown = {path.name for path in folder.iterdir() if path.is_dir()} - set(VENDORS)
    if unknown:
        print(f"no type is known for {sorted(unknown)}")
    print(f"bodies: {count - refused} of {count} taken")
    return not refused and not unknown and count


def main():
    *flag, folder = sys.argv[1:] or [""]
    if flag not in ([], ["--self-test"], ["--some"]) or not pathlib.Path(folder).is_dir():
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    folder = pathlib.Path(folder)
    return self_test(folder) if flag == ["--self-test"] else check_directory(folder, flag == ["--some"])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
