"""Draws the dashboards as Grafana would lay them out, from the data of a Prometheus. Needs matplotlib."""
import json
import pathlib
import re
import sys
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from processes import call

DASHBOARDS = ROOT / "deploy/grafana/dashboards"
COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5"]


def shown(value, unit):
    """A number as its panel shows it."""
    if value != value:
        return "no data"
    return f"{value * 100:.0f} %" if unit == "percentunit" else f"{value:g}"


def legend(text, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text)


def filled(expr, rate_interval, agent_type="echo"):
    """A panel's query with its variables replaced."""
    named = {"$__rate_interval": rate_interval, "$__range": "1m", "$cluster": ".*", "$namespace": ".*", "$agent_type": agent_type}
    for name, value in named.items():
        expr = expr.replace(name, value)
    return expr


def ranges(server, expr, since, until):
    words = {"query": expr, "start": since, "end": until, "step": 1}
    return call(f"{server}/api/v1/query_range?" + urllib.parse.urlencode(words))["data"]["result"]


def draw_all(server, since, marks, folder):
    """Every dashboard between `since` and now, a file each. `marks` are moments with a dotted line."""
    import matplotlib
    matplotlib.use("Agg")
    until = time.time()
    for path in sorted(DASHBOARDS.glob("*.json")):
        draw(server, json.loads(path.read_text()), since, until, marks, folder / f"{path.stem}.png")


def draw(server, board, since, until, marks, path):
    from matplotlib import pyplot
    panels = board["panels"]
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in panels)
    figure = pyplot.figure(figsize=(14, rows * 0.36))
    figure.suptitle(board["title"], x=0.01, y=0.995, ha="left", fontsize=13, weight="bold")
    for panel in panels:
        x, y, w, h = (panel["gridPos"][k] for k in "xywh")
        box = [x / 24 + 0.03, 0.97 * (1 - (y + h) / rows) + 0.035, w / 24 - 0.042, max(0.97 * h / rows - 0.055, 0.01)]
        if panel["type"] == "row":
            figure.text(0.01, 0.97 * (1 - (y + 1) / rows) + 0.02, panel["title"], fontsize=11, color="#555555")
            continue
        unit = panel["fieldConfig"]["defaults"].get("unit", "short")
        series = []
        for target in panel["targets"]:
            for found in ranges(server, filled(target["expr"], "15s"), since, until):
                points = [(at - since, float(value)) for at, value in found["values"]]
                series.append((legend(target.get("legendFormat", ""), found["metric"]), points))
        axis = figure.add_axes(box)
        axis.set_title(panel["title"], loc="left", fontsize=9)
        if panel["type"] == "stat":
            axis.axis("off")
            last = series[0][1][-1][1] if series else float("nan")
            axis.text(0.02, 0.3, shown(last, unit), fontsize=20, transform=axis.transAxes)
            continue
        for n, (name, points) in enumerate(series[:8]):
            axis.plot(*zip(*points), label=name or None, color=COLOURS[n % len(COLOURS)], linewidth=1.2)
        for at in marks:
            axis.axvline(at - since, color="#999999", linewidth=0.8, linestyle=":")
        axis.tick_params(labelsize=7)
        axis.set_ylim(bottom=0)
        axis.set_xlim(0, until - since)
        axis.grid(alpha=0.3)
        axis.set_ylabel({"s": "seconds", "ops": "a second", "percentunit": "share"}.get(unit, ""), fontsize=7)
        if series:
            axis.legend(fontsize=6, loc="upper left", framealpha=0.6, ncols=2)
        else:
            axis.text(0.5, 0.5, "nothing happened", ha="center", color="#888888", fontsize=8, transform=axis.transAxes)
    figure.savefig(path, dpi=75)
    pyplot.close(figure)
