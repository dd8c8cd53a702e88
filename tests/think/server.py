#!/usr/bin/env python3
"""A model's server on loopback, with every fault a real one has: start(FOLDER) gives its port, and
`server.py FOLDER` prints it and serves until its standard input ends.

The first part of a request's path names the
fault ("/stall/v1/chat/completions"); the answer is FOLDER's next file NNN.md (the last one again when they
run out). Everything that arrives is appended to FOLDER/requests.jsonl: path, headers, body.
"""
import http.server
import json
import pathlib
import socket
import struct
import sys
import threading
import time

class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder):
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder, self.lock, self.counts = pathlib.Path(folder), threading.Lock(), {}

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # clients that go away are what is tested
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def next_answer(self):
        files = sorted(self.server.folder.glob("[0-9]*.md"))
        with self.server.lock:
            index = min(self.server.counts.get("answer", 0), len(files) - 1)
            self.server.counts["answer"] = index + 1
        return files[index].read_text(encoding="utf-8")

    def count(self, name):
        with self.server.lock:
            self.server.counts[name] = self.server.counts.get(name, 0) + 1
            return self.server.counts[name]

    def log_message(self, *arguments):
        pass

    # --- pieces ---------------------------------------------------------------------------------------

    def reply(self, status, body, headers=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        names = [name.lower() for name, _ in headers]
        if "content-type" not in names:
            self.send_header("Content-Type", "application/json")
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("x-request-id", "req-1")
        self.end_headers()
        self.wfile.write(data)

    def error(self, status, message, code=None, headers=()):
        self.reply(status, {"error": {"message": message, "type": "some_error", "code": code}}, headers)

    def begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True

    def send(self, data, portion=None):
        data = data.encode() if isinstance(data, str) else data
        step = portion or len(data) or 1
        for start in range(0, len(data), step):
            self.wfile.write(data[start:start + step])
            self.wfile.flush()

    def whole(self, text, reason="stop"):
        return {"id": "1", "choices": [{"index": 0, "message": {"role": "assistant", "content": text,
                                                                "reasoning_content": "hidden thoughts"},
                                        "finish_reason": reason}],
                "usage": {"prompt_tokens": 1000, "completion_tokens": 200,
                          "prompt_tokens_details": {"cached_tokens": 900}}}

    def events(self, text, reason="stop", size=7):
        yield ": a comment\n\n"
        yield "data: " + json.dumps({"choices": [{"delta": {"role": "assistant", "content": None}}]}) + "\n\n"
        yield "data: " + json.dumps({"choices": [{"delta": {"reasoning_content": "hmm"}}]}) + "\n\n"
        for start in range(0, len(text), size):
            part = {"choices": [{"delta": {"content": text[start:start + size]}}]}
            yield "data: " + json.dumps(part, ensure_ascii=False) + "\n\n"
        yield "data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": reason}]}) + "\n\n"
        usage = {"prompt_tokens": 1000, "completion_tokens": 200, "prompt_tokens_details": {"cached_tokens": 900}}
        yield "data: " + json.dumps({"choices": [], "usage": usage}) + "\n\n"
        yield "data: [DONE]\n\n"

    def good(self, portion=None, reason="stop"):
        text = self.next_answer()
        if not self.request_body.get("stream"):
            self.reply(200, self.whole(text, reason))
            return
        self.begin_stream()
        self.send("".join(self.events(text, reason)), portion)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    # --- faults ---------------------------------------------------------------------------------------

    def fault_good(self):
        self.good()

    def fault_odd_counts(self):  # each request has other numbers that are none
        odd = (-5, 1e300, 2**63 - 1, -2**63, 1.5, "many", None, True, [7], {"a": 1}, 10**12)
        value = odd[self.count("odd counts") % len(odd)]
        usage = {"prompt_tokens": value, "completion_tokens": value, "prompt_tokens_details": {"cached_tokens": value}}
        self.reply(200, dict(self.whole(self.next_answer()), usage=usage))

    def fault_terminal_words(self):  # an error that would paint the terminal
        self.error(400, "\x1b[2J\x1b]0;title\x07\x9b31m\x7f no\nflashtl: verified \u202e!", code="bad")

    def fault_terminal_page(self):
        self.reply(500, b"\x1b[2Jan error\x9b31m \xff\xfe", [("Content-Type", "text/html"), ("retry-after", "0")])

    def fault_terminal_kind(self):
        self.reply(200, b"\x1b[2J", [("Content-Type", "text/\x1b[31mhtml")])

    def fault_odd_portions(self):  # events and UTF-8 characters are split over reads
        self.good(portion=3)

    def fault_bytes(self):
        self.good(portion=1)

    def fault_busy_then_good(self):  # 429 with Retry-After, then without, then an answer
        turn = self.count("busy")
        if turn == 1:
            self.error(429, "slow down", headers=[("Retry-After", "0.2")])
        elif turn == 2:
            self.error(429, "slow down")
        else:
            self.good()

    def fault_busy_for_long(self):
        self.error(429, "come back tomorrow", headers=[("Retry-After", "86400")])

    def fault_failing_then_good(self):
        if self.count("failing") <= 2:
            self.reply(500 if self.server.counts["failing"] == 1 else 529, b"<html>oops</html>", [("Content-Type", "text/html")])
        else:
            self.good()

    def fault_failing(self):
        self.error(503, "overloaded", headers=[("retry-after-ms", "50")])

    def fault_not_again(self):
        self.error(500, "a bug of ours", headers=[("x-should-retry", "false")])

    def fault_quota(self):
        self.error(429, "you exceeded your current quota", code="insufficient_quota")

    def fault_payment(self):
        self.error(402, "payment required")

    def fault_key(self):  # an error that repeats the key
        sent = self.headers.get("Authorization") or self.headers.get("x-api-key") or "none"
        self.error(401, f"the key '{sent.split()[-1]}' is wrong")

    def fault_hang(self):
        time.sleep(20)

    def fault_hang_inside(self):
        self.begin_stream()
        self.send("".join(list(self.events(self.next_answer()))[:6]))
        time.sleep(20)

    def fault_dribble(self):  # never silent, never done
        self.begin_stream()
        try:
            while True:
                self.send(": still here\n\n")
                time.sleep(0.1)
        except OSError:
            self.close_connection = True

    def fault_reset_then_good(self):
        if self.count("reset") == 1:
            self.begin_stream()
            self.send("".join(list(self.events(self.next_answer()))[:5]))
            self.server.counts["answer"] = 0
            self.reset()
        else:
            self.good()

    def fault_truncated_then_good(self):  # a stream that ends without saying so
        if self.count("truncated") == 1:
            self.begin_stream()
            self.send("".join(list(self.events(self.next_answer()))[:8]))
            self.server.counts["answer"] = 0
        else:
            self.good()

    def fault_truncated_json(self):
        self.reply(200, json.dumps(self.whole("kernel x")).encode()[:-40])

    def fault_broken_event(self):
        self.begin_stream()
        self.send('data: {"choices":[{"delta":{"content":"ker\n\n')

    def fault_error_inside(self):
        self.begin_stream()
        self.send("".join(list(self.events(self.next_answer()))[:5]))
        self.send('data: {"error":{"message":"the model fell over","type":"server_error"}}\n\n')

    def fault_huge(self):  # 100 MB
        self.begin_stream()
        line = "data: " + json.dumps({"choices": [{"delta": {"content": "x" * 65536}}]}) + "\n\n"
        try:
            for _ in range(1600):
                self.send(line)
        except OSError:
            self.close_connection = True

    def fault_web_page(self):
        self.reply(200, b"<!doctype html><title>Sign in</title>", [("Content-Type", "text/html")])

    def fault_elsewhere(self):  # to another host: another port is one
        other = (self.server.folder / "other-port").read_text().strip()
        self.reply(307, b"", [("Location", f"http://127.0.0.1:{other}/good/v1/chat/completions")])

    def fault_next_door(self):  # within the same origin
        self.reply(308, b"", [("Location", "/good/v1/chat/completions")])

    def fault_loop(self):
        self.reply(307, b"", [("Location", "/loop/v1/chat/completions")])

    def fault_cut_off(self):
        self.good(reason="length" if self.count("cut") == 1 else "stop")

    def fault_no_grammar(self):  # a server that refuses fields it does not know
        if "grammar" in self.request_body or "structured_outputs" in self.request_body:
            self.error(400, "unknown field: grammar")
        else:
            self.good()

    def fault_tool(self):  # an answer through a custom tool with a grammar
        call = {"id": "c", "type": "custom", "custom": {"name": "submit", "input": self.next_answer()}}
        self.reply(200, {"choices": [{"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]})

    def fault_anthropic(self):
        text = self.next_answer()
        self.begin_stream()
        events = [{"type": "message_start", "message": {"usage": {"input_tokens": 10, "cache_read_input_tokens": 990,
                                                                  "output_tokens": 1}}},
                  {"type": "ping"},
                  {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
                  {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
                  {"type": "content_block_stop", "index": 0}]
        events += [{"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": text[i:i + 11]}}
                   for i in range(0, len(text), 11)]
        events += [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 200}},
                   {"type": "message_stop"}]
        self.send("".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events), portion=13)

    def fault_anthropic_overloaded(self):
        if self.count("overloaded") == 1:
            self.reply(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
        else:
            self.fault_anthropic()

    # --- requests -------------------------------------------------------------------------------------

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            self.request_body = json.loads(body)
        except ValueError:
            self.request_body = {}
        line = {"path": self.path, "headers": dict(self.headers), "body": self.request_body}
        with self.server.lock, open(self.server.folder / "requests.jsonl", "a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")
        name = self.path.split("/")[1]
        try:
            getattr(self, "fault_" + name.replace("-", "_"))()
        except OSError:
            self.close_connection = True


def start(folder):
    server = Server(folder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


if __name__ == "__main__":
    print(start(sys.argv[1]), flush=True)
    sys.stdin.read()
