#!/usr/bin/env python3
"""One fault of a server against the command: test_http.py FLASHTL CASE, or --list."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import server

here = pathlib.Path(__file__).resolve().parent
GOOD = (here / "answers/good_sketch.md").read_text()
BAD = (here / "answers/missing_transpose.md").read_text()
KEY = "sk-secret-0123456789"


class Run:
    """A server, and the command asked against it."""

    def __init__(self, answers=(GOOD,)):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for i, text in enumerate(answers):
            (self.path / f"{i:03}.md").write_text(text)
        self.port = server.start(self.path)

    def environment(self, extra):
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
        return dict(kept, HOME=self.folder.name, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C",
                    no_proxy="127.0.0.1", **extra)

    def command(self, fault, options, spec, target=("--gpu", "t4", "--head-dim", "64", "--on", "interpreter")):
        model = spec or f"http://127.0.0.1:{self.port}/{fault}/v1#tiny"
        return [flashtl, "think", "causal attention", *target, "--sketch-by", model, "-o",
                str(self.path / "out"), "--record", str(self.path / "record.jsonl"),
                *options]

    def start(self, fault, *options, spec=None, env=()):
        return subprocess.Popen(self.command(fault, options, spec), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env=self.environment(dict(env)))

    def think(self, fault, *options, spec=None, env=()):
        process = self.start(fault, *options, spec=spec, env=env)
        self.out, self.err = process.communicate(timeout=1800)
        self.status = process.returncode
        return self

    def requests(self, folder=None):
        log = (folder or self.path) / "requests.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def events(self, kind):
        lines = (self.path / "record.jsonl").read_text().splitlines()
        return [e for e in map(json.loads, lines) if e["event"] == kind]

    def close(self):
        self.folder.cleanup()


def expect(condition, run, what):
    if not condition:
        sys.exit(f"expected: {what}\nstatus {run.status}\n--- output\n{run.out}\n--- errors\n{run.err}")


def is_good(run):
    expect(run.status == 0 and "verified" in run.out, run, "a verified kernel")


def fails(run, status, words):
    expect(run.status == status, run, f"exit status {status}")
    expect(words in run.err, run, f"the words '{words}'")


def key_file(run, base):
    path = run.path / "keys"
    path.write_text(f"# servers\n{base} {KEY}\n")
    path.chmod(0o600)
    return str(path)


# --- cases --------------------------------------------------------------------------------------------


def correct(run):
    is_good(run.think("good"))
    body = run.requests()[0]["body"]
    expect(body["stream"] and body["model"] == "tiny" and body["messages"][0]["role"] == "system", run, "the request")
    expect("temperature" not in body and "grammar" not in body, run, "nothing that was not asked for")
    ask = run.events("ask")[0]
    expect(ask["answer"] == GOOD and ask["prompt_tokens"] == 1000 and ask["cached_tokens"] == 900, run, "the record")


def correct_without_stream(run):
    is_good(run.think("good", "--no-stream"))
    expect("stream" not in run.requests()[0]["body"], run, "no stream")


def stream_in_odd_portions(run):
    is_good(run.think("odd-portions"))
    expect(run.events("ask")[0]["answer"] == GOOD, run, "the same text")


def stream_by_bytes(run):
    is_good(run.think("bytes"))
    expect("größer" in run.events("ask")[0]["answer"], run, "UTF-8 in one piece")


def busy(run):
    begin = time.monotonic()
    is_good(run.think("busy-then-good"))
    expect(len(run.requests()) == 3 and time.monotonic() - begin > 0.5, run, "two waits")
    keys = {r["headers"]["Idempotency-Key"] for r in run.requests()}
    expect(len(keys) == 1, run, "one idempotency key")
    expect(run.events("ask")[0]["retries"] == 2, run, "the retries in the record")


def busy_for_long(run):
    fails(run.think("busy-for-long"), 3, "86400 s")
    expect(len(run.requests()) == 1, run, "no retry")


def server_errors(run):
    is_good(run.think("failing-then-good"))
    expect(len(run.requests()) == 3, run, "two retries")


def server_errors_without_end(run):
    fails(run.think("failing", "--retries", "2"), 3, "answers 503: overloaded")
    expect(len(run.requests()) == 3, run, "two retries")


def should_not_retry(run):
    fails(run.think("not-again"), 3, "a bug of ours")
    expect(len(run.requests()) == 1, run, "no retry")


def quota(run):
    fails(run.think("quota"), 3, "exceeded your current quota")
    expect(len(run.requests()) == 1, run, "money errors are not retried")


def payment(run):
    fails(run.think("payment"), 3, "payment required")
    expect(len(run.requests()) == 1, run, "money errors are not retried")


def hang_before_answer(run):
    fails(run.think("hang", "--timeout", "1800:0.5"), 3, "silent for 0.5 s")


def hang_in_answer(run):
    fails(run.think("hang-inside", "--timeout", "1800:0.5"), 3, "silent for 0.5 s")


def never_ends(run):
    fails(run.think("dribble", "--timeout", "1:1800"), 3, "within 1 s")


def no_server(run):
    spec = "http://127.0.0.1:9/v1#tiny"
    fails(run.think("", "--retries", "1", spec=spec), 3, "connect")


def reset_in_stream(run):
    is_good(run.think("reset-then-good"))
    expect(len(run.requests()) == 2, run, "one retry")


def truncated_stream(run):
    is_good(run.think("truncated-then-good"))
    expect(len(run.requests()) == 2, run, "one retry")


def truncated_json(run):
    fails(run.think("truncated-json", "--no-stream", "--retries", "0"), 3, "cut off, or no JSON")


def broken_event(run):
    fails(run.think("broken-event", "--retries", "0"), 3, "no JSON")


def error_in_stream(run):
    fails(run.think("error-inside", "--retries", "0"), 3, "the model fell over")


def huge_answer(run):
    fails(run.think("huge"), 3, "longer than 8 MiB")


def wrong_content_type(run):
    fails(run.think("web-page", "--retries", "0"), 3, "is no JSON")


def redirect_elsewhere(run):
    other = run.path / "other"
    other.mkdir()
    (other / "000.md").write_text(GOOD)
    (run.path / "other-port").write_text(str(server.start(other)))
    keys = key_file(run, f"http://127.0.0.1:{run.port}")
    fails(run.think("elsewhere", "--key-file", keys), 3, "redirects to another host")
    expect(run.requests()[0]["headers"]["Authorization"] == f"Bearer {KEY}", run, "the key where it belongs")
    expect(run.requests(other) == [], run, "nothing at the other host")


def redirect_within(run):
    keys = key_file(run, f"http://127.0.0.1:{run.port}/next-door")
    is_good(run.think("next-door", "--key-file", keys))
    first, second = run.requests()
    expect("Authorization" in first["headers"] and "Authorization" not in second["headers"], run,
           "the key under its own base URL only")


def redirect_loop(run):
    run.think("loop", "--retries", "0")
    expect(run.status == 3 and len(run.requests()) <= 5, run, "an end")


def key_is_secret(run):
    keys = key_file(run, f"http://127.0.0.1:{run.port}/key/v1")
    fails(run.think("key", "--key-file", keys), 3, "answers 401")
    everything = run.out + run.err + (run.path / "record.jsonl").read_text()
    expect(KEY not in everything and "***" in run.err, run, "no key in sight")


def key_file_is_open(run):
    keys = key_file(run, "http://127.0.0.1/v1")
    os.chmod(keys, 0o644)
    fails(run.think("good", "--key-file", keys), 3, "chmod 600")
    expect(run.requests() == [], run, "no request")


def key_from_environment(run):
    base = f"http://127.0.0.1:{run.port}/good/v1"
    is_good(run.think("", spec="openai:tiny", env={"OPENAI_BASE_URL": base, "OPENAI_API_KEY": KEY}))
    expect(run.requests()[0]["headers"]["Authorization"] == f"Bearer {KEY}", run, "the key")
    expect("max_completion_tokens" in run.requests()[0]["body"], run, "the maker's name of the limit")


def key_stays_home(run):
    # a key of the environment belongs to another base URL than the one that is asked
    is_good(run.think("good", env={"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}))
    expect(KEY not in json.dumps(run.requests()), run, "no key")


def anthropic(run):
    base = f"http://127.0.0.1:{run.port}/anthropic"
    is_good(run.think("", spec="anthropic:tiny", env={"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": KEY}))
    request = run.requests()[0]
    headers = {name.lower(): value for name, value in request["headers"].items()}
    expect(request["path"] == "/anthropic/v1/messages" and headers["x-api-key"] == KEY, run, "where and with which key")
    expect(headers["anthropic-version"] == "2023-06-01" and request["body"]["max_tokens"] > 0, run, "what is demanded")
    expect(request["body"]["system"][0]["cache_control"] == {"type": "ephemeral"}, run, "the mark of the stable part")
    ask = run.events("ask")[0]
    expect(ask["prompt_tokens"] == 1000 and ask["answer_tokens"] == 200 and ask["answer"] == GOOD, run, "the record")


def anthropic_overloaded(run):
    base = f"http://127.0.0.1:{run.port}/anthropic-overloaded"
    is_good(run.think("", spec="anthropic:tiny", env={"ANTHROPIC_BASE_URL": base}))
    expect(len(run.requests()) == 2, run, "one retry")


def whole_way(run):
    """From plain words to emulated kernels for two GPUs, the first answer being wrong."""
    (run.path / "000.md").write_text(BAD)
    (run.path / "001.md").write_text(GOOD)
    for gpu, dim in (("t4", "64"), ("h200", "128")):
        server_of = server.start(run.path)
        spec = f"http://127.0.0.1:{server_of}/good/v1#tiny"
        words = run.command("", (), spec, ("--gpu", gpu, "--head-dim", dim, "--on", "emulator"))
        done = subprocess.run(words, capture_output=True, text=True, env=run.environment({}), timeout=1800)
        run.out, run.err, run.status = done.stdout, done.stderr, done.returncode
        if "no CUDA compiler" in run.out:
            print("skipped: there is no CUDA compiler here, not even clang")
            sys.exit(77)
        expect(run.status == 0 and "verified up to 'emulate'" in run.out, run, f"an emulated kernel for {gpu}")
        expect("failed 'check'" in run.err and len(run.events("verdict")) == 2, run, "two rounds")


def cut_off_then_whole(run):
    (run.path / "000.md").write_text(GOOD[:200])
    (run.path / "001.md").write_text(GOOD)
    is_good(run.think("cut-off"))
    expect(run.events("verdict")[0]["findings"][0]["id"] == "ANSWER_CUT_OFF", run, "that it was noticed")


def grammar_is_sent(run):
    is_good(run.think("good", "--send-grammar", "gbnf"))
    grammar = run.requests()[0]["body"]["grammar"]
    expect(grammar.startswith("root ::=") and "Reshape" not in grammar, run, "a grammar of sketches")


def grammar_for_vllm(run):
    is_good(run.think("good", "--send-grammar", "structured"))
    expect("root ::=" in run.requests()[0]["body"]["structured_outputs"]["grammar"], run, "its field")


def grammar_for_tools(run):
    is_good(run.think("tool", "--send-grammar", "lark", "--no-stream"))
    tool = run.requests()[0]["body"]["tools"][0]["custom"]
    expect(tool["format"]["grammar"]["syntax"] == "lark", run, "a custom tool")


def grammar_is_refused(run):
    is_good(run.think("no-grammar", "--send-grammar", "gbnf"))
    bodies = [r["body"] for r in run.requests()]
    expect("grammar" in bodies[0] and "grammar" not in bodies[1], run, "again without")


def token_budget(run):
    (run.path / "000.md").write_text(BAD)
    fails(run.think("good", "--max-tokens", "8000"), 3, "budget of 8000 tokens")
    expect(run.requests()[0]["body"]["max_tokens"] < 4000, run, "answers limited by what is left")


def cost_budget(run):
    (run.path / "000.md").write_text(BAD)
    fails(run.think("good", "--max-cost", "0.02", "--price", "5:25"), 3, "budget of 0.02")


def wait_for(run, count, seconds=1800):
    end = time.monotonic() + seconds
    while len(run.requests()) < count and time.monotonic() < end:
        time.sleep(0.05)


def interrupt(run):
    process = run.start("hang")
    wait_for(run, 1)
    process.send_signal(signal.SIGINT)
    run.out, run.err = process.communicate(timeout=1800)
    run.status = process.returncode
    fails(run, 3, "stopped")
    expect(run.events("result")[0]["status"] == "STOPPED", run, "a record all the same")


def interrupt_while_waiting(run):
    process = run.start("failing", "--retries", "50")
    wait_for(run, 2)
    process.send_signal(signal.SIGINT)
    run.out, run.err = process.communicate(timeout=1800)
    run.status = process.returncode
    fails(run, 3, "stopped")


def no_library(run):
    fails(run.think("good", env={"FLASHTL_CURL": "/no/such/libcurl.so"}), 3, "endpoints need libcurl")


def fixed_over_http(run):
    (run.path / "000.md").write_text(BAD)
    (run.path / "001.md").write_text(GOOD)
    is_good(run.think("odd-portions"))
    first, second = [r["body"]["messages"] for r in run.requests()]
    expect(first == second[:len(first)], run, "a stable prefix")
    expect("K.T" in second[-1]["content"] and second[-2]["role"] == "assistant", run, "findings after the answer")


def odd_token_counts(run):
    """What can be no count is unknown, and estimated: a budget neither wraps round nor is spent at once."""
    (run.path / "000.md").write_text(BAD)
    for _ in range(6):
        run.think("odd-counts", "--no-stream", "--answers", "2", "--max-tokens", "60000")
        expect(run.status == 1 and "negative" not in run.err, run, "two answers, both wrong")
        for ask in run.events("ask"):
            expect(ask["prompt_tokens"] == ask["answer_tokens"] == ask["cached_tokens"] == 0, run, f"unknown counts: {ask}")
        for result in run.events("result"):
            expect(1000 < result["tokens"] < 60000, run, f"an estimate: {result['tokens']}")
        (run.path / "record.jsonl").unlink()


def is_plain(run, what):
    said = run.out + run.err
    hidden = [c for c in said if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or 0x202a <= ord(c) <= 0x202e]
    expect(not hidden, run, f"no control characters of {what}: {hidden}")


def words_for_the_terminal(run):
    fails(run.think("terminal-words"), 3, "\\x1b[2J\\x1b]0;title\\x07\\u009b31m\\x7f no\\nflashtl: verified \\u202e!")
    is_plain(run, "a server's error")
    fails(run.think("terminal-page", "--retries", "1"), 3, "\\x1b[2Jan error\\x9b31m")
    is_plain(run, "a page of errors")
    fails(run.think("terminal-kind", "--retries", "0"), 3, "text/")
    is_plain(run, "a content type")


def answers_for_the_terminal(run):
    (run.path / "000.md").write_text(BAD.replace("Compute GEMM", "Compute \x1b[31mGEMM").replace("kernel ", "\x9bkernel "))
    (run.path / "001.md").write_text(GOOD.replace("```tl\n", "```tl\n// a remark \x1b[2J\n"))
    (run.path / "002.md").write_text(GOOD)
    is_good(run.think("good"))
    is_plain(run, "an answer")
    expect(len(run.requests()) == 3, run, "a comment with an escape is refused")


CASES = {name: value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__code__", None) and value.__code__.co_varnames[:1] == ("run",)
         and value.__code__.co_argcount == 1 and name != "is_good"}

if sys.argv[1] == "--list":
    print("\n".join(CASES))
    sys.exit(0)
flashtl = sys.argv[1]
case = Run()
try:
    CASES[sys.argv[2]](case)
finally:
    case.close()
