"""Classify images with an exported ONNX file, without torch: run_onnx.py model.onnx IMAGE …"""

import json
import sys

import numpy as np
import onnxruntime
from PIL import Image, ImageOps

session = onnxruntime.InferenceSession(sys.argv[1])
classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
size = session.get_inputs()[0].shape[-1]
for name in sys.argv[2:]:
    image = ImageOps.exif_transpose(Image.open(name)).convert("RGB")
    square = ImageOps.fit(image, (size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(square).transpose(2, 0, 1)[None]
    probabilities = session.run(None, {"pixels": pixels})[0][0]
    print(name, classes[probabilities.argmax()], f"{probabilities.max():.4f}")
