"""Tensors without memory: what a network would do, counted without doing it.

A network is built on torch's meta device, and its tensors are then replaced by fake ones, which
have a shape, a type and a device but no values. Every operation on them takes microseconds, however
large they are, and a dispatch mode sees each of them go by:

    operations   torch's FlopCounterMode: matrix products, convolutions and attention, a
                 multiplication and an addition counted as two; elementwise ones are not counted
    memory       what is alive at once of all that was made, at its peak

Attention is that of a fused kernel, which keeps no weights, as accelerators have it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from elbowroom import ComponentSpec, Noise, Signature
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode


def without_memory() -> FakeTensorMode:
    """Within it tensors have no memory; real ones may take part."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def hollow_network(spec: ComponentSpec, signature: Signature) -> nn.Module:
    """A network whose tensors have no memory; call it within :func:`without_memory`."""
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        network: nn.Module = spec.build(signature)
    made: dict[int, Tensor] = {}  # tensors that modules share stay shared
    for module in network.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    table[name] = made.setdefault(id(tensor), _hollow(tensor))  # type: ignore[assignment]  # a parameter stays one
    return network


def _hollow(tensor: Tensor) -> Tensor:
    made = torch.empty_like(tensor, device="cpu")
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, tensor.requires_grad)
    return made


class Blank(Noise):
    """Noise of the right shapes, without values."""

    def uniform(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        return torch.empty(len(self), *shape, dtype=dtype or torch.float64)

    def normal(
        self, label: str, shape: Sequence[int] = (), dtype: torch.dtype | None = None
    ) -> Tensor:
        return torch.empty(len(self), *shape, dtype=dtype or torch.float32)


_DROPOUT = 4  # its place among the arguments of attention


@contextmanager
def fused_attention() -> Iterator[None]:
    """Attention by the fused kernel, also where dropout would keep the CPU's from serving.

    By name and for the time being: activations that are computed again, while gradients are, must
    take the same way, and modes of torch do not reach there.
    """
    plain = F.scaled_dot_product_attention

    def without_dropout(*given: Any, **options: Any) -> Tensor:
        if len(given) > _DROPOUT:
            given = (*given[:_DROPOUT], 0.0, *given[_DROPOUT + 1 :])
        else:
            options["dropout_p"] = 0.0
        return plain(*given, **options)

    F.scaled_dot_product_attention = without_dropout
    try:
        yield
    finally:
        F.scaled_dot_product_attention = plain


class Alive(TorchDispatchMode):
    """The bytes of all storages made within it that are alive, and the most there were."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self.now = self.peak = 0
        self._known: dict[int, Any] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        held = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
        answer = func(*args, **(kwargs or {}))
        for tensor in _tensors(answer):
            storage = tensor.untyped_storage()
            if storage._cdata not in held and storage._cdata not in self._known:
                self._born(storage)
        return answer

    def _born(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        self._known[key] = weakref.finalize(storage, self._gone, key, size)
        self.now += size
        self.peak = max(self.peak, self.now)

    def _gone(self, key: int, size: int) -> None:
        del self._known[key]
        self.now -= size


def _tensors(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def operations(run: Callable[[], object]) -> int:
    """Floating-point operations of a call."""
    with _counter() as counter:
        run()
    return int(counter.get_total_flops())


def _counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=_ON_CPU)


def _attention(q: Sequence[int], k: Sequence[int], v: Sequence[int], *_: Any, **__: Any) -> int:
    """q k^T and its product with v: [B, H, N, D] each."""
    b, h, n, d = q
    return 2 * b * h * n * k[2] * (d + v[3])


def _attention_backward(
    _: Sequence[int], q: Sequence[int], k: Sequence[int], v: Sequence[int], *__: Any, **___: Any
) -> int:
    """Five products: q k^T once more, and the gradients of weights, q, k and v."""
    b, h, n, d = q
    return 2 * b * h * n * k[2] * (3 * d + 2 * v[3])


_aten = torch.ops.aten
_ON_CPU = {  # torch counts the kernels of CUDA alone
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
}
