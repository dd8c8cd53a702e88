#!/usr/bin/env python3
"""`make` asks before it uses root: tools/setup.sh at a terminal and without one, on a machine where a package is missing.
setup.py TOOLS/SETUP.SH
"""
import os
import pathlib
import pty
import subprocess
import sys
import tempfile

setup = os.path.realpath(sys.argv[1])


class Machine:
    """A folder of commands that write down who called them; nothing else is in PATH, so that packages are missing."""

    def __init__(self, folder, user, sudo):
        self.folder, self.log = folder, folder / "log"
        self.command("id", f"echo {user}")
        self.command("grep", 'exec /bin/grep "$@"')
        self.command("env", 'echo "env $*" >> "$LOG"')
        self.command("apt-get", 'echo "apt-get $*" >> "$LOG"')
        # `sudo -n true` asks whether it may be used; all else is a use
        self.command("sudo", f'[ "$*" = "-n true" ] && exit {0 if sudo else 1}; echo "sudo $*" >> "$LOG"')

    def command(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, said=None, answer=None):
        """The exit status, what it wrote, and what was done as root. 'said' is typed at a terminal; None: there is none."""
        self.log.write_text("")
        environment = {"PATH": str(self.folder), "LOG": str(self.log)}
        if answer is not None:
            environment["FLASHTL_SETUP"] = answer
        if said is None:
            done = subprocess.run(["/bin/sh", setup], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=60)
            return done.returncode, done.stdout + done.stderr, self.log.read_text()
        outer, inner = pty.openpty()
        os.write(outer, said.encode())
        done = subprocess.Popen(["/bin/sh", setup], stdin=inner, stdout=inner, stderr=inner, env=environment)
        os.close(inner)
        written = b""
        try:
            while part := os.read(outer, 4096):
                written += part
        except OSError: # its last writer has gone
            pass
        status = done.wait(timeout=60)
        os.close(outer)
        return status, written.decode(), self.log.read_text()


def insist(condition, what, found):
    if not condition:
        sys.exit(f"expected that {what}; found {found}")


with tempfile.TemporaryDirectory() as top:
    for user, sudo in ((1000, True), (1000, False), (0, True)):
        folder = pathlib.Path(top, f"{user}{sudo}")
        folder.mkdir()
        machine, who = Machine(folder, user, sudo), f"user {user}{'' if sudo else ' without sudo'}"
        for said in ("n\n", "No\n"):
            status, written, used = machine.run(said=said)
            insist("install" in written and "[Y/n]" in written and "cmake" in written, f"{who} is asked", written)
            insist(status == 1 and not used, f"nothing is done as root where {who} says no", (status, used, written))
            insist("sudo apt-get install" in written, f"{who} is told what is missing", written)
        status, written, used = machine.run(said="y\n")
        insist("[Y/n]" in written, f"{who} is asked", written)
        may = user == 0 or sudo
        insist((status == 0 and "install" in used and "cmake" in used) if may else (status == 1 and not used), f"an answer of yes is followed, {who}", (status, used, written))
        status, written, used = machine.run(answer="no")
        insist(status == 1 and not used and "[Y/n]" not in written, f"FLASHTL_SETUP=no keeps root out, {who}", (status, used, written))
        status, written, used = machine.run(said="", answer="no")
        insist(status == 1 and not used and "[Y/n]" not in written, f"FLASHTL_SETUP=no answers at a terminal, {who}", (status, used, written))
        status, written, used = machine.run(answer="yes")
        insist("[Y/n]" not in written and bool(used) == may, f"FLASHTL_SETUP=yes answers, {who}", (status, used, written))
