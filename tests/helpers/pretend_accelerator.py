"""A pretend accelerator: two devices ``pretend:0`` and ``pretend:1`` for machines without a GPU.

Its tensors say they are on the device and hold what they are on the CPU, where everything is
computed: bit by bit what the CPU computes. What makes it worth testing on:

    it refuses   tensors of the CPU and of the device in one operation, as CUDA does; numbers (CPU
                 tensors without dimensions) in elementwise operations, copies, and CPU tensors as
                 indices are allowed, as there
    it counts    where the host would wait for the device: item, bool, tolist, cpu, nonzero,
                 indexing and assignment by booleans, and whatever else has a shape that only the
                 device knows; copies from the host are counted apart
    it has       a random generator for each of its devices, apart from the CPU's

Made of torch's private-use device with a Python backend, whose autograd knows the first of the
devices only. Importing this file registers it.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME, COUNT = "pretend", 2
_aten = torch.ops.aten

# -- what is counted


@attrs.frozen
class Event:
    """One wait or copy, and the line of ours that caused it."""

    what: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.what} at {self.file}:{self.line}"


@attrs.define
class Seen:
    """What happened while somebody looked."""

    waits: list[Event] = attrs.field(factory=list)  # the host waits for the device
    copies: list[Event] = attrs.field(factory=list)  # from the host to the device


_LOOKING: list[Seen] = []


@contextlib.contextmanager
def watched() -> Iterator[Seen]:
    """Everything the device sees of the host, in any thread."""
    seen = Seen()
    _LOOKING.append(seen)
    try:
        yield seen
    finally:
        _LOOKING.remove(seen)


_ROOT = f"{Path(__file__).parents[2]}/"


def _event(what: str) -> Event:
    for frame, line in traceback.walk_stack(None):
        name = frame.f_code.co_filename
        if name.startswith(_ROOT) and name != __file__ and "/.venv/" not in name:
            return Event(what, name.removeprefix(_ROOT), line)
    return Event(what, "?", 0)


def _wait(what: str) -> None:
    if _LOOKING:
        event = _event(what)
        for seen in _LOOKING:
            seen.waits.append(event)


def _copied() -> None:
    if _LOOKING:
        event = _event("copy")
        for seen in _LOOKING:
            seen.copies.append(event)


# -- the tensor

_WAITS = {
    _aten._local_scalar_dense: "item",
    _aten.nonzero: "nonzero",
    _aten.masked_select: "masked_select",
    _aten.equal: "equal",
    _aten._unique2: "unique",
    _aten.unique_dim: "unique",
    _aten.unique_consecutive: "unique",
    _aten.bincount: "bincount",
    _aten._linalg_check_errors: "linalg",
}
_INDEXING = {_aten.index, _aten.index_put, _aten.index_put_, _aten._unsafe_index}
_COPYING = {_aten.copy_, _aten._to_copy, _aten.copy}
_NUMBERS = {_aten.fill_, _aten.fill, _aten.masked_fill, _aten.masked_fill_, _aten.where}
_CHANGES_SHAPE = {
    _aten.resize_,
    _aten.set_,
    _aten.squeeze_,
    _aten.unsqueeze_,
    _aten.t_,
    _aten.transpose_,
}


class PretendTensor(Tensor):
    """Says it is on the device, holds a tensor of the CPU."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, device: torch.device) -> PretendTensor:
        held = held.resolve_conj().resolve_neg()  # bits that a wrapper does not have
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=device,
            requires_grad=False,
        )
        made.held = held
        return made

    def __tensor_flatten__(self) -> tuple[list[str], torch.device]:
        return ["held"], self.device

    @staticmethod
    def __tensor_unflatten__(inner, device, size, stride) -> PretendTensor:
        return PretendTensor(inner["held"], device)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None) -> Any:
        return _run(func, args, kwargs or {})

    def __repr__(self) -> str:
        return f"PretendTensor({self.held!r}, device='{self.device}')"

    def tolist(self) -> Any:
        _wait("tolist")
        return self.detach().held.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy "
            "the tensor to host memory first."
        )


def _run(func, args, kwargs) -> Any:
    packet = func.overloadpacket
    mine, others = _tensors((args, kwargs))
    devices = {t.device for t in mine}
    _check(func, packet, args, devices, others)
    _count(packet, args, kwargs, mine)

    device = next(iter(devices))
    wanted = kwargs.get("device")
    if packet in _COPYING and args and isinstance(args[0], PretendTensor):
        device = args[0].device
    if wanted is not None:
        device = _placed(torch.device(wanted))
        kwargs = {**kwargs, "device": torch.device("cpu")}
    back = {id(t.held): t for t in mine}
    inner_args, inner_kwargs = _mapped((args, kwargs), _inner)
    with _randomness_of(device, func):
        found = func(*inner_args, **inner_kwargs)
    if device.type != NAME or (packet in _COPYING and packet is not _aten._to_copy):
        return args[0] if packet is _aten.copy_ else found

    return _mapped(found, lambda t: back[id(t)] if id(t) in back else PretendTensor(t, device))


def _tensors(tree: Any) -> tuple[list[PretendTensor], list[Tensor]]:
    mine: list[PretendTensor] = []
    others: list[Tensor] = []
    _mapped(tree, lambda t: (mine if isinstance(t, PretendTensor) else others).append(t))
    return mine, others


def _mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Every tensor in an operation's arguments or answers changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)([_mapped(item, change) for item in value])
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value


def _inner(t: Tensor) -> Tensor:
    return t.held if isinstance(t, PretendTensor) else t


def _check(func, packet, args, devices, others) -> None:
    """Refuse what CUDA refuses."""
    if packet in _CHANGES_SHAPE:
        raise NotImplementedError(f"{func}: a pretend tensor cannot change its shape in place")
    if packet in _COPYING:
        return
    if packet in _INDEXING:  # indices may be on the CPU, what is indexed and put in may not
        others = [t for t in (args[0], *args[2:3]) if not isinstance(t, PretendTensor)]
    elementwise = (
        torch.Tag.pointwise in func.tags
        or packet in _NUMBERS
        or packet in _INDEXING
        or "_foreach_" in func.name()
    )
    strange = [t for t in others if t.ndim or not elementwise]
    if strange or len(devices) > 1:
        named = sorted({*map(str, devices), *(str(t.device) for t in strange)})
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(named)}! ({func})"
        )


def _count(packet, args, kwargs, mine) -> None:
    if packet in _WAITS:
        _wait(_WAITS[packet])
    elif packet in _INDEXING:
        by_booleans = [i for i in args[1] if i is not None and i.dtype in (torch.bool, torch.uint8)]
        if any(isinstance(i, PretendTensor) for i in by_booleans):
            _wait("indexing by booleans")
        for index in args[1]:
            if index is not None and not isinstance(index, PretendTensor):
                _copied()
    elif packet is _aten._to_copy:
        wanted = kwargs.get("device")
        if wanted is not None and torch.device(wanted).type == "cpu":
            _wait("cpu")
    elif packet is _aten.copy_:
        if not isinstance(args[0], PretendTensor):
            _wait("cpu")
        elif not isinstance(args[1], PretendTensor):
            _copied()
    elif packet is _aten.repeat_interleave and len(mine) > 0 and kwargs.get("output_size") is None:
        _wait("repeat_interleave")


def _placed(device: torch.device) -> torch.device:
    if device.type == NAME and device.index is None:
        return torch.device(NAME, module.current_device())
    return device


# -- what makes tensors out of nothing

_library = torch.library.Library("aten", "IMPL")


def _factory(name: str) -> None:
    packet, _, overloaded = name.partition(".")
    overload = getattr(getattr(_aten, packet), overloaded or "default")

    def make(*args: Any, **kwargs: Any) -> Tensor:
        device = _placed(torch.device(kwargs.pop("device", None) or NAME))
        kwargs.pop("pin_memory", None)
        with _randomness_of(device, overload):
            return PretendTensor(overload(*args, **kwargs, device="cpu"), device)

    _library.impl(name, make, "PrivateUse1")


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    """How ``torch.tensor(..., device=...)`` fills what it makes: below the dispatch to us."""
    _count(_aten.copy_, (target, source), {}, [])
    _inner(target).copy_(_inner(source))
    return target


def _attention(
    q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False
) -> Tensor:
    """By the kernel the CPU would choose: left to itself torch takes another, with other bits."""
    if all(t.held.ndim == 4 for t in (q, k, v)) and not dropout_p and not enable_gqa:
        options = {"attn_mask": attn_mask, "scale": scale}
        kernel = _aten._scaled_dot_product_flash_attention_for_cpu
        return kernel(q, k, v, dropout_p, is_causal, **options)[0]
    return _aten._scaled_dot_product_attention_math(
        q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


# -- the device's module, torch.pretend


class PretendModule:
    """What torch asks of an accelerator."""

    _initialized = True

    def __init__(self) -> None:
        self.generators = [torch.Generator().manual_seed(1 + k) for k in range(COUNT)]
        self._current = 0

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return COUNT

    def current_device(self) -> int:
        return self._current

    @contextlib.contextmanager
    def device(self, device: torch.device | int | None) -> Iterator[None]:
        before = self._current
        self._current = self._index(device)
        try:
            yield
        finally:
            self._current = before

    def manual_seed(self, seed: int) -> None:
        self.generators[self._current].manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        for generator in self.generators:
            generator.manual_seed(seed)

    def get_rng_state(self, device: torch.device | int | None = None) -> Tensor:
        return self.generators[self._index(device)].get_state()

    def set_rng_state(self, state: Tensor, device: torch.device | int | None = None) -> None:
        self.generators[self._index(device)].set_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]

    def _index(self, device: torch.device | int | None) -> int:
        found = device.index if isinstance(device, torch.device) else device
        return self._current if found is None else found


@contextlib.contextmanager
def _randomness_of(device: torch.device, func: Any) -> Iterator[None]:
    """Operations that draw take from the device's generator."""
    if device.type != NAME or torch.Tag.nondeterministic_seeded not in func.tags:
        yield
        return
    own, cpu = module.generators[device.index], torch.default_generator.get_state()
    torch.default_generator.set_state(own.get_state())
    try:
        yield
    finally:
        own.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(cpu)


module = PretendModule()
_setup_privateuseone_for_python_backend(NAME, module)
for _name in (
    "empty.memory_format",
    "empty_strided",
    "arange",
    "arange.start",
    "arange.start_step",
    "linspace",
    "eye",
    "eye.m",
    "randperm",
):
    _factory(_name)
_library.impl("_copy_from", _copy_from, "PrivateUse1")
_library.impl("scaled_dot_product_attention", _attention, "AutogradPrivateUse1")
_every = torch.library.Library("_", "IMPL")
_every.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")  # noted, and no more
