#!/usr/bin/env python3
"""Answers as models give them: each must end in the right finding, and in a verified kernel when the next
answer fixes it. test_answers.py FLASHTL CASE, or --list.

Wrong answers are made of right ones by one change, so they stay wrong in one way when the compiler's own
texts change. Models are `exec:` commands that give the answers in turn.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
GOOD = (here / "answers/good_sketch.md").read_text()


def fenced(text, label="tl"):
    return f"```{label}\n{text.strip()}\n```\n"


def sketch_of(answer):
    return re.search(r"```tl\n(.*?)```", answer, re.S).group(1)


SKETCH = sketch_of(GOOD)


def run(*arguments, input=""):
    environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
    environment.update(FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C", HOME="/nonexistent")
    done = subprocess.run([flashtl, *arguments], input=input, capture_output=True, text=True, env=environment, timeout=1800)
    return done.returncode, done.stdout, done.stderr


def code():
    """TL Code of the sketch for a T4, in the plain form."""
    return run("reason", "-", "--gpu", "t4", "--head-dim", "64", "--let", "guard=0", "--let", "peel=0",
               "--let", "BM=64", "--let", "BN=64", input=SKETCH)[1]


def change(text, old, new, count=1):
    if old not in text:
        sys.exit(f"the text to change is not there any more: {old}\n{text}")
    return text.replace(old, new, count)


class Dialogue:
    """The command asked with answers given in turn; 'verdicts' are the record's."""

    def __init__(self, step, answers, *options, on="interpreter", sketch=None, gpu="t4"):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for i, answer in enumerate(answers):
                (folder / f"{i}.md").write_text(answer)
            agent = folder / "agent.sh"
            agent.write_text(f"cat > {name}/prompt.txt\nn=$(cat {name}/n 2>/dev/null || echo 0)\n"
                             f"echo $((n + 1)) > {name}/n\ncat {name}/$n.md\n")
            (folder / "sketch.tl").write_text(sketch or SKETCH)
            given = ["causal attention"] if step == "sketch" else ["--sketch", f"{name}/sketch.tl"]
            self.status, self.out, self.err = run(
                "think", *given, "--gpu", gpu, "--head-dim", "64", "--on", on, f"--{step}-by", f"exec:sh {agent}",
                "--answers", str(len(answers)), "--record", f"{name}/record.jsonl", "-o", f"{name}/out", *options)
            record = folder / "record.jsonl"
            events = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
            self.kernels = [path.name for path in folder.glob("out/*.cu")]
            self.prompt = (folder / "prompt.txt").read_text() if (folder / "prompt.txt").exists() else ""
        self.asks = [e for e in events if e["event"] == "ask"]
        self.verdicts = [e for e in events if e["event"] == "verdict" and e["round"] > 0]
        self.result = next((e for e in events if e["event"] == "result"), {})

    def explain(self, what):
        shown = json.dumps([(v["rung"], v["passed"], v["findings"]) for v in self.verdicts], indent=1)
        sys.exit(f"expected {what}; status {self.status}\n{shown}\n{self.out}\n{self.err}")

    def fails_first(self, rung, *words):
        """The first answer fails this rung, and what is said about it holds these words."""
        if not self.verdicts or self.verdicts[0]["passed"] or self.verdicts[0]["rung"] != rung:
            self.explain(f"a first answer that fails '{rung}'")
        said = json.dumps(self.verdicts[0]["findings"])
        for word in words:
            if word not in said:
                self.explain(f"the words '{word}'")
        return self

    def is_fixed(self):
        if self.status != 0 or not self.verdicts[-1]["passed"] or not self.result["verified"]:
            self.explain("a verified kernel in the end")
        return self


def is_fixed_after(wrong, rung, *words, step="sketch", right=None, options=(), on="interpreter"):
    right = right or GOOD
    return Dialogue(step, [wrong, right], *options, on=on).fails_first(rung, *words).is_fixed()


REFERENCE = ("--against", str(here / "answers/reference.tl"))

# --- the shape of answers -----------------------------------------------------------------------------


def prose_around():
    Dialogue("sketch", [GOOD]).is_fixed()


def no_fence():
    Dialogue("sketch", ["I would do this.\n\n" + SKETCH + "\nThat is all, and for good reasons."]).is_fixed()


def two_blocks():
    # a first attempt, then the better one: the last whole program counts
    dialogue = Dialogue("sketch", [fenced(SKETCH.replace("K.T", "K")) + "No, wait:\n" + fenced(SKETCH)]).is_fixed()
    if len(dialogue.verdicts) != 1:
        dialogue.explain("one answer")


def other_language_beside():
    Dialogue("sketch", [fenced(SKETCH) + "In PyTorch that is\n" + fenced("o = softmax(q @ k.T) @ v", "python")]).is_fixed()


def thinking_tags():
    Dialogue("sketch", ["<think>\nFirst\n" + fenced(SKETCH.replace("K.T", "K")) + "hm\n</think>\n" + GOOD]).is_fixed()


def thinking_without_end():
    is_fixed_after("<think>\nSo, the user wants " + SKETCH, "read", "ANSWER_CUT_OFF")


def nothing_but_prose():
    is_fixed_after("I cannot write kernels, but attention is a fine thing.", "read", "ANSWER_NOTHING")


def fence_without_end():
    is_fixed_after(GOOD[:GOOD.index("Copy V")], "read", "ANSWER_CUT_OFF")


def empty():
    is_fixed_after("", "read", "ANSWER_NOTHING")


def tilde_fences():
    Dialogue("sketch", ["~~~tl\n" + SKETCH + "~~~\n"]).is_fixed()


def binary_rubbish():
    is_fixed_after("\x00\x01\x02 ```tl\n\x7f\x03\n```", "read", "ANSWER_NOTHING")


# --- sketches -----------------------------------------------------------------------------------------


def missing_transpose():
    dialogue = is_fixed_after(GOOD.replace("K.T", "K"), "check", "PRODUCT_CONTRACTS", "K.T", "Compute GEMM Q, K and get S")
    if '"replacement":"K.T"' not in dialogue.prompt:
        dialogue.explain("the fix in the prompt")


def undefined_name():
    is_fixed_after(GOOD.replace("GEMM S, V", "GEMM S, W"), "check", "W")


def invented_statement():
    is_fixed_after(GOOD.replace("    Compute Softmax S", "    Synchronize threads\n    Compute Softmax S"), "check",
          "UNKNOWN_STATEMENT", "Synchronize")


def invented_operation():
    is_fixed_after(GOOD.replace("Compute Softmax S", "Compute Normalize S and get S"), "check", "UNKNOWN_OPERATION", "Normalize")


def several_errors_at_once():
    dialogue = is_fixed_after(GOOD.replace("GEMM S, V", "GEMM S, W").replace("Multiply S, scale", "Multiply S, skale"), "check", "skale", "'W'")
    if len(dialogue.verdicts[0]["findings"]) < 2:
        dialogue.explain("both errors at once")


def output_never_stored():
    is_fixed_after(GOOD.replace("Copy O from register to global", ""), "meaning", "never written")


def missing_rescale():
    """A softmax made by hand, block by block, that never rescales."""
    by_hand = ("    Compute RowMax S and accumulate m\n    Compute Subtract S, m and get S\n    Compute Exp S and get S\n"
               "    Compute RowSum S and accumulate l")
    wrong = GOOD.replace("    Compute Softmax S", by_hand)
    wrong = wrong.replace("Copy O from register", "Compute Divide O, l and get O\nCopy O from register")
    wrong = wrong.replace("for j =", "Compute Fill -1e30 and get m\nfor j =")
    is_fixed_after(wrong, "meaning", "MEANING_BLOCKS", "block size")


def block_softmax_unmasked_rows():
    # 0/0 where a row sees nothing
    wrong = GOOD.replace("Compute Softmax S", "Compute Mask S, 0 where kv > q + kv_len - q_len\n    Compute RowSum S and accumulate l")
    wrong = wrong.replace("    Compute Mask S where kv > q + kv_len - q_len\n", "")
    wrong = wrong.replace("Copy O from register", "Compute Divide O, l and get O\nCopy O from register")
    is_fixed_after(wrong, "meaning", "MEANING_NOT_FINITE")


def unused_input():
    wrong = GOOD.replace("Input  scale", "Input  bias f32 (b in batch; kv in kv_len)\nInput  scale")
    is_fixed_after(wrong, "meaning", "MEANING_UNUSED", "bias")


def causal_off_by_one():
    is_fixed_after(GOOD.replace("kv > q +", "kv >= q +"), "meaning", "MEANING_WRONG", "boundary", "q of O and kv of K is off by 1", options=REFERENCE)


def causal_top_left():
    is_fixed_after(GOOD.replace("kv > q + kv_len - q_len", "kv > q"), "meaning", "MEANING_WRONG", "boundary", options=REFERENCE)


def no_mask():
    is_fixed_after(GOOD.replace("    Compute Mask S where kv > q + kv_len - q_len\n", ""), "meaning", "MEANING_WRONG", "and should not",
          options=REFERENCE)


def missing_scale():
    wrong = GOOD.replace("Multiply S, scale", "Multiply S, scale*scale")
    is_fixed_after(wrong, "meaning", "MEANING_WRONG", "the formula differs", options=REFERENCE)


def constant_factor():
    wrong = GOOD.replace("Copy O from register", "Compute Multiply O, 2 and get O\nCopy O from register")
    is_fixed_after(wrong, "meaning", "2 times what it should be", options=REFERENCE)


def keys_left_out():
    # the last block of 16 keys
    wrong = GOOD.replace("kv > q + kv_len - q_len", "kv > q + kv_len - q_len or kv >= kv_len - kv_len % 16")
    is_fixed_after(wrong, "meaning", "the last tile is left out", options=REFERENCE)


def wrong_head_map():
    wrong = GOOD.replace("Input  V (b in batch, head in heads;", "Input  V (b in batch, heads - 1 - head in heads;")
    is_fixed_after(wrong, "meaning", "wrong map of heads", options=REFERENCE)


def other_parameters():
    wrong = GOOD.replace("scale", "factor")
    is_fixed_after(wrong, "meaning", "MEANING_PARAMETER_MISSING", "MEANING_PARAMETER_EXTRA", "factor", options=REFERENCE)


def fits_no_kernel():
    wrong = GOOD.replace("kernel causal_attention", "kernel causal_attention\nlet BM = 256, BN = 256")
    is_fixed_after(wrong, "build", "line")


# --- TL Code ------------------------------------------------------------------------------------------


def reason_right():
    dialogue = Dialogue("reason", [fenced(code())]).is_fixed()
    if dialogue.result["by"] != "the built-in agent":
        dialogue.explain("candidate 0, which is as fast")


def missing_reshape():
    lines = [line for line in code().splitlines() if "Reshape P from mma_C to mma_A" not in line]
    is_fixed_after(fenced("\n".join(lines)), "check", "mma_A", "Reshape", step="reason", right=fenced(code()))


def missing_wait():
    wrong = "\n".join(line for line in code().splitlines() if "Wait K_shared" not in line)
    is_fixed_after(fenced(wrong), "check", "K_shared", step="reason", right=fenced(code()))


def tile_too_big():
    wrong = change(code(), "BM = 64, BN = 64", "BM = 512, BN = 512")
    is_fixed_after(fenced(wrong), "check", "BUDGET", step="reason", right=fenced(code()))


def dropped_last_tile():
    wrong = re.sub(r"let blocks = .*", "let blocks = max(1, floor(min(kv_len, (q_block + 1)*BM + kv_len - q_len)/BN))", code())
    dialogue = Dialogue("reason", [fenced(wrong), fenced(code())])
    if dialogue.verdicts[0]["passed"] or "leaves out" not in json.dumps(dialogue.verdicts[0]["findings"]):
        dialogue.explain("that the loop leaves out the last tile")
    dialogue.is_fixed()


def code_without_rescale():
    wrong = "\n".join(line for line in code().splitlines() if "Multiply O_register, alpha" not in line)
    is_fixed_after(fenced(wrong), "meaning", "not rescaled", step="reason", right=fenced(code()))


def code_causal_off_by_one():
    wrong = change(code(), "where kv > q + offset", "where kv >= q + offset")
    is_fixed_after(fenced(wrong), "meaning", "boundary", step="reason", right=fenced(code()))


def a_model_that_never_mends():
    wrong = fenced(change(code(), "where kv > q + offset", "where kv >= q + offset"))
    dialogue = Dialogue("reason", [wrong, wrong])
    if dialogue.status != 0 or dialogue.result["by"] != "the built-in agent" or dialogue.result["kept"] != 0:
        dialogue.explain("candidate 0")


def sketch_never_fixed():
    dialogue = Dialogue("sketch", [GOOD.replace("K.T", "K")] * 2)
    if dialogue.status != 1 or "none of 2 answers passed" not in dialogue.err or dialogue.result["verified"]:
        dialogue.explain("no kernel, exit status 1")


def improving():
    """Proposals: one that is slower, one that is wrong; neither replaces what is verified."""
    slower = run("reason", "-", "--gpu", "t4", "--head-dim", "64", "--let", "BM=64", "--let", "BN=16", input=SKETCH)[1]
    wrong = change(code(), "where kv > q + offset", "where kv >= q + offset")
    dialogue = Dialogue("reason", [fenced(code()), fenced(slower), fenced(wrong)], "--improve", "2", on="emulator")
    if dialogue.status != 0 or "# What was tried" not in dialogue.prompt or len(dialogue.verdicts) != 3:
        dialogue.explain("two proposals with the table of what was tried")
    rows = [line for line in dialogue.prompt.split("# What was tried")[-1].splitlines() if re.match(r"\| \d", line)]
    if len(rows) != 3 or not all("let d = 64" in row and "threads" in row and "passed" in row for row in rows):
        dialogue.explain(f"three rows with their decisions: {rows}")
    if dialogue.result["kept"] not in (0, 1):
        dialogue.explain("a kernel that is not slower")


def improving_is_kept():
    """A proposal with fewer instructions replaces what was there; one that fails is in the next table, and why."""
    sketch = SKETCH.replace("kernel causal_attention", "kernel causal_attention\nlet BM = 64, BN = 16")
    faster, wrong = code(), change(code(), "where kv > q + offset", "where kv >= q + offset")
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "small.tl").write_text(sketch)  # candidate 0 has small tiles, too
        slow = run("reason", f"{name}/small.tl", "--gpu", "t4", "--head-dim", "64")[1]
        dialogue = Dialogue("reason", [fenced(slow), fenced(wrong), fenced(faster)], "--improve", "2", on="emulator", sketch=sketch)
    if dialogue.status != 0 or dialogue.result["kept"] != 3 or "BM = 64" not in dialogue.result["code"]:
        dialogue.explain("the second proposal")
    if "failed 'meaning': " not in dialogue.prompt.split("# What was tried")[-1]:
        dialogue.explain("why the first proposal was none")


def peak_kib(rounds, folder):
    """The most memory that a run of so many proposals had before its last one, all wrong; its record must be whole."""
    model = "grep VmHWM /proc/$PPID/status > peak; cat wrong.md"
    kept = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH") if k in os.environ}
    done = subprocess.run(
        [str(pathlib.Path(flashtl).resolve()), "think", "--sketch", "sketch.tl", "--gpu", "t4", "--head-dim", "64", "--on",
         "interpreter", "--reason-by", f"exec:{model}", "--answers", "1", "--improve", str(rounds), "-o", str(rounds)],
        cwd=folder, env=dict(kept, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C", HOME="/nonexistent"),
        capture_output=True, text=True)
    records = list(pathlib.Path(folder, str(rounds)).glob("think-*"))
    events = [json.loads(line)["event"] for line in records[0].read_text().splitlines()] if records else []
    if done.returncode or len(records) != 1 or events.count("ask") != rounds + 1 or events[-1] != "result":
        sys.exit(f"expected a kernel and a whole record: {done.returncode}, {records}, {len(events)} events\n{done.stderr[-500:]}")
    return int(pathlib.Path(folder, "peak").read_text().split()[1])


def improving_takes_no_memory_by_rounds():
    """The record grows by 25 KiB a round; it grows on disk."""
    if "asan" in flashtl:
        print("skipped: a sanitizer keeps what was freed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "sketch.tl").write_text(SKETCH)
        pathlib.Path(name, "wrong.md").write_text(fenced(code().replace("Copy Q", "Copy W")))
        few, many = peak_kib(20, name), peak_kib(200, name)
        print(f"{few} KiB after 20 rounds, {many} after 200")
        if many > few + 1024:
            sys.exit(1)


def the_best_so_far_is_kept():
    """The model breaks down after its first answer: what was verified is there all the same, and why it ended."""
    dialogue = Dialogue("reason", [fenced(code())], "--improve", "3", "--json")
    if dialogue.status != 3 or "cat:" not in dialogue.err or not dialogue.kernels or not json.loads(dialogue.out)["verified"]:
        dialogue.explain("a kernel, and the model's own words")


def interrupted_while_judging():
    """Ctrl-C reaches the kernel's child; a record is left."""
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "answer.md").write_text(GOOD)
        kept = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if k in os.environ}
        process = subprocess.Popen(
            [str(pathlib.Path(flashtl).resolve()), "think", "causal attention", "--gpu", "t4", "--head-dim", "64", "--sketch-by",
             "exec:cat answer.md", "--shapes", "1x1", "--on", "emulator", "--record", "record.jsonl", "-o", "out"],
            cwd=name, env=dict(kept, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C", HOME=name),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        record = pathlib.Path(name, "record.jsonl")
        end = time.monotonic() + 1800
        while time.monotonic() < end and not (record.exists() and '"event":"ask"' in record.read_text()):
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=1800)
        if process.returncode not in (0, 3) or '"event":"result"' not in record.read_text():
            sys.exit(f"expected an end and a record: {process.returncode} {err}")
        if process.returncode == 3 and "stopped" not in err:
            sys.exit(f"expected the word 'stopped': {err}")


def lives(process_id):
    try:
        return pathlib.Path(f"/proc/{process_id}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def interrupt(model, wait_for, signal_number):
    """Ends a run with a signal to its process alone, once a file is there; gives status, errors, the file's number."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "answer.md").write_text(GOOD)
        compiler = folder / "nvcc"  # never ends, like the programs it would start
        compiler.write_text(f"#!/bin/sh\ntouch \"$TMPDIR/tmpxft_1\"\nsleep 7200 &\necho $! > {name}/compiling.new\n"
                            f"mv {name}/compiling.new {name}/compiling\nwait\n")
        compiler.chmod(0o755)
        kept = {k: os.environ[k] for k in ("LD_LIBRARY_PATH", "ASAN_OPTIONS") if k in os.environ}
        process = subprocess.Popen(
            [str(pathlib.Path(flashtl).resolve()), "think", "causal attention", "--gpu", "t4", "--head-dim", "64", "--sketch-by",
             model, "--on", "emulator", "--record", "record.jsonl", "-o", "out"], cwd=name, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(kept, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", FLASHTL_NVRTC="", LC_ALL="C", HOME=name,
                                PATH=f"{name}:{os.environ['PATH']}"))
        end = time.monotonic() + 1800
        while time.monotonic() < end and not (folder / wait_for).exists():
            time.sleep(0.01)
        process.send_signal(signal_number)
        _, err = process.communicate(timeout=1800)
        inner = int((folder / wait_for).read_text())
        if process.returncode != 3 or "stopped" not in err or '"event":"result"' not in (folder / "record.jsonl").read_text():
            sys.exit(f"expected an end and a record: {process.returncode} {err}")
        end = time.monotonic() + 1800
        while lives(inner) and time.monotonic() < end:  # killed, but not yet gone; by itself it ends in two hours
            time.sleep(0.01)
        if lives(inner):
            sys.exit("expected an end of all that was started")


def interrupted_while_compiling():
    before = set(pathlib.Path("/tmp").glob("flashtl-*"))
    interrupt("exec:cat answer.md", "compiling", signal.SIGINT)
    left = {path for path in set(pathlib.Path("/tmp").glob("flashtl-*")) - before if any(path.glob("tmpxft_1"))}
    if left:
        sys.exit(f"expected no folder left: {left}")


def interrupted_while_asking():
    interrupt("exec:sleep 7200 & echo $! > asking.new; mv asking.new asking; wait", "asking", signal.SIGTERM)


# --- CUDA ---------------------------------------------------------------------------------------------


def cuda():
    return run("translate", "-", input=code_for_cuda())[1]


def code_for_cuda():
    return run("reason", "-", "--gpu", "t4", "--head-dim", "64", input=SKETCH)[1]


def cuda_mends(wrong, rung, *words):
    dialogue = Dialogue("translate", [fenced(wrong, "cuda"), fenced(cuda(), "cuda")],
                on="interpreter" if rung == "check" else "emulator")
    if not dialogue.verdicts:
        dialogue.explain("verdicts")
    if "no CUDA compiler" in json.dumps(dialogue.verdicts[-1]["facts"]) and rung != "check":
        print("skipped: there is no CUDA compiler here, not even clang")
        sys.exit(77)
    dialogue.fails_first(rung, *words)
    if not dialogue.verdicts[-1]["passed"] or dialogue.status != 0:
        dialogue.explain("a verified kernel in the end")


def cuda_includes_a_file():
    cuda_mends('#include "/etc/passwd"\n' + cuda(), "check", "DEVICE_INCLUDE", "/etc/passwd", "cuda_fp16.h")


def cuda_includes_by_a_macro():
    cuda_mends("#define FILE </etc/passwd>\n#include FILE\n" + cuda(), "check", "DEVICE_INCLUDE")


def cuda_includes_behind_a_splice():
    cuda_mends("#in\\\nclude </etc/passwd>\n/* */ # /* */ include </etc/hosts>\n" + cuda(), "check", "/etc/passwd", "/etc/hosts")


def cuda_embeds_a_file():
    cuda_mends('#embed "/etc/passwd"\n' + cuda(), "check", "DEVICE_DIRECTIVE", "embed")


def cuda_assembles_a_file():
    cuda_mends('asm(".incbin \\"/etc/passwd\\"");\n' + cuda(), "check", "DEVICE_WORD", "incbin")


def cuda_digraph():
    cuda_mends("%:include </etc/passwd>\n" + cuda(), "check", "DEVICE_ODD")


def cuda_past_an_array():
    """Unrolled, the step past the end leaves no trace in what runs; the text has it."""
    wrong = re.sub(r"(FTL_UNROLL for \(int half = 0; half < )2(; half\+\+\)\s+l\[)", r"\g<1>3\2", cuda(), count=1)
    assert wrong != cuda()
    cuda_mends(wrong, "check", "DEVICE_ARRAY", "'l' becomes 2")


def cuda_reads_what_nobody_wrote():
    """A compiler may take what is right by chance."""
    wrong = change(cuda(), "l[m16][half] = 0.0f;", "if (half) l[m16][half] = 0.0f;")
    cuda_mends(wrong, "check", "DEVICE_UNSET", "'l[0][0]'")


def cuda_raw_string():
    cuda_mends('const char *x = R"(" /*)";\n#include </etc/passwd>\n//*/ "\n' + cuda(), "check", "DEVICE")


def cuda_with_host_code():
    cuda_mends(cuda() + "\n__host__ int main() { return system(\"id\"); }\n", "check", "DEVICE_WORD", "main", "system")


def cuda_without_entry():
    wrong = re.sub(r"\battention\b|\bcausal_attention\b", "other", cuda())
    cuda_mends(wrong, "check", "DEVICE_ENTRY")


def cuda_with_a_syntax_error():
    wrong = change(cuda(), "ftl_block_barrier();\n", "ftl_block_barier();\n", -1)
    cuda_mends(wrong, "compile", "KERNEL_COMPILE", "ftl_block_barier", "KERNEL_STATEMENT", "Wait")


def cuda_writes_outside():
    """A store past the end of the Output."""
    text = cuda()
    body = text.index("{", text.index('extern "C" __global__'))
    pointer = re.search(r"unsigned short \*O;", text)
    if not pointer:
        sys.exit("the Output's pointer is called otherwise now")
    wrong = text[:body + 1] + "\n    if (threadIdx.x == 0) args.O[1LL << 40] = 0;\n" + text[body + 1:]
    cuda_mends(wrong, "emulate", "out of bounds", "O")


def cuda_without_barrier():
    text = cuda()
    cuda_mends(change(text, "ftl_block_barrier();\n", "\n", -1), "emulate", "race")


def cuda_that_never_ends():
    text = cuda()
    body = text.index("{", text.index('extern "C" __global__'))
    wrong = text[:body + 1] + "\n    volatile int turning = 1; while (turning) { }\n" + text[body + 1:]
    cuda_mends(wrong, "emulate", "instruction")


def cuda_begins_with(line, declaration=""):
    """The right kernel with a line in front of all others."""
    text = cuda()
    entry = text.index('extern "C" __global__')
    body = text.index("{", entry) + 1
    return text[:entry] + declaration + "\n" + text[entry:body] + "\n    " + line + text[body:]


def cuda_looks_at_the_clock():
    """The name of the clock is put together of pieces that no search of the text finds."""
    line = ('unsigned long long now; asm volatile("mov.u64 %0, %%glob" "al\\x74imer;" : "=l"(now)); if (now == 1) return;\n')
    cuda_mends(cuda_begins_with(line), "compile", "DEVICE_WORD", "globaltimer")


def cuda_keeps_results():
    """Works the first time, and relies on memory between launches for the rest."""
    last = "    if (blockIdx.x == 0 && threadIdx.x == 0) launches = launches + 1;\n}\n"
    text = cuda_begins_with("if (launches > 1) return;\n", "__device__ int launches;")
    cuda_mends(text[:text.rindex("}")] + last, "emulate", "nothing wrote")


def cuda_reads_poison():
    """Looks at what stands in its Output before it writes."""
    cuda_mends(cuda_begins_with("if (args.O[0] == 1) return;\n"), "emulate", "O")


# --- right at small lengths and on ordinary scores ----------------------------------------------------


def judged(name):
    return (here / "judged" / name).read_text()


def is_refused(step, name, rung, *words, sketch=None, options=(), on="interpreter"):
    """A text that passed once, being wrong: only longer lengths, other scores or the measured launch tell."""
    label = "cuda" if name.endswith(".cu") else "tl"
    dialogue = Dialogue(step, [fenced(judged(name), label)], *options, on=on, sketch=sketch and judged(sketch))
    if dialogue.verdicts and "no CUDA compiler" in json.dumps(dialogue.verdicts[-1]["facts"]):
        print("skipped: there is no CUDA compiler here, not even clang")
        sys.exit(77)
    return dialogue.fails_first(rung, *words)


LINEAR = "linear_silu.sketch.tl"


def one_block_of_many():
    is_refused("reason", "linear_silu_one_block.code.tl", "meaning", "KERNEL_WRONG", "k_len", sketch=LINEAR)


def maximum_from_zero():
    is_refused("reason", "causal_maximum_from_zero.code.tl", "meaning", "KERNEL_WRONG", "scores", sketch="mha_causal.sketch.tl")


def epilogue_in_the_loop():
    is_refused("sketch", "linear_silu_epilogue_in_loop.sketch.tl", "check", "SKETCH_BLOCK_SUM", "after the loop")


def window_left_out():
    is_refused("sketch", "gqa_window512_without_window.sketch.tl", "meaning", "MEANING_WRONG", "kv_len 549",
               options=("--op", "gqa", "--causal", "--window", "512"))


def cuda_that_is_idle_for_long_sums():
    is_refused("translate", "linear_silu_idle_for_k_over_24.cu", "emulate", "not written", "k_len", sketch=LINEAR, on="emulator")


def cuda_that_is_idle_where_it_is_counted():
    """Idle for the sizes of the counted launch alone: that launch is judged, too."""
    idle = judged("linear_silu_idle_for_k_over_24.cu").replace("p.k_len > 24", "p.m_len >= 190 && p.m_len < 200 && p.k_len == 64")
    dialogue = Dialogue("translate", [fenced(idle, "cuda")], on="emulator", sketch=judged(LINEAR))
    if dialogue.verdicts and "no CUDA compiler" in json.dumps(dialogue.verdicts[-1]["facts"]):
        sys.exit(77)
    dialogue.fails_first("emulate", "KERNEL_WRONG")


def cuda_with_a_race():
    is_refused("translate", "linear_silu_race.cu", "emulate", "race", "kernel.cu:", sketch=LINEAR, on="emulator")


def cuda_with_half_a_rescale():
    """Where a maximum moves after many blocks, half of what was summed stays as it was; scores of a soft cap climb little."""
    sketch = run("sketch", "attention", "--softcap", "20")[1]
    code = run("reason", "-", "--gpu", "l40s", "--head-dim", "64", input=sketch)[1]
    lines = run("translate", "-", input=code)[1].splitlines()
    calls = [i for i, line in enumerate(lines) if re.search(r"\w+\(O_register, alpha\);", line)]
    if len(calls) != 2:
        sys.exit("expected a loop and its last blocks, each with a maximum that moves")
    name = re.search(r"(\w+)\(O_register", lines[calls[0]]).group(1)
    begin = next(i for i, line in enumerate(lines) if f"void {name}(" in line)
    end = lines.index("}", begin) + 1
    half = [line.replace(name, "half") for line in lines[begin:end] if "+ 1] = ftl_multiply" not in line]
    if len(half) != end - begin - 1:
        sys.exit("expected a function that rescales two elements a line of the loop")
    for i in calls:
        wrong = "\n".join(lines[:end] + half + lines[end:i] + [lines[i].replace(name, "half")] + lines[i + 1:])
        dialogue = Dialogue("translate", [fenced(wrong, "cuda")], on="emulator", sketch=sketch, gpu="l40s")
        if dialogue.verdicts and "no CUDA compiler" in json.dumps(dialogue.verdicts[-1]["facts"]):
            sys.exit(77)
        dialogue.fails_first("emulate", "KERNEL_WRONG", "climbing scores")


def gelu_by_tanh():
    """The formula with tanh differs from GELU by less than f16 of the largest elements."""
    gelu = judged(LINEAR)[:judged(LINEAR).index("Compute Multiply C, -1")]
    exact = ("Compute Multiply C, -0.70710678118654752 and get E\nCompute Erfc E and get E\nCompute Multiply E, 0.5 and get E\n"
             "Compute Multiply C, E and get C\nCopy C from register to global\n")
    tanh = ("Compute Multiply C, C and get E\nCompute Multiply E, 0.044715 and get E\nCompute Add E, 1 and get E\n"
            "Compute Multiply E, C and get E\nCompute Multiply E, 0.79788456080286536 and get E\nCompute Tanh E and get E\n"
            "Compute Add E, 1 and get E\nCompute Multiply E, 0.5 and get E\nCompute Multiply C, E and get C\n"
            "Copy C from register to global\n")
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "exact.tl").write_text(gelu + exact)
        is_fixed_after(fenced(gelu + tanh), "meaning", "MEANING_WRONG", right=fenced(gelu + exact), options=("--against", f"{name}/exact.tl"))


def lengths_tied_by_where():
    """`where q_blocks == q_len/128`: lengths are drawn that fit."""
    Dialogue("sketch", [fenced(judged("block_sparse_where_equal.sketch.tl"))], on="emulator").is_fixed()


def by_a_model(step, answer, gpu, sketch, *options):
    """What a model wrote that saw the step's prompt alone: its first answer passes."""
    with tempfile.TemporaryDirectory() as name:
        pathlib.Path(name, "sketch.tl").write_text(sketch)
        status, out, err = run("think", "--sketch", f"{name}/sketch.tl", "--gpu", gpu, f"--{step}-by", f"exec:cat {here}/answers/{answer}",
                               "--answers", "1", "--on", "emulator", "-o", f"{name}/out", *options)
        if "no CUDA compiler" in out:
            print("skipped: there is no CUDA compiler here, not even clang")
            sys.exit(77)
        if status != 0 or err.count("passed up to 'emulate'") != 2:
            sys.exit(f"expected a first answer that passes: {status}\n{out}\n{err}")


def code_by_a_model():
    by_a_model("reason", "off_by_one_code.md", "a100", sketch_of((here / "answers/off_by_one.md").read_text()), "--head-dim", "64")


def cuda_by_a_model():
    by_a_model("translate", "row_softmax_cuda.md", "t4", run("sketch", "row_softmax")[1])


def steps_alone():
    """reason --by and translate --by: what passed on standard output, signed; the record ends, and replays."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tl, right, text = code(), fenced(code()), cuda()
        (folder / "sketch.tl").write_text(SKETCH)
        (folder / "code.tl").write_text(code_for_cuda())
        (folder / "code.md").write_text(right)
        (folder / "cuda.md").write_text(fenced(text, "cuda"))
        (folder / "wrong.md").write_text(fenced(text.replace('extern "C"', ""), "cuda").replace("attention", "other"))
        for step, source, answer in (("reason", "sketch.tl", "code.md"), ("translate", "code.tl", "cuda.md")):
            options = ["--gpu", "t4", "--head-dim", "64"] if step == "reason" else []
            by = [step, f"{name}/{source}", *options, "--record", f"{name}/{step}.jsonl", "--by"]
            status, out, err = run(*by, f"exec:cat {name}/{answer}")
            if status or not out.startswith("// By exec:cat") or "record " not in out.splitlines()[0]:
                sys.exit(f"{step}: expected a signed text: {status} {out[:300]} {err}")
            events = [json.loads(line) for line in (folder / f"{step}.jsonl").read_text().splitlines()]
            if [e["event"] for e in events][-2:] != ["verdict", "result"] or not events[-1]["verified"]:
                sys.exit(f"{step}: expected a whole record: {[e['event'] for e in events]}")
            again = run(step, f"{name}/{source}", *options, "--by", f"replay:{name}/{step}.jsonl")
            if again[0] or again[1].splitlines()[1:] != out.splitlines()[1:]:
                sys.exit(f"{step}: expected the same again: {again[0]} {again[2]}")
        status, out, err = run("translate", f"{name}/code.tl", "--by", f"exec:cat {name}/wrong.md", "--answers", "1")
        if status != 1 or out or "none of 1 answers passed" not in err:
            sys.exit(f"expected nothing but why: {status} {out[:300]} {err}")


def in_time():
    """Our part of a round: a second of processor time without compiler and emulator, ten with them; two where another suite
    shares this machine's processors, or a sanitizer is on."""
    slow = 6 if "asan" in flashtl else 2
    begin = os.times().children_user
    Dialogue("sketch", [GOOD.replace("kv > q +", "kv >= q +"), GOOD], *REFERENCE).fails_first("meaning").is_fixed()
    rounds = os.times().children_user
    Dialogue("sketch", [GOOD], on="emulator").is_fixed()
    emulated = os.times().children_user
    print(f"two rounds {rounds - begin:.2f} s, one with the emulator {emulated - rounds:.2f} s")
    if rounds - begin > 2 * slow or emulated - rounds > 10 * slow:
        sys.exit(1)


CASES = {name: value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__code__", None) and value.__code__.co_argcount == 0
         and value.__module__ == "__main__" and not isinstance(value, type)
         and name not in ("code", "cuda", "code_for_cuda", "run", "cuda_begins_with", "lives", "interrupt", "peak_kib") and value.__code__.co_flags & 4 == 0}

if sys.argv[1] == "--list":
    print("\n".join(CASES))
    sys.exit(0)
flashtl = sys.argv[1]
CASES[sys.argv[2]]()
