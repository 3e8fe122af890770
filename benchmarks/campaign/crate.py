"""Crate of a campaign: a folder packed into a few files of limited size.

The files are the pieces of one zip archive and `campaign.json`, which lists their SHA-256. Only a complete
crate unpacks.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from .limits import LIMITS, CampaignError, Limits

MANIFEST = "campaign.json"
FORMAT = 1
ARCHIVE = "campaign.zip"


@dataclass(frozen=True)
class Crate:
    """Manifest and archive of a crate."""

    facts: Mapping[str, Any]
    """Facts about the campaign, as given to `pack`."""
    archive: Path
    """Zip file that matches the manifest."""

    def unpack(self, folder: Path) -> None:
        """Writes all files into a folder. Raises CampaignError for a path outside of it."""
        with zipfile.ZipFile(self.archive) as archive:
            for entry in archive.infolist():
                name = PurePosixPath(entry.filename)
                if name.is_absolute() or ".." in name.parts or "\\" in entry.filename:
                    raise CampaignError(
                        f"{entry.filename}: leads out of the folder; this is not a crate of a campaign"
                    )
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(entry))


def pack(
    folder: Path,
    order: Sequence[str],
    out: Path,
    facts: Mapping[str, Any],
    limits: Limits = LIMITS,
) -> list[str]:
    """Packs a folder into at most `limits.files` files in `out`, and returns the paths that did not fit.

    `order` lists folders in `folder`, the most important first. Within a folder, the newest files come first.
    """
    out.mkdir(parents=True, exist_ok=True)
    for earlier in [*out.glob(f"{ARCHIVE}.*"), out / MANIFEST]:
        earlier.unlink(missing_ok=True)
    room, left = limits.pieces * limits.file, []
    whole = out / f".{ARCHIVE}"
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in _files(folder, order):
            name = path.relative_to(folder).as_posix()
            # Deflate adds at most 5 bytes to 16 KiB. The directory at the end lists each entry, too.
            most = path.stat().st_size * 1.001 + 2 * len(name) + 500
            if archive.fp is None or archive.fp.tell() + most > room - 200 * len(archive.filelist):
                left.append(name)
            else:
                archive.write(path, name)
    pieces = []
    with whole.open("rb") as content:
        while piece := content.read(limits.file):
            name = f"{ARCHIVE}.{len(pieces):02d}"
            (out / name).write_bytes(piece)
            pieces.append({"name": name, "sha256": hashlib.sha256(piece).hexdigest()})
    whole.unlink()
    manifest = {"format": FORMAT, "facts": dict(facts), "left_behind": left, "pieces": pieces}
    (out / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return left


def _files(folder: Path, order: Sequence[str]) -> list[Path]:
    """Files of the folders in their order, the newest file of each folder first."""
    found: list[Path] = []
    for name in order:
        files = [path for path in (folder / name).rglob("*") if path.is_file()]
        found += sorted(files, key=lambda path: (-path.stat().st_mtime, path))
    return found


def read(folder: Path, scratch: Path) -> Crate:
    """Joins the pieces of a crate in `scratch`. Raises CampaignError if the crate is damaged or invalid."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        pieces = [(str(piece["name"]), str(piece["sha256"])) for piece in manifest["pieces"]]
        facts = dict(manifest["facts"])
    except FileNotFoundError as error:
        raise CampaignError(f"{folder}: has no {MANIFEST}; give the folder with the fetched files") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CampaignError(f"{folder / MANIFEST}: {error}; fetch the files of that call again") from error
    if manifest.get("format") != FORMAT:
        raise CampaignError(
            f"{folder / MANIFEST}: format {manifest.get('format')!r}, but this commit reads {FORMAT}; "
            "land it with the commit that packed it"
        )
    scratch.mkdir(parents=True, exist_ok=True)
    whole = scratch / ARCHIVE
    with whole.open("wb") as archive:
        for name, digest in pieces:
            if Path(name).name != name:
                raise CampaignError(f"{folder / MANIFEST}: {name!r} is not a file name; this is not a crate")
            path = folder / name
            if not path.is_file():
                raise CampaignError(f"{path}: is missing; fetch the files of that call again")
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise CampaignError(f"{path}: was damaged in transit; fetch the files of that call again")
            with path.open("rb") as piece:
                shutil.copyfileobj(piece, archive)
    if not zipfile.is_zipfile(whole):
        raise CampaignError(f"{folder}: its pieces are not an archive; fetch the files of that call again")
    return Crate(facts, whole)
