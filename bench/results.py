#!/usr/bin/env python3
"""Results of peers.py: JSON lines to a Markdown table, plots, and a line per bar. No GPU is needed.

    bench/results.py results.jsonl --table results.md --plot results.svg
"""
import argparse
import collections
import json
import math
import pathlib
import statistics
import sys

import cells

OTHERS = ("cudnn", "fa2", "flex", "fa3")
PALETTE = {"cudnn": "#76b900", "fa3": "#d95f02", "fa2": "#7570b3", "flex": "#999999",
           "ours": "#1b6ac9", "prototype": "#e7298a", "best": "#000000"}
SPARE_COLOURS = ["#66a61e", "#a6761d", "#1b9e77", "#666666"]


def cell_of(record):
    return cells.Cell(**{f: record[f] for f in ("suite", "name", "q_heads", "kv_heads", "d", "dv",
                                                "dtype", "mask", "length")},
                      scores=record.get("scores", "normal"), softcap=record.get("softcap", 0))


def read(path):
    """{cell: {peer: record}}, in the order of the file; a later record of a cell counts."""
    table = collections.OrderedDict()
    for line in pathlib.Path(path).read_text().splitlines():
        record = json.loads(line)
        table.setdefault(cell_of(record), {})[record["peer"]] = record
    return table


def is_fine(record):
    return bool(record) and record.get("verdict") == "fine"


def figure(record):
    return record["tflops"] if is_fine(record) else None


def rivals_of(results):
    """{peer: TFLOPS} of the others."""
    return {n: figure(r) for n, r in results.items() if n in OTHERS and is_fine(r)}


def add_stored(table, stored):
    """FlashAttention-3's figures, and FlexAttention's and FlashAttention-2's where they were not run,
    from their ratios to cuDNN (with a softcap, to FlexAttention). They are marked, and count as rivals of
    suites that name none.
    """
    for cell, results in table.items():
        if cells.BARS.get(cell.suite, ("best",))[0] != "best":
            continue
        base = figure(results.get(stored.base(cell)))
        for peer in ("fa3", "flex", "fa2"):
            ratio = stored.ratio(peer, cell)
            if base and ratio and not is_fine(results.get(peer)):
                results[peer] = {"verdict": "fine", "tflops": base * ratio, "is_stored": True}


def divisor(cell, results):
    """What ours is divided by on this cell: (name, TFLOPS), or None."""
    kind = cells.BARS.get(cell.suite, ("best", None, None))[0]
    if kind == "best":
        rivals = rivals_of(results)
        return max(rivals.items(), key=lambda item: item[1]) if rivals else None
    peer = "ours-normal" if kind.startswith("ours") else kind
    value = figure(results.get(peer))
    return (peer, value) if value else None


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


# --- the table ------------------------------------------------------------------------------------

def text_of(record):
    if not record:
        return ""
    if record.get("verdict") == "absent":
        return "–"
    if not is_fine(record):
        return record.get("verdict", "?")
    return (f"{record['tflops']:.0f}" + ("~" if record.get("noisy") else "") +
            ("*" if record.get("is_stored") else ""))


def names_of(table):
    """The columns: rivals first, ours last."""
    seen = []
    for results in table.values():
        seen += [n for n in results if n not in seen]
    ranks = {name: i for i, name in enumerate(("cudnn", "fa3", "fa2", "flex", "prototype"))}
    return sorted(seen, key=lambda n: (ranks.get(n, 9), n))


def markdown(table, mine="ours"):
    names = names_of(table)
    lines = ["| suite | operator | case | length | " + " | ".join(names) + " | ours / best |",
             "|---" * (len(names) + 5) + "|"]
    for cell, results in table.items():
        against, own = divisor(cell, results), figure(results.get(mine))
        ratio = f"**{own / against[1]:.3f}** {against[0]}" if own and against else "–"
        lines.append("| " + " | ".join([cell.suite, cell.name, cell.row, str(cell.length)] +
                                       [text_of(results.get(n)) for n in names] + [ratio]) + " |")
    notes = []
    if any(r.get("is_stored") for results in table.values() for r in results.values()):
        notes.append("*: by its ratio to cuDNN (with a softcap, to FlexAttention) as measured once "
                     "(bench/peers_h200.csv).")
    if any(r.get("noisy") for results in table.values() for r in results.values()):
        notes.append("~: rounds spread by more than a tenth, also when taken anew.")
    return "\n".join(lines + [""] + notes) if notes else "\n".join(lines)


def summaries(table, mine="ours"):
    """A line per suite: ours against what its bar names, and each peer of ours against cuDNN."""
    lines = []
    for suite in dict.fromkeys(cell.suite for cell in table):
        kind, mean_bar, least_bar = cells.BARS.get(suite, ("best", None, None))
        ratios, wrong = {}, 0
        for cell, results in table.items():
            if cell.suite != suite:
                continue
            own, against = figure(results.get(mine)), divisor(cell, results)
            wrong += mine in results and not is_fine(results[mine])
            if own and against:
                ratios[cell] = own / against[1]
        if not ratios:
            lines.append(f"{suite}: no cell has both ours and {kind}")
            continue
        mean, least = geometric_mean(list(ratios.values())), min(ratios, key=ratios.get)
        below = sum(r < least_bar for r in ratios.values()) if least_bar else 0
        is_met = (not wrong and (mean_bar is None or mean >= mean_bar) and
                  (least_bar is None or ratios[least] >= least_bar))
        bar = ", ".join(([f"mean >= {mean_bar}"] if mean_bar else []) +
                        ([f"every cell >= {least_bar}"] if least_bar else []))
        lines.append(f"{suite}: ours / {kind}: geometric mean {mean:.3f}, least {ratios[least]:.3f} "
                     f"({least.name} {least.row} {least.length}), {below} of {len(ratios)} cells below; "
                     f"{wrong} of ours without a figure; bar: {bar}: {'met' if is_met else 'MISSED'}")
        lines += [f"  {line}" for line in pairs(table, suite)]
    return lines


def pairs(table, suite):
    names = names_of({c: r for c, r in table.items() if c.suite == suite})
    for mine in [n for n in names if n not in OTHERS]:
        for other in [n for n in names if n != mine and (n in OTHERS or n == "prototype")]:
            ratios = [figure(r[mine]) / figure(r[other]) for c, r in table.items()
                      if c.suite == suite and is_fine(r.get(mine)) and is_fine(r.get(other))]
            if ratios:
                yield (f"{mine} / {other}: geometric mean {geometric_mean(ratios):.3f}, "
                       f"least {min(ratios):.3f}, {len(ratios)} cells")


# --- plots ----------------------------------------------------------------------------------------

PANEL_WIDTH, PANEL_HEIGHT, MARGIN = 400, 260, 46


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def colour_of(name, names):
    spare = [n for n in names if n not in PALETTE]
    return PALETTE.get(name) or SPARE_COLOURS[spare.index(name) % len(SPARE_COLOURS)]


def panel(rows, names, left, top, title):
    """TFLOPS over length (by powers of two) of one row of cells; a line per peer."""
    lengths = sorted(cell.length for cell, _ in rows)
    highest = max([figure(r) for _, results in rows for r in results.values() if is_fine(r)] or [1])
    step = next(s for s in (10, 25, 50, 100, 200, 250, 500, 1000) if highest / s <= 6 or s == 1000)
    top_value = step * math.ceil(highest * 1.02 / step)
    width, height = PANEL_WIDTH - MARGIN - 10, PANEL_HEIGHT - 2 * 26
    low, high = math.log2(lengths[0]), math.log2(lengths[-1])

    def place(length, value):
        across = (math.log2(length) - low) / (high - low) if high > low else 0.5
        return left + MARGIN + across * width, top + 26 + (1 - value / top_value) * height

    out = [f'<text x="{left + MARGIN}" y="{top + 16}" font-weight="bold">{escaped(title)}</text>']
    for value in range(0, top_value + 1, step):
        x, y = place(lengths[0], value)
        out.append(f'<line x1="{left + MARGIN}" y1="{y:.1f}" x2="{left + MARGIN + width}" '
                   f'y2="{y:.1f}" stroke="#ddd"/><text x="{left + MARGIN - 4}" y="{y + 4:.1f}" '
                   f'text-anchor="end">{value}</text>')
    for length in lengths:
        x, y = place(length, 0)
        label = f"{length // 1024}k" if length % 1024 == 0 else str(length)
        out.append(f'<text x="{x:.1f}" y="{y + 14:.1f}" text-anchor="middle">{label}</text>')
    for name in names:
        points = [place(cell.length, figure(results.get(name)))
                  for cell, results in sorted(rows, key=lambda row: row[0].length)
                  if is_fine(results.get(name))]
        if not points:
            continue
        colour = colour_of(name, names)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = ' stroke-dasharray="4 3"' if any(
            r.get(name, {}).get("is_stored") for _, r in rows) else ""
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                   f'stroke-width="{2.5 if name.startswith("ours") else 1.5}"{dashes}/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points]
    return out


def svg(table, columns=3):
    """One panel per row of cells, written without any tool, so that it can be done anywhere."""
    names = names_of(table)
    rows = collections.OrderedDict()
    for cell, results in table.items():
        rows.setdefault((cell.suite, cell.name, cell.row), []).append((cell, results))
    columns = min(columns, max(1, len(rows)))
    width, height = columns * PANEL_WIDTH, 30 + PANEL_HEIGHT * math.ceil(len(rows) / columns)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for i, name in enumerate(names):
        out.append(f'<line x1="{20 + 110 * i}" y1="15" x2="{44 + 110 * i}" y2="15" stroke-width="3" '
                   f'stroke="{colour_of(name, names)}"/><text x="{48 + 110 * i}" y="19">'
                   f'{escaped(name)}</text>')
    for i, ((suite, name, row), members) in enumerate(rows.items()):
        out += panel(members, names, (i % columns) * PANEL_WIDTH, 30 + (i // columns) * PANEL_HEIGHT,
                     f"{name}: {row} (TFLOPS)")
    return "\n".join(out + ["</svg>", ""])


def write(table, table_path=None, plot_path=None):
    """Prints the table and the summary lines; writes what is asked for."""
    text = markdown(table) + "\n\n" + "\n".join(summaries(table)) + "\n"
    print(text)
    if table_path:
        pathlib.Path(table_path).write_text(text)
    if plot_path:
        pathlib.Path(plot_path).write_text(svg(table))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", help="JSON lines of peers.py; later files overrule")
    parser.add_argument("--table", help="write the Markdown table here")
    parser.add_argument("--plot", help="write the plots here, as SVG")
    options = parser.parse_args()
    table = collections.OrderedDict()
    for path in options.results:
        for cell, results in read(path).items():
            table.setdefault(cell, {}).update(results)
    add_stored(table, cells.Stored())
    write(table, options.table, options.plot)


if __name__ == "__main__":
    sys.exit(main())
