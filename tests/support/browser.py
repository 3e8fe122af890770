"""Pages in a headless Chromium: what its console says, and what does not fit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_MEASURE = """
<script>
addEventListener("load", () => {
  const width = document.documentElement.clientWidth;
  const text = node => (node.textContent || node.tagName).trim().slice(0, 40);
  const wide = [...document.querySelectorAll("main *")].filter(node =>
    !node.closest(".scroll, svg") && node.getBoundingClientRect().right > width + 1).map(text);
  const clipped = [...document.querySelectorAll("svg")].flatMap(svg => {
    const frame = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter(node => {
      const box = node.getBoundingClientRect();
      return box.left < frame.left - 2 || box.right > frame.right + 2
        || box.top < frame.top - 2 || box.bottom > frame.bottom + 2;
    }).map(text);
  });
  const covered = [...document.querySelectorAll("svg")].flatMap(svg => {
    const boxes = [...svg.querySelectorAll("text")].map(node => [node, node.getBoundingClientRect()]);
    return boxes.flatMap(([node, one], number) => boxes.slice(number + 1).filter(([, other]) =>
      Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1
      && Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 0.5 * one.height
    ).map(([other]) => `${text(node)} and ${text(other)}`));
  });
  const overflow = document.documentElement.scrollWidth - width;
  console.log("measured " + JSON.stringify({page: name, overflow, wide, clipped, covered}));
});
</script>
</body>"""


def browser() -> str:
    """Path of a Chromium; skips the test where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


def looked_at(pages: Mapping[str, str], widths: tuple[int, ...], folder: Path) -> list[dict[str, object]]:
    """Opens each page at each width, and returns what was measured of it.

    Fails if the console says anything else. Only the script that measures is added to a page.
    """
    frames = []
    for number, (name, html) in enumerate(pages.items()):
        assert POLICY in html
        allowed = (
            html if "script-src" in html else html.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'")
        )
        (folder / f"{number}.html").write_text(allowed.replace("</body>", _MEASURE))
        frames += [
            f'<iframe name="{name} at {width}" src="{number}.html" width="{width}" height="800"></iframe>'
            for width in widths
        ]
    outer = folder / "all.html"
    outer.write_text(f"<!doctype html><body>{''.join(frames)}</body>")
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000", "--dump-dom"]
    done = subprocess.run([*command, outer.as_uri()], capture_output=True, text=True, timeout=120)
    said = re.findall(r'CONSOLE(?:\(\d+\)|:\d+)\] "(.*)", source', done.stderr)
    measured = [json.loads(line.removeprefix("measured ")) for line in said if line.startswith("measured ")]
    assert [line for line in said if not line.startswith("measured ")] == []
    assert len(measured) == len(frames), done.stderr[-2000:]
    return measured
