"""Ways of training over a slow link, as keywords of monsoon.join()."""

import monsoon as ms

FRAGMENTS = 4
WAYS = ("downpour", "whole", "whole_int4", "streaming", "streaming_float32", "rounds")
# Bytes a parameter and exchange, as docs/low_communication.md has them: up, and down for each
# change that a fetch has.
FLOAT32 = 4.0
INT4 = 0.5 + 2 / 128


def settings_of(way, every, replicas):
    mean = ms.SGD(1 / replicas)
    if way == "downpour":
        return {"optimizer": ms.SGD(0.1 / replicas)}
    if way == "whole":
        return {"optimizer": ms.Local(None, every=every, outer=mean)}
    if way == "whole_int4":
        return {"optimizer": ms.Local(None, every=every, outer=mean, changes="int4"),
                "push_format": "int4"}
    if way == "streaming":
        return {"optimizer": ms.Local(None, every=every, outer=mean, changes="int4",
                                      fragments=ms.Fragments(FRAGMENTS)), "push_format": "int4"}
    if way == "streaming_float32":
        return {"optimizer": ms.Local(None, every=every, outer=mean,
                                      fragments=ms.Fragments(FRAGMENTS))}
    if way == "rounds":
        return {"optimizer": ms.Local(None, every=every, outer=ms.Nesterov(0.7, 0.9),
                                      rounds=ms.Rounds(), changes="int4"), "push_format": "int4"}
    raise ValueError(f"way {way!r}: there are {', '.join(WAYS)}")


def fragments_of(way):
    """How many parts an exchange of the whole model has."""
    return FRAGMENTS if way.startswith("streaming") else 1
