"""What a replica has done, in one line or by name."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List


@dataclasses.dataclass
class Stats:
    """job.stats. Bytes are of the network unless the name says copied.

    staleness is of the newest push, -1 while it is not known. sessions is 1 and one more
    for each that was lost. bytes_copied has, by path, what was copied because it could not be
    a view ("gradient:gathered", "parameter:float16"). missing_gradients counts tensors that a
    step had no gradient of. discarded are batches that a lost session
    took away. local are the names of tensors that stay in this process. local_steps are those
    of the difference under way, fewer than Local's `every` where the job asks for that
    (dynamic=True); 0: gradients are pushed.
    """

    steps: int = 0
    examples: int = 0
    fetches: int = 0
    pushes: int = 0
    refused: int = 0
    bytes_fetched: int = 0
    bytes_pushed: int = 0
    staleness: int = -1
    staleness_max: int = 0
    sessions: int = 0
    evaluations: int = 0
    replicas: int = 0
    worker: int = 0
    sidecar_pid: int = 0
    local_steps: int = 0
    missing_gradients: int = 0
    discarded: int = 0
    bytes_copied: Dict[str, int] = dataclasses.field(default_factory=dict)
    local: List[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, training: Any, binding: Any, layout: Any) -> "Stats":
        """Of a program's part in a job, as of its last call; `training` is None before it."""
        told, discarded = {}, 0
        if training is not None:
            told, discarded = training.replica.stats(), training.discarded
        return cls(**told, missing_gradients=binding.missing, discarded=discarded,
                   bytes_copied=dict(binding.copied), local=list(layout.local))

    def __str__(self) -> str:
        words = [f"worker/{self.worker}", f"steps={self.steps}", f"examples={self.examples}",
                 f"fetches={self.fetches}", f"pushes={self.pushes}",
                 f"fetched={_bytes(self.bytes_fetched)}", f"pushed={_bytes(self.bytes_pushed)}"]
        if self.staleness >= 0:
            words.append(f"staleness={self.staleness} (max {self.staleness_max})")
        words.append(f"replicas={self.replicas}")
        for name, usual in (("sessions", 1), ("refused", 0), ("evaluations", 0),
                            ("missing_gradients", 0), ("discarded", 0)):
            if getattr(self, name) > usual:
                words.append(f"{name}={getattr(self, name)}")
        if self.bytes_copied:
            paths = ", ".join(f"{path} {_bytes(count)}"
                              for path, count in sorted(self.bytes_copied.items()))
            words.append(f"copied=({paths})")
        return " ".join(words)


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f}{unit}" if unit == "B" else f"{size:.1f}{unit}"
        size /= 1024
    return f"{size:.1f}TiB"
