"""Monsoon: a training loop in Python as a replica of a job on parameter servers.

    import monsoon as ms
    job = ms.join("127.0.0.1:2221", job="gpt", model=model, epochs=3, optimizer=ms.Adagrad(0.03))
    with job:
        for ids in job.blocks(len(data), batch=64):
            loss = F.cross_entropy(model(x[ids]), y[ids])
            loss.backward()
            job.step(loss)
    job.export("model.safetensors")

docs/python.md tells all of it. torch is imported only where a torch model is given.
"""

from ._version import __version__
from . import optimizers
from .client import Client
from .cluster import LocalCluster, local_cluster
from .errors import (DataError, Forked, Internal, InvalidArgument, JobCancelled, JobEnded,
                     JobFailed, JobNotFound, LibraryNotFound, ModelChanged, MonsoonError, NotNow,
                     OutOfResources, ProgramDiverged, SettingsDiffer, TimedOut, Unreachable,
                     UnsupportedTensor, VersionsDiffer)
from .groups import Group
from .job import Job
from .join import join
from .local import Fragments, Local, Rounds
from .optimizers import *  # noqa: F403
from .progress import show
from .sampler import Sampler
from .schedules import (CosineSchedule, InverseRootSchedule, LinearSchedule, OneCycleSchedule,
                        Plateau, PointsSchedule, PolynomialSchedule, StepSchedule, WarmUp)
from .settings import Checkpoint, EarlyStop
from .stats import Stats
from .tables import Table

__all__ = [
    "Checkpoint", "Client", "CosineSchedule", "DataError", "EarlyStop", "Forked", "Fragments",
    "Group", "Internal", "InvalidArgument", "InverseRootSchedule", "Job", "JobCancelled",
    "JobEnded", "JobFailed", "JobNotFound", "LibraryNotFound", "LinearSchedule", "Local",
    "LocalCluster", "ModelChanged", "MonsoonError", "NotNow", "OneCycleSchedule", "OutOfResources",
    "Plateau", "PointsSchedule", "PolynomialSchedule", "ProgramDiverged", "Rounds", "Sampler",
    "SettingsDiffer", "Stats", "StepSchedule", "Table", "TimedOut", "Unreachable",
    "UnsupportedTensor", "VersionsDiffer", "WarmUp", "__version__", "join", "local_cluster", "show",
]
__all__ += optimizers.__all__


def __getattr__(name: str) -> object:
    # Of torch, which the package does without until it is asked for.
    if name == "Embedding":
        from .embedding import Embedding
        return Embedding
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
