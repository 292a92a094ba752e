"""SIGTERM as an exception, so that a job is left in order."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import Any, Optional


def _leave(number: int, frame: Optional[FrameType]) -> None:
    sys.exit(128 + number)


class Terminable:
    """While it is entered, SIGTERM raises SystemExit(143) in the main thread, where the
    program has no handler of its own. Elsewhere than in the main thread it does nothing."""

    def __init__(self) -> None:
        self._before: Any = None
        self._set = False

    def enter(self) -> None:
        if threading.current_thread() is not threading.main_thread() or self._set:
            return
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._before = signal.signal(signal.SIGTERM, _leave)
            self._set = True

    def leave(self) -> None:
        if not self._set or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is _leave:
            signal.signal(signal.SIGTERM, self._before)
        self._set = False
