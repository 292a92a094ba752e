"""A warning where the differences of programs add up that should average."""

from __future__ import annotations

import warnings

from .local import Local
from .settings import Settings
from .training import Training


class SumsWarning:
    """Of one job, at most once: more programs train than it was told, and nobody says what the
    shards are to make of their differences."""

    def __init__(self, settings: Settings) -> None:
        local = settings.optimizer if isinstance(settings.optimizer, Local) else None
        self._known = settings.programs or 1
        self._may_come = local is not None and local.outer is None and local.rounds is None

    def look(self, job: str, training: Training) -> None:
        if not self._may_come or training.ended:
            return
        count = training.replica.programs()
        if count <= self._known:
            return
        self._may_come = False
        share = "whole" if self._known == 1 else f"by 1/{self._known}"
        warnings.warn(
            f"{count} programs train job {job}, and each difference is subtracted {share}: they "
            f"add up where they should average. Say programs={count} to monsoon.join(), or an "
            "outer optimizer to Local()", stacklevel=3)
