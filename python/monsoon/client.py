"""Looks at jobs and steers them, as the `coordinator` commands do and by means of them."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, TypeVar

from . import _programs, _text, errors
from ._cluster_file import hint, own_file

_T = TypeVar("_T")
_NO_CHECKPOINT = "there is no checkpoint of"
_ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def exception_of(code: int, message: str) -> errors.MonsoonError:
    """For an exit code (docs of the commands: 2 usage, 3 unreachable, 4 timeout, 5 data)."""
    lower = message.lower()
    if code == 1:
        cancelled = "cancelled" in lower and "failed" not in lower
        return errors.JobCancelled(message) if cancelled else errors.JobFailed(message)
    if code == 2:
        if "no job" in lower:
            return errors.JobNotFound(message)
        if "version" in lower and ("build" in lower or "protocol" in lower or "other" in lower):
            return errors.VersionsDiffer(message)
        return errors.InvalidArgument(message)
    kinds = {3: errors.Unreachable, 4: errors.TimedOut, 5: errors.DataError}
    return kinds.get(code, errors.MonsoonError)(message)


class Client:
    """For a coordinator's "host:port", or the path of a cluster file.

    Each method raises JobNotFound, InvalidArgument, Unreachable, TimedOut, DataError, JobFailed
    or JobCancelled with the coordinator's own message. A job is an id, "gpt-1", or a name, "gpt",
    for the newest job of that name; "latest" is the newest of all. delete() takes ids alone.
    Thread safety: may be called from several threads.

    >>> client = monsoon.Client("127.0.0.1:2221")                    # doctest: +SKIP
    >>> [job["job"] for job in client.jobs()]                        # doctest: +SKIP
    ['gpt-1']
    """

    def __init__(self, cluster: str) -> None:
        self._folder: Optional[tempfile.TemporaryDirectory] = None
        self._address = cluster
        if os.path.exists(cluster):
            self._path = cluster
        elif ":" in cluster:
            self._folder = tempfile.TemporaryDirectory(prefix="monsoon-")
            self._path = str(pathlib.Path(self._folder.name) / "cluster.textproto")
            # Commands read the parameter servers' addresses from the coordinator; a cluster
            # file must name one. "*": whichever cluster is there.
            text = _text.write({"name": "*", "coordinator": {"address": cluster},
                                "ps": {"address": "unix:monsoon-not-asked"}})
            pathlib.Path(self._path).write_text(text, encoding="utf-8")
        else:
            raise errors.InvalidArgument(f"{cluster!r} is neither host:port nor a cluster file")

    def _command(self, verb: str, *arguments: str, path: Optional[str] = None) -> str:
        command = [_programs.find("coordinator"), verb, f"--cluster={path or self._path}",
                   *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        if done.returncode != 0:
            said = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
            raise exception_of(done.returncode, said)
        return done.stdout

    def _json(self, verb: str, *arguments: str) -> Dict[str, Any]:
        told: Dict[str, Any] = json.loads(self._command(verb, *arguments, "--json"))
        return told

    def _of(self, job: str, call: Callable[[str], _T]) -> _T:
        """call(job), and where there is no job of this id, of the newest job of this name."""
        try:
            return call(job)
        except (errors.JobNotFound, errors.InvalidArgument) as error:
            # A command that reads the disk says it in its own words.
            if not isinstance(error, errors.JobNotFound) and _NO_CHECKPOINT not in str(error):
                raise
            named = [told["job"] for told in self.jobs() if told.get("name") == job]
            if not named:
                raise
            return call(named[-1])

    def _from_disk(self, verb: str, *arguments: str) -> str:
        """A command that reads the state folder, too. A cluster file says where that is."""
        if self._folder is None:
            return self._command(verb, *arguments)
        coordinator: Optional[Dict[str, Any]] = None
        with contextlib.suppress(errors.MonsoonError):
            coordinator = next((task for task in self._json("tasks").get("tasks", [])
                                if task["task"].startswith("coordinator")), None)
        path = None if coordinator is None else own_file(self._address, coordinator)
        try:
            return self._command(verb, *arguments, path=path)
        except errors.MonsoonError as error:
            if path is None and _NO_CHECKPOINT in str(error):
                raise type(error)(f"{error}{hint(coordinator)}") from error
            raise

    def jobs(self) -> List[Dict[str, Any]]:
        """All jobs, oldest first."""
        return list(self._json("jobs")["jobs"])

    def describe(self, job: str = "latest") -> Dict[str, Any]:
        """All about one job; the fields are those of `coordinator describe --json`."""
        return self._of(job, lambda id_: self._json("describe", id_))

    def watch(self, job: str = "latest", every_s: float = 1.0) -> Iterator[Dict[str, Any]]:
        """Descriptions of the job, one each `every_s` seconds, until it has ended; the last is
        of its end. Raises JobFailed or JobCancelled after the last one of a job that did not
        succeed."""
        pause = threading.Event()
        while True:
            told = self.describe(job)
            job = told["job"]  # "latest" is resolved once
            yield told
            if told["state"] in _ENDED:
                break
            pause.wait(every_s)
        if told["state"] != "SUCCEEDED":
            kind = errors.JobFailed if told["state"] == "FAILED" else errors.JobCancelled
            raise kind(f"{job} {told['state'].lower()}"
                       + (f": {told['reason']}" if told.get("reason") else ""))

    def submit(self, path: str, *, name: Optional[str] = None,
               settings: Optional[Mapping[str, Any]] = None, watch: bool = False) -> str:
        """Submits a job file for the cluster's own workers; the job's id. settings: changed
        fields, {"stop.epochs": 2}. watch: shows the progress and returns at its end."""
        arguments = [path] + ([f"--name={name}"] if name else [])
        arguments += [f"--set={field}={value}" for field, value in (settings or {}).items()]
        job = str(self._json("submit", *arguments)["job"])
        if watch:
            from .progress import show
            show(self.watch(job))
        return job

    def resume(self, job: str = "latest", *, name: Optional[str] = None,
               settings: Optional[Mapping[str, Any]] = None) -> str:
        """Makes a new job that goes on from the newest checkpoint of `job`, an id, a name or the
        path of a folder: with its parameters, its optimizer's state on the shards and its place in
        the data. The new job's id. settings: changed fields, {"stop.epochs": 6}. Programs enter it
        by its name (`name`, or that of `job`) with join(), and with these settings. Where the
        shards no longer hold what the job has ended with, it is read from the state folder, as by
        export(best=True)."""
        arguments = [f"--name={name}"] if name else []
        arguments += [f"--set={field}={value}" for field, value in (settings or {}).items()]
        told = self._of(job, lambda id_: self._from_disk("submit", f"--resume={id_}", *arguments,
                                                         "--json"))
        return str(json.loads(told)["job"])

    def cancel(self, job: str, wait: bool = False) -> None:
        """Asks the job to end; with `wait` returns when it has."""
        self._of(job, lambda id_: self._command("cancel", id_, *(["--wait"] if wait else [])))

    def delete(self, job: str) -> None:
        """Frees what an ended job holds on the shards."""
        self._command("delete", job)

    def checkpoint(self, job: str = "latest") -> Dict[str, Any]:
        """Writes the job to the disk now, and returns when it is there."""
        return self._of(job, lambda id_: self._json("checkpoint", id_))

    def drain(self, task: str, wait: bool = False) -> None:
        """Lets "worker/1" finish its push and leave."""
        self._command("drain", task, *(["--wait"] if wait else []))

    def export(self, job: str, path: str, best: bool = False) -> str:
        """Writes the job's model to `path`, .npz or .safetensors; returns the path. `best`: the
        state that evaluated best, from the state folder: on the coordinator's machine, or with a
        cluster file where that folder can be read."""
        command, flags = (self._from_disk, ["--best"]) if best else (self._command, [])
        self._of(job, lambda id_: command("export", id_, f"--out={path}", *flags))
        return path

    def load(self, job: str = "latest", best: bool = False) -> Dict[str, Any]:
        """The job's model: name to float32 array, in C order. For torch:
        model.load_state_dict({n: torch.from_numpy(a) for n, a in client.load(job).items()})."""
        import numpy
        with tempfile.TemporaryDirectory(prefix="monsoon-") as folder:
            path = self.export(job, os.path.join(folder, "model.npz"), best)
            with numpy.load(path) as file:
                return {name: file[name] for name in file.files}

    def version(self) -> Dict[str, Any]:
        """Of the commands here: {"version", "git", ...}."""
        told: Dict[str, Any] = json.loads(self._command_alone("version", "--json"))
        return told

    @staticmethod
    def _command_alone(*arguments: str) -> str:
        done = subprocess.run([_programs.find("coordinator"), *arguments],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=True)
        return done.stdout
