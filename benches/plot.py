#!/usr/bin/env python3
"""Draws sections a second against tasks on one name, from the lines that the bench prints. It measures nothing.

    cargo bench --bench contention -- --case curve --json | benches/plot.py > benches/sections.svg
"""
import json
import math
import sys

WIDTH, HEIGHT = 720, 430
LEFT, RIGHT, TOP, BOTTOM = 80, 110, 50, 60
COLOURS = {"relatch": "#b3261e", "rslock": "#1f5fa8", "rlock": "#3d7a37"}


def read(lines):
    """The machine, and for each library its points (tasks, sections a second)."""
    machine, curves = "", {}
    for line in lines:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if "machine" in row:
            machine = machine or row["machine"]
        elif row["case"] == "curve" and row["figure"] is not None:
            curves.setdefault(row["what"], []).append((row["tasks"], row["figure"]))
    return machine, {what: sorted(points) for what, points in curves.items()}


def short(figure):
    return f"{figure / 1e6:g} M" if figure >= 1e6 else f"{figure / 1e3:g} k" if figure >= 1e3 else f"{figure:g}"


def draw(machine, curves):
    points = [point for curve in curves.values() for point in curve]
    most_tasks = max(tasks for tasks, _ in points)
    low = 10 ** math.floor(math.log10(min(rate for _, rate in points)))
    high = 10 ** math.ceil(math.log10(max(rate for _, rate in points)))
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM

    def x(tasks):
        return LEFT + (right - LEFT) * math.log2(tasks) / max(1, math.log2(most_tasks))

    def y(rate):
        return bottom - (bottom - TOP) * math.log10(rate / low) / math.log10(high / low)

    def text(at_x, at_y, words, **more):
        style = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
        return f'<text x="{at_x:.1f}" y="{at_y:.1f}"{style}>{words}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" fill="#333">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        text(LEFT, 24, "Sections a second against tasks on one name, in one process", font_size=16),
        text(LEFT, 41, machine, font_size=11, fill="#666"),
    ]
    rate = low
    while rate <= high:
        out.append(f'<line x1="{LEFT}" x2="{right}" y1="{y(rate):.1f}" y2="{y(rate):.1f}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y(rate) + 4, short(rate), text_anchor="end"))
        rate *= 10
    for tasks in sorted({tasks for tasks, _ in points}):
        out.append(f'<line x1="{x(tasks):.1f}" x2="{x(tasks):.1f}" y1="{bottom}" y2="{bottom + 5}" stroke="#999"/>')
        out.append(text(x(tasks), bottom + 20, tasks, text_anchor="middle"))
    out.append(text((LEFT + right) / 2, HEIGHT - 18, "tasks", text_anchor="middle"))
    # Names that would stand on each other move apart.
    floor = float("inf")
    for what, curve in sorted(curves.items(), key=lambda it: it[1][-1][1]):
        colour = COLOURS.get(what, "#777")
        path = " ".join(f"{x(tasks):.1f},{y(rate):.1f}" for tasks, rate in curve)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        out += [f'<circle cx="{x(t):.1f}" cy="{y(r):.1f}" r="3.5" fill="{colour}"/>' for t, r in curve]
        floor = min(y(curve[-1][1]) + 4, floor - 16)
        out.append(text(right + 10, floor, what, fill=colour, font_weight="bold"))
    out.append("</svg>")
    return "\n".join(out)


def main():
    machine, curves = read(sys.stdin)
    if not curves:
        sys.exit("no line of the case `curve` on the standard input")
    print(draw(machine, curves))


main()
