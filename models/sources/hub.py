"""The second source: the model hub, through huggingface_hub, at the pinned commit.

Files are checked against the sha256 that the hub states for that commit; its address, mirror and
token are the business of the user's huggingface_hub settings.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from models.sources import packages
from models.sources.base import (
    Order,
    Provenance,
    SourceUnavailable,
    check_download,
    link_or_copy,
    require_space,
    watched,
)

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

SOURCE = "hub"
LOOKUP_SECONDS = 4.0
"""For one step of the first request, so that an unreachable hub costs seconds, not minutes."""


def fetch(order: Order) -> Provenance:
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise SourceUnavailable("HF_HUB_OFFLINE is set")
    info = _look_up(order)
    files = _wanted(order, info)
    commit = info.sha or order.entry.hub.revision
    folder = order.downloads / f"hub-{commit}"
    folder.mkdir(parents=True, exist_ok=True)
    require_space(folder, sum(file.size or 0 for file in files))
    for file in files:
        _download(order, file, commit, folder)
    for file in files:
        link_or_copy(folder / file.rfilename, order.target / file.rfilename)
    packages.supplement(order)
    return Provenance(source=SOURCE, revision=f"{order.entry.hub.repo}@{commit}")


def _look_up(order: Order) -> ModelInfo:
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()  # one display is enough, and ours is the same for every source
    hub = order.entry.hub
    with _reaching_hub():
        return huggingface_hub.HfApi().model_info(
            hub.repo, revision=hub.revision, timeout=LOOKUP_SECONDS, files_metadata=True
        )


def _wanted(order: Order, info: ModelInfo) -> list[RepoSibling]:
    hub = order.entry.hub
    found = [
        file
        for file in info.siblings or ()
        if any(fnmatch(file.rfilename, pattern) for pattern in hub.files)
    ]
    for pattern in hub.files:
        if not any(fnmatch(file.rfilename, pattern) for file in found):
            raise SourceUnavailable(f"{hub.repo} at {hub.revision} has no {pattern}")
    return found


def _download(order: Order, file: RepoSibling, commit: str, folder: Path) -> None:
    """Bring one file into folder; huggingface_hub keeps what is there and goes on from a part."""
    import huggingface_hub

    with (
        order.progress.track(file.rfilename, file.size or 0) as report,
        watched(folder, report),
        _reaching_hub(),
    ):
        huggingface_hub.hf_hub_download(
            order.entry.hub.repo, file.rfilename, revision=commit, local_dir=folder
        )
    if file.lfs is not None:
        check_download(folder / file.rfilename, file.lfs.sha256, name=file.rfilename)


@contextmanager
def _reaching_hub() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # its HTTP client differs by version: any failure is "not here"
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise SourceUnavailable(f"not reached: {reason}") from error
