"""Upload a folder to the Hugging Face Hub as one commit, and download one commit.

    hf://OWNER/NAME              the newest commit
    hf://OWNER/NAME@REVISION     a branch, a tag or a commit

A name is resolved to its commit first, and that commit is downloaded and recorded. Only text and
safetensors are downloaded, never a pickle or code. Authentication and endpoint are those of
huggingface_hub (``hf auth login``, HF_TOKEN, HF_ENDPOINT).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elbowroom import ElbowroomError

SCHEME = "hf://"
_FILES = ["*.json", "*.safetensors", "*.md"]


def push(folder: Path, repo: str) -> str:
    """Commit a folder's files to ``repo``, private if it is new; returns the pinned name."""
    api, name = _api(), repo.removeprefix(SCHEME)
    with _readable_errors(f"{folder} was written, but not pushed to {repo}"):
        api.create_repo(name, private=True, exist_ok=True)
        done = api.upload_folder(
            repo_id=name,
            folder_path=folder,
            allow_patterns=_FILES,
            commit_message="Export from elbowroom",
        )
    return f"{SCHEME}{name}@{done.oid}"


def fetch(source: str, **where: Any) -> tuple[Path, str]:
    """The local folder of ``hf://OWNER/NAME@REVISION``, and the name with its commit."""
    name, _, revision = source.removeprefix(SCHEME).partition("@")
    api = _api()
    with _readable_errors(f"cannot fetch {source}"):
        commit = api.model_info(name, revision=revision or None).sha
        folder = api.snapshot_download(name, revision=commit, allow_patterns=_FILES, **where)
    return Path(folder), f"{SCHEME}{name}@{commit}"


def _api() -> Any:
    from huggingface_hub import HfApi

    return HfApi(library_name="elbowroom")


@contextmanager
def _readable_errors(what: str) -> Iterator[None]:
    """Turn any error of the hub's library into one sentence."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ElbowroomError(f"{what}: {reason}") from error
