"""Build the documentation site: ``make docs``.

Zensical has no hooks, so everything that is generated is written first, into ``build/site``:
the reference pages, the notebooks as pages, and formulas as MathML. Then Zensical builds that
folder, and a broken link fails the build.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import yaml
from formulas import typeset
from reference import CORE, navigation, pages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STAGE = ROOT / "build" / "site"
PACKAGE = STAGE / "package" / "elbowroom"
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security-policy.md"}
"""Pages in the root of the repository -> their names on the site."""


def main() -> None:
    """Write the sources of the site, then build it into ``site/``."""
    shutil.rmtree(STAGE, ignore_errors=True)
    copy_pages(STAGE / "docs")
    link_sources()
    (STAGE / "mkdocs.yml").write_text(yaml.safe_dump(settings(), sort_keys=False), "utf-8")
    shutil.copy(DOCS / "site" / "docstrings.py", STAGE)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    if code := subprocess.run([*command, "-f", "mkdocs.yml"], cwd=STAGE, check=False).returncode:
        sys.exit(code)
    shutil.rmtree(ROOT / "site", ignore_errors=True)
    (STAGE / "site").rename(ROOT / "site")


def copy_pages(to: Path) -> None:
    """Pages and images; formulas are typeset, and the generated pages are added."""
    for path in sorted(DOCS.rglob("*")):
        name = path.relative_to(DOCS)
        if path.suffix == ".md":
            write(to / name, page(path.read_text("utf-8")))
        elif path.suffix in (".png", ".css"):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to / name)
        elif path.suffix == ".ipynb":
            write(to / name.with_suffix(".md"), notebook_page(path, to / name.parent))
    for path, name in ROOT_PAGES.items():
        write(to / name, page((ROOT / path).read_text("utf-8").replace("](docs/", "](")))
    for name, text in pages().items():
        write(to / "reference" / f"{name}.md", text)


def page(text: str) -> str:
    """A page as the site shows it: formulas typeset, links to the site's names of pages."""
    for path, name in ROOT_PAGES.items():
        text = text.replace(f"](../{path}", f"]({name}")
    text = re.sub(r"(]\([\w./-]*notebooks/[\w-]+|]\([\w-]+)\.ipynb\)", r"\1.md)", text)
    return typeset(text)


def notebook_page(path: Path, folder: Path) -> str:
    """A notebook as Markdown: its cells, and what they printed or drew."""
    lines = [f"[Download this page as a notebook]({path.name})", ""]
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, folder)
    for number, cell in enumerate(json.loads(path.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [page(source), ""]
            continue
        lines += ["```python", source, "```", ""]
        for output in cell["outputs"]:
            text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
            image = output.get("data", {}).get("image/png")
            if image is not None:
                name = f"{path.stem}-{number}.png"
                (folder / name).write_bytes(b64decode(image))
                lines += [f"![Output]({name})", ""]
            elif text:
                lines += ["```text", text.rstrip("\n"), "```", ""]
    title, rest = lines[2], lines[3:]  # the first cell has the title
    return "\n".join([title, "", lines[0], "", *rest])


def write(path: Path, text: str) -> None:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def link_sources() -> None:
    """Link core, plugins and contrib into one package, which mkdocstrings reads."""
    PACKAGE.mkdir(parents=True)
    for path in (*CORE.iterdir(), ROOT / "plugins", ROOT / "contrib"):
        (PACKAGE / path.name).symlink_to(path)


def settings() -> dict[str, Any]:
    """The settings of docs/site/mkdocs.yml, with the generated pages in the navigation."""
    found: dict[str, Any] = yaml.safe_load((DOCS / "site" / "mkdocs.yml").read_text("utf-8"))
    sections = {title: pages for part in found["nav"] for title, pages in part.items()}
    sections["Reference"] += navigation()
    decisions = sorted((DOCS / "decisions").glob("*.md"))
    names = [path.relative_to(DOCS).as_posix() for path in decisions]
    sections["Explanation"].append({"Decisions": names})
    return found


if __name__ == "__main__":
    main()
