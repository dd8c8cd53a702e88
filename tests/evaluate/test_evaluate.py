#!/usr/bin/env python3
"""flashtl evaluate with models that answer as they are told (model.py): figures are known beforehand and asserted
exactly. test_evaluate.py FLASHTL CASE, or --list. 77: something it needs is not here.
"""
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
from sampling import sampled  # noqa: E402

SHIPPED = here.parent.parent / "tasks/tasks.md"


class World:
    """A folder with a database, a model and its plan."""

    def __init__(self, folder, tasks=None, **plan):
        self.folder = pathlib.Path(folder)
        self.tasks = self.folder / "tasks.md"
        self.tasks.write_text(tasks or SHIPPED.read_text())
        self.database = self.folder / "results.sqlite"
        (self.folder / "dialogues").mkdir()
        self.plan(**plan)

    def plan(self, gpu="t4", **tasks):
        (self.folder / "plan.json").write_text(json.dumps({"folder": str(self.folder / "dialogues"), "gpu": gpu, "tasks": tasks}))

    def prompts(self, task, number, answer):
        return (self.folder / f"dialogues/{task}.{number}/prompt{answer}.txt").read_text()

    def words(self, *more, on="interpreter", by="model"):
        model = f"{by}=exec:python3 {here}/model.py {flashtl} {self.tasks} {self.folder}/plan.json"
        gpu = [] if "--gpu" in more else ["--gpu", "t4"]
        return [flashtl, "evaluate", str(self.tasks), *gpu, "--on", on, "--database", str(self.database),
                *(["--by", model] if by else []), *map(str, more)]

    def environment(self):
        kept = {n: os.environ[n] for n in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if n in os.environ}
        return kept | {"FLASHTL_CACHE": "", "FLASHTL_CUDA": "/no/such/library", "LC_ALL": "C", "HOME": str(self.folder)}

    def run(self, *more, **options):
        done = subprocess.run(self.words(*more, **options), capture_output=True, text=True, env=self.environment(),
                              timeout=1800)
        return done.returncode, done.stdout, done.stderr

    def rows(self, *more, **options):
        """{(model, setting, task or None): object} of a run that has to end well."""
        status, out, err = self.run("--json", *more, **options)
        insist(status == 0, status, out, err)
        return {(r["model"], r["setting"], r.get("task")): r for r in map(json.loads, out.splitlines())}

    def start(self, *more, **options):
        return subprocess.Popen(self.words(*more, **options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(), start_new_session=True)

    def query(self, sql):
        with contextlib.closing(sqlite3.connect(self.database, timeout=1800)) as database:
            return database.execute(sql).fetchall()

    def wait(self, sql, least):
        for _ in range(180000):
            with contextlib.suppress(sqlite3.OperationalError):
                if self.database.exists() and self.query(sql)[0][0] >= least:
                    return
            time.sleep(0.01)
        sys.exit(f"'{sql}' never came to {least}")


def insist(holds, *shown):
    if not holds:
        for text in shown:
            print(text, file=sys.stderr)
        raise AssertionError


def near(a, b):
    return abs(a - b) <= 1e-6 * max(1, abs(b))


DONE = "SELECT count(*) FROM trial WHERE state = 'done'"
ONLY = ("--only", "multi_head,row_softmax,softcap", "--settings", "sketch", "--answers", "3")
KNOWN = {"multi_head": [["right"]],
         "row_softmax": [["wrong", "right"], ["unchecked"], ["prose"], ["wrong", "right"], ["wrong"]],
         "softcap": [["unchecked"], ["wrong"], ["garbled"], ["unchecked"], ["unchecked"]]}


def insist_known(row):
    """What KNOWN comes to with five samples."""
    insist(row["trials"] == row["judged"] == 15 and row["passed"] == 7, row)
    insist(near(row["pass_1"], (1 + 0.4 + 0) / 3) and near(row["pass_5"], 2 / 3), row)
    insist(near(row["parse"], (5 + 4 + 4) / 15) and near(row["check"], (5 + 3 + 1) / 15), row)
    insist(near(row["first"], 5 / 15) and near(row["answers"], (5 * 1 + 2 * 2 + 3 * 3 + 5 * 3) / 15), row)


# --- cases -----------------------------------------------------------------------------------------------------------

def rates(world):
    """Known answers come to known figures, in JSON, Markdown and SVG; nothing is asked twice."""
    world.plan(**KNOWN)
    rows = world.rows(*ONLY, "--price", "1:10")
    insist_known(rows["model", "sketch", None])
    for task, passed in (("multi_head", 5), ("row_softmax", 2), ("softcap", 0)):
        insist(rows["model", "sketch", task]["passed"] == passed, rows)
    insist(near(rows["model", "sketch", "row_softmax"]["pass_1"], 0.4), rows)
    tokens = world.query("SELECT sum(question_tokens), sum(answer_tokens), sum(price) FROM trial")[0]
    insist(near(tokens[2], (tokens[0] + 10 * tokens[1]) / 1e6), tokens)
    insist(near(rows["model", "sketch", None]["cost"] * 15, tokens[2]), rows, tokens)
    insist(near(rows["model", "sketch", None]["tokens"] * 15, tokens[0] + tokens[1]), rows, tokens)
    asked = len(list((world.folder / "dialogues").iterdir()))
    status, out, err = world.run(*ONLY, "--report", world.folder / "page.md")
    insist(status == 0 and re.search(
        r"^\| model \| sketch \| 15 \| 86\.7 % \| 60\.0 % \| 33\.3 % \| 46\.7 % \| 66\.7 % \| 2\.20 \|", out, re.M), out, err)
    insist(len(list((world.folder / "dialogues").iterdir())) == asked, "a trial was run again")
    insist("| asking | judging |" in out, out)
    page = (world.folder / "page.md").read_text()
    for line in ("| model | sketch | 70.0 % | 0.0 % | – |", "| row_softmax | easy | 2/5 |", "| softcap | medium | 0/5 |",
                 "| model | sketch | 1 | 5 | 2 | 0 | 0 | 0 | 0 |", "| meaning | `MEANING_WRONG` | 2 |"):
        insist(line in page, line, page)
    if shutil.which("gnuplot"):
        status, out, err = world.run(*ONLY, "--plot", world.folder / "plot.svg")
        insist(status == 0 and "<svg" in (world.folder / "plot.svg").read_text(), err)


def levels_and_samples(world):
    """Tasks are chosen by level and name; more samples go on from those that are there."""
    world.plan(**{"*": [["prose"]]})
    rows = world.rows("--level", "hard", "--settings", "sketch", "--samples", "1", "--answers", "1")
    insist(rows["model", "sketch", None]["trials"] == 10 and rows["model", "sketch", None]["parse"] == 0, rows)
    insist(rows["model", "sketch", None]["pass_5"] is None, rows)
    rows = world.rows("--only", "forgetting", "--settings", "sketch", "--samples", "3", "--answers", "1")
    insist(rows["model", "sketch", None]["trials"] == 3 and world.query(DONE)[0][0] == 12, rows)


def muted(world):
    """Without checker or interpreter a model hears only that it is not right; with them, what is wrong."""
    world.plan(multi_head=[["unchecked", "wrong", "right"]])
    more = ("--only", "multi_head", "--samples", "1", "--answers", "3", "--jobs", "1")
    rows = world.rows(*more, "--settings", "sketch,sketch-checker,sketch-interpreter")
    insist(all(r["passed"] == 1 and r["answers"] == 3 for r in rows.values()), rows)
    for number, (checks, interprets) in enumerate([(True, True), (False, True), (True, False)]):
        prompt = world.prompts("multi_head", number, 2)
        said = re.split("--- what came of it ---", prompt)[1:]
        insist(("NOT_IN_GLOBAL" in said[0]) == checks, number, said[0])
        insist(("MEANING_WRONG" in said[1]) == interprets, number, said[1])
        for text, heard in zip(said, (checks, interprets)):
            insist(("Your answer is not right. Answer again" in text) != heard and ("'id'" in text or '"id"' in text) == heard, text)


def stages(world):
    """In one stage there is no sketch in the prompt; in two there is the model's own."""
    world.plan(multi_head=[["code"]])
    more = ("--only", "multi_head", "--samples", "1", "--answers", "2", "--jobs", "1")
    rows = world.rows(*more, "--settings", "one")
    insist(rows["model", "one", None]["passed"] == 1 and rows["model", "one", None]["first"] == 1, rows)
    prompt = world.prompts("multi_head", 0, 0)
    question = prompt[prompt.index("# The request"):]
    insist("write TL Code straight from the request" in question and "The sketch to make" not in question, question)
    insist("Compute GEMM" not in question and "Input  Q (b in batch, head in heads; q in q_len, d)" in question, question)
    world.plan(multi_head=[["right"], ["wrong", "right"], ["code"]])
    rows = world.rows(*more, "--settings", "two", "--seed", "2")
    insist(rows["model", "two", None]["answers"] == 3 and rows["model", "two", None]["first"] == 0, rows)
    question = world.prompts("multi_head", 2, 0)
    insist("The sketch to make TL Code of" in question and "straight from" not in question, question)


def code_takes_what_was_asked(world):
    """TL Code with other parameters than the reference's is told what differs; flags past the end of a tile are nothing."""
    kinds = {"narrow": "MEANING_PARAMETER_LENGTH", "bf16": "MEANING_PARAMETER_TYPE", "wrong": "OPEN_ROLE", "code": ""}
    world.plan("a100", key_padding=[[kind] for kind in kinds])
    more = ("--only", "key_padding", "--settings", "one", "--samples", "4", "--answers", "1", "--jobs", "1")
    status, out, err = world.run(*more, "--gpu", "a100")  # a T4 has no bf16
    found = [row[0] for row in world.query("SELECT finding FROM trial ORDER BY sample")]
    insist(status == 0 and found == list(kinds.values()), found, out, err)


def two_stages_pass(world):
    """A sketch of the model's, then its TL Code: both first answers right."""
    world.plan(multi_head=[["right"], ["code"]])
    rows = world.rows("--only", "multi_head", "--samples", "1", "--settings", "two", "--jobs", "1")
    row = rows["model", "two", None]
    insist(row["passed"] == 1 and row["first"] == 1 and row["answers"] == 2, row)


def killed(world):
    """Killed outright, an evaluation loses the trials in flight, and the next goes on to the same figures."""
    world.plan(**KNOWN)
    running = world.start(*ONLY, "--jobs", "2")
    world.wait(DONE, 5)
    running.kill()
    running.wait()
    before = world.query("SELECT id, changed_s, answers, model_ms FROM trial WHERE state = 'done' ORDER BY id")
    in_flight = world.query("SELECT count(*) FROM trial WHERE state = 'running'")[0][0]
    insist(in_flight <= 2 and len(before) < 15, in_flight, before)
    for _ in range(180000):  # those in flight die with their parent, so their conversations are free again
        if not subprocess.run(["pgrep", "-f", str(world.folder / "plan.json")], capture_output=True).stdout:
            break
        time.sleep(0.01)
    insist(world.run(*ONLY)[0] == 0)
    after = world.query("SELECT id, changed_s, answers, model_ms FROM trial WHERE state = 'done' ORDER BY id")
    insist(len(after) == 15 and set(before) <= set(after), before, after)


def interrupted(world):
    """Ctrl-C gives back what is in flight, leaves no process, says how to go on, and still shows what is there."""
    world.plan(**{"*": [["right"]] * 4 + [["slow"]]})
    running = world.start("--only", "multi_head", "--settings", "sketch", "--jobs", "3")
    world.wait(DONE, 4)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=1800)
    insist(running.returncode == 3, running.returncode, err)  # and not after the hour that the model would take
    insist("4 of 5 trials are done; the same command goes on" in err and "| 4 of 5 |" in out, out, err)
    insist(world.query("SELECT count(*) FROM trial WHERE state = 'open'") == [(1,)], "not given back")
    left = subprocess.run(["pgrep", "-f", str(world.folder / "plan.json")], capture_output=True).stdout
    insist(not left, "processes are left", left)


def two_at_once(world):
    """Two evaluations on one database share the work: each trial is run once, both show all."""
    world.plan(**KNOWN)
    both = [world.start(*ONLY, "--json", "--jobs", "2") for _ in range(2)]
    for one in both:
        out, err = one.communicate(timeout=1800)
        insist(one.returncode == 0, err)
        insist_known(json.loads(out.splitlines()[0]))
    asked = collections.Counter(p.name.split(".")[0] for p in (world.folder / "dialogues").iterdir())
    insist(set(asked.values()) == {5} and len(asked) == 3, asked)


def bad_tasks(world):
    """A file that is none is refused with its place; so is a reference that does not pass, before anybody is asked."""
    world.tasks.write_text("## x (easy)\nwords\n")
    status, out, err = world.run("--samples", "1")
    insist(status == 1 and "tasks.md:1: 'x' has no reference" in err and not out, status, err)
    world.tasks.write_bytes(bytes(range(256)))
    insist(world.run()[0] == 1)
    world.tasks.write_text(SHIPPED.read_text().replace("Compute Multiply S, scale and get S", "Compute Multiply S, scala and get S", 1))
    status, out, err = world.run("--only", "multi_head", "--samples", "1")
    insist(status == 1 and "the reference of task 'multi_head' (line 7) does not pass: 'check' fails: line 12: nothing is called 'scala'" in err, err)
    insist(not list((world.folder / "dialogues").iterdir()) and world.query("SELECT count(*) FROM trial") == [(0,)], "asked")
    world.tasks.unlink()
    insist(world.run()[0] == 3)


def command_line(world):
    """What is wrong with the words is said before anything is done."""
    for more, said in ((["--settings", "three"], "a setting is"), (["--settings", "sketch-grammar"], "none is sent"),
                       (["--only", "nothing"], "no task 'nothing'"), (["--level", "odd"], "easy, medium or hard"),
                       (["--samples", "0"], "from 1 to"), (["--jobs", "x"], "from 1 to"), (["--max-cost", "1"], "--price"),
                       (["--price", "1"], "numbers with colons"), (["--price", "1:1", "--price", "1:1"], "once for each"),
                       (["--by", "openai:"], "names no model"), (["--by", "model=exec:true"], "two models are called 'model'")):
        status, out, err = world.run(*more)
        insist(status == 2 and said in err and not out, more, status, err)
    insist(not world.database.exists())
    status, out, err = world.run("--list", "--level", "hard", "--json")
    insist(status == 0 and len(out.splitlines()) == 10 and json.loads(out.splitlines()[0])["level"] == "hard", out, err)


def dry_run(world):
    """An estimate asks nobody, writes nothing, and grows with what is asked for."""
    def estimate(*more):
        status, out, err = world.run("--dry-run", "--json", "--price", "1:2", *more)
        insist(status == 0, err)
        return json.loads(out)
    one = estimate("--only", "multi_head", "--settings", "sketch", "--samples", "1", "--answers", "1")
    insist(one["trials"] == 1 and one["least_tokens"] == one["most_tokens"] > 4000, one)
    insist(near(one["least_cost"], (one["least_tokens"] + 1500) / 1e6), one)
    ten = estimate("--only", "multi_head", "--settings", "sketch", "--samples", "10", "--answers", "1")
    insist(ten["trials"] == 10 and ten["least_tokens"] == 10 * one["least_tokens"], ten)
    five = estimate("--only", "multi_head", "--settings", "sketch", "--samples", "1", "--answers", "5")
    insist(five["least_tokens"] == one["least_tokens"] and five["most_tokens"] > 5 * one["least_tokens"], five)
    insist(not world.database.exists() and not list((world.folder / "dialogues").iterdir()))
    # a real trial takes about what was estimated
    world.plan(multi_head=[["right"]])
    rows = world.rows("--only", "multi_head", "--settings", "sketch", "--samples", "1", "--answers", "1")
    insist(abs(rows["model", "sketch", None]["tokens"] + 1500 - one["least_tokens"]) < 400, rows, one)


def budget(world):
    """The whole run keeps to its budget, says that it is spent, and goes on with a larger one."""
    world.plan(**{"*": [["right"]]})
    more = ("--only", "multi_head", "--settings", "sketch", "--samples", "4", "--jobs", "2")
    status, out, err = world.run(*more, "--max-tokens", "12000")
    spent = world.query("SELECT sum(question_tokens + answer_tokens + lost_tokens) FROM trial WHERE state = 'done'")[0][0]
    insist(status == 3 and "the budget is spent" in err and 0 < spent <= 12000, status, err, spent)
    insist(world.query("SELECT count(*) FROM trial WHERE state = 'open'")[0][0] == 4 - world.query(DONE)[0][0])
    insist(world.run(*more, "--max-tokens", "12000")[0] == 3, "the same budget was spent again")
    insist(world.query("SELECT sum(question_tokens + answer_tokens) FROM trial WHERE state = 'done'")[0][0] == spent)
    insist(world.run(*more, "--max-cost", "1e-9", "--price", "1:1")[0] == 3 and world.query(DONE)[0][0] < 4)
    insist(world.run(*more, "--max-tokens", "1000000")[0] == 0 and world.query(DONE)[0][0] == 4)


def broken_model(world):
    """A model that cannot be asked is given up; the others go on, and its trials are tried again the next time."""
    world.plan(multi_head=[["broken"]])
    more = ("--only", "multi_head", "--settings", "sketch", "--samples", "4", "--jobs", "1")
    status, out, err = world.run(*more, "--by", "fine=exec:echo no")
    insist(status == 3 and "model is given up for this run" in err and "the model is broken" in err, status, err)
    insist("4 of 8 trials could not be run" in err and "| fine | sketch | 4 | 0.0 %" in out, out, err)
    world.plan(multi_head=[["right"]])
    insist(world.rows(*more)["model", "sketch", None]["passed"] == 4)


def grammar(world):
    """The grammar is sent but where the setting leaves it out."""
    sys.path.insert(0, str(here.parent / "think"))
    sys.dont_write_bytecode = True
    import server
    answers = world.folder / "answers"
    answers.mkdir()
    sketch = re.search(r"## multi_head \(.*?```tl\n(.*?)```", SHIPPED.read_text(), re.S).group(1)
    (answers / "0.md").write_text(f"```tl\n{sketch}```\n")
    port = server.start(answers)
    rows = world.rows("--by", f"http://127.0.0.1:{port}/good/v1#m", "--send-grammar", "gbnf", "--only", "multi_head",
                      "--settings", "sketch,sketch-grammar", "--samples", "1", "--jobs", "1", by=None)
    insist(all(r["passed"] == 1 for r in rows.values()) and len(rows) == 4, rows)
    bodies = [json.loads(line)["body"] for line in (answers / "requests.jsonl").read_text().splitlines()]
    bodies = [json.loads(b) if isinstance(b, str) else b for b in bodies]
    insist(["grammar" in b for b in bodies] == [True, False], [list(b) for b in bodies])


def full_disk(world):
    """A database that cannot grow ends the run with a sentence, and what was there stays readable."""
    if not os.environ.get("IN_NAMESPACE"):
        done = subprocess.run(["unshare", "-rm", sys.executable, __file__, flashtl, "full_disk"],
                              env=os.environ | {"IN_NAMESPACE": "1"})
        sys.exit(done.returncode)
    disk = world.folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)]).returncode:
        sys.exit(77)
    world.database = disk / "results.sqlite"
    world.plan(**{"*": [["prose"]]})
    more = ("--only", "multi_head", "--settings", "sketch", "--answers", "1")
    insist(world.run(*more, "--samples", "5")[0] == 0)
    with contextlib.suppress(OSError), open(disk / "filler", "wb") as filler:
        while True:
            filler.write(b"0" * 4096)
            filler.flush()
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - 65536)  # enough to begin with
    status, out, err = world.run(*more, "--samples", "400")
    insist(status == 3 and "the database of evaluations" in err and "full" in err, status, err)
    (disk / "filler").unlink()
    insist(world.query(DONE)[0][0] >= 5)
    insist(world.run(*more, "--samples", "6")[0] == 0)
    subprocess.run(["umount", str(disk)])


def memory(world):
    """Memory is flat: the process holds as much after 1,000 rounds as after 100."""
    (world.folder / "answer.md").write_text("```tl\nkernel x\nInput Q (q in q_len, d)\nOutput O (q in q_len, d)\nCompute Nothing Q\n```\n")
    rounds = "SELECT coalesce(sum(answers), 0) FROM trial"
    running = world.start("--by", f"text=exec:cat {world.folder}/answer.md", "--only", "multi_head", "--settings", "sketch",
                          "--samples", "100", "--answers", "10", "--jobs", "2", by=None)

    def resident_kib():
        return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{running.pid}/status").read_text()).group(1))
    world.wait(rounds, 100)
    early = resident_kib()
    late = early
    while running.poll() is None:
        with contextlib.suppress(OSError, AttributeError):
            late = resident_kib()
        time.sleep(0.01)
    out, err = running.communicate()
    insist(running.returncode == 0 and world.query(rounds)[0][0] == 1000, err)
    print(f"{early} KiB after 100 rounds, {late} KiB after 1,000")
    insist(late <= early + 512, early, late)


def stored(world):
    """What was judged is shown without a model, without a judge and without a change of the database."""
    world.plan(**KNOWN)
    status, out, err = world.run("--stored", *ONLY)
    insist(status == 3 and "is not there" in err and not world.database.exists(), err)
    rows = world.rows(*ONLY)
    (world.folder / "plan.json").unlink()  # the model can answer no more
    before = world.query("SELECT count(*), sum(model_ms), sum(judge_ms) FROM trial"), world.query("SELECT count(*) FROM experiment")
    for more in (("--only", "multi_head,row_softmax,softcap", "--answers", "3"), ONLY):  # all that is there; what is named
        for by in ("model", None):
            insist(world.rows("--stored", *more, by=by) == rows, more, by)
    status, out, err = world.run("--stored", *ONLY, "--report", world.folder / "page.md", by=None)
    insist(status == 0 and "| model | sketch | 15 |" in out and "| model | sketch | 70.0 % |" in (world.folder / "page.md").read_text(), out, err)
    status, out, err = world.run("--stored", *ONLY, "--seed", "7", by=None)
    insist(status == 3 and "no results for these options" in err, err)
    row = world.rows("--stored", *ONLY, by=None)["model", "sketch", None]
    insist(near(row["model_s"] * 15e3, before[0][0][1]) and near(row["judge_s"] * 15e3, before[0][0][2]), row, before)
    insist(before == (world.query("SELECT count(*), sum(model_ms), sum(judge_ms) FROM trial"), world.query("SELECT count(*) FROM experiment")))


def told_without_a_terminal(world):
    """A run that lasts says how far it is, in lines without carriage returns."""
    world.plan(multi_head=[["slow"]])
    running = world.start("--only", "multi_head", "--settings", "sketch", "--samples", "1")
    line = running.stderr.readline()
    while "references" in line:
        line = running.stderr.readline()
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    insist(re.fullmatch(r"flashtl: 0 of 1 trials, 0 passed; 0 tokens, (\.\.\.|.* left)\n", line), line)


def records(world):
    """With a folder, every trial leaves its record, which replays the trial."""
    world.plan(multi_head=[["wrong", "right"]])
    more = ("--only", "multi_head", "--settings", "sketch", "--samples", "1")
    insist(world.run(*more, "-o", world.folder / "records")[0] == 0)
    path = world.folder / "records/multi_head.model.sketch.1.jsonl"
    events = [json.loads(line)["event"] for line in path.read_text().splitlines()]
    insist(events.count("ask") == 2 and events.count("verdict") == 2, events)
    rows = world.rows(*more, "--by", f"again=replay:{path}", by=None)
    insist(rows["again", "sketch", None]["passed"] == 1 and rows["again", "sketch", None]["answers"] == 2, rows)


def tasks_of(level=r"\w+"):
    return re.findall(rf"^## (\w+) \({level}\b", SHIPPED.read_text(), re.M)


def references_build(world, gpu):
    """Every reference is checked, interpreted, reasoned about and translated for a GPU of each generation: for a T4 on the
    way to its emulator (references)."""
    tasks = sampled(tasks_of())
    status, out, err = world.run("--gpu", gpu, "--only", ",".join(tasks), by=None)
    insist(status == 0 and out.count("passes up to 'build'") == len(tasks), out, err)


def references(world, level):
    """Every reference of a level makes a kernel that is right on the emulator; without a CUDA compiler, a kernel."""
    insist(len(tasks_of(level)) == {"easy": 10, "medium": 14, "hard": 10}[level], level)
    tasks = sampled(tasks_of(level))
    status, out, err = world.run("--only", ",".join(tasks), on="emulator", by=None)
    for rung in ("build", "emulate"):
        if status == 0 and out.count(f"passes up to '{rung}'") == len(tasks):
            sys.exit(77 if rung == "build" else 0)
    insist(False, status, out, err)


CASES = {f.__name__: f for f in (rates, levels_and_samples, muted, stages, code_takes_what_was_asked, two_stages_pass, killed, interrupted, two_at_once,
                                 bad_tasks, command_line, dry_run, budget, broken_model, grammar, full_disk, memory, stored, told_without_a_terminal,
                                 records)}
CASES |= {f"references_for_{gpu}": lambda world, gpu=gpu: references_build(world, gpu) for gpu in ("a100", "h200")}
CASES |= {f"references_{level}": lambda world, level=level: references(world, level) for level in ("easy", "medium", "hard")}

if sys.argv[1] == "--list":
    print("\n".join(CASES))
else:
    flashtl = os.path.realpath(sys.argv[1])
    with tempfile.TemporaryDirectory() as name:
        CASES[sys.argv[2]](World(name))
