"""A program whose own optimizer is not finite any more."""

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

import monsoon as ms  # noqa: E402
from monsoon import _health  # noqa: E402
from test_torch_loop import X, Y, join, make_model  # noqa: E402


def poison(optimizer, model, names=("exp_avg",)):
    for name in names:
        optimizer.state[model[0].weight][name][0, 0] = float("nan")


def stepped(**settings):
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, **settings)
    F.cross_entropy(model(X), Y).backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def test_what_is_not_finite_is_named():
    model, optimizer = stepped(amsgrad=True)
    assert _health.not_finite(optimizer, model) is None
    poison(optimizer, model, ["exp_avg_sq"])
    assert _health.not_finite(optimizer, model) == "exp_avg_sq of 0.weight"
    optimizer.state[model[2].bias]["exp_avg"].fill_(float("inf"))
    assert _health.not_finite(optimizer, model) == "exp_avg_sq of 0.weight, exp_avg of 2.bias"
    for kept in optimizer.state.values():
        kept["exp_avg"].fill_(float("nan"))
    assert _health.not_finite(optimizer, model).endswith(", exp_avg of 0.bias and 2 more")
    assert _health.not_finite(None, {}) is None
    assert _health.not_finite(object(), model) is None


def train(library, spoil, **settings):
    """The steps until the end; `spoil` is called before each with its number."""
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    library.refuses = True
    steps = 0
    with join(model, optimizer=ms.Local(optimizer, every=2), epochs=4, **settings) as job:
        for ids in job.blocks(20, batch=5):
            steps += 1
            spoil(steps, model, optimizer)
            F.cross_entropy(model(X[ids]), Y[ids]).backward()
            job.step()
    return steps, job


def test_a_program_whose_moments_are_not_finite_leaves_by_name(library):
    def spoil(step, model, optimizer):
        assert step <= 4, "the push of steps 3 and 4 is refused"
        if step == 3:
            poison(optimizer, model)

    with pytest.raises(ms.ProgramDiverged, match="step 4: what AdamW keeps is not finite: "
                                                 "exp_avg of 0.weight") as raised:
        train(library, spoil)
    assert raised.value.code == "OUT_OF_RANGE" and library.replicas[0].left
    assert not isinstance(raised.value, ms.JobFailed)


def test_a_program_with_finite_moments_goes_on(library):
    def spoil(step, model, optimizer):
        if step == 4:  # its step's gradients are not finite, and nobody takes it
            with torch.no_grad():
                model[2].bias[0] = float("nan")
            optimizer.step = lambda: None
        elif step == 5:
            del optimizer.step

    steps, job = train(library, spoil)
    assert steps == 16 and job.stats.refused == 1
    assert "report_divergence" not in library.calls


def test_a_report_that_was_lost_is_made_again(library):
    library.reports_again = True

    def spoil(step, model, optimizer):
        if step == 3:
            poison(optimizer, model)

    with pytest.raises(ms.ProgramDiverged, match="step 6"):
        train(library, spoil)
    assert library.calls.count("report_divergence") == 2


def test_with_the_jobs_last_program_the_job_has_failed(library):
    library.fail["report_divergence"] = (10, "job gpt-1 has failed: diverged")

    def spoil(step, model, optimizer):
        if step == 3:
            poison(optimizer, model)

    with pytest.raises(ms.JobFailed, match="has failed: diverged"):
        train(library, spoil)
