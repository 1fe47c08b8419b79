"""Files of a data set on the Hub, one by one, and its refusals in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from huggingface_hub import errors, hf_hub_download, snapshot_download
from lerobot.datasets.dataset_metadata import CODEBASE_VERSION
from lerobot.datasets.utils import (
    BackwardCompatibilityError,
    ForwardCompatibilityError,
    get_safe_version,
    is_valid_version,
)
from lerobot.utils.constants import HF_LEROBOT_HUB_CACHE

from lerobot_diagnostics.errors import UsageError


@contextmanager
def plain_words(repo_id: str) -> Iterator[None]:
    """Turn what the Hub's client raises about ``repo_id`` into a :class:`UsageError`."""
    flag = f"--dataset.repo_id={repo_id}"
    try:
        yield
    except errors.GatedRepoError:
        raise UsageError(
            f"{flag}: the data set is gated.",
            f"Ask for access on https://huggingface.co/datasets/{repo_id}, then log in with `hf auth login`.",
        ) from None
    except errors.RepositoryNotFoundError:
        raise UsageError(
            f"{flag}: the Hub has no such data set, or it is private.",
            "Check the spelling, log in with `hf auth login`, or give the local copy with --dataset.root.",
        ) from None
    except errors.RevisionNotFoundError:
        raise UsageError(f"{flag}: the Hub's data set has no such revision.", "Check --dataset.revision.") from None
    except errors.EntryNotFoundError as error:
        # A missing file while offline is LocalEntryNotFoundError, which is an EntryNotFoundError too.
        if isinstance(error, errors.LocalEntryNotFoundError):
            raise _unreachable(flag) from None
        raise UsageError(
            f"{flag}: the Hub's data set lacks a file that its own meta names: {_first_line(error)}",
            "Leave its episodes out of --dataset.episodes.",
        ) from None
    except errors.HFValidationError:
        raise UsageError(f"{flag} is no repository id.", "Write it as user/name, or use --dataset.root.") from None
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "an error"
        if status in (401, 403):
            raise UsageError(
                f"{flag}: the Hub refuses access ({status}).",
                "Log in with `hf auth login` and check your token's rights.",
            ) from None
        raise UsageError(f"{flag}: the Hub answered {status}.", "Try again later, or use --dataset.root.") from None
    except (errors.OfflineModeIsEnabled, httpx.TransportError, ConnectionError, TimeoutError):
        raise _unreachable(flag) from None


def _unreachable(flag: str) -> UsageError:
    return UsageError(
        f"{flag}: the Hub cannot be reached and the files are not in the local cache.",
        "Go online, or give a local copy with --dataset.root.",
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def fetch_meta(repo_id: str, revision: str | None) -> Path:
    """Bring ``meta/`` of a v3.0 data set into LeRobot's Hub cache and return the snapshot's folder.

    The folder's name is the commit, so that later files come from the same one.

    Raises:
        UsageError: If the data set cannot be had, in plain words.
        BackwardCompatibilityError: LeRobot's own, if the Hub has only an older layout.
    """
    revision = revision or CODEBASE_VERSION
    with plain_words(repo_id):
        if is_valid_version(revision):
            try:
                revision = get_safe_version(repo_id, revision)
            except BackwardCompatibilityError:
                raise
            except (ForwardCompatibilityError, NotImplementedError):
                raise UsageError(
                    f"--dataset.repo_id={repo_id}: the Hub has no {CODEBASE_VERSION}, which this LeRobot reads.",
                    "Give a revision with --dataset.revision, or a local copy with --dataset.root.",
                ) from None
            except RuntimeError as error:
                # huggingface_hub's own errors may be RuntimeErrors as well; only LeRobot's is about a tag.
                if "codebase version" not in str(error):
                    raise
                raise UsageError(
                    f"--dataset.repo_id={repo_id}: the Hub's data set has no version tag.",
                    "Name what to read with --dataset.revision=main.",
                ) from None
            except (errors.OfflineModeIsEnabled, httpx.TransportError, ConnectionError, TimeoutError):
                pass  # offline: the cache may still hold this revision
        return Path(
            snapshot_download(
                repo_id,
                repo_type="dataset",
                revision=revision,
                cache_dir=HF_LEROBOT_HUB_CACHE,
                allow_patterns="meta/*",
            )
        )


def fetch_file(repo_id: str, snapshot: Path, filename: str) -> Path:
    """Bring one file of the commit that ``snapshot`` is named after into the cache, unless it is there.

    Raises:
        UsageError: If it cannot be had, in plain words.
    """
    path = snapshot / filename
    if not path.exists():
        with plain_words(repo_id):
            path = Path(
                hf_hub_download(
                    repo_id, filename, repo_type="dataset", revision=snapshot.name, cache_dir=HF_LEROBOT_HUB_CACHE
                )
            )
    return path


def fetch_all(repo_id: str, revision: str) -> Path:
    """Bring a whole data set into the cache: the converter needs all of it.

    Raises:
        UsageError: If it cannot be had, in plain words.
    """
    with plain_words(repo_id):
        return Path(snapshot_download(repo_id, repo_type="dataset", revision=revision, cache_dir=HF_LEROBOT_HUB_CACHE))
