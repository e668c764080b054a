"""Checks run on every component before training starts, on a few real examples.

A wrong result rarely raises an error: weights [B, 1] broadcast against losses, a network that
writes into z changes the target of the loss, a negative weight rewards errors. Checked are:

    data set      integers 0 .. levels-1 of its shape, labels where there are classes
    time sampler  t in [0, 1] and a positive density, one per sample
    schedule      finite levels
    weighting     a finite weight >= 0 for each level, at evenly spaced times
    process       z of its signature's shape, a loss for each element
    denoiser      finite outputs of its signature's shape, with gradients
    sampler       a trajectory whose last frame has integers of the data

and that none changes its inputs. A training step has no such checks.
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

_FEW = 2  # examples
_LEVELS = 64  # of a weighting


def check_training(model: Diffusion, data: Dataset, device: torch.device | str = "cpu") -> None:
    """Check every component of a run once, on ``device``; the model is not changed."""
    batch = first_batch(data)
    model.to(device)
    placed = Batch(batch.x.to(device), None if batch.y is None else batch.y.to(device))
    with preserve_generators(torch.device(device)), _same_buffers(model):
        t = check_times(model.objective, device)
        even = (torch.arange(len(t), device=t.device) + 0.5) / len(t)
        check_weighting(model.objective, even.to(t.dtype))
        check_network(model, placed)
        if model.sampler is not None:
            check_first_frame(model.sampler, model, placed.y)


# -- data


def first_batch(data: Dataset) -> Batch:
    """The first examples of the train split, checked."""
    split = data.split("train")
    if not len(split):
        raise ElbowroomError("the data set's train split is empty")
    batch, spec = split.take(torch.arange(min(_FEW, len(split)))), data.spec
    check = ComponentCheck("dataset", data)
    count = min(_FEW, len(split))
    check.shape("x", batch.x, (count, *spec.shape))
    check.integers("x", batch.x, spec.counts())
    if spec.classes is None:
        check.ensure(batch.y is None, "gave labels, but its spec has no classes")
    else:
        check.ensure(batch.y is not None, f"gave no labels, but its spec has {spec.classes}")
        check.shape("labels", batch.y, (count,))
        assert batch.y is not None
        check.integers("labels", batch.y, spec.classes)
    return batch


# -- times and weights


def check_times(objective: Objective, device: torch.device | str = "cpu") -> Tensor:
    """The drawn times; one time and one density per sample."""
    check = ComponentCheck("time_sampler", objective.times)
    drawn = objective.times.draw(Noise.of(0, _LEVELS, device=device))
    pair = isinstance(drawn, tuple) and len(drawn) == 2
    check.ensure(pair, f"returned {describe_type(drawn)}, expected (t, density)")
    t, density = drawn
    for name, value in (("t", t), ("density", density)):
        check.shape(name, value, (_LEVELS,))
        check.reals(name, value)
    inside, positive = bool(((t >= 0) & (t <= 1)).all()), bool((density > 0).all())
    check.ensure(inside, f"drew times from {float(t.min()):.4g} to {float(t.max()):.4g}")
    check.ensure(positive, "drew a time whose density is not positive")
    return t


def check_weighting(objective: Objective, t: Tensor) -> None:
    """A finite weight that is not negative for the level of each time ``t`` [N]."""
    check = ComponentCheck("schedule", objective.schedule)
    with check.unchanged(t=t), torch.no_grad():
        level = objective.level(t)
    check.reals("log_snr", level.log_snr)
    weighting = objective.weighting
    check = ComponentCheck("weighting", weighting)
    with check.unchanged(**_fields(level)), torch.no_grad():
        w, plain = weighting(level), weighting.plain_weight(level)
        penalty = torch.as_tensor(weighting.penalty(level))
    of = tuple(level.log_snr.shape)
    for name, value in (("w", torch.as_tensor(w)), ("plain_weight", plain)):
        check.shape(name, value, of, ())
        check.ensure(not value.is_complex(), f"returned {name} as {value.dtype}: weights are real")
    check.shape("penalty", penalty, of[:1], ())
    _check_values(check, plain.expand(of).reshape(len(t), -1), t)


def _check_values(check: ComponentCheck, rows: Tensor, t: Tensor) -> None:
    """Weights [N, M] at times [N]."""
    bad = t[~rows.isfinite().all(1)]
    check.ensure(
        not len(bad), f"weighs the loss by a number that is not finite at t = {_some(bad)}"
    )
    negative = t[(rows < 0).any(1)]
    check.ensure(
        not len(negative),
        f"weights the loss by a negative number at t = {_some(negative)}: the objective would have "
        "no minimum",
    )


# -- network and process


def check_network(model: Diffusion, batch: Batch) -> None:
    """Check process and network on a batch, as in a training step without update."""
    process, check = model.process, ComponentCheck("process", model.process)
    noise = Noise.of(0, len(batch), device=batch.x.device)
    t, _ = model.objective.times.draw(noise)
    with check.unchanged(x=batch.x):
        x = process.encode(batch.x)
    precision = torch.promote_types(torch.get_default_dtype(), torch.float32)
    level = model.objective.level(t).over(x, precision)
    with check.unchanged(x=x, **_fields(level)):
        z = process.corrupt(x, level, noise)
    states = process.signature().in_states
    check.shape("z", z, (len(batch), *process.signature().shape))
    if states is None:
        check.reals("z", z)
    else:
        check.integers("z", z, states)
    with listening(model):
        prediction = model.predict(z, level, batch.y)
    with check.unchanged(x=x, z=z, **_fields(level)):
        plain = process.plain_loss(x, z, prediction, level)
    check.shape("plain_loss", plain, tuple(x.shape))
    check.reals("plain_loss", plain)
    check.shape("units", process.units(z), (len(batch),))


def check_own_network(model: Diffusion) -> None:
    """Check a network that is not a ``Denoiser`` on inputs of the data's shape."""
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
        check = ComponentCheck("denoiser", model.denoiser)
        check.ensure(
            False,
            f"failed with {cause(error)}. It is called as net(z, log_snr, cond): z {shape}] "
            f"{z}, log_snr [B], cond [B] labels{'' if y is not None else ', here None'}; and "
            f"returns {shape}{out}]",
        )


@contextmanager
def listening(model: Diffusion) -> Iterator[None]:
    """Check the next output of the model's denoiser, and no later one."""
    network, signature = model.denoiser, model.process.signature()
    check, given = ComponentCheck("denoiser", network), dict[str, tuple[Tensor, Tensor]]()

    def before(_: nn.Module, inputs: tuple[Any, ...]) -> None:
        names = zip(("z", "log_snr", "cond"), inputs, strict=False)
        given.update({n: (v, v.clone()) for n, v in names if isinstance(v, Tensor)})
        hooks[0].remove()

    def after(_: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        hooks[1].remove()
        check.same(given)
        check_output(network, output, len(inputs[0]), signature)

    if getattr(network, "_compiled_call_impl", None) is not None:
        yield  # hooks would recompile it twice
        return
    hooks = [network.register_forward_pre_hook(before), network.register_forward_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def check_output(network: nn.Module, output: Any, count: int, signature: Signature) -> None:
    """[B, *D], or logits [B, *D, V]: floating, finite, with a gradient in training."""
    check, states = ComponentCheck("denoiser", network), signature.out_states
    check.shape("it", output, (count, *signature.shape, *(() if states is None else (states,))))
    check.ensure(output.is_floating_point(), f"returned {output.dtype}, not real numbers")
    # a logit may be -inf
    wrong = ~output.isfinite() if states is None else output.isnan() | (output == math.inf)
    check.ensure(not bool(wrong.any()), "returned values that are not finite")
    learns = torch.is_grad_enabled() and any(p.requires_grad for p in network.parameters())
    check.ensure(
        output.requires_grad or not learns,
        "returned an output without gradients: none of its parameters can be trained (a detach, "
        ".data or no_grad in forward?)",
    )


# -- samplers


def check_first_frame(sampler: Sampler, model: Diffusion, cond: Tensor | None) -> None:
    """Check the first frame of a trajectory."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    count = _FEW if cond is None else len(cond)
    with torch.no_grad():
        frames = sampler.frames(model, Noise.of(0, count, device=device), cond)
        frame = next(iter(frames), None)
    check_begun(sampler, frame, count, model.process)


def check_begun(sampler: Sampler, frame: Any, count: int, process: Process) -> Frame:
    """The first frame of a trajectory of ``count`` samples, checked."""
    check = ComponentCheck("sampler", sampler)
    begun = _as_frame(check, frame)
    check.shape("z", begun.z, (count, *process.signature().shape))
    return begun


def check_ended(sampler: Sampler, frame: Any, count: int, data: DataSpec) -> Frame:
    """The last frame of a trajectory of ``count`` samples, checked: integers and network calls."""
    check = ComponentCheck("sampler", sampler)
    ended = _as_frame(check, frame)
    check.ensure(ended.x is not None, "did not finish: its last frame has no x")
    assert ended.x is not None
    check.shape("x", ended.x, (count, *data.shape))
    check.integers("x", ended.x, data.counts(ended.x.device))
    check.ensure(ended.calls is not None, "has no calls in its last frame")
    check.shape("calls", ended.calls, (count,))
    return ended


def _as_frame(check: ComponentCheck, frame: Any) -> Frame:
    check.ensure(frame is not None, "yielded no frame")
    check.ensure(isinstance(frame, Frame), f"yielded {describe_type(frame)}, not a Frame")
    assert isinstance(frame, Frame)
    return frame


# -- the checks


@attrs.frozen(eq=False)
class ComponentCheck:
    """Checks of a component; errors have its name and owner."""

    kind: str
    component: object

    def ensure(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise ContractError(f"{component_label(self.kind, self.component)} {otherwise}")

    def shape(self, name: str, value: Any, *allowed: tuple[int, ...]) -> None:
        self.ensure(
            isinstance(value, Tensor), f"returned {describe_type(value)} for {name}, not a tensor"
        )
        got, due = tuple(value.shape), " or ".join(str(list(shape)) for shape in allowed)
        of = "" if name == "it" else f"{name} of "
        self.ensure(got in allowed, f"returned {of}shape {list(got)}, expected {due}")

    def reals(self, name: str, value: Tensor) -> None:
        self.ensure(value.is_floating_point(), f"returned {name} as {value.dtype}, not floats")
        finite = bool(value.isfinite().all())
        self.ensure(finite, f"returned {name} with values that are not finite")

    def integers(self, name: str, value: Tensor, states: Tensor | int) -> None:
        exact = not value.is_floating_point() and not value.is_complex()
        self.ensure(exact, f"returned {name} as {value.dtype}, not integers")
        if value.numel():
            low, high = int(value.min()), int(value.max())
            most = torch.as_tensor(states).max() - 1
            message = f"returned {name} from {low} to {high}; allowed are 0 to {most}"
            self.ensure(bool(((value >= 0) & (value < states)).all()), message)

    @contextmanager
    def unchanged(self, **given: Tensor) -> Iterator[None]:
        kept = {name: (value, value.clone()) for name, value in given.items()}
        yield
        self.same(kept)

    def same(self, kept: Mapping[str, tuple[Tensor, Tensor]]) -> None:
        """Check inputs given as (now, before)."""
        for name, (now, then) in kept.items():
            same = now.shape == then.shape and _equal(now, then)
            self.ensure(same, f"changed its input {name} in place: copy it first")


def _equal(now: Tensor, then: Tensor) -> bool:
    both_missing = (now != now) & (then != then)  # noqa: PLR0124  # NaN
    return bool(((now == then) | both_missing).all())


def _fields(level: Level) -> dict[str, Tensor]:
    return attrs.asdict(level, recurse=False)


def describe_type(value: Any) -> str:
    """A value in an error message: a string itself, anything else by its type."""
    return f"{value!r:.60}" if isinstance(value, str) else f"a {type(value).__name__}"


def _some(t: Tensor) -> str:
    shown = ", ".join(f"{value:.3g}" for value in t[:3].tolist())
    return f"{shown}, ..." if len(t) > 3 else shown


@contextmanager
def _same_buffers(model: nn.Module) -> Iterator[None]:
    """Restore the buffers of a network (running means) on exit."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name in before and before[name].shape == buffer.shape:
                    buffer.copy_(before[name])
