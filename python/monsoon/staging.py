"""Copies between a device and the vectors, through pinned memory."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch


class Staging:
    """Buffers of pinned memory, one for each tensor of a device, made when first used: a copy
    from and to pageable memory goes through the driver's own small buffer. Tensors on the CPU
    are passed on as they are."""

    def __init__(self) -> None:
        self._buffers: Dict[Tuple[Any, ...], Any] = {}
        # After the last copies to a device: their buffers are free again.
        self._busy: List[Any] = []

    def _buffer(self, tensor: Any, position: int) -> Any:
        key = (position, tensor.dtype, tuple(tensor.shape))
        if key not in self._buffers:
            self._buffers[key] = torch.empty(tensor.shape, dtype=tensor.dtype,
                                             pin_memory=tensor.device.type == "cuda")
        return self._buffers[key]

    def _wait(self) -> None:
        for event in self._busy:
            event.synchronize()
        self._busy = []

    def to_host(self, tensors: Sequence[Any]) -> List[Any]:
        """The values on the CPU, valid until the next call."""
        self._wait()
        out, devices = [], set()
        for position, tensor in enumerate(tensors):
            if tensor.device.type == "cpu":
                out.append(tensor.detach())
                continue
            buffer = self._buffer(tensor, position)
            buffer.copy_(tensor.detach(), non_blocking=True)
            devices.add(tensor.device)
            out.append(buffer)
        for device in devices:
            stream = _stream(device)
            if stream is not None:
                stream.synchronize()
        return out

    def to_device(self, pairs: Sequence[Tuple[Any, Any]]) -> None:
        """Copies each (tensor, values on the CPU), in the order of the device's stream."""
        self._wait()
        devices = set()
        for position, (tensor, values) in enumerate(pairs):
            if tensor.device.type == "cpu":
                tensor.copy_(values)
                continue
            buffer = self._buffer(tensor, position)
            buffer.copy_(values)
            tensor.copy_(buffer, non_blocking=True)
            devices.add(tensor.device)
        for device in devices:
            stream = _stream(device)
            if stream is not None:
                self._busy.append(stream.record_event())


def _stream(device: Any) -> Optional[Any]:
    return torch.cuda.current_stream(device) if device.type == "cuda" else None
