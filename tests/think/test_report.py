#!/usr/bin/env python3
"""The page of a run, in a real browser: test_report.py FLASHTL

A page around it loads it at two widths and measures: that nothing is fetched, no text runs out of its box, findings
stand at their lines, and what models said is text and not markup. 77: there is no browser here.
"""
import html
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

flashtl = sys.argv[1]
names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
browser = next(filter(None, map(shutil.which, names)), None)
if not browser:
    print("skipped: there is no browser here (Debian: chromium-headless-shell)")
    sys.exit(77)

here = pathlib.Path(__file__).resolve().parent
GOOD = (here / "answers/good_sketch.md").read_text()
HOSTILE = "<script>document.title='taken over'</script><img src=x onerror=\"document.title='taken over'\">"

MEASURE = """<!doctype html><meta charset=utf-8><body><script>
const results = [];
function measure(width) {
  return new Promise(done => {
    const frame = document.createElement('iframe');
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    frame.onload = () => {
      const page = frame.contentDocument;
      page.querySelectorAll('details').forEach(d => d.open = true);
      const styles = [...page.querySelectorAll('*')];
      results.push({
        width, title: page.title, overflow: page.documentElement.scrollWidth - page.documentElement.clientWidth,
        wrong: [...page.querySelectorAll('li.wrong > code')].map(e => e.textContent.trim()),
        findings: page.querySelectorAll('.finding').length,
        badges: [...page.querySelectorAll('.badge')].map(e => e.textContent),
        columns: page.querySelectorAll('.columns > div').length,
        heading: page.querySelector('h1').textContent,
        scripts: page.querySelectorAll('script, img, link, iframe, object').length,
        fetched: frame.contentWindow.performance.getEntriesByType('resource').length,
        unnamed: styles.filter(e => e.tabIndex >= 0 && !e.textContent.trim()).length,
        ink: getComputedStyle(page.body).color, paper: getComputedStyle(page.body).backgroundColor,
        lines: page.querySelectorAll('#result .text li').length,
        links: [...page.querySelectorAll('.links a')].map(e => page.getElementById(e.hash.slice(1)))
          .map(e => e && e.matches('li.wrong') && e.querySelector('code').textContent.trim()),
      });
      done();
    };
    frame.src = 'report.html';
    document.body.append(frame);
  });
}
measure(380).then(() => measure(1500)).then(() => {
  const out = document.createElement('pre');
  out.id = 'results';
  out.textContent = JSON.stringify(results);
  document.body.append(out);
});
</script></body>"""


def expect(condition, what, seen):
    if not condition:
        sys.exit(f"expected {what}; seen: {json.dumps(seen, indent=1)}")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "0.md").write_text(HOSTILE + GOOD.replace("K.T", "K").replace("S, scale", "S, scale // " + HOSTILE))
    (folder / "1.md").write_text(GOOD)
    (folder / "model.sh").write_text("n=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) > n\ncat > prompt.txt\ncat $n.md\n")
    kept = {k: os.environ[k] for k in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if k in os.environ}
    environment = dict(kept, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C", HOME=name)
    done = subprocess.run([str(pathlib.Path(flashtl).resolve()), "think", "causal attention " + HOSTILE, "--gpu", "t4",
                           "--head-dim", "64", "--on", "interpreter", "--sketch-by", "exec:sh model.sh", "-o", "out",
                           "--report", "report.html"], cwd=name, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    # and CUDA by a model: a long text, with something wrong far down in it
    sketch = subprocess.run([str(pathlib.Path(flashtl).resolve()), "sketch", "attention"], capture_output=True, text=True).stdout
    (folder / "sketch.tl").write_text(sketch)
    (folder / "cuda.md").write_text("```cuda\n" + "\n" * 60 + '#include "/etc/passwd" ' + HOSTILE + "\n" * 60 +
                                    'extern "C" __global__ void attention() {}\n```\n')
    translated = subprocess.run([str(pathlib.Path(flashtl).resolve()), "think", "--sketch", "sketch.tl", "--gpu", "t4", "--head-dim", "64",
                                 "--on", "interpreter", "--translate-by", "exec:cat cuda.md", "--answers", "1", "-o", "out",
                                 "--report", "translated.html"], cwd=name, env=environment, capture_output=True, text=True)
    if translated.returncode:
        sys.exit(translated.stderr)
    page = (folder / "report.html").read_text()
    expect(not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:|//)""", page.replace(HOSTILE, "")), "a self-contained page", {})
    def measured(page_name):
        (folder / "measure.html").write_text(MEASURE.replace("report.html", page_name))
        shown = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
                                "--virtual-time-budget=8000", f"--user-data-dir={name}/profile", "--dump-dom",
                                f"file://{name}/measure.html"], capture_output=True, text=True, timeout=1800)
        found = re.search(r'<pre id="results">(.*?)</pre>', shown.stdout, re.S)
        if not found:
            sys.exit(f"the browser measured nothing: {shown.stdout[-500:]}\n{shown.stderr[-500:]}")
        return json.loads(html.unescape(found.group(1)))

    for seen in measured("report.html"):
        expect(seen["title"] == "How a kernel came to be", "its own title", seen)
        expect(seen["overflow"] <= 0, "no text beside the page", seen)
        expect(seen["scripts"] == 0 and seen["fetched"] == 0, "nothing that runs or is fetched", seen)
        expect(seen["heading"] == "causal attention " + HOSTILE, "the request as text", seen)
        expect(len(seen["wrong"]) == 1 and seen["wrong"][0] == "Compute GEMM Q, K and get S", "the finding at its line", seen)
        expect(seen["findings"] >= 1 and seen["badges"][0] == "failed 'check'" and "verified" in seen["badges"], "verdicts", seen)
        expect(seen["columns"] == 3 and seen["lines"] > 100, "sketch, TL Code and CUDA", seen)
        expect(seen["unnamed"] == 0 and seen["ink"] != seen["paper"], "readable text", seen)
    for seen in measured("translated.html"):
        expect(seen["overflow"] <= 0 and seen["scripts"] == 0 and seen["fetched"] == 0, "a quiet page", seen)
        expect(seen["links"] and seen["links"][0].startswith("#include") and HOSTILE in seen["links"][0],
               "a link to the line that is wrong, shown as text", seen)
