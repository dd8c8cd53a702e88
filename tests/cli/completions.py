"""Completions of zsh or fish: completions.py FLASHTL zsh|fish.

The text names every command, and of each command every option that `help` names and no other; its quotes end. Where the
shell is, it is asked what it would offer; where it is not, the test is skipped after that (77).
"""
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import termios
import fcntl
import struct

flashtl, shell = os.path.abspath(sys.argv[1]), sys.argv[2]
# What is typed, what must be offered, and what must not.
TYPED = (
    ("ver", "verify", "sketch"),
    ("build --gp", "--gpu", "--json"),
    ("build --gpu a1", "a100 a10g", "t4"),
    ("build --gpu t4,l4", "l40s", "a100"),
    ("build --gpu m", "my.gpu", "t4"),
    ("reason --op m", "mha mla mqa", "attention"),
    ("sketch gqa --with so", "softcap", "causal"),
    ("verify --on ", "emulator gpu interpreter", "kernel.tl"),
    ("verify --shapes ", "small all", "kernel.tl"),
    ("bench --grid p", "paper", "llm"),
    ("cache cl", "clear", "list"),
    ("help tran", "translate", "verify"),
    ("gpus rtx-4", "rtx-4090", "t4"),
    ("reason --op mha k", "kernel.tl", "my.gpu"),
)


def ask(*words):
    return subprocess.run([flashtl, *words], capture_output=True, text=True, check=True).stdout


def options_of_help(command):
    return set(re.findall(r"^  (?:-[a-z], )?--([a-z-]+)", ask("help", command), re.M))


def options_in_zsh(text, commands):
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0, "bash cannot read what zsh should"
    parts = re.split(r"^    ([a-z]+)\)\n", text, flags=re.M)
    return {command: set(re.findall(r"'--([a-z-]+)\[", part)) for command, part in zip(parts[1::2], parts[2::2])}


def options_in_fish(text, commands):
    options = {command: set() for command in commands}
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        condition = words[words.index("-n") + 1].split() if words else [""]
        if condition[0] == "__fish_seen_subcommand_from" and "-l" in words:
            for command in condition[1:]:
                options[command].add(words[words.index("-l") + 1])
    return options


def check_text(text):
    commands = re.findall(r"^  ([a-z]+) ", ask("help"), re.M)
    assert len(commands) > 10, commands
    found = {"zsh": options_in_zsh, "fish": options_in_fish}[shell](text, commands)
    for command in commands:
        expected = options_of_help(command)
        assert len(expected) and found[command] == expected, (command, found[command] ^ expected)
    assert "rtx-4090" in text and "row_softmax" in text


def offered_by_fish(path, typed):
    done = subprocess.run(["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]", path, f"flashtl {typed}"],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


class Zsh:
    """An interactive zsh on a terminal: Tab after what is typed; then the line is cleared."""

    def __init__(self, folder):
        self.rest = ""
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.environ.update(TERM="dumb")
            os.execvp("zsh", ["zsh", "-f", "-i"])
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 200, 200, 0, 0))
        self.send("PS1='READ''Y> ' LISTMAX=0; unsetopt zle_bracketed_paste list_types list_ambiguous; bindkey -e\n")
        self.until("READY> ")
        self.send(f"autoload -Uz compinit; compinit -D -u; fpath=({folder} $fpath)\n")
        self.until("READY> ")
        self.send("autoload -Uz _flashtl; compdef _flashtl flashtl; zstyle ':completion:*' menu no\n")
        self.until("READY> ")

    def send(self, text):
        os.write(self.terminal, text.encode())

    def until(self, mark):
        while mark not in self.rest:
            self.rest += os.read(self.terminal, 4096).decode(errors="replace")
        text, _, self.rest = self.rest.partition(mark)
        return text

    def offered(self, typed):
        self.send(f"flashtl {typed}\t\x15echo DO''NE\n")
        text = self.until("DONE\r\n")
        self.until("READY> ")
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.replace("\a", " "))
        return re.split(r"[\s,]+", text.rpartition("echo DO")[0].replace("\b", " "))


def main():
    text = ask("help", "--form", shell)
    check_text(text)
    if not shutil.which(shell):
        print(f"{shell} is not here: its completions were read, and nobody was asked what they offer")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ.update(HOME=folder, XDG_CONFIG_HOME=folder, LC_ALL="C")
        for name in ("kernel.tl", "my.gpu"):
            open(name, "w").close()
        os.mkdir("functions")
        path = os.path.join("functions", "_flashtl")
        with open(path, "w") as file:
            file.write(text)
        zsh = Zsh(os.path.abspath("functions")) if shell == "zsh" else None
        wrong = 0
        for typed, wanted, unwanted in TYPED:
            words = zsh.offered(typed) if zsh else [word.split(",")[-1] for word in offered_by_fish(path, typed)]
            good = all(word in words for word in wanted.split()) and unwanted not in words
            wrong += not good
            print(f"{'good' if good else 'WRONG'}: flashtl {typed}<Tab>: {' '.join(words)[:200]}")
    sys.exit(1 if wrong else 0)


main()
