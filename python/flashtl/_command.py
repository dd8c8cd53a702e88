"""The command `flashtl`, which is a program of its own beside this file."""
import os
import sys

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "flashtl")


def environment():
    """This environment for the command: it looks for NVRTC among the packages of VIRTUAL_ENV, which is unset where a
    virtual environment's Python was started by its path."""
    variables = dict(os.environ)
    if sys.prefix != sys.base_prefix:
        variables.setdefault("VIRTUAL_ENV", sys.prefix)
    return variables


def main():
    try:
        os.execve(PATH, ["flashtl", *sys.argv[1:]], environment())
    except OSError as why:
        sys.exit(f"flashtl: {PATH} cannot be started: {why.strerror}")
