"""Settings that go by the test set's figures, and what programs may tell."""

import math

import numpy
import pytest

import monsoon as ms
from monsoon import evaluation
from monsoon.settings import Settings
from test_settings import flat, text


def test_an_early_stop_is_an_end_of_its_own():
    told = flat(text(epochs=None, early_stop=ms.EarlyStop(patience=3), evaluates=True,
                     evaluate_every=1))
    assert "stop { early { metric: TEST_LOSS patience: 3 } }" in told
    told = flat(text(early_stop=ms.EarlyStop("accuracy", min_change=0.01), evaluates=True,
                     evaluate_every=1))
    assert ("stop { epochs: 3.0 early { metric: TEST_ACCURACY patience: 5 min_change: 0.01 } }"
            in told)


@pytest.mark.parametrize("optimizer, expected", [
    (ms.SGD(0.1), "optimizer { sgd { rate: 0.1 } schedule { plateau { factor: 0.5 patience: 2 } }"),
    (ms.SGD(0.1, schedule=ms.WarmUp(5)),
     "schedule { plateau { factor: 0.5 patience: 2 } warm_up_pushes: 5 }"),
    (ms.Local(None, every=5, outer=ms.SGD(1)),
     "optimizer { sgd { rate: 1.0 } schedule { plateau { factor: 0.5 patience: 2 } }"),
])
def test_a_plateau_is_of_the_shards_optimizer(optimizer, expected):
    assert expected in flat(text(optimizer=optimizer, plateau=ms.Plateau(), evaluates=True,
                                 evaluate_every=1))


def test_a_plateau_with_all_that_it_has():
    plateau = ms.Plateau(0.25, patience=4, min_change=0.5, min_factor=0.125, figure="accuracy")
    assert flat(text(plateau=plateau, evaluates=True, evaluate_every=1)).count(
        "plateau { factor: 0.25 patience: 4 min_change: 0.5 min_factor: 0.125 by_accuracy: true }")


TESTED = {"evaluates": True, "evaluate_every": 1}


@pytest.mark.parametrize("given, words", [
    ({"early_stop": ms.EarlyStop()}, "early_stop counts evaluations while the job trains: give "
                                     "evaluate= and evaluate_every="),
    ({"plateau": ms.Plateau(), "evaluates": True}, "plateau counts evaluations"),
    ({"early_stop": 5, **TESTED}, "early_stop is a int; give monsoon.EarlyStop"),
    ({"plateau": ms.EarlyStop(), **TESTED}, "plateau is a EarlyStop; give monsoon.Plateau"),
    ({"plateau": ms.Plateau(), "optimizer": ms.Local(None), **TESTED}, r"Local\(outer="),
    ({"plateau": ms.Plateau(), "optimizer": ms.SGD(1, schedule=ms.StepSchedule(5)), **TESTED},
     "both lower the rate"),
    ({"target_accuracy": 90, "evaluates": True}, r"target_accuracy is 90; it is a share in \(0, 1"),
    ({"target_accuracy": 0, "evaluates": True}, "0.9 for 90 per cent"),
    ({"target_accuracy": float("nan"), "evaluates": True}, "target_accuracy is nan"),
])
def test_what_cannot_be_is_told(given, words):
    settings = {**dict(name="gpt", optimizer=ms.SGD(0.1), epochs=3), **given}
    with pytest.raises(ms.InvalidArgument, match=words):
        Settings(**settings).check()


@pytest.mark.parametrize("make, words", [
    (lambda: ms.EarlyStop("auc"), "figure is"),
    (lambda: ms.EarlyStop(patience=0), "patience is a number of evaluations"),
    (lambda: ms.EarlyStop(patience=1.5), "patience is a number"),
    (lambda: ms.EarlyStop(patience=True), "patience is a number"),
    (lambda: ms.EarlyStop(min_change=-1), "min_change is finite"),
    (lambda: ms.EarlyStop(min_change=float("nan")), "min_change is finite"),
    (lambda: ms.Plateau(1), r"factor is in \(0, 1\)"),
    (lambda: ms.Plateau(min_factor=1), r"min_factor is in \[0, 1\)"),
    (lambda: ms.Plateau(patience=0), "patience is a number"),
])
def test_rules_that_cannot_be(make, words):
    with pytest.raises(ms.InvalidArgument, match=words):
        make()


def step(library, **figures):
    """One step of a job of 20 samples in batches of 8."""
    model = {"w": numpy.zeros(3, "f4")}
    with ms.join("host:1", job="gpt", model=model, optimizer=ms.SGD(0.1), epochs=1) as job:
        for _ in job.blocks(20, batch=8):
            job.step(**figures)
            return job


@pytest.mark.parametrize("figures, words", [
    ({"examples": -1}, r"step\(examples=\) is -1; it must be a whole number of samples"),
    ({"examples": 2.5}, "examples=. is 2.5"),
    ({"examples": float("nan")}, "examples=. is nan"),
    ({"examples": "8"}, "examples=. is '8'; it must be one number"),
    ({"examples": 1 << 64}, "not below 0"),
    ({"correct": -3}, r"step\(correct=\) is -3"),
    ({"correct": float("inf")}, "correct=. is inf"),
    ({"correct": 0.875}, "correct=. is 0.875; it must be a whole number"),
    ({"correct": 9}, r"step\(correct=9\), but the step is on 8 samples; say examples="),
    ({"correct": 9, "examples": 8}, "the step is on 8 samples$"),
    ({"loss": "0.5"}, r"step\(loss\) is '0.5'; it must be one number"),
    ({"loss": numpy.zeros(2)}, "it must be one number"),
    ({"loss": 1j}, "it must be one number"),
])
def test_a_step_with_figures_that_cannot_be(library, figures, words):
    with pytest.raises(ms.InvalidArgument, match=words):
        step(library, **figures)
    assert library.steps == []


def test_a_step_with_figures_that_can_be(library):
    step(library, loss=float("nan"), correct=8)      # divergence=... says what follows
    step(library, loss=numpy.float32(0.5), correct=numpy.int64(9), examples=numpy.int32(9))
    torch = pytest.importorskip("torch")
    # The rest of the epoch is one batch of 4.
    step(library, loss=torch.tensor(0.25), correct=(torch.ones(4) == 1).sum())
    losses = [loss for _, loss in library.steps]
    assert math.isnan(losses[0]) and losses[1:] == [0.5, 0.25]


def wanted(figures, **settings):
    job = Settings(**{**dict(name="gpt", optimizer=ms.SGD(0.1), evaluates=True, evaluate_every=1),
                      **settings})
    return evaluation.checked(lambda model: figures, job)(None)


@pytest.mark.parametrize("figures, settings, words", [
    ({"accuracy": 87.5}, {"target_accuracy": 0.9},
     r"accuracy=87.5, and target_accuracy needs a share in \[0, 1\]"),
    ({"accuracy": -0.1}, {"target_accuracy": 0.9}, "needs a share"),
    ({"accuracy": math.inf}, {"target_accuracy": 0.9}, "needs a share"),
    ({"loss": 1}, {"target_accuracy": 0.9}, "gave loss, and no accuracy, which target_accuracy"),
    (1.5, {"checkpoint": ms.Checkpoint(keep_best="accuracy")}, "no accuracy, which keep_best"),
    (None, {"early_stop": ms.EarlyStop(), "plateau": ms.Plateau()},
     "gave nothing, and no loss, which early_stop and plateau"),
    ({"loss": "1"}, {}, r"evaluate\(\)'s loss is '1'; it must be one number"),
    ({"loss": [1, 2]}, {}, "it must be one number"),
])
def test_evaluations_that_the_job_cannot_go_by(figures, settings, words):
    with pytest.raises(ms.InvalidArgument, match=words):
        wanted(figures, **settings)


def test_evaluations_that_it_can():
    assert wanted({"accuracy": 87.5}) == {"accuracy": 87.5}
    assert wanted({"accuracy": 1}, target_accuracy=0.9) == {"accuracy": 1.0}
    assert math.isnan(wanted({"accuracy": math.nan}, target_accuracy=0.9)["accuracy"])
    assert wanted(None) == {}
