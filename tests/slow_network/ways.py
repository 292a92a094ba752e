"""Ways of training over a slow link; linked_program.py has what each is of the package."""

FRAGMENTS = 4
WAYS = ("downpour", "whole", "whole_int4", "streaming", "streaming_float32", "rounds")
# Bytes a parameter and exchange, as docs/low_communication.md has them: up, and down for each
# change that a fetch has.
FLOAT32 = 4.0
INT4 = 0.5 + 2 / 128


def fragments_of(way):
    """How many parts an exchange of the whole model has."""
    return FRAGMENTS if way.startswith("streaming") else 1
