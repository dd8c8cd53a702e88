"""A page of `flashtl view` in a real browser: browser.py FLASHTL [FOLDER FOR PICTURES]

Links in both directions by mouse and by keys, decisions, memory, wide and narrow screens, dark and light.
"""
import os
import subprocess
import sys
import tempfile

import chrome

SKIPPED = 77


def numbers(browser, selector):
    return browser.run(f"(document.querySelector({selector!r})?.dataset.s || '').split(' ').filter(Boolean).map(Number)")


def marked(browser):
    """{pane: ids of its marked lines}."""
    return browser.run("Object.fromEntries([...document.querySelectorAll('.pane')].map(p => [p.id, [...p.querySelectorAll('li.on')].map(l => l.id)]))")


def expected(browser, about):
    return browser.run("Object.fromEntries([...document.querySelectorAll('.pane')].map(p => [p.id, [...p.querySelectorAll('li[data-s]')]"
                       f".filter(l => l.dataset.s.split(' ').some(n => {about}.includes(Number(n)))).map(l => l.id)]))")


def in_sight(browser, pane):
    """Does a marked line of the pane stand where one sees it?"""
    return browser.run(f"(() => {{ const b = document.querySelector('#{pane} .scroll').getBoundingClientRect();"
                       f" return [...document.querySelectorAll('#{pane} li.on')].some(l => {{ const r = l.getBoundingClientRect();"
                       " return r.bottom > b.top && r.top < b.bottom; }); })()")


def line_with(browser, pane, words):
    return browser.run(f"[...document.querySelectorAll('#{pane} li')].find(l => l.textContent.includes({words!r})).id")


def mouse(browser, page):
    browser.open(page)
    panes = browser.run("[...document.querySelectorAll('.pane')].map(p => p.id)")
    assert not browser.run("[...document.querySelectorAll('#cuda li')].at(-1).checkVisibility({contentVisibilityAuto: true})"), \
        "lines out of sight are laid out"
    starts = {"sketch": "Compute Softmax S", "code": "Compute RowMax S", "cuda": "// Compute RowMax S"}
    for pane, words in starts.items():
        line = line_with(browser, pane, words)
        browser.click(f"#{line}")
        there = marked(browser)
        assert there == expected(browser, numbers(browser, f"#{line}")), f"{pane}: the marks are others"
        for other in panes:
            assert there[other], f"{pane}: nothing is marked in {other}"
            assert in_sight(browser, other), f"{pane}: what is marked in {other} is out of sight"
        assert browser.run("location.hash") == f"#{line}"
        assert browser.run("document.querySelector('#chosen').textContent.includes('RowMax')")
    browser.press("Escape")
    assert not any(marked(browser).values()), "Escape forgets nothing"
    return panes


def decisions(browser, page):
    browser.open(page)
    browser.click("#tabs [data-for=decisions]")
    assert browser.run("!document.querySelector('#decisions').hidden && document.querySelector('#chosen').hidden")
    assert browser.run("document.querySelectorAll('svg.bars rect.taken').length") >= 1
    browser.click(".decision[data-s] h3")
    about = numbers(browser, ".decision[data-s]")
    assert marked(browser)["code"] == expected(browser, about)["code"] != [], "a decision marks other lines"
    browser.click("#tabs [data-for=memory]")
    browser.click("g.tile rect")
    assert browser.run("document.querySelectorAll('g.tile.on').length") >= 1
    assert any(browser.run(f"document.getElementById({line!r}).textContent.includes('Allocate')") for line in marked(browser)["code"])


def timeline(browser, page):
    """By mouse and by arrows: a box chooses its statement, and a line the boxes of its own."""
    browser.open(page)
    assert not browser.run("document.querySelector('#times').offsetHeight"), "the timeline is open from the start"
    browser.press("t")
    assert browser.run("!document.querySelector('#times').hidden && document.activeElement.className === 'strip'")
    assert "Predicted" in browser.run("document.querySelector('#times figcaption').textContent")
    seen = set()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowUp"):
        browser.press(key)
        now = browser.run("(b => [b.dataset.lane, b.getAttribute('x')].join())(document.querySelector('rect.now'))")
        seen.add(now)
        about = numbers(browser, "rect.now")
        assert marked(browser)["code"] == expected(browser, about)["code"] != [], f"{key}: other lines are marked"
        assert in_sight(browser, "code"), "what is marked is out of sight"
    assert len(seen) >= 5 and {now.split(",")[0] for now in seen} >= {"0", "1"}, f"arrows do not move: {seen}"
    for _ in range(60):
        browser.press("ArrowRight")
    assert browser.run("(() => { const s = document.querySelector('.strip').getBoundingClientRect(), b = document.querySelector('rect.now')"
                       ".getBoundingClientRect(); return s.left <= b.left && b.left < s.right; })()"), "the chosen box is out of sight"
    line = line_with(browser, "code", "Compute Exp2 T")
    browser.click(f"#{line}")
    about = numbers(browser, f"#{line}")
    there = browser.run("[...document.querySelectorAll('rect.box.on')].map(b => Number(b.dataset.s))")
    assert there and set(there) <= set(about), "a line does not mark its boxes"
    stalled = browser.run("(l => [getComputedStyle(l).backgroundSize, getComputedStyle(l).backgroundImage, l.title])"
                          "(document.querySelector('#code li.stalls'))")
    assert "predicted to wait" in stalled[2] and "gradient" in stalled[1], stalled
    browser.open(page, width=400, height=800)
    browser.press("t")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth && document.querySelector('.strip').offsetWidth > 100"), \
        "the timeline is wider than a narrow screen"


def keys(browser, page):
    browser.open(page)
    browser.press("2")
    assert browser.run("document.activeElement.closest('.pane')?.id") == "code"
    first = None
    for _ in range(3):
        browser.press("ArrowDown")
        now = browser.run("document.querySelector('li.now').id")
        assert now != first, "an arrow does not move"
        first = now
    assert first == "c3", first
    browser.press("ArrowUp")
    assert browser.run("document.querySelector('li.now').id") == "c2"
    line = line_with(browser, "code", "Compute GEMM")
    browser.click(f"#{line}")
    browser.press("2")
    browser.press("ArrowRight")
    assert browser.run("document.activeElement.closest('.pane').id") == "cuda"
    there = browser.run("document.querySelector('li.now').id")
    assert there.startswith("u"), "the arrow does not lead to the same statement"
    assert set(numbers(browser, f"#{there}")) & set(numbers(browser, f"#{line}"))
    browser.press("End")
    assert browser.run("document.querySelector('li.now') === [...document.querySelectorAll('#cuda li')].at(-1)")
    browser.press("d")
    assert browser.run("!document.querySelector('#decisions').hidden")
    for _ in range(40): # each control can be reached
        browser.press("Tab")
        if browser.run("document.activeElement.matches('nav button')"):
            return
    raise AssertionError("Tab does not reach the buttons")


def narrow(browser, page, panes):
    browser.open(page, width=400, height=800)
    def seen():
        return browser.run("[...document.querySelectorAll('.pane')].filter(p => p.offsetParent).map(p => p.id)")
    assert seen() == [panes[0]], seen()
    for number, pane in enumerate(panes):
        browser.click(f"nav button:nth-child({number + 1})")
        assert seen() == [pane], seen()
    assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen"
    browser.open(page, width=400, height=800, place="#c20")
    assert seen() == ["code"] and browser.run("document.querySelector('li.now').id") == "c20"
    browser.open(page)
    assert len(seen()) == len(panes), "a wide screen shows all texts"
    browser.click("nav button:nth-child(1)")
    assert seen() == panes[1:], "a button hides its text"


def luminance(browser, script):
    import re
    rgb = [int(x) / 255 for x in re.findall(r"\d+", browser.run(script))[:3]]
    return sum(w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4) for w, c in zip((0.2126, 0.7152, 0.0722), rgb))


def contrast(a, b):
    return (max(a, b) + 0.05) / (min(a, b) + 0.05)


def colours(browser, page):
    backs = {}
    for dark in (False, True):
        browser.open(page, dark=dark)
        back = luminance(browser, "getComputedStyle(document.querySelector('.pane')).backgroundColor")
        on = luminance(browser, "(() => { const l = document.querySelector('#code li'); l.classList.add('on'); const c = getComputedStyle(l).backgroundColor; l.classList.remove('on'); return c; })()")
        backs[dark] = back
        for what in ("", ".k", ".o", ".t", ".n", ".c", ".f"):
            text = luminance(browser, f"getComputedStyle(document.querySelector('li {what}') || document.querySelector('li')).color")
            assert contrast(text, back) >= 4.5, f"{what or 'text'}, dark {dark}: contrast {contrast(text, back):.1f}"
            assert contrast(text, on) >= 3, f"{what or 'text'} marked, dark {dark}: contrast {contrast(text, on):.1f}"
    assert backs[False] > 0.8 and backs[True] < 0.1, backs


def without_script(browser, page):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(page)
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("[...document.querySelectorAll('.pane')].every(p => p.offsetHeight > 100)"), "a text is hidden without a script"
    assert browser.run("document.querySelector('#decisions').offsetHeight") > 0
    assert browser.run("document.querySelector('#times .strip').offsetHeight") > 0


def pictures(browser, page, folder):
    for name, dark, width in (("view", False, 1440), ("view-dark", True, 1440), ("view-narrow", False, 400)):
        browser.open(page, width=width, height=820 if width > 760 else 720, dark=dark)
        line = line_with(browser, "code", "Compute GEMM Q_shared, K_shared.T and get S by")
        if width < 760:
            browser.click("nav button:nth-child(2)")
        browser.click(f"#{line}")
        browser.picture(os.path.join(folder, name + ".png"))
    for name, tab in (("view-decisions", "decisions"), ("view-memory", "memory")):
        browser.open(page, width=1440, height=820)
        browser.click(f"#tabs [data-for={tab}]")
        browser.run("document.querySelector('svg.bars, svg.map') && document.querySelector('#below').scrollTo(0, "
                    f"document.querySelector('#{tab} figure').closest('article, section').offsetTop - document.querySelector('#below').offsetTop)")
        browser.picture(os.path.join(folder, name + ".png"))
    browser.open(page, width=1440, height=820)
    browser.press("t")
    browser.click("#" + browser.run("[...document.querySelectorAll('#code li.stalls')].filter(l => l.textContent.includes('Wait S'))[1].id"))
    browser.picture(os.path.join(folder, "view-timeline.png"))


def main(flashtl, folder=None):
    path = chrome.find()
    if not path:
        print("skipped: no browser of the Chromium family is installed (apt-get install chromium)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as work:
        page = os.path.join(work, "kernel.html")
        subprocess.run([flashtl, "view", "--op", "mha", "--causal", "--head-dim", "64", "--gpu", "h200", "-o", page], check=True)
        with chrome.Browser(path) as browser:
            panes = mouse(browser, page)
            print("mouse:", ", ".join(panes))
            for check in (decisions, timeline, keys, colours, without_script):
                check(browser, page)
                print(check.__name__.replace("_", " "))
            narrow(browser, page, panes)
            print("narrow")
            assert not browser.complaints(), browser.complaints()
            if folder:
                pictures(browser, page, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
