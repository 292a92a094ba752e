"""Fixtures: the package from this tree, and a fake library in the place of the real one."""

import pathlib
import signal
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE), str(HERE.parent / "examples")]

# A shell has what it starts in the background ignore SIGINT, and programs of tests inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

from fake_library import FakeLibrary  # noqa: E402

from monsoon import _library  # noqa: E402


@pytest.fixture
def library():
    """A fake library, in use until the test ends."""
    fake = FakeLibrary()
    before = _library.use(fake)
    yield fake
    _library.use(before)
