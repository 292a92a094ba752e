"""Settings that go by the test set's figures, and what programs may tell."""

import pytest

import monsoon as ms
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
