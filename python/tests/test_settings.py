"""Job files, optimizers and the layout of modules."""

import pytest

import monsoon as ms
from monsoon import _text, layout
from monsoon.settings import Settings


def text(**changed):
    return Settings(**{**dict(name="gpt", optimizer=ms.SGD(0.1), epochs=3), **changed}).job(100, 8)


def flat(message):
    return " ".join(message.split())


def test_text_is_escaped_and_exact():
    assert _text.quoted('a"\\\n\u00fc') == '"a\\"\\\\\\012\\303\\274"'
    assert _text.write({"a": 0.1 + 0.2, "b": None, "c": True, "d": [1, 2], "e": {}}) == (
        "a: 0.30000000000000004\nc: true\nd: 1\nd: 2\ne {\n}\n")
    with pytest.raises(ms.InvalidArgument, match="rate is nan"):
        _text.write({"rate": float("nan")})


@pytest.mark.parametrize("optimizer, expected", [
    (ms.SGD(0.5), "sgd { rate: 0.5 }"),
    (ms.Momentum(0.5, 0.8), "momentum { rate: 0.5 momentum: 0.8 }"),
    (ms.Adagrad(0.03, initial_accumulator_value=0.1),
     "adagrad { rate: 0.03 epsilon: 1e-08 initial_accumulator: 0.1 }"),
    (ms.Adam(1e-3, betas=(0.0, 0.99), eps=1e-6, weight_decay=0.1),
     "adam { rate: 0.001 beta1: 0.0 beta2: 0.99 epsilon: 1e-06 } weight_decay: 0.1"),
    (ms.AdamW(1e-3, weight_decay=0.0, weight_decay_weights_only=True),
     "adam_w { rate: 0.001 beta1: 0.9 beta2: 0.999 epsilon: 1e-08 weight_decay: 0.0 } "
     "weight_decay_weights_only: true"),
    (ms.RMSProp(0.01, momentum=0.9),
     "rms_prop { rate: 0.01 alpha: 0.99 epsilon: 1e-08 momentum: 0.9 }"),
    (ms.SGD(1, damping=0.5), "sgd { rate: 1.0 } damping: 0.5"),
    (ms.SGD(1, average=ms.Average(power=1)),
     "sgd { rate: 1.0 } average { share: 0.9 power: 1.0 }"),
    (ms.Nesterov(), "nesterov { rate: 0.7 momentum: 0.9 }"),
    (ms.DelayedNesterov(0.5, 0.8, period=4, share=0.25),
     "nesterov { rate: 0.5 momentum: 0.8 period: 4 share: 0.25 }"),
    (ms.SGD(1, clip_value=2, clip_norm=3, schedule=ms.StepSchedule(10, 0.5, warm_up_pushes=4)),
     "sgd { rate: 1.0 } schedule { step { every_pushes: 10 factor: 0.5 } warm_up_pushes: 4 } "
     "clip_value: 2.0 clip_norm: 3.0"),
    (ms.SGD(1, schedule=ms.CosineSchedule(10, final=0.1)),
     "sgd { rate: 1.0 } schedule { cosine { pushes: 10 final: 0.1 } }"),
    (ms.SGD(1, schedule=ms.WarmUp(5)), "sgd { rate: 1.0 } schedule { warm_up_pushes: 5 }"),
    (ms.SGD(1, schedule=ms.CosineSchedule(share=1.0, warm_up_share=0.1)),
     "sgd { rate: 1.0 } schedule { cosine { share: 1.0 } warm_up_share: 0.1 }"),
    (ms.Lion(3e-4, weight_decay=0.1),
     "lion { rate: 0.0003 beta1: 0.9 beta2: 0.99 weight_decay: 0.1 }"),
    (ms.SGD(1, schedule=ms.LinearSchedule(1000, 0.1, in_steps=True)),
     "sgd { rate: 1.0 } schedule { linear { pushes: 1000 final: 0.1 } in_steps: true }"),
    (ms.SGD(1, schedule=ms.PolynomialSchedule(share=1.0, power=3)),
     "sgd { rate: 1.0 } schedule { polynomial { share: 1.0 power: 3.0 } }"),
    (ms.SGD(1, schedule=ms.InverseRootSchedule(400, warm_up_pushes=400)),
     "sgd { rate: 1.0 } schedule { inverse_root { pushes: 400 } warm_up_pushes: 400 }"),
    (ms.SGD(1, schedule=ms.OneCycleSchedule(share=1.0)),
     "sgd { rate: 1.0 } schedule { one_cycle { share: 1.0 rise: 0.3 start: 0.04 final: 4e-06 } }"),
    (ms.SGD(1, schedule=ms.PointsSchedule([(0, 1), (0.5, 0.1)], hold=True, shares=True)),
     "sgd { rate: 1.0 } schedule { points { point { factor: 1.0 } point { share: 0.5 factor: 0.1 } "
     "hold: true } }"),
    (ms.SGD(1, schedule=ms.WarmUp(50, in_steps=True)),
     "sgd { rate: 1.0 } schedule { warm_up_pushes: 50 in_steps: true }"),
    (ms.SGD(1, schedule=ms.StepSchedule(factor=0.5, every_share=0.25)),
     "sgd { rate: 1.0 } schedule { step { factor: 0.5 every_share: 0.25 } }"),
])
def test_optimizers_of_the_shards(optimizer, expected):
    assert f"optimizer {{ {expected} }} }}" in flat(text(optimizer=optimizer))


def test_local_steps_with_an_outer_optimizer():
    local = ms.Local(None, every=50, outer=ms.DelayedNesterov(period=3))
    assert flat("""downpour { local { steps: 50 }
        optimizer { nesterov { rate: 0.7 momentum: 0.9 period: 3 } } }""") in flat(
            text(optimizer=local))
    assert repr(local) == (
        "Local(NoneType, every=50, outer=DelayedNesterov(lr=0.7, momentum=0.9, period=3))")


def test_local_steps_in_proportion_to_speed():
    local = ms.Local(None, every=50, outer=ms.SGD(0.5), dynamic=True)
    assert flat("""downpour { local { steps: 50 dynamic: true }
        optimizer { sgd { rate: 0.5 } } }""") in flat(text(optimizer=local))
    assert repr(local) == "Local(NoneType, every=50, outer=SGD(lr=0.5), dynamic=True)"


def test_rounds_of_all_programs():
    local = ms.Local(None, every=50, outer=ms.Nesterov(), rounds=ms.Rounds())
    assert flat("""downpour { local { steps: 50 } rounds { }
        optimizer { nesterov { rate: 0.7 momentum: 0.9 } } }""") in flat(text(optimizer=local))
    assert repr(local) == ("Local(NoneType, every=50, outer=Nesterov(lr=0.7, momentum=0.9), "
                           "rounds=Rounds(quorum=0, grace=0.0, adaptive=0.0))")


@pytest.mark.parametrize("rounds, weight, reference, expected", [
    (ms.Rounds(quorum=1, grace=2), None, None, "} rounds { quorum: 1 grace_seconds: 2.0 }"),
    (ms.Rounds(quorum=1, grace=2, adaptive=0.9), None, None,
     "} rounds { quorum: 1 grace_seconds: 2.0 adaptive_share: 0.9 }"),
    (ms.Rounds(quorum=3), "tokens", None, "weight: TOKENS } rounds { quorum: 3 }"),
    (ms.Rounds(), None, 5, "weight_reference: 5.0 } rounds { }"),
    (None, "steps", 100, "weight: STEPS weight_reference: 100.0 }"),
    (None, "tokens_squared_per_step", None, "weight: TOKENS_SQUARED_PER_STEP }"),
])
def test_rounds_and_weights(rounds, weight, reference, expected):
    local = ms.Local(None, every=50, rounds=rounds, weight=weight, weight_reference=reference)
    assert f"downpour {{ local {{ steps: 50 {expected} }}" in flat(text(optimizer=local))


@pytest.mark.parametrize("given, expected", [
    ({"fragments": ms.Fragments(5)}, "fragments { count: 5 } }"),
    ({"fragments": ms.Fragments(2, order="stripe"), "mixing": 0.25},
     "fragments { count: 2 order: BY_STRIPE } mixing: 0.25 }"),
    ({"fragments": ms.Fragments(5), "changes": "int4"},
     "fragments { count: 5 } } fetch_changes: INT4"),
])
def test_fragments_and_mixing(given, expected):
    local = ms.Local(None, every=50, **given)
    assert f"downpour {{ local {{ steps: 50 {expected} }}" in flat(text(optimizer=local))
    assert repr(local).startswith("Local(NoneType, every=50, fragments=Fragments(")


def test_rounds_do_not_change():
    with pytest.raises(AttributeError):
        ms.Rounds().quorum = 1


def test_a_job_with_all_settings():
    assert flat(text(
        seed=7, n_fetch=2, n_push=3, overlap=False, push_format="top_k", fetch_format="int8",
        top_k_share=0.1, residual_decay=0.95, staleness_bound=0, drop_older=True, evaluates=True,
        evaluate_every=0.5, max_steps=9, max_seconds=2, target_accuracy=0.9, divergence="skip", block_examples=64,
        checkpoint=ms.Checkpoint(every_seconds=5, every_pushes=6, keep_best="accuracy"))) == flat("""
        name: "gpt" train { joiners { examples: 100 } } test { joiners { } } seed: 7 batch_size: 8
        downpour { n_fetch: 2 n_push: 3 overlap: NONE push_format: TOP_K fetch_format: INT8
        top_k_share: 0.1 residual_decay: 0.95 staleness_bound: 0 staleness_policy: DROP_OLDER
        optimizer { sgd { rate: 0.1 } } }
        stop { epochs: 3.0 steps: 9 seconds: 2.0 target_accuracy: 0.9 }
        evaluation { every_epochs: 0.5 } block_examples: 64
        checkpoint { every_seconds: 5.0 every_pushes: 6 keep_best: TEST_ACCURACY }
        divergence { action: SKIP }""")


@pytest.mark.parametrize("given,complaint", [
    ({"staleness_bound": -1}, "0 to 65536"), ({"staleness_bound": 65537}, "0 to 65536"),
    ({"staleness_bound": True}, "0 to 65536"), ({"drop_older": True}, "needs staleness_bound=")])
def test_a_bound_that_cannot_be_right(given, complaint):
    with pytest.raises(ms.InvalidArgument, match=complaint):
        Settings(name="gpt", optimizer=ms.SGD(0.1), epochs=3, **given).check()


@pytest.mark.parametrize("name", ["bfloat16", "float16", "int8", "int4", "top_k", "top_k_2bit"])
def test_formats(name):
    assert f"push_format: {name.upper()} " in flat(text(push_format=name))


@pytest.mark.parametrize("make, words", [
    (lambda: ms.SGD(0), "lr is 0.0; it must be above 0"),
    (lambda: ms.SGD(float("nan")), "lr is nan"),
    (lambda: ms.Adam(betas=(1.0, 0.9)), r"betas\[0\] is 1.0; it must be at least 0 and below 1"),
    (lambda: ms.Adagrad(1, eps=0), "eps is 0.0; it must be above 0"),
    (lambda: ms.Local(ms.SGD(1)), "to run it on shards"),
    (lambda: ms.Local(3), "with step"),
    (lambda: ms.SGD(1, average=0.9), "average is a float"),
    (lambda: ms.SGD(1, damping=5), "damping is 5; it must be at most 4"),
    (lambda: ms.Average(share=1.5), "at most 1"),
    (lambda: ms.Local(None, every=0), "every is 0"),
    (lambda: ms.Local(None, outer=3), "outer is a int"),
    (lambda: ms.Rounds(quorum=-1), "quorum is -1; it must be 0, for all, to 4096"),
    (lambda: ms.Rounds(quorum=4097), "quorum is 4097"),
    (lambda: ms.Rounds(quorum=0.5), "quorum is 0.5"),
    (lambda: ms.Rounds(quorum=True), "quorum is True"),
    (lambda: ms.Rounds(grace=2.0), "grace is 2.0; a round of all programs"),
    (lambda: ms.Rounds(quorum=1, grace=float("nan")), "grace is nan; it must be 0 to 3600"),
    (lambda: ms.Rounds(quorum=1, grace=-1), "grace is -1"),
    (lambda: ms.Rounds(quorum=1, grace=3601), "grace is 3601"),
    (lambda: ms.Local(None, rounds=1), "rounds is a int; give monsoon.Rounds"),
    (lambda: ms.Fragments(1), "count is 1; it must be 2 to 1024"),
    (lambda: ms.Fragments(4, order="size"), "order='size': there are layer, stripe"),
    (lambda: ms.Local(None, fragments=4), "fragments is a int; give monsoon.Fragments"),
    (lambda: ms.Local(None, every=50, fragments=ms.Fragments(4)), "no multiple of the 4 fragments"),
    (lambda: ms.Local(None, mixing=1), "mixing is 1; what was fetched would never be used"),
    (lambda: ms.Local(None, mixing=-0.5), "mixing is -0.5; it must be 0 to 1"),
    (lambda: ms.Local(None, changes="top_k"), "changes='top_k': there are int4, int8, bfloat16"),
    (lambda: ms.Local(None, weight="samples"), "weight='samples': there are steps, tokens"),
    (lambda: ms.Local(None, weight="steps", weight_reference=float("inf")),
     "weight_reference is inf"),
    (lambda: ms.Local(None, weight="steps", weight_reference=-1), "weight_reference is -1"),
    (lambda: ms.Local(None, weight_reference=2), "weight_reference means nothing without weight"),
    (lambda: ms.DelayedNesterov(period=0), "period is 0"),
    (lambda: ms.DelayedNesterov(period=4, share=0.3), "at most 1 / period, 0.25"),
    (lambda: ms.StepSchedule(0, 0.5), "every_pushes is at least 1"),
    (lambda: ms.CosineSchedule(), "pushes is at least 1, or say share"),
    (lambda: ms.CosineSchedule(10, share=1.0), "stands in place of pushes"),
    (lambda: ms.CosineSchedule(share=1.5), "share is in"),
    (lambda: ms.WarmUp(), "pushes is at least 1"),
    (lambda: ms.LinearSchedule(10, 1.5), "final is in"),
    (lambda: ms.PolynomialSchedule(10, power=0), "power is in"),
    (lambda: ms.InverseRootSchedule(), "pushes is at least 1, or say share"),
    (lambda: ms.OneCycleSchedule(10, rise=1), "rise is in"),
    (lambda: ms.OneCycleSchedule(10, start=2), "start is in"),
    (lambda: ms.PointsSchedule([]), "give points"),
    (lambda: ms.PointsSchedule([(5, 1), (2, 1)]), "in the order of pushes"),
    (lambda: ms.PointsSchedule([(0.5, 1)]), "say shares=True"),
    (lambda: ms.PointsSchedule([(0, 1), (2, 1)], shares=True), r"in \[0, 1\]"),
    (lambda: ms.PointsSchedule([(0, -1)]), "at least 0"),
    (lambda: ms.Lion(betas=(0.9, 1)), "betas"),
    (lambda: ms.CosineSchedule(10, warm_up_share=2), "warm_up_share is in"),
    (lambda: Settings("a", ms.SGD(1), epochs=1, programs=0).check(), "programs is 0"),
    (lambda: Settings("a", ms.SGD(1)).job(10, 2), "the job has no end"),
    (lambda: Settings("a", ms.SGD(1), epochs=1).job(None, 2), "have no epochs"),
    (lambda: Settings("a", object(), epochs=1).check(), "optimizer is a object"),
    (lambda: Settings("a", ms.SGD(1), epochs=1, push_format="f4").check(), "there are float32"),
    (lambda: Settings("a", ms.Local(None), epochs=1, n_push=2).check(), "`every` says when"),
    (lambda: Settings("a", ms.SGD(1), epochs=1, evaluate_every=1).check(), "needs evaluate="),
    (lambda: ms.join(None, "a", {}, ms.SGD(1), epochs=1, data=[1], examples=2), "data has 1"),
])
def test_settings_that_cannot_be_right(make, words):
    with pytest.raises(ms.InvalidArgument, match=words):
        make()


def test_the_layout_of_a_module():
    torch = pytest.importorskip("torch")

    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(2, 3)
            self.frozen = torch.nn.Parameter(torch.zeros(2), requires_grad=False)
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("cache", torch.zeros(4), persistent=False)
            self.register_buffer("count", torch.zeros(1, dtype=torch.int64))
            self.register_buffer("nothing", None)

    told = layout.of_module(Part())
    assert [(e.name, e.shape, int(e.kind)) for e in told.entries] == [
        ("inner.weight", (3, 2), 0), ("inner.bias", (3,), 0), ("mean", (4,), 1)]
    assert told.local == ["frozen", "cache", "count"]


def test_modules_that_cannot_be():
    torch = pytest.importorskip("torch")

    def model(change):
        made = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
        change(made)
        return made

    def share(made):
        made[1].weight.data = made[0].weight.data

    def be_complex(made):
        made[0].weight = torch.nn.Parameter(torch.zeros(2, 2, dtype=torch.complex64))

    def be_meta(made):
        made[0].weight = torch.nn.Parameter(torch.zeros(2, 2, device="meta"))

    def be_lazy(made):
        made[0] = torch.nn.LazyLinear(2)

    def freeze(made):
        for p in made.parameters():
            p.requires_grad_(False)

    for change, words in ((share, "0.weight and 1.weight lie in one memory"),
                          (be_complex, "0.weight is of torch.complex64"),
                          (be_meta, "0.weight is on the meta device"),
                          (be_lazy, "0.weight has no shape yet"), (freeze, "no parameter to train")):
        with pytest.raises(ms.InvalidArgument, match=words):
            layout.of_module(model(change))


def test_stats_are_one_line():
    line = str(ms.Stats(steps=3, bytes_pushed=2048, staleness=1, staleness_max=4, refused=2,
                        bytes_copied={"gradient:gathered": 4096}))
    assert line == ("worker/0 steps=3 examples=0 fetches=0 pushes=0 fetched=0B pushed=2.0KiB "
                    "staleness=1 (max 4) replicas=0 refused=2 copied=(gradient:gathered 4.0KiB)")
