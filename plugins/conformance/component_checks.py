"""First answers: what each component says when it is first asked, held against its contract.

A wrong answer seldom stops anything: weights [B, 1] broadcast against losses, a network that writes
into z changes what the loss compares it with, a negative weight pays for mistakes. So every
component is asked once before a run begins, about a few real examples:

    data set      integers 0 .. levels-1 of its shape, labels where there are classes
    time sampler  t in [0, 1] and a positive density, one a sample
    schedule      finite levels
    weighting     a finite weight >= 0 for each level, at levels spread over all times
    process       z of its signature's form, a loss for each element
    denoiser      finite answers of its signature's form, with gradients
    sampler       a path whose last frame holds integers of the data

and none may change what it was given. Afterwards nobody looks: a training step is what it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs
import torch
from elbowroom import (
    Batch,
    Dataset,
    DataSpec,
    Denoiser,
    Diffusion,
    ElbowroomError,
    Frame,
    Level,
    Noise,
    Objective,
    Process,
    Sampler,
    Signature,
)
from elbowroom.errors import ContractError
from elbowroom.randomness import preserve_generators
from elbowroom.registry import cause, component_label
from torch import Tensor, nn

_FEW = 2  # examples a network is asked about
_LOOKS = 64  # levels a weighting is asked about


def check_training(model: Diffusion, data: Dataset, device: torch.device | str = "cpu") -> None:
    """Ask every component of a run once; the model is left as it was, on ``device``."""
    batch = first_batch(data)
    model.to(device)
    placed = Batch(batch.x.to(device), None if batch.y is None else batch.y.to(device))
    with preserve_generators(torch.device(device)), _same_buffers(model):
        t = check_times(model.objective, device)
        check_weighting(model.objective, _spread_over(t))
        check_network(model, placed)
        if model.sampler is not None:
            check_first_frame(model.sampler, model, placed.y)


# -- data


def first_batch(data: Dataset) -> Batch:
    """The first examples of the train split, checked."""
    split = data.split("train")
    if not len(split):
        raise ElbowroomError("the data set's train split is empty: there is nothing to learn")
    batch, spec = split.take(torch.arange(min(_FEW, len(split)))), data.spec
    asked = ComponentCheck("dataset", data)
    count = min(_FEW, len(split))
    asked.shape("x", batch.x, (count, *spec.shape))
    asked.integers("x", batch.x, spec.counts())
    if spec.classes is None:
        asked.ensure(batch.y is None, "gave labels, though its spec has no classes")
    else:
        asked.ensure(batch.y is not None, f"gave no labels, though its spec has {spec.classes}")
        asked.shape("labels", batch.y, (count,))
        assert batch.y is not None
        asked.integers("labels", batch.y, spec.classes)
    return batch


# -- times and weights


def check_times(objective: Objective, device: torch.device | str = "cpu") -> Tensor:
    """One time and one density a sample; the times it drew."""
    asked = ComponentCheck("time_sampler", objective.times)
    drawn = objective.times.draw(Noise.of(0, _LOOKS, device=device))
    pair = isinstance(drawn, tuple) and len(drawn) == 2
    asked.ensure(pair, f"answered {describe_type(drawn)} where (t, density) is due")
    t, density = drawn
    for name, value in (("t", t), ("density", density)):
        asked.shape(name, value, (_LOOKS,))
        asked.reals(name, value)
    inside, positive = bool(((t >= 0) & (t <= 1)).all()), bool((density > 0).all())
    asked.ensure(inside, f"drew times from {float(t.min()):.4g} to {float(t.max()):.4g}")
    asked.ensure(positive, "drew a time whose density is not positive")
    return t


def _spread_over(drawn: Tensor) -> Tensor:
    """As many times, spread evenly over (0, 1) whatever the time sampler prefers."""
    return ((torch.arange(len(drawn), device=drawn.device) + 0.5) / len(drawn)).to(drawn.dtype)


def check_weighting(objective: Objective, t: Tensor) -> None:
    """A finite weight that is not negative for the level of each time ``t`` [N]."""
    asked = ComponentCheck("schedule", objective.schedule)
    with asked.unchanged(t=t), torch.no_grad():
        level = objective.level(t)
    asked.reals("log_snr", level.log_snr)
    weighting = objective.weighting
    asked = ComponentCheck("weighting", weighting)
    with asked.unchanged(**_fields(level)), torch.no_grad():
        w, plain = weighting(level), weighting.plain_weight(level)
        penalty = torch.as_tensor(weighting.penalty(level))
    of = tuple(level.log_snr.shape)
    for name, value in (("w", torch.as_tensor(w)), ("plain_weight", plain)):
        asked.shape(name, value, of, ())
        asked.ensure(not value.is_complex(), f"answered {name} in {value.dtype}: weights are real")
    asked.shape("penalty", penalty, of[:1], ())
    _check_values(asked, plain.expand(of).reshape(len(t), -1), t)


def _check_values(asked: ComponentCheck, rows: Tensor, t: Tensor) -> None:
    """Weights [N, M] at times [N]."""
    bad = t[~rows.isfinite().all(1)]
    asked.ensure(
        not len(bad), f"weighs the loss by a number that is not finite at t = {_some(bad)}"
    )
    negative = t[(rows < 0).any(1)]
    asked.ensure(
        not len(negative),
        f"weighs the loss by a negative number at t = {_some(negative)}: training would be paid "
        "for larger losses there, without end, and what it minimised would be no bound",
    )


# -- network and process


def check_network(model: Diffusion, batch: Batch) -> None:
    """One look at a batch, as in training, without an update."""
    process, asked = model.process, ComponentCheck("process", model.process)
    noise = Noise.of(0, len(batch), device=batch.x.device)
    t, _ = model.objective.times.draw(noise)
    with asked.unchanged(x=batch.x):
        x = process.encode(batch.x)
    precision = torch.promote_types(torch.get_default_dtype(), torch.float32)
    level = model.objective.level(t).over(x, precision)
    with asked.unchanged(x=x, **_fields(level)):
        z = process.corrupt(x, level, noise)
    _check_form(asked, "z", z, len(batch), process.signature())
    with listening(model):
        prediction = model.predict(z, level, batch.y)
    with asked.unchanged(x=x, z=z, **_fields(level)):
        plain = process.plain_loss(x, z, prediction, level)
    asked.shape("plain_loss", plain, tuple(x.shape))
    asked.reals("plain_loss", plain)
    asked.shape("units", process.units(z), (len(batch),))


def check_own_network(model: Diffusion) -> None:
    """Check a network that is no ``Denoiser`` on inputs of the data's form."""
    if isinstance(model.denoiser, Denoiser):
        return
    spec, signature = model.process.data, model.process.signature()
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    x = torch.zeros((_FEW, *spec.shape), dtype=torch.int64, device=device)
    y = None if spec.classes is None else torch.zeros(_FEW, dtype=torch.int64, device=device)
    try:
        with preserve_generators(device), _same_buffers(model):
            check_network(model, Batch(x, y))
    except ElbowroomError:
        raise
    except Exception as error:
        out = "" if signature.out_states is None else f", {signature.out_states}"
        z = "float" if signature.in_states is None else f"int64 below {signature.in_states}"
        shape = f"[B, {', '.join(map(str, signature.shape))}"
        asked = ComponentCheck("denoiser", model.denoiser)
        asked.ensure(
            False,
            f"failed with {cause(error)}. It is called as net(z, log_snr, cond): z {shape}] "
            f"{z}, log_snr [B], cond [B] labels{'' if y is not None else ', here None'}; and "
            f"answers {shape}{out}]",
        )


@contextmanager
def listening(model: Diffusion) -> Iterator[None]:
    """Hold the next answer of the model's denoiser against its contract, and no later one."""
    network, signature = model.denoiser, model.process.signature()
    asked, given = ComponentCheck("denoiser", network), dict[str, tuple[Tensor, Tensor]]()

    def before(_: nn.Module, seen: tuple[Any, ...]) -> None:
        names = zip(("z", "log_snr", "cond"), seen, strict=False)
        given.update({n: (v, v.clone()) for n, v in names if isinstance(v, Tensor)})
        hooks[0].remove()

    def after(_: nn.Module, seen: tuple[Any, ...], answer: Any) -> None:
        hooks[1].remove()
        asked.same(given)
        check_answer(network, answer, len(seen[0]), signature)

    if getattr(network, "_compiled_call_impl", None) is not None:
        yield  # hooks would have it compiled anew, twice
        return
    hooks = [network.register_forward_pre_hook(before), network.register_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_answer(network: nn.Module, answer: Any, count: int, signature: Signature) -> None:
    """[B, *D], or logits [B, *D, V]: floating, finite, with a gradient where one is wanted."""
    asked, states = ComponentCheck("denoiser", network), signature.out_states
    asked.shape("it", answer, (count, *signature.shape, *(() if states is None else (states,))))
    asked.ensure(answer.is_floating_point(), f"answered in {answer.dtype}, not in real numbers")
    # a logit may be -inf: that value is ruled out
    wrong = ~answer.isfinite() if states is None else answer.isnan() | (answer == math.inf)
    asked.ensure(not bool(wrong.any()), "answered with numbers that are not finite")
    learns = torch.is_grad_enabled() and any(p.requires_grad for p in network.parameters())
    asked.ensure(
        answer.requires_grad or not learns,
        "answered without gradients: none of its parameters can learn (a detach, .data or no_grad "
        "in forward?)",
    )


def _check_form(asked: ComponentCheck, name: str, z: Any, count: int, signature: Signature) -> None:
    """z [B, *D] of a process's space."""
    asked.shape(name, z, (count, *signature.shape))
    if signature.in_states is None:
        asked.reals(name, z)
    else:
        asked.integers(name, z, signature.in_states)


# -- samplers


def check_first_frame(sampler: Sampler, model: Diffusion, cond: Tensor | None) -> None:
    """A path begins with a frame of noise."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    count = _FEW if cond is None else len(cond)
    with torch.no_grad():
        path = sampler.frames(model, Noise.of(0, count, device=device), cond)
        frame = next(iter(path), None)
    check_begun(sampler, frame, count, model.process)


def check_begun(sampler: Sampler, frame: Any, count: int, process: Process) -> Frame:
    """The first frame of a path of ``count`` samples."""
    asked = ComponentCheck("sampler", sampler)
    begun = _as_frame(asked, frame)
    asked.shape("z", begun.z, (count, *process.signature().shape))
    return begun


def check_ended(sampler: Sampler, frame: Any, count: int, data: DataSpec) -> Frame:
    """The last frame of a path of ``count`` samples: integers of the data, and their cost."""
    asked = ComponentCheck("sampler", sampler)
    ended = _as_frame(asked, frame)
    asked.ensure(ended.x is not None, "did not finish: its last frame has no x")
    assert ended.x is not None
    asked.shape("x", ended.x, (count, *data.shape))
    asked.integers("x", ended.x, data.counts(ended.x.device))
    asked.ensure(ended.calls is not None, "did not say in its last frame how many calls it took")
    asked.shape("calls", ended.calls, (count,))
    return ended


def _as_frame(asked: ComponentCheck, frame: Any) -> Frame:
    asked.ensure(frame is not None, "yielded no frame at all")
    asked.ensure(isinstance(frame, Frame), f"yielded {describe_type(frame)}, not a Frame")
    assert isinstance(frame, Frame)
    return frame


# -- what is asked of whom


@attrs.frozen(eq=False)
class ComponentCheck:
    """A component that is being asked; what it does wrong is said with its name and owner."""

    kind: str
    component: object

    def ensure(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise ContractError(f"{component_label(self.kind, self.component)} {otherwise}")

    def shape(self, name: str, value: Any, *allowed: tuple[int, ...]) -> None:
        self.ensure(
            isinstance(value, Tensor), f"answered {describe_type(value)} for {name}, not a tensor"
        )
        got, due = tuple(value.shape), " or ".join(str(list(shape)) for shape in allowed)
        of = "in" if name == "it" else f"{name} in"
        self.ensure(got in allowed, f"answered {of} the shape {list(got)} where {due} is due")

    def reals(self, name: str, value: Tensor) -> None:
        self.ensure(value.is_floating_point(), f"answered {name} in {value.dtype}, not in floats")
        finite = bool(value.isfinite().all())
        self.ensure(finite, f"answered {name} with numbers that are not finite")

    def integers(self, name: str, value: Tensor, states: Tensor | int) -> None:
        exact = not value.is_floating_point() and not value.is_complex()
        self.ensure(exact, f"answered {name} in {value.dtype}, not in integers")
        if value.numel():
            low, high = int(value.min()), int(value.max())
            most = torch.as_tensor(states).max() - 1
            told = f"answered {name} from {low} to {high}; allowed are 0 to {most}"
            self.ensure(bool(((value >= 0) & (value < states)).all()), told)

    @contextmanager
    def unchanged(self, **given: Tensor) -> Iterator[None]:
        kept = {name: (value, value.clone()) for name, value in given.items()}
        yield
        self.same(kept)

    def same(self, kept: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """(now, before) of what it was given."""
        for name, (now, then) in kept.items():
            same = now.shape == then.shape and _equal(now, then)
            self.ensure(same, f"changed {name} in place, which it was only shown: copy it first")


def _equal(now: Tensor, then: Tensor) -> bool:
    both_missing = (now != now) & (then != then)  # noqa: PLR0124  # NaN
    return bool(((now == then) | both_missing).all())


def _fields(level: Level) -> dict[str, Tensor]:
    return attrs.asdict(level, recurse=False)


def describe_type(value: Any) -> str:
    """A value in an error message: a text itself, anything else by its type."""
    return f"{value!r:.60}" if isinstance(value, str) else f"a {type(value).__name__}"


def _some(t: Tensor) -> str:
    shown = ", ".join(f"{value:.3g}" for value in t[:3].tolist())
    return f"{shown}, ..." if len(t) > 3 else shown


@contextmanager
def _same_buffers(model: nn.Module) -> Iterator[None]:
    """What a look leaves behind in a network (running means) is taken back."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in before and before[name].shape == buffer.shape:
                    buffer.copy_(before[name])
