"""Tests of what crosses folders. `python3 -m tests.process --list` tells those of real processes."""
