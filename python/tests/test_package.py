"""The package as it is installed: what it holds and needs, the command, processes, threads, a home that cannot be written."""
import importlib.metadata
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import threading

import numpy as np

import flashtl
from helpers import Case, SOURCE, random

FOLDER = pathlib.Path(flashtl.__file__).parent
IMPORT_MS = 50


def python(text, *options, **named):
    return subprocess.run([sys.executable, *options, "-c", text], capture_output=True, text=True, **named)


class Package(Case):
    def test_it_is_not_the_source(self):
        self.assertNotIn(SOURCE / "python", FOLDER.parents)
        for folder in sys.path:
            self.assertFalse(pathlib.Path(folder or ".").resolve().is_relative_to(SOURCE / "python"), folder)

    def test_what_it_needs(self):
        self.assertEqual(importlib.metadata.version("flashtl"), flashtl.__version__)
        needs = importlib.metadata.requires("flashtl")
        self.assertEqual([need for need in needs if "extra" not in need], ["numpy>=1.25"])

    def test_import_is_light(self):
        run = python("import sys, time; begin = time.process_time(); import flashtl; end = time.process_time()\n"
                     "print([name for name in ('numpy', 'torch', 'json', 'subprocess') if name in sys.modules], 1000*(end - begin))")
        names, milliseconds = run.stdout.rsplit(" ", 1)
        self.assertEqual(names, "[]", run.stderr)
        self.assertLessEqual(float(milliseconds), IMPORT_MS)

    def test_files(self):
        self.assertTrue(os.access(FOLDER / "bin" / "flashtl", os.X_OK))
        self.assertTrue(stat.S_ISREG((FOLDER / "libflashtl.so").lstat().st_mode))
        held = sorted(path.name for path in FOLDER.iterdir() if not path.name.startswith("_"))
        self.assertEqual(held, ["bin", "distributed", "libflashtl.so", "torch"])
        shown = subprocess.run(["nm", "-D", "--defined-only", FOLDER / "libflashtl.so"], capture_output=True, text=True)
        foreign = [line.split()[2] for line in shown.stdout.splitlines() if not line.split()[2].startswith(("ftl_", "flashtl_main", "flashtl_again_"))]
        self.assertEqual(foreign, [])

    def test_names(self):
        for name in flashtl.__all__:
            self.assertTrue(hasattr(flashtl, name))
        self.says(AttributeError, "no attribute 'atention'", getattr, flashtl, "atention")


class Command(Case):
    def test_both_ways(self):
        for command in ([pathlib.Path(sys.executable).parent / "flashtl"], [sys.executable, "-m", "flashtl"]):
            run = subprocess.run([*command, "--version"], capture_output=True, text=True)
            self.assertIn(f"flashtl {flashtl.__version__}", run.stdout)
            wrong = subprocess.run([*command, "check", "-"], input="kernel", capture_output=True, text=True)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn("<stdin>:1:", wrong.stderr)

    def test_all_commands_are_there(self):
        overview = subprocess.run([sys.executable, "-m", "flashtl"], capture_output=True, text=True)
        for name in ("verify", "build", "mcp", "bench"):
            self.assertIn(name, overview.stdout + overview.stderr)

    def test_demo(self):
        """With nothing but what the machine has: 3 where that is no compiler."""
        run = subprocess.run([pathlib.Path(sys.executable).parent / "flashtl", "demo"], capture_output=True, text=True)
        if run.returncode == 3:
            self.skipTest(run.stderr)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for gpu in ("T4", "A100", "L40S", "H200"):
            self.assertIn(gpu, run.stdout)

    def test_output_that_is_closed(self):
        run = subprocess.run(f"{sys.executable} -m flashtl --help | head -1", shell=True, capture_output=True, text=True)
        self.assertEqual((len(run.stdout.splitlines()), run.stderr), (1, ""))


class World(Case):
    def test_threads(self):
        text, x, failed = flashtl.sketch("row_softmax"), random(7, 40), []
        wanted = flashtl.compile(text)(X=x).Y

        def work():
            program = flashtl.compile(text)
            for _ in range(20):
                if (program(X=x).Y != wanted).any():
                    failed.append("another result")
                try:
                    program(X=x[0])
                    failed.append("no error")
                except ValueError as why:
                    failed.extend(["another sentence"] if "its array has 1" not in str(why) else [])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failed, [])

    def test_one_emulator_in_many_threads(self):
        program = flashtl.compile(flashtl.sketch("attention"), gpu="t4", on="emulator")
        q, found = random(1, 1, 9, 32), {}
        threads = [threading.Thread(target=lambda i=i: found.setdefault(i, program(Q=q * np.float16(i), K=q, V=q, scale=1).O)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i in range(4):
            np.testing.assert_array_equal(found[i], program(Q=q * np.float16(i), K=q, V=q, scale=1).O)

    def test_a_fork_goes_on(self):
        q = random(1, 1, 9, 16)
        wanted = flashtl.attention(q, q, q)
        child = os.fork()
        if child == 0:
            os._exit(int((flashtl.attention(q, q, q) != wanted).any()))
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_a_home_that_cannot_be_written(self):
        """/proc is nobody's to write, root's neither: kernels are made all the same."""
        text = ("import flashtl, numpy; q = numpy.ones((1, 1, 9, 32), numpy.float16)\n"
                "print(flashtl.attention(q, q, q, on='emulator', gpu='t4').sum())")
        environment = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "FLASHTL_CACHE")}
        run = python(text, env={**environment, "HOME": "/proc/nowhere"})
        self.assertEqual((run.returncode, run.stdout.strip()), (0, "288.0"), run.stderr)

    def test_no_compiler(self):
        text = ("import flashtl, numpy; q = numpy.ones((1, 1, 9, 32), numpy.float16)\n"
                "try: flashtl.attention(q, q, q, on='emulator', gpu='t4')\n"
                "except flashtl.Error as why: print(why.status, '|', why)")
        with tempfile.TemporaryDirectory() as nowhere:
            run = python(text, env={"PATH": nowhere, "HOME": nowhere, "FLASHTL_NVRTC": ""})
        self.assertTrue(run.stdout.startswith("NO_COMPILER | "), run.stdout + run.stderr)
        self.assertEqual(len(run.stdout.splitlines()), 1)

    def test_a_broken_command(self):
        text = "import flashtl._command as command; command.PATH = '/nowhere/flashtl'; command.main()"
        run = python(text)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "flashtl: /nowhere/flashtl cannot be started: No such file or directory\n")

    def test_settings(self):
        self.says(TypeError, "no setting 'cache'", flashtl.configure, cache="x")
        run = python("import flashtl; flashtl.configure(cache_folder='', verify=False)\n"
                     "flashtl.compile(flashtl.sketch('row_softmax'), gpu='t4', column_len=64).ptx\n"
                     "try: flashtl.configure(verify=True)\nexcept ValueError as why: print(why)")
        self.assertIn("settings come before the first kernel", run.stdout, run.stderr)
