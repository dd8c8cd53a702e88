#!/usr/bin/env python3
"""flashtl mcp, as the protocol's official Python SDK sees it: sdk_client.py PROGRAM.

Exits with 77 (skipped) where the SDK (the PyPI package 'mcp') is not installed.
"""
import asyncio
import sys

try:
    import mcp
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
except ImportError as problem:
    print(f"skipped: the SDK is not installed ({problem}); pip install mcp")
    sys.exit(77)

SERVER = StdioServerParameters(command=sys.argv[1], args=["mcp"])


def text_of(result):
    return result.content[0].text


def is_error(result):
    return getattr(result, "is_error", None) or getattr(result, "isError", False)


async def use(session):
    tools = {tool.name for tool in (await session.list_tools()).tools}
    assert {"sketch", "check", "reason", "interpret", "translate", "verify"} <= tools, tools
    sketch = text_of(await session.call_tool("sketch", {"operator": "gqa", "options": ["causal"]}))
    code = text_of(await session.call_tool("reason", {"text": sketch, "gpu": "t4",
                                                      "head_dim": "64"}))
    told = []

    async def on_progress(progress, total, message):
        told.append(progress)

    result = await session.call_tool("interpret", {"text": code, "shapes": "113x203"},
                                     progress_callback=on_progress)
    assert not is_error(result), result
    assert "__global__" in text_of(await session.call_tool("translate", {"text": code}))
    broken = await session.call_tool("check", {"text": sketch.replace("K.T", "K")})
    assert is_error(broken) and "error" in text_of(broken), broken
    resources = (await session.list_resources()).resources
    language = await session.read_resource(resources[0].uri)
    assert "# The language TL" in language.contents[0].text
    return told


async def by_handshake():
    async with stdio_client(SERVER) as (read, write), ClientSession(read, write) as session:
        result = await session.initialize()
        info = getattr(result, "server_info", None) or result.serverInfo
        assert info.name == "flashtl"
        return await use(session)


async def by_discovery():
    """The SDK's own client, which begins with the newest revision."""
    if not hasattr(mcp, "Client"):
        return None
    async with mcp.Client(stdio_client(SERVER)) as client:
        return await use(client)


asyncio.run(by_handshake())
print("by handshake: passed")
asyncio.run(by_discovery())
print("by discovery: passed" if hasattr(mcp, "Client") else "by discovery: this SDK is too old")
