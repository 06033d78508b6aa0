"""The command `dirad features`: images become rows of features, by a pretrained encoder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dirad.cli.app import TALKATIVE, Flag, NaturalInt, Output, PositiveInt, Stopped, Usage, app
from dirad.cli.files import check_output
from dirad.cli.options import OutputFile
from dirad.cli.printing import Findings, progress

Numbers = Annotated[list[float] | None, Parameter(negative="", consume_multiple=True)]


@Parameter(name="*")
@dataclass(frozen=True)
class Preparation:
    """How images are prepared for the encoder."""

    size: Annotated[list[int] | None, Parameter(negative="", consume_multiple=True)] = None
    """Height and width to which images are scaled, or one number for both [default: what the
    encoder takes]."""
    mean: Numbers = None
    """Mean of pixels in [0, 1], for the normalization: one number, or one per channel [default:
    0.485 0.456 0.406, that of ImageNet; for gray 0]."""
    std: Numbers = None
    """Their standard deviation [default: 0.229 0.224 0.225; for gray 1]."""


@Parameter(name="*")
@dataclass(frozen=True)
class Computing:
    """How features are computed; they do not depend on it."""

    batch_size: PositiveInt = 16
    """Images that the encoder gets at once."""
    threads: PositiveInt | None = None
    """Threads of the encoder [default: one per core]."""
    cache: Path | None = None
    """Folder of computed features [default: dirad/features in the user's cache folder]."""


UNCHANGED = Preparation()
AS_USUAL = Computing()


@app.command
def features(
    images: Path,
    *,
    encoder: Path,
    output: OutputFile = Path("features.npz"),
    labels: Path | None = None,
    shuffle: NaturalInt | None = None,
    file_names: Flag = False,
    preparation: Preparation = UNCHANGED,
    computing: Computing = AS_USUAL,
    talk: Output = TALKATIVE,
) -> None:
    """Compute features of images by a pretrained encoder, and write them as a data file.

    The encoder is an ONNX model; its first output is used, averaged over space if it is a map. Each
    image becomes a row with the columns x0, x1, … and, if its class is known, `label`; rows are in
    the order of the files' names. Features are computed once: the same command, also after it was
    stopped, computes only what is missing. It needs the extra `images`.

    ```
    dirad features pets --encoder encoder.onnx            # pets/cat/1.jpg, …: features.npz
    dirad features pets --encoder encoder.onnx --mean 0.5 --std 0.5 -o pets.parquet
    dirad features t10k-images-idx3-ubyte.gz --encoder encoder.onnx
    dirad fit features.npz --target label --continual
    ```

    Parameters
    ----------
    images
        A folder of pictures, with one subfolder per class or without subfolders; or an NPY, NPZ or
        IDX file.
    encoder
        An ONNX model that takes a batch of images.
    output
        The file to write: .npz, .csv, .tsv or .parquet.
    labels
        For an NPY or IDX file: the file of labels [default: in an NPZ file the array `label`,
        `labels`, `y` or `target`; beside an IDX file the one with the corresponding name].
    shuffle
        Write the rows in random order, with this number as the seed. A continual model takes rows
        as a stream: in the order of names, one class comes after the other.
    file_names
        Also write the column `file_name`; `dirad fit` needs `--drop file_name` then.
    """
    from dirad.images import compute_features, write_features
    from dirad.images.features import check_features_file

    check_output(output, images, encoder, labels)
    check_features_file(output)
    try:
        with progress(talk, "reading images", "images") as show:
            found = compute_features(
                images,
                encoder,
                size=_size(preparation.size),
                mean=preparation.mean,
                std=preparation.std,
                labels=labels,
                batch_size=computing.batch_size,
                threads=computing.threads,
                cache=computing.cache,
                progress=show,
            )
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command computes only what is missing") from None
    if shuffle is not None:
        found = found.shuffled(shuffle)
    write_features(output, found, file_names=file_names)
    facts = {
        "file": str(output),
        "bytes": output.stat().st_size,
        "images": len(found.X),
        "computed now": found.n_computed,
        "features per image": found.X.shape[1],
        "classes": None if found.y is None else len(set(found.y.tolist())),
    }
    findings = Findings(talk)
    findings.facts("Features", {name: value for name, value in facts.items() if value is not None})
    findings.print()


def _size(numbers: list[int] | None) -> int | tuple[int, int] | None:
    """Return a size, which may be one number for height and width."""
    if numbers is None:
        return None
    if len(numbers) > 2:
        raise Usage(f"--size takes one number or two, not {len(numbers)}")
    return numbers[0], numbers[-1]
