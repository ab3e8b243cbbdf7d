"""A hook of MkDocs: files outside docs/ to which a page links become pages of the site.

A document of the repository, such as the changelog, becomes a page. A source file becomes a page that shows it, and a
folder a page that lists its files. So each link works in the site and in the repository, and a dead link fails the
build.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = "docs"
# Documents outside docs/ that are in the navigation, and their addresses in the site.
DOCUMENTS: Final = {
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "asr_repo/streaming_asr/1/CARD.md": "reference/card.md",
    "workshop/NOTEBOOK.md": "project/notebook.md",
    "workshop/README.md": "project/workshop.md",
}
SOURCE: Final = "source"
LANGUAGES: Final = {
    ".js": "javascript",
    ".json": "json",
    ".pbtxt": "text",
    ".py": "python",
    ".toml": "toml",
    ".yml": "yaml",
}
LINK: Final = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(?=\))")
ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|/")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages for the files outside docs/."""
    for document, address in DOCUMENTS.items():
        files.append(File.generated(config, address, content=(ROOT / document).read_text(encoding="utf-8")))
    waiting = [
        path for page in files.documentation_pages() for path in _outside(page.content_string, _home(page.src_uri))
    ]
    while waiting:
        path = waiting.pop()
        if files.get_file_from_path(_address(path)) is None and (ROOT / path).exists():
            text = _listing(path) if (ROOT / path).is_dir() else _source_page(path)
            page = File.generated(config, _address(path), content=text, inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(page)
            waiting += _outside(text, "")
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to their pages."""
    address = page.file.src_uri
    home, here = _home(address), posixpath.dirname(address)

    def new_link(link: re.Match[str]) -> str:
        path = _in_repository(link[2], home)
        if path is None:
            return link[0]
        target = path.removeprefix(f"{PAGES}/") if path.startswith(f"{PAGES}/") else _address(path)
        return f"{link[1]}{posixpath.relpath(target, here or '.')}{link[3] or ''}"

    return LINK.sub(new_link, markdown)


def _home(address: str) -> str:
    """Return the folder of this page's document in the repository. Links of source pages begin at the root."""
    for document, at in DOCUMENTS.items():
        if at == address:
            return posixpath.dirname(document)
    return "" if address.startswith(f"{SOURCE}/") else posixpath.join(PAGES, posixpath.dirname(address))


def _in_repository(target: str, home: str) -> str | None:
    """Return the target of a link as a path from the repository's root; None if it leads elsewhere."""
    return None if ELSEWHERE.match(target) else posixpath.normpath(posixpath.join(home, target))


def _outside(text: str, home: str) -> Iterator[str]:
    """Return the paths outside docs/ to which a document links."""
    for link in LINK.finditer(text):
        path = _in_repository(link[2], home)
        if path is not None and not path.startswith((f"{PAGES}/", "..")):
            yield path


def _address(path: str) -> str:
    """Return the address in the site of a path outside docs/."""
    return DOCUMENTS.get(path, f"{SOURCE}/{path}.md")


def _source_page(path: str) -> str:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    fence = "`" * (1 + max([2, *map(len, re.findall(r"`{3,}", text))]))
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n{fence}{language}\n{text}\n{fence}\n"


def _listing(path: str) -> str:
    paths = sorted(
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / path).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    )
    links = "".join(f"- [{name.removeprefix(path).lstrip('/')}]({name})\n" for name in paths)
    return f"---\nsearch:\n  exclude: true\n---\n\n# {path}/\n\n{links}"
