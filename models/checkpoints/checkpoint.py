"""Checkpoints: directories with `model.safetensors` and `card.json`. Loading executes nothing from them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor

from ...errors import UserError
from ...files import check_writable, written_whole
from ..architectures.cost_model import CostModel, FeatureNetwork, Predictor
from ..architectures.explorer import Explorer
from ..architectures.registry import EXPLORERS, ModelConfigError, build_network, feature_version_of
from .card import READABLE_SCHEMAS, Card

WEIGHTS_FILE = "model.safetensors"
CARD_FILE = "card.json"
SHIPPED = Path(__file__).resolve().parents[2] / "checkpoints"
"""Folder of the checkpoints that are shipped with the package."""
EXPLORER_SUFFIX = "-explorer"
"""End of the name of a shipped explorer, by which it is told from a cost model without reading its card."""


class CheckpointError(UserError):
    """A checkpoint cannot be read or written."""


class CheckpointNotFoundError(CheckpointError, FileNotFoundError):
    """No checkpoint has that name or path."""


class CheckpointExistsError(CheckpointError, FileExistsError):
    """The directory that a checkpoint is to be written to exists."""


class FeatureVersionError(CheckpointError, ValueError):
    """The checkpoint was trained on features that this version of foretune does not compute."""


class CorruptCheckpointError(CheckpointError, ValueError):
    """The files of the checkpoint are incomplete, damaged or in another format."""


class CheckpointKindError(CheckpointError, ValueError):
    """An explorer was given and a cost model is needed, or the other way round."""


class ActionSpaceError(CheckpointError, ValueError):
    """The explorer was trained on other states or actions than this version of foretune has."""


@dataclass(frozen=True)
class StoredNetwork:
    """A network of a checkpoint with its card."""

    network: FeatureNetwork
    card: Card
    path: Path

    @property
    def explorer(self) -> Explorer | None:
        """The network as an explorer; None for a cost model."""
        if self.card.model.name not in EXPLORERS:
            return None
        return Explorer(self.card.normaliser, self.network)

    @property
    def predictor(self) -> Predictor | None:
        """The network as a cost model; None for an explorer."""
        if not isinstance(self.network, CostModel):
            return None
        card = self.card
        return Predictor(
            card.normaliser, self.network, card.target, std_scale=card.std_scale, std_floor=card.std_floor
        )


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint, ready to predict."""

    predictor: Predictor
    card: Card
    path: Path


def shipped_checkpoints() -> list[str]:
    """Names of the cost models that are shipped with the package."""
    return [name for name, explores in _shipped() if not explores]


def shipped_explorers() -> list[str]:
    """Names of the explorers that are shipped with the package."""
    return [name for name, explores in _shipped() if explores]


def _shipped() -> list[tuple[str, bool]]:
    """Name of each shipped checkpoint, and whether it is an explorer."""
    cards = sorted(SHIPPED.glob(f"*/{CARD_FILE}"))
    return [(card.parent.name, card.parent.name.endswith(EXPLORER_SUFFIX)) for card in cards]


def refuse_to_overwrite(checkpoint_dir: Path) -> None:
    """Raises CheckpointExistsError or CannotWriteError for a checkpoint that cannot be written at the end."""
    if checkpoint_dir.exists():
        raise CheckpointExistsError(
            f"checkpoint_dir={checkpoint_dir} exists: remove it or choose another directory"
        )
    check_writable(checkpoint_dir, "checkpoint_dir")


def save_checkpoint(directory: Path, model: FeatureNetwork, card: Card) -> Card:
    """Writes a checkpoint atomically and returns the card with the hash of the weights.

    Tensors that half precision represents exactly, as after `rounded_to_half`, are stored in half precision.

    Raises:
      CheckpointExistsError: the directory exists.
      CannotWriteError: the disk is full or read-only; nothing is left then.
    """
    if directory.exists():
        raise CheckpointExistsError(f"{directory} exists: remove it or choose another directory")
    weights = tensors_to_bytes(
        {name: _smallest(t.detach().cpu().contiguous()) for name, t in model.state_dict().items()}
    )
    card = card.with_weights(hashlib.sha256(weights).hexdigest())
    with written_whole(directory) as partial:
        partial.mkdir()
        (partial / WEIGHTS_FILE).write_bytes(weights)
        (partial / CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    return card


def load_card(path_or_name: str | Path) -> Card:
    """Card of a checkpoint of either kind, without its weights; raises as `load_checkpoint` does."""
    return _read_card(_resolve(path_or_name))


def load_network(path_or_name: str | Path) -> StoredNetwork:
    """Loads a checkpoint of either kind; raises as `load_checkpoint` does, whatever its features are."""
    path = _resolve(path_or_name)
    card = _read_card(path)
    return StoredNetwork(_load_model(path / WEIGHTS_FILE, card), card, path)


def load_explorer(path_or_name: str | Path) -> tuple[Explorer, Card]:
    """Loads an explorer with its card, as `load_checkpoint` does.

    Raises:
      ActionSpaceError: the explorer was trained on other states or actions.
      CheckpointKindError: the checkpoint is a cost model.
      CheckpointNotFoundError, CorruptCheckpointError: as `load_checkpoint`.
    """
    path = _resolve(path_or_name)
    card = _read_card(path)
    if card.model.name not in EXPLORERS:
        raise CheckpointKindError(
            f"{path} is a cost model ({card.model.title}), and an explorer is needed: give a folder of "
            f"foretune reinforce, or one of the shipped ones ({', '.join(shipped_explorers()) or 'none'})"
        )
    if card.feature_version != (known := feature_version_of(card.model.name)):
        raise ActionSpaceError(
            f"{path} was trained on the states and actions {card.feature_version!r}, and this version of "
            f"foretune has {known!r}: train an explorer anew with foretune reinforce"
        )
    return Explorer(card.normaliser, _load_model(path / WEIGHTS_FILE, card)), card


def load_checkpoint(path_or_name: str | Path, feature_version: str | None = None) -> Checkpoint:
    """Loads a cost model on the CPU without changing torch's threads, random state or other globals.

    Args:
      path_or_name: a directory, or the name (without a slash) of a shipped checkpoint.
      feature_version: version of the features that the model will read, checked if given.

    Raises:
      CheckpointNotFoundError: the checkpoint does not exist.
      FeatureVersionError: the checkpoint was trained on another version of the features.
      CorruptCheckpointError: files are missing, damaged, or not those of a checkpoint.
      CheckpointKindError: the checkpoint is an explorer.
    """
    path, card = _cost_model(path_or_name, feature_version)
    predictor = StoredNetwork(_load_model(path / WEIGHTS_FILE, card), card, path).predictor
    assert predictor is not None, "the card names a cost model"
    return Checkpoint(predictor, card, path)


def check_checkpoint(path_or_name: str | Path, feature_version: str | None = None) -> Card:
    """Card of a cost model whose files are whole; raises as `load_checkpoint` does.

    The model is not built, so that tensors that do not fit the card are left to `load_checkpoint`.
    """
    path, card = _cost_model(path_or_name, feature_version)
    _read_weights(path / WEIGHTS_FILE, card)
    return card


def _cost_model(path_or_name: str | Path, feature_version: str | None) -> tuple[Path, Card]:
    """Directory and card of a cost model."""
    path = _resolve(path_or_name)
    card = _read_card(path)
    if card.model.name in EXPLORERS:
        raise CheckpointKindError(
            f"{path} is an explorer, which scores no programs: name it as search.strategy.checkpoint of "
            "search=fasor, and give a cost model here"
        )
    if feature_version is not None and card.feature_version != feature_version:
        raise FeatureVersionError(
            f"{path} was trained on features of version {card.feature_version}, and this version of foretune "
            f"computes {feature_version}: use a checkpoint of version {feature_version}, or train one with "
            "foretune train on the same dataset"
        )
    return path, card


def rounded_to_half(model: FeatureNetwork) -> None:
    """Rounds the parameters in place to half-precision values; buffers are unchanged."""
    with torch.no_grad():
        for weights in model.parameters():
            weights.copy_(weights.half())


def _smallest(tensor: Tensor) -> Tensor:
    if tensor.dtype == torch.float32 and torch.equal(half := tensor.half(), tensor):
        return half
    return tensor


def _single(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype == torch.float16 else tensor


_SIZES = ("width", "feedforward")
"""Arguments of networks that are the size of one of their tensors."""


def _check_sizes(card: Card, tensors: Mapping[str, Tensor]) -> None:
    """Raises ModelConfigError for a card whose model is larger than its weights, before it is built."""
    sizes = {size for tensor in tensors.values() for size in tensor.shape}
    members = sum(kind.members for kind in card.model.kinds)
    if members > max(1, len(tensors)):
        raise ModelConfigError(f"model.members={members}, and the file has {len(tensors)} tensors")
    for kind in card.model.kinds:
        for name in _SIZES:
            if (size := kind.arguments.get(name)) is not None and size not in sizes:
                raise ModelConfigError(f"model.arguments.{name}={size}, and no tensor has that size")


def _resolve(path_or_name: str | Path) -> Path:
    """Existing directory of a checkpoint."""
    text = str(path_or_name)
    is_name = isinstance(path_or_name, str) and not any(mark in text for mark in ("/", os.sep))
    path = SHIPPED / text if is_name and text else Path(path_or_name)
    if path.is_file():
        raise CorruptCheckpointError(
            f"{path} is a file, and a checkpoint is a directory with {WEIGHTS_FILE} and {CARD_FILE}. Files "
            "of torch.save or pickle are never loaded, since they can run code: export the model with "
            "foretune train"
        )
    if text and path.is_dir() and (not is_name or text in [name for name, _ in _shipped()]):
        return path
    shipped = ", ".join(shipped_checkpoints()) or "none"
    hint = f"; for the local directory write ./{text}" if is_name and text and Path(text).is_dir() else ""
    raise CheckpointNotFoundError(
        f"no checkpoint {text!r}: give a directory, or one of the shipped checkpoints ({shipped}){hint}"
    )


def _read_card(path: Path) -> Card:
    """Parsed and checked card; raises CorruptCheckpointError for any defect."""
    file = path / CARD_FILE
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{path} has no {CARD_FILE}: give a folder of foretune train") from error
    except OSError as error:
        raise CorruptCheckpointError(f"{file} cannot be read ({error.strerror}): copy it again") from error
    except RecursionError as error:
        raise CorruptCheckpointError(f"{file} is nested too deep: copy the checkpoint again") from error
    except ValueError as error:  # bad JSON and bad UTF-8
        raise CorruptCheckpointError(f"{file} is not JSON ({error}): copy the checkpoint again") from error
    version = values.get("schema_version") if isinstance(values, dict) else None
    if version not in READABLE_SCHEMAS:
        raise CorruptCheckpointError(
            f"{file}: schema_version is {version!r}, and this version of foretune reads "
            f"{READABLE_SCHEMAS[0]} to {READABLE_SCHEMAS[-1]}: install the version that wrote it, or train "
            "the checkpoint again"
        )
    try:
        return Card.from_json(values)
    except ValueError as error:
        raise CorruptCheckpointError(f"{file}: {error}; copy the checkpoint again") from error


def _read_weights(file: Path, card: Card) -> bytes:
    """Content of the file, whose hash is the card's."""
    try:
        weights = file.read_bytes()
    except FileNotFoundError as error:
        raise CorruptCheckpointError(f"{file} is missing: copy the checkpoint again") from error
    except OSError as error:
        raise CorruptCheckpointError(f"{file} cannot be read ({error.strerror}): copy it again") from error
    sha256 = hashlib.sha256(weights).hexdigest()
    if sha256 != card.weights_sha256:
        raise CorruptCheckpointError(
            f"{file} has SHA-256 {sha256[:12]}..., and its card says {card.weights_sha256[:12]}...: the file "
            "was damaged or replaced; copy the checkpoint again"
        )
    return weights


def _load_model(file: Path, card: Card) -> FeatureNetwork:
    """Model of the card with the tensors of the file."""
    weights = _read_weights(file, card)
    try:
        tensors = {name: _single(tensor) for name, tensor in tensors_from_bytes(weights).items()}
        _check_sizes(card, tensors)
        # The meta device would avoid the initialisation, but its random numbers import torch's compiler,
        # which takes seconds.
        with torch.random.fork_rng(devices=[]):
            model = build_network(card.model, card.normaliser.dims)
        model.load_state_dict(tensors, strict=True, assign=True)
    except SafetensorError as error:
        raise CorruptCheckpointError(
            f"{file} is not a safetensors file ({error}); other formats are never loaded"
        ) from error
    except (ModelConfigError, RuntimeError) as error:  # unknown model, or tensors of other names or shapes
        first = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise CorruptCheckpointError(f"{file} does not fit the model of its card: {first}") from error
    return model.eval()
