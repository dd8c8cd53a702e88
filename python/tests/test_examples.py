"""The scripts of examples/python that need NumPy alone run as they are given out, and compare each of their results.

Those that need more are run by the tests of what they need."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from helpers import SOURCE, Case

FOLDER = SOURCE / "examples/python"
ALONE = {"numpy_alone": 6, "paged_decoding": 4, "varlen": 2, "sparse": 1, "custom_sketch": 1, "functions": 12}


def run(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


class Examples(Case):
    def test_scripts(self):
        for name, results in ALONE.items():
            status, said, wrong = run(FOLDER / f"{name}.py")
            self.assertEqual((name, status, wrong), (name, 0, ""))
            self.assertEqual((name, said.count("off by at most")), (name, results))

    def test_what_they_compare_would_be_found(self):
        """Each with an attention that sees one key too few fails."""
        with tempfile.TemporaryDirectory() as folder:
            for name in ALONE:
                shutil.copy(FOLDER / f"{name}.py", folder)
            right = (FOLDER / "plainly.py").read_text()
            wrong = right.replace("o = weight @ v / total", "o = weight[..., 1:] @ v[..., 1:, :] / total")
            self.assertNotEqual(right, wrong)
            pathlib.Path(folder, "plainly.py").write_text(wrong)
            for name in sorted(ALONE.keys() - {"functions", "custom_sketch"}):  # which have a reference of their own
                status, _, wrong = run(f"{folder}/{name}.py")
                self.assertEqual((name, status), (name, 1))
                self.assertIn("is wrong", wrong)

    def test_all_are_known(self):
        """Every script is run by a test, and has its line in docs/python.md."""
        tests = "".join(path.read_text() for path in (SOURCE / "python/tests").glob("test_*.py"))
        page = (SOURCE / "docs/python.md").read_text()
        for path in FOLDER.glob("*.py"):
            if path.stem != "plainly":
                self.assertIn(f"{path.stem}.py", page)
                self.assertTrue(path.stem in ALONE or f"{path.stem}.py" in tests, path.stem)
