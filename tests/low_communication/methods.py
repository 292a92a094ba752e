"""What is compared: each method as the Downpour settings of a job, and the sizes of the runs."""

import dataclasses
import string

SPEEDS = (1.0, 1.3, 2.0, 4.0)  # steps per virtual second of each replica


@dataclasses.dataclass(frozen=True)
class Plan:
    """How large a run is. `steps` are those of all replicas together."""
    layers: int
    heads: int
    width: int
    steps: int
    local_steps: int = 50
    batch: int = 12
    landing_steps: int = 5  # tau, of streaming; the paper's
    stripe_bytes: int = 16384
    evaluations: int = 20
    test_samples: int = 240  # of a point of the curve
    final_samples: int = 1200

    @property
    def warm_up(self):
        return self.steps // 20


PLANS = {
    # That of python/examples/gpt_bytes.py.
    "whole": Plan(4, 4, 128, 8000),
    # A quarter of its parameters.
    "quarter": Plan(4, 4, 64, 8000),
    # A tenth, for the rates.
    "tenth": Plan(2, 4, 48, 2000),
    # For the test that a seed repeats to the bit.
    "tiny": Plan(2, 2, 16, 80, local_steps=5, batch=2, landing_steps=1, stripe_bytes=1024, evaluations=4,
                 test_samples=24, final_samples=48),
}

FRAGMENTS = 4
MIXING = 0.5
MOMENTUM = 0.9
# As long as the fastest replica takes local_steps steps: it trains on meanwhile.
GRACE_OF_FASTEST = 1.0


@dataclasses.dataclass(frozen=True)
class Method:
    """rate: its key in the rates. downpour: text format, with $rate; None: one process. local:
    what `local` has beside its steps."""
    title: str
    rate: str
    downpour: str = None
    local: str = ""
    divide_rate: int = 1
    gradients: bool = False  # Downpour itself
    waits: bool = False      # overlap NONE: for what it pushed
    dynamic: bool = False
    rounds: bool = False
    grace: bool = False
    lands_late: bool = False
    mixing: float = 0.0


_NESTEROV = f"nesterov {{ rate: $rate momentum: {MOMENTUM} }}"
_DELAYED = f"nesterov {{ rate: $rate momentum: {MOMENTUM} period: {len(SPEEDS)} }}"
_ADAGRAD = ("adagrad { rate: $rate } "
            "schedule { cosine { pushes: $steps final: 0.1 } warm_up_pushes: $warm_up }")
_STREAMING = f"optimizer {{ {_NESTEROV} }} rounds {{ }}"
_IN_FRAGMENTS = f"fragments {{ count: {FRAGMENTS} }} landing_steps: $landing mixing: {MIXING}"

METHODS = {
    "sync": Method("synchronous DiLoCo", "sync", f"optimizer {{ {_NESTEROV} }} rounds {{ }}",
                   waits=True, rounds=True),
    "naive": Method("asynchronous Nesterov", "sync", f"optimizer {{ {_NESTEROV} }}"),
    "naive_small": Method("asynchronous Nesterov, rate / replicas", "sync",
                          f"optimizer {{ {_NESTEROV} }}", divide_rate=len(SPEEDS)),
    "delayed": Method("delayed Nesterov, dynamic steps", "delayed",
                      f"optimizer {{ {_DELAYED} }}", local="dynamic: true", dynamic=True),
    "streaming": Method("streaming, float32", "streaming", _STREAMING, local=_IN_FRAGMENTS,
                        rounds=True, lands_late=True, mixing=MIXING),
    "streaming_int4": Method("streaming, 4 bits", "streaming", _STREAMING + " push_format: INT4",
                             local=_IN_FRAGMENTS, rounds=True, lands_late=True, mixing=MIXING),
    "decoupled": Method("decoupled, quorum 1", "decoupled",
                        f"optimizer {{ {_NESTEROV} }} "
                        "rounds { quorum: 1 grace_seconds: $grace }", local="weight: TOKENS",
                        rounds=True, grace=True),
    "downpour": Method("Downpour, Adagrad, n = 1", "downpour", f"optimizer {{ {_ADAGRAD} }}",
                       gradients=True),
    "alone": Method("one process", "alone"),
}


def grace(plan):
    return GRACE_OF_FASTEST * plan.local_steps / max(SPEEDS)


def downpour_text(method, plan, rate):
    """The job's Downpour settings."""
    local = "" if method.gradients else f"local {{ steps: {plan.local_steps} {method.local} }} "
    settings = string.Template(local + method.downpour).substitute(
        rate=rate / method.divide_rate, grace=grace(plan), landing=plan.landing_steps,
        steps=plan.steps, warm_up=plan.warm_up)
    return f"workers: {len(SPEEDS)} {settings}"
