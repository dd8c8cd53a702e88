"use strict";
(() => {
  const root = document.documentElement, data = JSON.parse(document.getElementById("data").textContent);
  const panes = [...document.querySelectorAll(".pane")], narrow = matchMedia("(max-width: 760px)");
  const linked = [...document.querySelectorAll("[data-s]")], of = new Map();
  const numbers = (element) => (element.dataset.s ? element.dataset.s.split(" ").map(Number) : []);
  for (const element of linked)
    for (const n of numbers(element)) of.has(n) ? of.get(n).push(element) : of.set(n, [element]);
  const related = (ids) => [...new Set(ids.flatMap((n) => of.get(n) || []))];
  const pane = (element) => element.closest(".pane");
  let current = null, marked = [];
  root.classList.add("js");

  /* --- what is shown --- */
  const buttons = new Map();
  function show(p) {
    p.hidden = false;
    if (narrow.matches) panes.forEach((q) => q.classList.toggle("shown", q === p));
    press();
  }
  function press() {
    for (const [p, button] of buttons)
      button.setAttribute("aria-pressed", narrow.matches ? p.classList.contains("shown") : !p.hidden);
  }
  for (const p of panes) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = p.querySelector("h2").textContent;
    button.addEventListener("click", () => {
      if (narrow.matches) return show(p);
      const visible = panes.filter((q) => !q.hidden);
      if (visible.length > 1 || p.hidden) p.hidden = !p.hidden;
      press();
    });
    buttons.set(p, button);
    document.querySelector("nav").append(button);
  }
  panes[0].classList.add("shown");
  narrow.addEventListener("change", press);
  if (!narrow.matches && innerWidth < 1300 && panes.length > 3) panes[3].hidden = true;
  press();

  const tabs = [...document.querySelectorAll("#tabs button")];
  function open(id) {
    for (const tab of tabs) {
      tab.setAttribute("aria-selected", tab.dataset.for === id);
      document.getElementById(tab.dataset.for).hidden = tab.dataset.for !== id;
    }
  }
  for (const tab of tabs) tab.addEventListener("click", () => open(tab.dataset.for));
  open("chosen");

  /* --- a statement --- */
  const chosen = document.getElementById("chosen"), hint = chosen.innerHTML;
  function row(list, name, value) {
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = name;
    if (value instanceof Node) dd.append(value);
    else dd.textContent = value;
    list.append(dt, dd);
  }
  function counted(c) {
    const words = [c.executed + " times by a warp"];
    if (c.wavefronts) words.push(c.wavefronts + " wavefronts of shared memory, " + c.least_wavefronts + " at best");
    if (c.sectors) words.push(c.sectors + " sectors of global memory, " + c.least_sectors + " at best");
    return words.join("; ");
  }
  function describe(ids) {
    chosen.textContent = "";
    for (const n of ids.slice(0, 40)) {
      const s = data.statements[n], list = document.createElement("dl"), code = document.createElement("code");
      code.textContent = s.text;
      chosen.append(code, list);
      if (s.passes && s.passes.length) row(list, "written by", s.passes.join(", "));
      if (s.order) row(list, "in order", s.order);
      if (s.counts) row(list, "emulated", counted(s.counts));
      if (s.stall) row(list, "predicted", "waits " + s.stall.clocks + " clocks in two tiles, " + s.stall.times + " times");
      for (const d of s.decisions) {
        const link = document.createElement("a");
        link.href = "#decision" + d;
        link.textContent = data.decisions[d].subject;
        link.addEventListener("click", () => open("decisions"));
        const words = document.createElement("span");
        words.append(link, ": " + data.decisions[d].sentence);
        row(list, "decided", words);
      }
    }
    if (!ids.length) chosen.innerHTML = hint;
  }

  /* --- links --- */
  function reveal(element) {
    const box = element.closest(".scroll");
    if (!box) return;
    const top = element.getBoundingClientRect().top - box.getBoundingClientRect().top;
    if (top < 20 || top > box.clientHeight - 40) box.scrollTop += top - box.clientHeight / 3;
  }
  function choose(element, ids) {
    for (const old of marked) old.classList.remove("on");
    if (current) current.classList.remove("now");
    current = element;
    marked = related(ids);
    for (const one of marked) one.classList.add("on");
    for (const d of document.querySelectorAll(".decision")) {
      const is = ids.some((n) => data.statements[n].decisions.includes(Number(d.dataset.d)));
      d.classList.toggle("on", is);
    }
    describe(ids); /* before lines are looked for: it takes room from the texts */
    if (element) {
      element.classList.add("now");
      const own = pane(element);
      for (const p of panes) {
        const first = p === own ? element : marked.find((one) => p.contains(one));
        if (first) reveal(first);
        if (p === own) p.querySelector(".scroll").setAttribute("aria-activedescendant", element.id);
      }
    }
  }
  const go = (element) => choose(element, numbers(element));
  const line = (event) => event.target.closest("li[data-s], g[data-s], rect[data-s]");
  addEventListener("click", (event) => {
    const element = line(event), title = event.target.closest(".decision h3");
    if (title) choose(null, numbers(title.parentElement));
    if (!element || getSelection().toString()) return;
    go(element);
    if (element.id) history.replaceState(null, "", "#" + element.id);
  });
  let under = null, over = [];
  addEventListener("mouseover", (event) => {
    if (line(event) === under) return;
    under = line(event);
    for (const old of over) old.classList.remove("over");
    over = under ? related(numbers(under)) : [];
    for (const one of over) one.classList.add("over");
  });

  /* --- keys --- */
  const rows = new Map(panes.map((p) => [p, [...p.querySelectorAll("li")]]));
  const focused = () => panes.find((p) => p.contains(document.activeElement));
  function step(p, by) {
    const all = rows.get(p), at = current && pane(current) === p ? all.indexOf(current) : -1;
    const next = all[Math.max(0, Math.min(all.length - 1, at + by))];
    if (next) {
      go(next);
      reveal(next);
    }
  }
  function aside(p, by) {
    const visible = narrow.matches ? panes : panes.filter((q) => !q.hidden);
    const next = visible[visible.indexOf(p) + by];
    if (!next) return;
    show(next);
    next.querySelector(".scroll").focus();
    const partner = marked.find((one) => pane(one) === next);
    if (partner) go(partner);
  }
  /* --- the timeline: from box to box of a lane, from lane to lane at a clock --- */
  const middle = (box) => box.x.baseVal.value + box.width.baseVal.value / 2;
  const boxes = (strip, lane) => [...strip.querySelectorAll("rect")].filter((box) => Number(box.dataset.lane) === lane)
    .sort((a, b) => a.x.baseVal.value - b.x.baseVal.value);
  const nearest = (all, x) => all.reduce((best, box) => (Math.abs(middle(box) - x) < Math.abs(middle(best) - x) ? box : best), all[0]);
  function walk(strip, key) {
    const lanes = [...new Set([...strip.querySelectorAll("rect")].map((box) => Number(box.dataset.lane)))].sort((a, b) => a - b);
    const at = current && strip.contains(current) ? current : null, lane = at ? lanes.indexOf(Number(at.dataset.lane)) : 0;
    let next = null;
    if (!at) next = boxes(strip, lanes[0])[0];
    else if (key === "ArrowLeft" || key === "ArrowRight") {
      const own = boxes(strip, lanes[lane]);
      next = own[own.indexOf(at) + (key === "ArrowRight" ? 1 : -1)];
    } else {
      const other = lanes[lane + (key === "ArrowDown" ? 1 : -1)];
      if (other !== undefined) next = nearest(boxes(strip, other), middle(at));
    }
    if (!next) return;
    go(next);
    const left = next.x.baseVal.value;
    if (left < strip.scrollLeft || left + 40 > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = left - strip.clientWidth / 3;
  }

  const steps = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, PageDown: 20, PageUp: -20, Home: -1e6, End: 1e6 };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const p = focused(), strip = document.activeElement.closest(".strip");
    if (event.key === "Escape") choose(null, []);
    else if (event.key >= "1" && event.key <= "4" && panes[event.key - 1]) {
      show(panes[event.key - 1]);
      panes[event.key - 1].querySelector(".scroll").focus();
    } else if (event.key === "d") open("decisions");
    else if (event.key === "s") open("chosen");
    else if (event.key === "t") {
      open("times");
      const first = document.querySelector(".strip");
      if (first) first.focus();
    } else if (strip && event.key.startsWith("Arrow")) walk(strip, event.key);
    else if (p && event.key in steps) step(p, steps[event.key]);
    else if (p && event.key === "ArrowRight") aside(p, 1);
    else if (p && event.key === "ArrowLeft") aside(p, -1);
    else if ((event.key === "Enter" || event.key === " ") && document.activeElement.matches("g[data-s]")) go(document.activeElement);
    else return;
    event.preventDefault();
  });

  for (const p of panes.slice(2)) { /* what the kernel brings with it comes before it */
    const first = p.querySelector("li[data-s]");
    if (first) reveal(first);
  }
  const asked = location.hash && document.getElementById(location.hash.slice(1));
  if (asked && asked.dataset.s) {
    show(pane(asked));
    go(asked);
    reveal(asked);
  }
})();
