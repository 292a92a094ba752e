"""Stands for python/monsoon where wheels are tested without it."""

from ._version import __version__

__all__ = ["__version__"]
