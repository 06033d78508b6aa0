"""From images to features: what a pretrained encoder (an ONNX model) computes, one row per image.

Reading pictures needs Pillow, and the encoder onnxruntime: the extra `images`.
"""

from dirad.images.errors import ImageError
from dirad.images.features import Features, compute_features, write_features

__all__ = ["Features", "ImageError", "compute_features", "write_features"]
