"""Tiny ONNX models that take images."""

import numpy as np
import onnx

SIZE = 6  # height and width of their images
WEIGHTS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], np.float32)  # (features, channels)


def saved_model(path, nodes, constants, shape, output, kind=onnx.TensorProto.FLOAT):
    given = onnx.helper.make_tensor_value_info("image", kind, shape)
    made = onnx.helper.make_tensor_value_info("features", kind, output)
    tensors = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = onnx.helper.make_graph(nodes, "tiny", [given], [made], tensors)
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    return path


def tiny_encoder(folder, shape=("n", 3, SIZE, SIZE), weights=WEIGHTS, name="encoder.onnx"):
    """A 1 × 1 convolution with rectifier: its output is a map."""
    channels = weights.shape[1]
    node, constants = onnx.helper.make_node, {"w": weights[:, :, None, None]}
    nodes = [node("Conv", ["image", "w"], ["map"]), node("Relu", ["map"], ["features"])]
    if shape[1] != channels:  # channels last
        nodes[0], constants = node("MatMul", ["image", "w"], ["map"]), {"w": weights.T.copy()}
    return saved_model(folder / name, nodes, constants, shape, None)


def flat_encoder(folder):
    """The features are the pixels themselves, in the order of channels, rows and columns."""
    nodes = [onnx.helper.make_node("Flatten", ["image"], ["features"])]
    shape = ("n", 3, SIZE, SIZE)
    return saved_model(folder / "flat.onnx", nodes, {}, shape, ("n", 3 * SIZE**2))
