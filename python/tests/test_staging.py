"""Copies through pinned memory, with stand-ins for a device's tensors, streams and events: what is
done, and in what order."""

import types

import pytest

from monsoon import staging


class Device:
    def __init__(self, name, kind="cuda"):
        self.name, self.type = name, kind


class Stream:
    """Copies that do not block are done when it is waited for."""

    def __init__(self, name, log):
        self.name, self.log, self.queued = name, log, []

    def synchronize(self):
        self.log.append(f"wait {self.name}")
        self.drain()

    def drain(self):
        for work in self.queued:
            work()
        self.queued = []

    def record_event(self):
        self.log.append(f"event {self.name}")
        return types.SimpleNamespace(synchronize=self.synchronize)


class Tensor:
    dtype = "float32"

    def __init__(self, world, device, value=None, pinned=False):
        self.world, self.device, self.value, self.pinned = world, device, value, pinned
        self.shape = (1,)

    def detach(self):
        return self

    def copy_(self, other, non_blocking=False):
        moves = {self.device.type, other.device.type} == {"cpu", "cuda"}
        if not moves:
            assert not non_blocking
            self.value = other.value
            return
        on_device = self if self.device.type == "cuda" else other
        host = other if self.device.type == "cuda" else self
        assert host.pinned and non_blocking, "a copy that goes through the driver's own buffer"

        def work():
            self.value = other.value

        self.world.streams[on_device.device].queued.append(work)


class World:
    cpu = Device("cpu", "cpu")

    def __init__(self):
        self.log, self.buffers = [], []
        self.devices = [Device("cuda:0"), Device("cuda:1")]
        self.streams = {device: Stream(device.name, self.log) for device in self.devices}
        self.cuda = types.SimpleNamespace(current_stream=lambda device: self.streams[device])

    def empty(self, shape, dtype, pin_memory):
        self.buffers.append(Tensor(self, self.cpu, pinned=pin_memory))
        return self.buffers[-1]

    def tensors(self, *values):
        """One on each device in turn."""
        return [Tensor(self, self.devices[i % 2], value) for i, value in enumerate(values)]


@pytest.fixture
def world(monkeypatch):
    world = World()
    monkeypatch.setattr(staging, "torch", world)
    return world


def test_values_are_there_when_to_host_returns_after_one_wait_for_each_device(world):
    there = staging.Staging()
    on_host = Tensor(world, world.cpu, 7)
    values = there.to_host([*world.tensors(1, 2, 3), on_host])
    assert [value.value for value in values] == [1, 2, 3, 7]
    assert sorted(world.log) == ["wait cuda:0", "wait cuda:1"]
    assert values[3] is on_host and len(world.buffers) == 3
    there.to_host(world.tensors(4, 5, 6))
    assert len(world.buffers) == 3  # the same


def test_a_buffer_is_not_written_to_while_a_copy_from_it_is_under_way(world):
    there, tensors = staging.Staging(), world.tensors(0, 0)
    there.to_device([(tensor, Tensor(world, world.cpu, 5)) for tensor in tensors])
    assert [tensor.value for tensor in tensors] == [0, 0]  # nobody has waited
    assert sorted(world.log) == ["event cuda:0", "event cuda:1"]
    there.to_device([(tensor, Tensor(world, world.cpu, 6)) for tensor in tensors])
    assert [tensor.value for tensor in tensors] == [5, 5]  # the first came whole
    there.to_host(tensors)
    assert [tensor.value for tensor in tensors] == [6, 6]


def test_what_is_on_the_host_is_copied_at_once(world):
    there, tensor = staging.Staging(), Tensor(world, world.cpu, 0)
    there.to_device([(tensor, Tensor(world, world.cpu, 9))])
    assert tensor.value == 9 and world.log == [] and world.buffers == []
