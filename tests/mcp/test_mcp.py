#!/usr/bin/env python3
"""flashtl mcp, message by message: test_mcp.py PROGRAM. Needs nothing but Python."""
import json
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = sys.argv[1]
META = "io.modelcontextprotocol/"
SKETCH = """kernel scale
Input A (i in n, j in m)
Input factor f32
Output B (i in n, j in m)
Copy A from global to register
Compute Multiply A, factor and get B
Copy B from register to global
"""


class Client:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, "mcp"], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.messages = queue.Queue()
        self.number = 0
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def send(self, method, params=None, **more):
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, **more}
        if params is not None:
            message["params"] = params
        self.write(json.dumps(message))
        return self.number

    def notify(self, method, params):
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def receive(self, seconds=1800):
        return self.messages.get(timeout=seconds)

    def ask(self, method, params=None):
        number = self.send(method, params)
        answer = self.receive()
        assert answer["id"] == number, answer
        return answer

    def call(self, tool, **arguments):
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]

    def close(self):
        self.process.stdin.close()
        return self.process.wait(timeout=1800)


def text_of(result):
    return result["content"][0]["text"]


def test_handshake():
    c = Client()
    for wanted, spoken in (("2025-06-18", "2025-06-18"), ("2099-01-01", "2025-11-25")):
        result = c.ask("initialize", {"protocolVersion": wanted, "capabilities": {},
                                      "clientInfo": {"name": "test", "version": "0"}})["result"]
        assert result["protocolVersion"] == spoken and result["serverInfo"]["name"] == "flashtl"
        assert "tools" in result["capabilities"] and "resources" in result["capabilities"]
    c.notify("notifications/initialized", {})
    assert c.ask("ping")["result"] == {}
    assert c.close() == 0


def test_form_without_handshake():
    c = Client()
    meta = {"_meta": {META + "protocolVersion": "2026-07-28"}}
    result = c.ask("server/discover", meta)["result"]
    assert "2026-07-28" in result["supportedVersions"] and result["resultType"] == "complete"
    assert result["_meta"][META + "serverInfo"]["name"] == "flashtl"
    tools = c.ask("tools/list", meta)["result"]
    assert tools["ttlMs"] > 0 and tools["cacheScope"] == "public"
    meta["_meta"][META + "protocolVersion"] = "2031-01-01"
    error = c.ask("tools/list", meta)["error"]
    assert error["code"] == -32022 and error["data"]["requested"] == "2031-01-01"
    assert "2026-07-28" in error["data"]["supported"]
    assert c.close() == 0


def test_tools():
    c = Client()
    tools = {tool["name"]: tool for tool in c.ask("tools/list")["result"]["tools"]}
    for name in ("sketch", "check", "reason", "interpret", "translate", "emulate", "verify",
                 "explain", "bench"):
        assert tools[name]["inputSchema"]["type"] == "object" and tools[name]["description"]
    assert tools["reason"]["inputSchema"]["required"] == ["text", "gpu"]
    table = (pathlib.Path(__file__).parents[2] / "src/mcp/tools.def").read_text()
    rows = re.findall(r"^(?:PROPERTY|OPTION_OF)\((\w+), (\w+), [A-Z]", table, re.M)
    assert len(rows) > 30
    for name, property in rows:  # an option that the command has not would be missing
        assert tools[name]["inputSchema"]["properties"][property]["description"]
    let = tools["reason"]["inputSchema"]["properties"]["let"]["description"]
    usage = subprocess.run([PROGRAM, "help", "reason"], capture_output=True, text=True).stdout
    assert let.startswith("NAME=VALUE: ") and let[12:40] in " ".join(usage.split())
    sketch = text_of(c.call("sketch", operator="gqa", options=["causal"]))
    assert "Compute Mask" in sketch
    assert not c.call("check", text=sketch)["isError"]
    code = text_of(c.call("reason", text=sketch, gpu="t4", head_dim="64"))
    assert code.startswith("//") or code.startswith("kernel")
    cuda = text_of(c.call("translate", text=code))
    assert "__global__" in cuda
    plan = text_of(c.call("plan", text=code))
    assert json.loads(plan)["threads"] > 0
    result = c.call("interpret", text=SKETCH, shapes="7x5")
    assert result["structuredContent"]["results"][-1]["failed"] == 0, result
    assert c.close() == 0


def test_pages():
    """A long text comes by pages of lines, which are its lines when they are put together."""
    c = Client()
    code = text_of(c.call("reason", text=text_of(c.call("sketch", operator="gqa")), gpu="h200", head_dim="128"))
    whole = c.call("translate", text=code)
    command = subprocess.run([PROGRAM, "translate", "-"], input=code, capture_output=True, text=True).stdout
    data = whole["structuredContent"]
    assert text_of(whole) == command and len(whole["content"]) == 1 and "next_offset" not in data
    assert data["lines"] == command.count("\n") > 500
    assert data["results"] == [{"kernel": "attention", "entry": "attention", "gpu": "h200", "target": data["results"][0]["target"]}]
    sketch = text_of(c.call("sketch", operator="gqa"))
    explained = c.call("explain", text=sketch, gpu="t4", head_dim="64")
    decisions = explained["structuredContent"]["results"][0]["decisions"]
    assert text_of(explained).startswith("kernel attention") and "BM" in [d["name"] for d in decisions]
    text, offset, pages = "", 0, 0
    while offset is not None:
        page = c.call("translate", text=code, offset=offset, limit=400)
        text += text_of(page)
        pages += 1
        told, offset = page["content"][1]["text"], page["structuredContent"].get("next_offset")
        assert f"of {data['lines']}" in told and (offset is None or f"offset {offset}" in told), told
    assert text == command and pages == -(-data["lines"] // 400)
    after = c.call("translate", text=code, offset=100000)
    assert text_of(after) == "" and "no line is left" in after["content"][1]["text"]
    assert "a number from 1" in text_of(c.call("translate", text=code, limit=0))
    assert "a number from 0" in text_of(c.call("translate", text=code, offset=-1))
    assert "takes no argument" in text_of(c.call("check", text=code, offset=1))
    limit = {tool["name"]: tool for tool in c.ask("tools/list")["result"]["tools"]}["translate"]["inputSchema"]
    assert limit["properties"]["limit"]["minimum"] == 1 and limit["properties"]["offset"]["minimum"] == 0
    # What fits is given without being asked for, and where it goes on is said.
    remarks = "".join(f"// {'x' * 300} {i}\n" for i in range(1000))
    arguments = {"text": remarks + text_of(c.call("sketch", operator="gqa")), "gpu": "t4", "head_dim": "64"}
    first = c.call("reason", **arguments)
    assert 199000 < len(text_of(first)) <= 200000 and text_of(first).endswith("\n")
    rest = c.call("reason", offset=first["structuredContent"]["next_offset"], **arguments)
    assert (text_of(first) + text_of(rest)).startswith(remarks) and "next_offset" not in rest["structuredContent"]
    assert c.close() == 0


def test_findings():
    c = Client()
    wrong = c.call("sketch", operator="gqa")
    broken = text_of(wrong).replace("GEMM Q, K.T", "GEMM Q, K")
    result = c.call("check", text=broken)
    finding = result["structuredContent"]["findings"][0]
    assert result["isError"] and "expected" in json.dumps(finding), finding
    assert result["structuredContent"]["exit_status"] == 1
    c.close()


def test_bad_calls():
    c = Client()
    assert c.ask("tools/call", {"name": "nonsense"})["error"]["code"] == -32602
    assert c.ask("tools/call", {"name": "check", "arguments": [1]})["error"]["code"] == -32602
    assert "needs the argument" in text_of(c.call("check"))
    assert "takes no argument" in text_of(c.call("check", text="x", output="/etc/passwd"))
    assert "must be a string" in text_of(c.call("check", text=7))
    assert "list of at most" in text_of(c.call("sketch", operator="gqa", options="causal"))
    assert "must be a name" in text_of(c.call("sketch", operator="--output=x"))
    assert "must be a number" in text_of(c.call("interpret", text=SKETCH, seed=-1))
    assert c.call("check", text="\0nul")["isError"]
    assert c.call("reason", text=SKETCH, gpu="no-such-gpu")["isError"]
    assert c.ask("no/such/method")["error"]["code"] == -32601
    assert c.ask("resources/read", {"uri": "file:///etc/passwd"})["error"]["code"] == -32002
    for line, code in (("{", -32700), ("[]", -32600), ('{"id": 1}', -32600), ('{"a": 1, "a": 2}',
                                                                              -32700)):
        c.write(line)
        assert c.receive()["error"]["code"] == code, line
    c.write("")
    assert c.ask("ping")["result"] == {}
    assert c.close() == 0


def test_resources():
    c = Client()
    uris = [r["uri"] for r in c.ask("resources/list")["result"]["resources"]]
    assert "flashtl://language" in uris and "flashtl://gpus/t4" in uris
    for uri in uris:
        content = c.ask("resources/read", {"uri": uri})["result"]["contents"][0]
        assert content["uri"] == uri and len(content["text"]) > 100, uri
    c.close()


def test_cancelled_and_progress():
    """A long call tells how far it is, answers pings meanwhile, and ends when it is cancelled."""
    c = Client()
    sketch = text_of(c.call("sketch", operator="gqa"))
    number = c.send("tools/call", {"name": "interpret", "_meta": {"progressToken": "p"},
                                   "arguments": {"text": sketch, "shapes": "all"}})
    first = c.receive()
    assert first["method"] == "notifications/progress", first
    assert first["params"]["progressToken"] == "p" and first["params"]["progress"] > 0
    ping = c.send("ping")
    c.notify("notifications/cancelled", {"requestId": number})
    after = c.send("tools/list")
    answers = []
    while after not in answers:
        message = c.receive()
        if "id" in message:
            answers.append(message["id"])
    assert answers == [ping, after], answers
    assert c.close() == 0


def test_client_that_leaves():
    """Nobody listens any more in the middle of a call: the server ends, too, and stops the call."""
    lines = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "interpret", "arguments": {"text": SKETCH.replace("scale", "leaving"), "shapes": "all"}}})] * 50
    server = subprocess.Popen([PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    server.stdin.write(("\n".join(lines) + "\n").encode())
    server.stdin.flush()
    time.sleep(0.2)
    server.stdout.close()
    server.stdin.close()
    server.wait(timeout=1800)


def test_end_of_input():
    """What was asked before the input ended is answered, as in: echo ... | flashtl mcp."""
    asked = [{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {
        "name": "interpret", "arguments": {"text": SKETCH, "shapes": "7x5"}}} for i in range(3)]
    asked.append({"jsonrpc": "2.0", "id": 3, "method": "ping"})
    for ending in ("\n", ""):
        told = subprocess.run([PROGRAM, "mcp"], input="\n".join(map(json.dumps, asked)) + ending, text=True,
                              capture_output=True, timeout=1800)
        answers = {answer["id"]: answer["result"] for answer in map(json.loads, told.stdout.splitlines())}
        assert sorted(answers) == [0, 1, 2, 3] and told.returncode == 0, told
        assert all(not answers[i]["isError"] for i in range(3))


def test_no_files():
    """No argument names a file of this machine: not as a GPU, nor as anything else."""
    c = Client()
    folder = pathlib.Path(tempfile.mkdtemp())
    secret, grid = folder / "secret.gpu", folder / "words"
    secret.write_text("a secret of this machine\n")
    grid.write_text("a secret of this machine\n")
    code = text_of(c.call("reason", text=text_of(c.call("sketch", operator="gqa")), gpu="t4", head_dim="64"))
    tools = c.ask("tools/list")["result"]["tools"]
    needed = {"text": code, "gpu": "t4", "cuda": "x", "plan": "{}"}
    for tool in tools:
        schema = tool["inputSchema"]
        for name, property in schema["properties"].items():
            if property["type"] != "string" or name in ("text", "cuda", "plan", "against"):
                continue
            for value in (str(secret), str(grid), "/etc/shadow", "../secret.gpu", "secret.gpu", "./words", "/dev/zero"):
                given = {key: needed[key] for key in schema["required"]}
                given[name] = value
                result = c.call(tool["name"], **given)
                assert result["isError"] and "files are not read" in text_of(result), (tool["name"], name, value, result)
                assert "a secret" not in json.dumps(result)
    # nor does a text that names one
    for name in ("/etc/shadow", str(secret), "secret.gpu"):
        result = c.call("check", text=code.replace("for t4", f"for {name}", 1))
        assert result["isError"] and "a secret" not in json.dumps(result) and "root:" not in json.dumps(result)
    here = subprocess.Popen([PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)
    told, _ = here.communicate(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                           "params": {"name": "bench", "arguments": {"grid": "words"}}}))
    assert "files are not read" in told, told
    shutil.rmtree(folder)
    assert c.close() == 0


def start_long(c, sketch):
    """A call that runs, and waits no longer: it has told how far it is."""
    number = c.send("tools/call", {"name": "interpret", "_meta": {"progressToken": "p"},
                                   "arguments": {"text": sketch, "shapes": "all"}})
    assert c.receive()["method"] == "notifications/progress"
    return number


def answer(c):
    """The next message that is no news of a call's progress."""
    while True:
        message = c.receive()
        if message.get("method") != "notifications/progress":
            return message


def test_too_much():
    """A message that is too long, or one too many, is answered, and the server goes on."""
    c = Client()
    long = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * (17 << 20)}})
    for _ in range(2):
        c.write(long)
        error = c.receive()["error"]
        assert error["code"] == -32600 and "16 MiB" in error["message"], error
        assert c.ask("ping")["result"] == {}
    c.write("z" * (40 << 20))  # no JSON, and no end in sight for long
    assert "16 MiB" in c.receive()["error"]["message"]
    assert c.ask("ping")["result"] == {}
    sketch = text_of(c.call("sketch", operator="gqa"))
    first = start_long(c, sketch)
    sent = [c.send("tools/list") for _ in range(300)]
    refused = [answer(c) for _ in range(300 - 256)]
    assert all(r["error"]["message"] == "too many requests are waiting" for r in refused), refused[0]
    assert [r["id"] for r in refused] == sent[256:]
    c.notify("notifications/cancelled", {"requestId": first})
    assert [answer(c)["id"] for _ in range(256)] == sent[:256]
    # a call whose arguments are many and long is one that failed
    told = c.call("reason", text=sketch, gpu="t4", let=["BN=" + "1" * (900 << 10)] * 8)
    assert told["isError"] and "at most 4194304 bytes" in text_of(told), text_of(told)[:300]
    assert c.ask("ping")["result"] == {}
    # by bytes, too: few, but large
    first = start_long(c, sketch)
    large = [c.send("tools/list", {"x": "y" * (15 << 20)}) for _ in range(6)]
    refused = [answer(c) for _ in range(2)]
    assert [r["id"] for r in refused] == large[4:] and all("waiting" in r["error"]["message"] for r in refused)
    c.notify("notifications/cancelled", {"requestId": first})
    assert [answer(c)["id"] for _ in range(4)] == large[:4]
    assert c.close() == 0


for name, test in sorted(globals().items()):
    if name.startswith("test_"):
        test()
        print(f"{name}: passed")
