"""One file per model: safetensors, whose header holds a versioned description in JSON.

Nothing in it is ever executed, and everything in it is checked: a digest over all of it finds what
was altered, and the checks of `networks`, `systems` and `models` refuse what makes no sense.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as deserialized
from safetensors.numpy import save as serialized

from dirad.atomic import replacing
from dirad.storage.codecs import ArrayStore
from dirad.storage.errors import ModelError
from dirad.storage.models import Fitted, codec_of
from dirad.storage.upgrade import upgraded

HEADER = "dirad"  # the one entry of the header: a second one would come in random order
LARGEST_HEADER = 90_000_000  # bytes; the library that reads the file takes 100,000,000 in all
VERSION = 9  # of the file format; a reader takes its own and older ones


@dataclass(frozen=True)
class ModelFile:
    """What a model file holds."""

    fitted: Fitted  # what the file says of the model
    encoder: Mapping[str, Any] | None = None  # how a table becomes inputs, if it came from one
    provenance: Mapping[str, Any] = field(default_factory=dict)  # where it comes from

    @cached_property
    def model(self) -> Any:
        """The estimator: of one network (DIRAD), or of a stream (PREVAL)."""
        try:
            return self.fitted.build()
        except (TypeError, ValueError, AttributeError) as error:
            raise ModelError(f"the options do not fit the estimator ({error})") from error


def save(
    model: Any,
    path: str | Path,
    *,
    encoder: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted estimator into one file, completely or not at all.

    The loaded model gives the same predictions to the last bit, and training can continue as if it
    had not stopped. `encoder` and `provenance` are JSON data stored with it. An existing file is
    replaced only after the new one has been read back and checked.

    Examples
    --------
    >>> import tempfile, dirad
    >>> X, y = [[-1, -1], [-1, 1], [1, -1], [1, 1]], ["same", "other", "other", "same"]
    >>> model = dirad.DIRADClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dirad.save(model, f"{folder}/xor.dirad")
    ...     dirad.load(f"{folder}/xor.dirad").predict(X).tolist()
    ['same', 'other', 'other', 'same']
    """
    content = packed(model, encoder, provenance)
    with replacing(path) as part:
        part.write_bytes(content)
        try:
            _unpacked(*_content(part))
        except ModelError as error:
            raise ModelError(
                f"{path} is not written: it could not be read again ({error})"
            ) from error


def packed(
    model: Any,
    encoder: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> bytes:
    """Return the bytes of a model file."""
    from dirad import __version__

    name = type(model).__name__
    codec = codec_of(name)
    if codec is None or not hasattr(model, "n_features_in_"):
        raise ModelError(f"only fitted estimators of dirad can be saved, not {model!r:.80}")
    store = ArrayStore()
    model = copy.copy(model)  # another thread may learn: all parts must be of one state
    tree = codec.pack(model, store, "model")
    description = {
        "version": VERSION,
        "model": name,
        "tree": tree,
        "shared": store.shared,
        "encoder": encoder,
        "provenance": {"dirad": __version__, **(provenance or {})},
    }
    description["digest"] = digest_of(description, store.arrays)
    text = text_of(description)
    if len(text.encode()) > LARGEST_HEADER:
        raise ModelError(
            f"the description would be longer than {LARGEST_HEADER:,} bytes: too many classes or "
            "columns, or too long names of them"
        )
    return serialized(store.arrays, metadata={HEADER: text})


def load(path: str | Path) -> Any:
    """Return the estimator that `save` wrote; any other file raises a `ModelError`."""
    file = read(path)
    try:
        return file.model
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def read(path: str | Path) -> ModelFile:
    """Return everything that a model file holds."""
    path = Path(path)
    try:
        return _unpacked(*_content(path))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ModelError(f"{path}: the description is nested too deeply") from error


def read_bytes(content: bytes, *, is_own: bool = False) -> ModelFile:
    """Return everything that the bytes of a model file hold, as `packed` returned them.

    With `is_own`, the bytes come from `packed` directly, in a process of one's own, so that their
    digest need not be checked.
    """
    try:
        size = int.from_bytes(content[:8], "little")
        text = json.loads(content[8 : 8 + size]).get("__metadata__", {}).get(HEADER)
        arrays = deserialized(content)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"not a model file, or a damaged one ({error})") from error
    return _unpacked(*_checked(text, arrays, is_own))


def _content(path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return description and arrays of a file that is whole."""
    if path.is_dir():
        raise ModelError("this is a folder, not a model file")
    if path.exists() and not path.is_file():  # to open a pipe would wait for somebody to write
        raise ModelError("this is not a regular file")
    with path.open("rb"):  # missing, or not to be read: the system says it best
        pass
    try:
        with safe_open(path, "np") as file:
            text = (file.metadata() or {}).get(HEADER)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"not a model file, or a damaged one ({error})") from error
    return _checked(text, arrays)


def _checked(
    text: str | None, arrays: dict[str, NDArray], is_own: bool = False
) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return description and arrays; refuse what is altered, or of a newer version."""
    if text is None:
        raise ModelError("this is no dirad model")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"damaged: the description cannot be read ({error})") from error
    if not isinstance(found, dict) or type(found.get("version")) is not int:
        raise ModelError("damaged: the description has no version")
    if found["version"] > VERSION:
        raise ModelError(
            f"made by a newer dirad (file format {found['version']}; this one reads {VERSION}): "
            "update dirad"
        )
    if not is_own and found.get("digest") != digest_of(found, arrays):
        raise ModelError("damaged: the content does not match its digest")
    return found, arrays


def _unpacked(found: Mapping[str, Any], arrays: dict[str, NDArray]) -> ModelFile:
    fields = {"version", "model", "tree", "shared", "encoder", "provenance", "digest"}
    if set(found) != fields:
        raise ModelError(f"the description must have {', '.join(sorted(fields))}")
    name, shared, encoder = found["model"], found["shared"], found["encoder"]
    codec = codec_of(name) if isinstance(name, str) else None
    if codec is None or not isinstance(shared, list):
        raise ModelError(f"there is no kind of model {name!r:.80}")
    if not isinstance(found["provenance"], dict) or not isinstance(encoder, dict | None):
        raise ModelError("provenance and encoder must be dictionaries")
    try:
        found = upgraded(dict(found))
        store = ArrayStore(arrays, found["shared"])
        fitted = codec.unpack(found["tree"], store, "model")
    except (ModelError, RecursionError):
        raise
    except Exception as error:  # whatever a crafted description brings about, it is no model
        raise ModelError(f"the description makes no sense ({error})") from error
    return ModelFile(fitted, encoder, found["provenance"])


def text_of(description: Mapping[str, Any]) -> str:
    """Return a description as JSON, the same for the same content."""
    return json.dumps(
        description, allow_nan=False, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def digest_of(description: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> str:
    """Return the digest of all that a file says."""
    signed = {name: value for name, value in description.items() if name != "digest"}
    try:
        found = hashlib.sha256(text_of(signed).encode())
    except ValueError as error:  # NaN, or a text that is none
        raise ModelError(f"the description cannot be written ({error})") from error
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{len(name)} {name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()
