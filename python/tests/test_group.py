"""A torch process group of real processes (gloo) as one replica, on a fake library in rank 0."""

import multiprocessing
import os
import traceback

import pytest

torch = pytest.importorskip("torch")

import monsoon as ms  # noqa: E402
from fake_library import EVALUATE, FakeLibrary  # noqa: E402
from monsoon import _library  # noqa: E402
from test_torch_loop import X, Y, make_model  # noqa: E402

DEADLINE_S = 120


def member(rank, world, path, local, results):
    import torch.distributed as dist
    import torch.nn.functional as F
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
        library = FakeLibrary()
        library.events[1] = (EVALUATE, 0)
        library.lost_draw = 2
        _library.use(library)
        model = make_model(seed=rank)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = ms.Local(torch.optim.SGD(ddp.parameters(), lr=0.1), every=2) if local \
            else ms.SGD(0.1)
        evaluated = []
        drawn, seen = [], []
        with ms.join("host:1", job="group", model=ddp, optimizer=optimizer, epochs=2,
                     group=dist.group.WORLD, evaluate=lambda m: evaluated.append(m) or 0.5) as job:
            for ids in job.blocks(len(X), batch=8):
                drawn.append(ids.tolist())
                seen.append([p.detach().numpy().copy() for p in model.parameters()])
                loss = F.cross_entropy(ddp(X[ids]), Y[ids])
                loss.backward()
                job.step(loss)
        seen.append([p.detach().numpy().copy() for p in model.parameters()])
        results.put((rank, None, drawn, seen, len(evaluated), len(library.replicas), job.id))
        dist.destroy_process_group()
    except BaseException:
        results.put((rank, traceback.format_exc(), None, None, None, None, None))


def finishing_member(rank, world, path, within, results):
    import torch.distributed as dist
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
        library = FakeLibrary()
        library.events[1] = (EVALUATE, 0)
        _library.use(library)
        model, steps, refused = make_model(seed=rank), 0, []

        def evaluate(_):
            if within:
                with pytest.raises(ms.NotNow, match="after step\\(\\), not within evaluate"):
                    job.finish()
                refused.append(rank)
            return 0.5

        with ms.join("host:1", job="group", model=model, optimizer=ms.SGD(0.1), epochs=20,
                     group=dist.group.WORLD, evaluate=evaluate) as job:
            for ids in job.blocks(len(X), batch=8):
                model(X[ids]).sum().backward()
                job.step()
                steps += 1
                if steps == 2:
                    job.finish()
                    assert job.ended
        results.put((rank, None, steps, library.calls.count("finish"), len(refused)))
        dist.destroy_process_group()
    except BaseException:
        results.put((rank, traceback.format_exc(), None, None, None))


def sick_member(rank, world, path, results):
    """Of rank 1 one batch is NaN; DDP hands that to all."""
    import torch.distributed as dist
    import torch.nn.functional as F
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world)
        library = FakeLibrary()
        library.refuses = True
        _library.use(library)
        ddp = torch.nn.parallel.DistributedDataParallel(make_model(seed=rank))
        optimizer = ms.Local(torch.optim.AdamW(ddp.parameters(), lr=0.1), every=2)
        steps, said = 0, ""
        try:
            with ms.join("host:1", job="group", model=ddp, optimizer=optimizer, epochs=9,
                         group=dist.group.WORLD) as job:
                for ids in job.blocks(len(X), batch=8):
                    steps += 1
                    x = X[ids] * float("nan") if rank == 1 and steps == 3 else X[ids]
                    F.cross_entropy(ddp(x), Y[ids]).backward()
                    job.step()
        except ms.ProgramDiverged as error:
            said = str(error)
        results.put((rank, None, steps, said))
        dist.destroy_process_group()
    except BaseException:
        results.put((rank, traceback.format_exc(), None, None))


def run(target, tmp_path, *arguments):
    """What two ranks told, in their order."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    processes = [context.Process(target=target, args=(rank, 2, str(tmp_path / "store"), *arguments,
                                                      results)) for rank in range(2)]
    for process in processes:
        process.start()
    told = sorted(results.get(timeout=DEADLINE_S) for _ in processes)
    for process in processes:
        process.join(timeout=DEADLINE_S)
    for rank, error, *_ in told:
        assert error is None, f"rank {rank}: {error}"
    return told


@pytest.mark.parametrize("within", [False, True])
def test_a_group_ends_its_job_together(tmp_path, within):
    (_, _, *first), (_, _, *second) = run(finishing_member, tmp_path, within)
    assert first == [2, 1, int(within)] and second == [2, 0, 0]


def test_all_ranks_hear_that_their_optimizer_is_not_finite(tmp_path):
    (_, _, steps_0, said_0), (_, _, steps_1, said_1) = run(sick_member, tmp_path)
    assert steps_0 == steps_1 <= 4 and said_0 == said_1
    assert "what AdamW keeps is not finite: exp_avg of 0.weight, " in said_0


@pytest.mark.parametrize("local", [False, True])
def test_a_group_is_one_replica(tmp_path, local):
    told = run(member, tmp_path, local)
    (_, _, first, seen_0, evaluated_0, joined_0, job_0) = told[0]
    (_, _, second, seen_1, evaluated_1, joined_1, job_1) = told[1]
    assert first[0] == [0, 1, 2, 3] and second[0] == [4, 5, 6, 7]
    assert sorted(sum(first + second, [])) == sorted(list(range(20)) * 2)
    # At each step, though a session was lost.
    assert len(seen_0) == len(seen_1) and all(
        (a == b).all() for zero, one in zip(seen_0, seen_1) for a, b in zip(zero, one))
    assert (evaluated_0, evaluated_1, joined_0, joined_1) == (1, 0, 1, 0)
    assert job_0 == job_1 == "group-1"


def test_a_group_of_nccl_is_refused(monkeypatch):
    from monsoon import group
    monkeypatch.setattr(group.dist, "get_backend", lambda _: "nccl")
    with pytest.raises(ms.InvalidArgument, match="one of gloo beside it"):
        group.GroupReplica(object(), lambda: None)
