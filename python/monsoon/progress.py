"""Shows a watched job: a bar on a terminal, a line a description elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterable, Optional, TextIO

_WIDTH = 30


def line(told: Dict[str, Any]) -> str:
    """A description in one line."""
    progress = told.get("progress") or {}
    words = [f"job={told['job']}", f"state={told['state']}"]
    for name, form in (("epoch", "{:.2f}"), ("percent", "{:.1f}"), ("step", "{:d}"),
                       ("loss", "{:.4f}"), ("examples_per_s", "{:.0f}"), ("eta_s", "{:.0f}")):
        value = progress.get(name)
        if value is not None:
            words.append(f"{name}={form.format(int(value) if form == '{:d}' else value)}")
    return " ".join(words)


def bar(told: Dict[str, Any], columns: int) -> str:
    """The same with a bar, cut to the terminal's width."""
    percent = float((told.get("progress") or {}).get("percent") or 0.0)
    full = int(_WIDTH * min(100.0, percent) / 100)
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {line(told)}"[:max(1, columns - 1)]


def show(descriptions: Iterable[Dict[str, Any]], out: Optional[TextIO] = None) -> Dict[str, Any]:
    """Shows each and returns the last: show(client.watch("gpt-1"))."""
    out = sys.stderr if out is None else out
    told: Dict[str, Any] = {}
    terminal = out.isatty()
    try:
        for told in descriptions:
            if terminal:
                columns = os.get_terminal_size(out.fileno()).columns
                out.write("\r\x1b[K" + bar(told, columns))
            else:
                out.write(line(told) + "\n")
            out.flush()
    finally:
        if terminal:
            out.write("\n")
    return told
