"""Completion: samples with given positions."""

from __future__ import annotations

import attrs
import elbowroom as er
import numpy as np
import pytest
import torch
from elbowroom import DataSpec, ElbowroomError, Level, Noise
from elbowroom.contracts import Given
from elbowroom.plugins.conformance.oracle import TableOracle, every_state
from elbowroom.plugins.gaussian.process import Gaussian
from elbowroom.plugins.masked.process import Masked
from elbowroom.plugins.samplers.ancestral import Ancestral
from elbowroom.plugins.samplers.ddim import DDIM
from elbowroom.plugins.samplers.first_hitting import FirstHitting
from elbowroom.plugins.samplers.repaint import RePaint
from elbowroom.plugins.sampling.given import GivenExamples, keep_mask, prompt_examples
from elbowroom.plugins.schedules.gaussian import VPCosine
from elbowroom.plugins.schedules.masking import Linear
from PIL import Image

from tests.helpers.command import elbowroom

MASKED = ["ancestral", "first-hitting", "top-p", "confidence", "remask", "scattered", "corrected"]
GAUSSIAN = ["ancestral", "ddim", "heun", "multistep", "repaint"]
DRAWS = 4000


def model_of(process: str, **objective):
    model = er.assemble(
        data={"name": "digits", "size": 4, "levels": 5, "limit": 64},
        process=process,
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler={"name": "ancestral", "steps": 6},
        objective=objective,
    )
    with torch.no_grad():  # a new network has zero output
        for p, seed in zip(model.parameters(), range(1000), strict=False):
            p.add_(0.3 * torch.randn(p.shape, generator=torch.Generator().manual_seed(seed)))
    return model


X = torch.randint(0, 5, (3, 4, 4, 1), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("process", "sampler"), [("masked", s) for s in MASKED] + [("gaussian", s) for s in GAUSSIAN]
)
def test_given_positions_never_change(process, sampler):
    """With every sampler; the others are drawn."""
    model = model_of(process)
    drawn = er.sample(model, 6, given=X, keep="left", sampler=sampler)
    assert torch.equal(drawn.x[:, :, :2], X.repeat(2, 1, 1, 1)[:, :, :2])
    assert not torch.equal(drawn.x[:3], drawn.x[3:])
    assert int(drawn.calls.min()) > 0


@pytest.mark.parametrize("process", ["masked", "gaussian"])
def test_nothing_given_is_an_unconditional_sample_and_everything_needs_no_call(process):
    """To the bit, whatever the batch."""
    model = model_of(process)
    free = er.sample(model, 3)
    assert torch.equal(er.sample(model, 3, given=X, keep="random:0").x, free.x)
    mixed = torch.zeros(3, 4, 4, 1).bool()
    mixed[1] = True
    drawn = er.sample(model, given=X, keep=mixed)
    assert torch.equal(drawn.x[[0, 2]], free.x[[0, 2]]) and torch.equal(drawn.x[1], X[1])
    whole = er.sample(model, given=X, keep=torch.ones(4, 4, 1).bool())
    assert torch.equal(whole.x, X) and int(whole.calls.max()) == 0


def test_masked_samplers_call_no_network_for_given_tokens():
    """With one position left there is one event."""
    keep = torch.ones(4, 4, 1).bool()
    keep[2, 3] = False
    for sampler in ("ancestral", "first-hitting"):
        drawn = er.sample(model_of("masked"), given=X, keep=keep, sampler=sampler, steps=16)
        assert drawn.calls.tolist() == [1, 1, 1]


@attrs.frozen(eq=False)
class Exact:
    """An exact denoiser with given positions."""

    process: er.Process
    schedule: er.Schedule
    table: TableOracle
    known: Given | None

    def predict(self, z, level, cond):
        return self.table.predict(self.process)(z, level)


STATES = every_state((2,), 3)
TABLE = TableOracle(STATES, torch.tensor([4, 1, 1, 1, 6, 1, 2, 1, 3], dtype=torch.float64) / 20)


def conditional(x: torch.Tensor) -> torch.Tensor:
    """How often the second token is 0, 1, 2."""
    return torch.bincount(x[:, 1], minlength=3).double() / len(x)


@pytest.mark.parametrize("sampler", [Ancestral(32), FirstHitting(2)], ids=["ancestral", "exact"])
def test_the_masked_law_given_a_token_is_the_conditional(sampler):
    """p(x_1 | x_0), of an exact denoiser."""
    process = Masked().bind(DataSpec((2,), 3))
    for first in range(3):
        x = torch.full((DRAWS, 2), first)
        keep = torch.tensor([True, False]).expand(DRAWS, 2)
        model = Exact(process, Linear(eps=1e-4), TABLE, Given(x, keep))
        found = conditional(sampler.sample(model, Noise.of(0, DRAWS)).x)
        due = TABLE.probabilities.view(3, 3)[first]
        assert (found - due / due.sum()).abs().max() < 0.03


@pytest.mark.parametrize("sampler", [Ancestral(100), DDIM(100)], ids=["ancestral", "ddim"])
def test_with_a_level_per_position_the_gaussian_law_is_the_conditional(sampler):
    """Given positions are at the level of the data."""
    process, schedule = Gaussian().bind(DataSpec((2,), 3)), VPCosine(log_snr_max=8.0)
    clean = Level.of(torch.zeros((), dtype=torch.float64), schedule, process)
    for first in (0, 2):
        x = process.encode(torch.full((DRAWS, 2), first))
        keep = torch.tensor([True, False]).expand(DRAWS, 2)
        model = Exact(process, schedule, TABLE, Given(x, keep, clean))
        found = conditional(sampler.sample(model, Noise.of(0, DRAWS)).x)
        due = TABLE.probabilities.view(3, 3)[first]
        assert (found - due / due.sum()).abs().max() < 0.03


def test_repaint_comes_closer_to_the_conditional():
    """On one clock replacement is biased; resampling reduces the bias."""
    process, schedule = Gaussian().bind(DataSpec((2,), 3)), VPCosine(log_snr_max=8.0)
    x = process.encode(torch.zeros(DRAWS, 2).long())
    keep = torch.tensor([True, False]).expand(DRAWS, 2)
    model = Exact(process, schedule, TABLE, Given(x, keep))
    due = TABLE.probabilities.view(3, 3)[0]
    away = [
        float((conditional(s.sample(model, Noise.of(0, DRAWS)).x) - due / due.sum()).abs().max())
        for s in (RePaint(32, resamples=1), RePaint(32, resamples=8))
    ]
    assert away[1] < away[0]


def test_a_model_trained_with_levels_per_position_is_conditioned_exactly():
    """``path: given`` makes given positions clean; one clock does not."""
    keep = torch.ones(1, 4, 4, 1).bool()
    assert model_of("gaussian", path="given").conditioned_on(X[:1], keep).known.clean is not None
    assert model_of("gaussian").conditioned_on(X[:1], keep).known.clean is None
    drawn = er.sample(model_of("gaussian", path="given"), given=X, keep="top")
    assert torch.equal(drawn.x[:, :2], X[:, :2])


IMAGES = DataSpec((4, 4, 1), 5)


def test_masks_by_name():
    """Sides of images, ends of sequences, random positions, each with a share."""
    left = keep_mask("left:0.25", IMAGES, 2)
    assert (
        left.shape == (2, 4, 4, 1) and bool(left[:, :, 0].all()) and not bool(left[:, :, 1:].any())
    )
    assert bool(keep_mask("bottom", IMAGES, 1)[0, 2:].all())
    assert keep_mask("prefix:0.75", DataSpec((8,), 5), 1)[0].tolist() == [True] * 6 + [False] * 2
    random = keep_mask("random:0.25", IMAGES, 50, seed=3)
    assert bool((random.flatten(1).sum(1) == 4).all()) and len(random.unique(dim=0)) > 10


@pytest.mark.parametrize(
    ("given", "keep", "message"),
    [
        (X, torch.ones(3, 3).bool(), r"keep: shape \[3, 3\] does not fit"),
        (X, torch.ones(4, 4, 1), "keep: expected a bool tensor, got float32"),
        (X, "middle", "keep: 'middle' is not one of left, right, top, bottom, random"),
        (X, "left:2", "the share is a number from 0 to 1"),
        (X[:, :2], "left", "examples of shape"),
        (X + 5, "left", "allowed are 0 to 4"),
        (X.float(), "left", "float32 numbers"),
        (X[:0], "left", "no examples"),
        (None, "left", "pass both, or neither"),
        ("text", "left", "expected a tensor of integers"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(given, keep, message):
    """Before anything is drawn."""
    with pytest.raises(ElbowroomError, match=message):
        er.sample(model_of("masked"), given=given, keep=keep)


TEXT = DataSpec((12,), 4, tokens=("a", "b", "ab", " "))


def test_prompts():
    """A prompt is the beginning of the window; gaps are filled in; long prompts slide."""
    given, before = prompt_examples("ab a", TEXT)
    assert given.x[0, :3].tolist() == [2, 3, 0] and given.keep[0].sum() == 3 and before == ""
    given, _ = prompt_examples("a___b", TEXT)
    assert given.keep[0].tolist() == [True, False, False, False, True] + [False] * 7
    given, before = prompt_examples("a" * 20, TEXT)
    assert before == "a" * 11 and int(given.keep.sum()) == 9


@pytest.mark.parametrize(
    ("prompt", "message"),
    [("axe", "no token for 'x'"), ("", "it is empty"), ("a" * 10 + "___", "do not fit the window")],
)
def test_wrong_prompts(prompt, message):
    """Unknown characters, empty prompts and gaps outside the window."""
    with pytest.raises(ElbowroomError, match=message):
        prompt_examples(prompt, TEXT)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """An untrained run."""
    folder = tmp_path_factory.mktemp("given") / "run"
    er.save(model_of("masked"), folder)
    return folder


def test_the_command_completes_examples_of_a_split(run, tmp_path):
    """A picture of what was given, the completions and the real examples."""
    out = tmp_path / "out"
    argv = ["sample", str(run), "--given", "test", "--keep", "top", "--out", str(out)]
    ran = elbowroom(*argv, "--count", "8")
    assert ran.code == 0 and "exact conditionals" in ran.out
    assert Image.open(out / "completions.png").size[0] >= 600
    with np.load(out / "samples.npz") as file:
        assert file["x"].shape == (8, 4, 4, 1)


def test_the_command_reads_images_and_masks(run, tmp_path):
    """Of any size; white pixels of the mask are kept."""
    Image.new("L", (8, 8), 255).save(tmp_path / "white.png")
    mask = Image.new("L", (4, 4), 0)
    mask.putpixel((1, 2), 255)
    mask.save(tmp_path / "mask.png")
    given, keep = str(tmp_path / "white.png"), str(tmp_path / "mask.png")
    argv = ["sample", str(run), "--given", given, "--keep", keep, "--out", str(tmp_path / "out")]
    assert elbowroom(*argv).code == 0
    with np.load(tmp_path / "out" / "samples.npz") as file:
        assert (file["x"][:, 2, 1] == 4).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--given", "nothing.png", "--keep", "left"], "no such file"),
        (["--given", "test"], "use both, or neither"),
        (["--prompt", "hello"], "data are not text"),
        (["--given", "test", "--keep", "left", "--prompt", "a"], "without --given"),
    ],
)
def test_wrong_options_write_nothing(run, tmp_path, options, message):
    """One sentence, and no folder."""
    ran = elbowroom("sample", run, *options, "--out", tmp_path / "out")
    assert ran.code != 0 and message in " ".join(ran.err.split())
    assert not (tmp_path / "out").exists()


def test_a_text_is_completed_and_its_writing_shown(tmp_path):
    """samples.txt marks what was given; the page escapes the text."""
    tokens = ("<", "b", ">", "a", " ")
    model = er.assemble(
        process="masked",
        data=DataSpec((12,), 5, tokens=tokens),
        denoiser={"name": "dit", "width": 16, "depth": 1},
        sampler={"name": "ancestral", "steps": 6},
    )
    er.save(model, tmp_path / "run")
    out = tmp_path / "out"
    argv = ["sample", str(tmp_path / "run"), "--prompt", "<b>a", "--out", str(out), "--count", "3"]
    assert elbowroom(*argv).code == 0
    assert (out / "samples.txt").read_text().count("[[<b>a]]") == 3
    page = (out / "writing.html").read_text()
    assert "<b>&lt;b&gt;a</b>" in page and (out / "writing.gif").stat().st_size > 0


def test_given_examples_follow_each_other():
    """Sample i completes example i mod G."""
    given = GivenExamples.of(IMAGES, X, "left")
    x, _ = given.rows(torch.tensor([0, 4, 5]))
    assert torch.equal(x, X[[0, 1, 2]])


@pytest.mark.parametrize(
    ("process", "path"), [("masked", "shared"), ("gaussian", "shared"), ("gaussian", "given")]
)
def test_an_exported_pipeline_completes_too(tmp_path, process, path):
    """The same samples as elbowroom.sample."""
    pytest.importorskip("diffusers")
    from elbowroom.plugins.diffusers.export import ElbowroomPipeline

    model = model_of(process, path=path)
    er.save(model, tmp_path / "run")
    assert elbowroom("export", tmp_path / "run", "--to", "diffusers", tmp_path / "out").code == 0
    pipe = ElbowroomPipeline.from_pretrained(tmp_path / "out")
    made = pipe(3, class_labels=[0, 1, 2], given=X, keep="left", seed=0).tokens
    due = er.sample(er.load(tmp_path / "run"), given=X, keep="left", labels=[0, 1, 2])
    assert torch.equal(made, due.x)
