"""One process or many: the ranks of a run, and how its model is spread over them.

Raw ``torch.distributed`` under ``torchrun``; gloo between CPUs, nccl between GPUs. Rank r of R
takes positions r B/R .. (r+1) B/R - 1 of each global batch of B examples. Noise and order are keyed
by these positions, so the loss of the global batch does not depend on R.

    Replicated   every rank has the whole model (DDP)
    Sharded      every rank keeps 1/R of each parameter (FSDP2), gathered block by block for use

The blocks of a network are the members of its outermost ``nn.ModuleList``s.
"""

from __future__ import annotations

import functools
import gc
import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import attrs
import torch
import torch.distributed as dist
from elbowroom import ConfigError, ElbowroomError, RunError
from elbowroom.runs import resolve_device, use_device
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.distributed.tensor import DTensor

_SESSIONS = itertools.count()
_PATIENCE = timedelta(minutes=30)  # a rank may wait this long for another, which perhaps saves
LONG = timedelta(days=2)  # where ranks draw samples for hours and then meet


@attrs.frozen(eq=False)
class Ranks:
    """The processes of a run, seen from one of them. On one machine alone: one."""

    device: torch.device
    rank: int = 0
    world: int = 1
    host: Any = None  # a group of CPU processes beside the one of GPUs, for words and flags
    meshes: list[Any] = attrs.field(factory=list)  # what shards a model over them

    @property
    def is_first(self) -> bool:
        """Is this the rank that writes and speaks?"""
        return self.rank == 0

    def positions(self, total: int) -> Tensor:
        """[total / world] this rank's positions in a global batch, on the CPU."""
        if total % self.world:
            raise ConfigError(
                f"train.batch_size: {total} examples do not divide evenly among {self.world} ranks"
            )
        mine = total // self.world
        return torch.arange(self.rank * mine, (self.rank + 1) * mine)

    def mean(self, value: Tensor) -> Tensor:
        """The mean over ranks, the same on each; without a gradient."""
        return self.sum(value) / self.world if self.world > 1 else value

    def sum(self, value: Tensor) -> Tensor:
        """The sum over ranks, the same on each; without a gradient."""
        if self.world > 1:
            value = value.detach().clone()
            dist.all_reduce(value)
        return value

    def ordered_sum(self, value: Tensor) -> Tensor:
        """The sum over ranks, added up in their order: the same bits each time."""
        if self.world == 1:
            return value
        parts = [torch.empty_like(value) for _ in range(self.world)]
        dist.all_gather(parts, value.contiguous())
        return torch.stack(parts).sum(0)

    def largest(self, value: Tensor) -> Tensor:
        """The maximum over ranks, the same on each."""
        if self.world > 1:
            value = value.detach().clone()
            dist.all_reduce(value, dist.ReduceOp.MAX)
        return value

    def any(self, flag: bool) -> bool:
        """Is the flag raised on any rank? Spoken between CPUs: no GPU waits for it."""
        if self.world == 1:
            return flag
        raised = torch.tensor(int(flag))
        dist.all_reduce(raised, dist.ReduceOp.MAX, group=self.host)
        return bool(raised)

    def first(self, action: Callable[[], Any]) -> Any:
        """Let the first rank act; every rank gets its answer (plain data), or its error."""
        if self.world == 1:
            return action()
        answer: Any = None
        error: Exception | None = None
        if self.is_first:
            try:
                answer = action()
            except Exception as problem:  # whatever it is, the others must not wait for ever
                error = problem
        told = self._tell({"answer": answer, "error": None if error is None else str(error)})
        if error is not None:
            raise error
        if told["error"] is not None:
            raise ElbowroomError(told["error"])
        return told["answer"]

    def gather(self, content: bytes) -> list[bytes]:
        """The bytes of every rank, in their order, on the first; nothing on the others.

        Spoken between CPUs; every rank must call.
        """
        if self.world == 1:
            return [content]
        sizes = [torch.tensor(0) for _ in range(self.world)]
        dist.all_gather(sizes, torch.tensor(len(content)), group=self.host)
        padded = torch.zeros(max(map(int, sizes)), dtype=torch.uint8)
        padded[: len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        rows = [torch.empty_like(padded) for _ in sizes] if self.is_first else None
        dist.gather(padded, rows, dst=0, group=self.host)
        return [row[:size].numpy().tobytes() for row, size in zip(rows or (), sizes, strict=False)]

    def gather_tensors(self, tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The tensors of every rank by name, in the ranks' order, on the first."""
        if self.world == 1:
            return [dict(tensors)]
        packed = save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
        return [load(content) for content in self.gather(packed)]

    def agree(self, words: Any) -> list[Any]:
        """Plain data of every rank, in their order, on each."""
        if self.world == 1:
            return [words]
        told = self.gather(json.dumps(words).encode())
        found: list[Any] = self._tell([json.loads(one) for one in told])
        return found

    def _tell(self, words: Any) -> Any:
        """Plain data from the first rank to all, as JSON."""
        text = json.dumps(words).encode() if self.is_first else b""
        size = torch.tensor(len(text))
        dist.broadcast(size, 0, group=self.host)
        letters = torch.zeros(int(size), dtype=torch.uint8)
        if self.is_first:
            letters = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        dist.broadcast(letters, 0, group=self.host)
        return json.loads(bytes(letters.tolist()))


@contextmanager
def process_group(
    device: torch.device | str | None = None, patience: timedelta = _PATIENCE
) -> Iterator[Ranks]:
    """The ranks that ``torchrun`` started, or this process alone; on a GPU if there is one.

    A rank that waits for another longer than ``patience`` fails.
    All leave together, and none with a thread of the group still running: a process that ends
    while others talk to it, or while such a thread waits, may abort.
    """
    here = resolve_device(device, int(os.environ.get("LOCAL_RANK", "0")))
    on_gpu = here.type == "cuda"
    ours = int(os.environ.get("WORLD_SIZE", "1")) > 1 and not dist.is_initialized()
    if ours:
        _import_what_would_keep_the_group()
        store, rank, world = _store_of_the_ranks()
        store.set_timeout(patience)
        # a prefix of its own: a second run of these processes must not read the first one's words
        store = PrefixStore(f"elbowroom-{next(_SESSIONS)}", store)
        backend = "nccl" if on_gpu else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=patience)
    if not dist.is_initialized():
        with use_device(here):
            yield Ranks(here)
        return
    meshes: list[Any] = []
    try:
        if on_gpu:
            torch.cuda.set_device(here)
        host = dist.new_group(backend="gloo", timeout=patience) if on_gpu else None
        yield Ranks(here, dist.get_rank(), dist.get_world_size(), host, meshes)
        dist.barrier(group=host)  # not after an error: the others may be gone
    finally:
        if ours:
            dist.destroy_process_group()
            _let_go_of_the_group(meshes)


@functools.cache
def _store_of_the_ranks() -> tuple[Store, int, int]:
    """Where the ranks leave words for each other, with this rank and their number.

    One store as long as the process lives, however often the ranks meet: the first rank may be the
    store's server, and if it closed one and opened the next at the same port, another rank that
    came early would talk to the one that closes.
    """
    found: tuple[Store, int, int] = next(rendezvous("env://", timeout=_PATIENCE))
    return found


def _import_what_would_keep_the_group() -> None:
    """Modules with functions whose default is the group there is when they are first imported.

    DDP and FSDP2 import them on the way. Imported after the group, they hold it for good, its
    threads outlive :func:`ranks`, and the process sometimes aborts as it ends.
    """
    import torch.distributed.fsdp
    import torch.distributed.nn.functional  # noqa: F401  # importing is all


def _let_go_of_the_group(meshes: list[Any]) -> None:
    """End the group's threads, which run as long as anything holds it.

    Caches of sharded tensors keep meshes for good, so these must not keep the group; models hold it
    too, and are often parts of cycles.
    """
    for mesh in meshes:
        getattr(mesh, "_pg_registry", {}).clear()  # there is no public way
    gc.collect()


def lost_rank(error: BaseException, run: Path) -> RunError | None:
    """The error to raise in place of ``error`` if another rank ended or does not answer."""
    signs = ("closed by peer", "reset by peer", "Timed out waiting")
    words = " ".join(str(error).split())
    if isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and any(sign in words for sign in signs)
    ):
        return RunError(
            f"another rank ended or does not respond; resume from the last checkpoint with "
            f"--resume {run} ({words[:200]})"
        )
    return None


def distribute(
    model: nn.Module, network: nn.Module, how: Literal["ddp", "fsdp"], ranks: Ranks
) -> nn.Module:
    """``model`` spread over the ranks: call what comes back, keep using ``model``'s parameters.

    ``network`` is the part of the model that is worth sharding.
    """
    if ranks.world == 1:
        return model
    return replicated(model) if how == "ddp" else sharded(model, network, ranks)


def replicated(model: nn.Module) -> nn.Module:
    """The whole model on every rank; gradients are averaged while they are computed."""
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)


def sharded(model: nn.Module, network: nn.Module, ranks: Ranks) -> nn.Module:
    """The network's parameters in shards; the few outside it are on every rank."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    # It warns of in-place operations on the network's output; a process never does one.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(ranks.device.type, (ranks.world,))
    ranks.meshes.append(mesh)
    # Shards are dropped after every forward pass, the outermost too: an evaluation with averaged
    # weights must not leave them behind for the next training step.
    for part in (*blocks(network), network):
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    for parameter in model.parameters():
        if not isinstance(parameter, DTensor):
            dist.broadcast(parameter.data, 0)
            hook = _averaged(ranks)
            parameter.register_post_accumulate_grad_hook(hook)
    return model


@contextmanager
def no_gradient_sync(spread: nn.Module, network: nn.Module) -> Iterator[None]:
    """Gradients add up on each rank for themselves; the first ones after it bring all together.

    ``spread`` is what :func:`distribute` returned for the ``network``. A sharded one keeps whole
    gradients meanwhile.
    """
    if isinstance(spread, nn.parallel.DistributedDataParallel):
        with spread.no_sync():
            yield
        return
    switch = getattr(network, "set_requires_gradient_sync", lambda _: None)  # FSDP2's
    switch(False)
    try:
        yield
    finally:
        switch(True)


def blocks(network: nn.Module) -> list[nn.Module]:
    """The members of the outermost module lists: what is sharded one by one."""
    if isinstance(network, nn.ModuleList):
        return list(network)
    return [block for child in network.children() for block in blocks(child)]


def full_tensor(tensor: Tensor) -> Tensor:
    """All of a tensor that may be sharded; every rank must ask."""
    tensor = tensor.detach()
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def gather_tensors(tensors: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Full copies on the CPU of the first rank, nothing on the others; every rank must call."""
    found = {}
    for name, tensor in tensors.items():
        full = full_tensor(tensor)
        if ranks.is_first:
            found[name] = full.cpu()
    return found


def _averaged(ranks: Ranks) -> Callable[[Tensor], None]:
    def average(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad = ranks.mean(parameter.grad)

    return average
