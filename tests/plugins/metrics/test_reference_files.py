"""Reference files: made of a data set, read from anybody, never believed unseen."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
import torch
from elbowroom.errors import ElbowroomError
from elbowroom.plugins.evaluation.metric import Subject
from elbowroom.plugins.metrics.fid import FID
from elbowroom.plugins.metrics.make_reference import make_reference
from elbowroom.plugins.metrics.moments import Sums, frechet
from elbowroom.plugins.metrics.reference import Reference
from elbowroom.plugins.sampling.picture import pixels
from elbowroom.plugins.training.run import train

from tests.helpers.command import elbowroom
from tests.helpers.pictures import LINEAR, Linear, Pictures, pictures
from tests.helpers.tiny_run import tiny_config

DATA = Pictures()
HERE = "tests.helpers.pictures"
TRAIN = DATA.split("train").take(torch.arange(120)).x
SAMPLES = pictures(90, seed=50)[0].flip(1)
MU, SIGMA = np.zeros(5), np.eye(5)


def measured(features=LINEAR, **options):
    metric = FID(features, **options)
    metric.prepare(Subject(DATA, batch_size=17))
    metric.update(SAMPLES, None)
    return metric.compute()


def close(one, other):
    return one == pytest.approx(other, rel=1e-9, abs=1e-9)


# -- moments


def test_moments_of_a_stream_are_those_of_numpy():
    """Mean and covariance (n - 1), however the vectors come and wherever they are merged."""
    v = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) + 3
    one, other = Sums.over(v[:20].split(7)), Sums.over([v[20:]])
    one.merge([one.state(), other.state()])
    assert np.allclose(one.moments().mean, v.double().numpy().mean(0), rtol=1e-12)
    assert np.allclose(one.moments().covariance, np.cov(v.double().numpy().T), rtol=1e-9)


def test_the_distance_is_that_of_torchmetrics():
    """Which others use, so figures are the same."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    class Seen(torch.nn.Identity):
        num_features = 4

    a, b = torch.randn(2, 60, 4, generator=torch.Generator().manual_seed(0)).double()
    theirs = FrechetInceptionDistance(Seen())
    theirs.update(a, real=True)
    theirs.update(b + 0.5, real=False)
    ours = frechet(Sums.over([a]).moments(), Sums.over([b + 0.5]).moments())
    assert close(ours, float(theirs.compute()))


# -- files that are right


def made(path, **options):
    return make_reference(DATA, path, features=LINEAR, batch_size=17, **options)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_file_made_of_a_split_stands_for_it(split, tmp_path):
    """FID against the file is FID against the split, without looking at the split again."""
    report = made(tmp_path / "r.npz", split=split)
    found = measured(reference=str(tmp_path / "r.npz"))
    assert found.keys() == {"fid_reference"}
    assert close(found["fid_reference"].value, measured()[f"fid_{split}"].value)
    assert close(found["fid_reference"].floor, measured()["fid_train"].floor * (split == "train"))
    assert found["fid_reference"].of["against"] == f"{report.count} examples of pictures {split}"


def test_others_read_the_file(tmp_path):
    """mu and sigma under ADM's names, without pickled objects; what it is of beside them."""
    made(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz", allow_pickle=False) as file:
        vectors = Linear(DATA)(TRAIN)[0].numpy()
        assert np.allclose(file["mu"], vectors.mean(0))
        assert np.allclose(file["sigma"], np.cov(vectors.T))
        assert (int(file["count"]), str(file["features"])) == (120, "linear")
        assert str(file["features_sha256"]) == Linear(DATA).digest


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_file_of_others_is_read(dtype, tmp_path):
    """mu and sigma alone, as ADM publishes them; compressed or not."""
    vectors = Linear(DATA)(TRAIN)[0].numpy()
    arrays = {"mu": vectors.mean(0).astype(dtype), "sigma": np.cov(vectors.T).astype(dtype)}
    np.savez_compressed(tmp_path / "VIRTUAL.npz", **arrays)
    found = measured(reference=str(tmp_path / "VIRTUAL.npz"))["fid_reference"]
    assert found.value == pytest.approx(measured()["fid_train"].value, rel=1e-5)
    assert found.of["against"] == "VIRTUAL.npz"


def test_pictures_are_looked_at(tmp_path):
    """arr_0: the same as the examples whose shades they have."""
    np.savez(tmp_path / "p.npz", pixels(TRAIN, 5).numpy())
    found = measured(reference=str(tmp_path / "p.npz"))["fid_reference"]
    assert close(found.value, measured()["fid_train"].value)
    assert found.of["against"] == "120 examples of p.npz"


def test_what_a_file_says_is_kept_by_its_content(tmp_path, monkeypatch):
    """Another file under the same name is another reference."""
    monkeypatch.setenv("ELBOWROOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Linear, "code", "known", raising=False)
    path = tmp_path / "r.npz"
    values = []
    for _ in range(2):
        for split in ("train", "test"):
            made(path, split=split)
            values.append(measured(reference=str(path))["fid_reference"].value)
    assert values[:2] == values[2:]
    assert values[0] != values[1]
    assert len(list((tmp_path / "cache" / "features").glob("fid-*"))) == 2


# -- files that are not


def archive(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


WRONG = {
    "no zip": (b"mu", "not a zip"),
    "cut short": (archive(mu=MU, sigma=SIGMA)[:-80], "not a zip"),
    "nothing in it": (archive(x=MU), "it holds x, and neither mu and sigma nor arr_0"),
    "no sigma": (archive(mu=MU), "it has mu and no sigma"),
    "widths": (archive(mu=MU, sigma=np.eye(4)), r"mu \(5,\) and sigma \(4, 4\) are no mean"),
    "axes": (archive(mu=SIGMA, sigma=SIGMA), r"mu \(5, 5\) and sigma"),
    "empty": (archive(mu=MU[:0], sigma=SIGMA[:0, :0]), "are no mean"),
    "not finite": (archive(mu=MU * np.nan, sigma=SIGMA), "mu or sigma is not finite"),
    "infinite": (archive(mu=MU, sigma=np.full((5, 5), np.inf)), "is not finite"),
    "integers": (archive(mu=MU.astype(int), sigma=SIGMA), "int64 and float64, not floats"),
    "no covariance": (archive(mu=MU, sigma=np.triu(np.ones((5, 5)))), "sigma is no covariance"),
    "negative": (archive(mu=MU, sigma=-SIGMA), "sigma is no covariance"),
    "objects": (
        archive(mu=np.array([print], object), sigma=SIGMA),
        "Object arrays cannot",
    ),
    "count": (archive(mu=MU, sigma=SIGMA, count=np.int64(-3)), "count is no number of examples"),
    "counts": (archive(mu=MU, sigma=SIGMA, count=np.arange(3)), "count is no number of examples"),
    "long words": (archive(mu=MU, sigma=SIGMA, data="x" * 5000), "data is no short text"),
    "picture": (archive(arr_0=np.uint8(3)), r"arr_0 is uint8 of shape \(\)"),
    "other sizes": (archive(arr_0=np.zeros((9, 8, 8, 3), np.uint8)), r"uint8 \[N, 6, 6, 1\]"),
    "floats": (archive(arr_0=np.zeros((9, 6, 6, 3))), "arr_0 is float64"),
    "other shades": (archive(arr_0=np.full((9, 6, 6, 3), 7, np.uint8)), "5 levels do not have"),
    "colours": (archive(arr_0=np.tile(np.uint8([0, 0, 255]), (9, 6, 6, 1))), "this data is grey"),
    "one picture": (archive(arr_0=np.zeros((1, 6, 6, 3), np.uint8)), "at least two"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_is_wrong_is_refused_in_a_sentence(what, tmp_path):
    """Whatever is the matter with it, and nothing is unpickled."""
    content, why = WRONG[what]
    (tmp_path / "r.npz").write_bytes(content)
    with pytest.raises(ElbowroomError, match=why) as error:
        measured(reference=str(tmp_path / "r.npz"))
    assert "r.npz" in str(error.value)
    assert len(str(error.value)) < 400


def test_a_damaged_byte_is_found(tmp_path):
    """The zip's checksum is looked at."""
    content = bytearray(archive(mu=MU, sigma=SIGMA))
    content[content.index(struct.pack("<d", 1.0))] ^= 1
    (tmp_path / "r.npz").write_bytes(content)
    with pytest.raises(ElbowroomError, match="Bad CRC-32"):
        Reference.read(tmp_path / "r.npz")


@pytest.mark.parametrize("name", ["missing.npz", "."])
def test_what_is_no_file_is_refused(name, tmp_path):
    """Nothing there, or a folder."""
    with pytest.raises(
        ElbowroomError, match=r"is no reference file: (No such file|Is a directory)"
    ):
        Reference.read(tmp_path / name)


def test_another_network_is_refused(tmp_path):
    """By its width, or by what the file says of it."""
    np.savez(tmp_path / "w.npz", mu=np.zeros(2048), sigma=np.eye(2048, dtype=np.float32))
    with pytest.raises(ElbowroomError, match="of width 2048, and linear gives 5 features"):
        measured(reference=str(tmp_path / "w.npz"))
    made(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as file:
        arrays = {**file, "features_sha256": "0" * 64}
    np.savez(tmp_path / "r.npz", **arrays)
    with pytest.raises(ElbowroomError, match=r"made with the features linear .* --features"):
        measured(reference=str(tmp_path / "r.npz"))


# -- commands


def test_the_command_says_what_it_wrote(tmp_path):
    """Of any data set by any network; JSON for programs."""
    words = (f"{HERE}:Pictures", "--features", LINEAR, "--out", tmp_path / "r.npz")
    ran = elbowroom("reference", *words)
    assert ran.code == 0, ran.err
    assert "5 features of 120 examples" in ran.out
    ran = elbowroom("reference", *words, "--split", "test", "--json")
    assert (ran.json["count"], ran.json["width"]) == (60, 5)
    assert Reference.read(ran.json["path"]).count == 60


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("digtis", "--out", "r.npz"), "digits"),
        (("digits", "--out", "r.txt"), "a reference is an .npz file"),
        (("digits", "--out", "none/r.npz"), "in a folder that is there"),
        (("digits", "--out", "r.npz", "--split", "all"), "train, validation"),
        (("digits", "--out", "r.npz", "--features", "resnet"), "inception"),
    ],
)
def test_a_wrong_command_is_answered_in_a_sentence(words, why, tmp_path, monkeypatch):
    """With exit code 2 and nothing written."""
    monkeypatch.chdir(tmp_path)
    ran = elbowroom("reference", *words)
    assert ran.code == 2
    assert why in ran.err
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference") / "run"
    train(tiny_config(steps=2), folder, without={"console", "tensorboard"})
    return folder


def test_a_run_is_evaluated_against_a_file(run, tmp_path):
    """The measurement and its protocol; what no metric would read is refused."""
    data = "{name: digits, size: 4, levels: 5, limit: 64}"
    assert elbowroom("reference", data, "--out", tmp_path / "r.npz", "--features", LINEAR).code == 0
    words = ("evaluate", run, "--samples", 9, "--reference", tmp_path / "r.npz", "--json")
    ran = elbowroom(*words, "--metric", "fid", "--features", LINEAR, "--out", tmp_path / "e")
    assert ran.code == 0, ran.err
    assert ran.json["figures"].keys() == {"fid_reference"}
    assert ran.json["protocol"]["reference"] == str(tmp_path / "r.npz")
    refused = elbowroom(*words, "--metric", "bpd")
    assert refused.code == 2
    assert "none of the metrics compares with a file" in refused.err


def test_a_comparison_passes_the_file_on(tmp_path):
    """Each point is evaluated against it; one that is not there is missed before any training."""
    words = ("compare", "digits", "--dry-run", "--out", tmp_path / "c", "--reference")
    missing = elbowroom(*words, tmp_path / "r.npz")
    assert missing.code == 2
    assert "no such file" in missing.err
    (tmp_path / "r.npz").write_bytes(archive(mu=MU, sigma=SIGMA))
    assert f"--reference {tmp_path / 'r.npz'}" in elbowroom(*words, tmp_path / "r.npz").out


def test_samples_are_written_as_others_read_them(run, tmp_path):
    """arr_0: the pictures of the samples, uint8 [N, H, W, 3]; arr_1: their labels."""
    folder, file = tmp_path / "samples", tmp_path / "new" / "samples.npz"
    assert elbowroom("sample", run, "--count", 6, "--batch-size", 4, "--out", folder).code == 0
    ran = elbowroom("sample", run, "--count", 6, "--batch-size", 4, "--out", file, "--json")
    assert ran.json["paths"] == {"samples": str(file)}
    with np.load(file, allow_pickle=False) as found, np.load(folder / "samples.npz") as ours:
        shades = pixels(torch.from_numpy(ours["x"].astype(int)), 5).numpy()
        assert found["arr_0"].dtype == np.uint8
        assert np.array_equal(found["arr_0"], shades)
        assert np.array_equal(found["arr_1"], ours["labels"])
    assert Reference.read(file).count == 6
