"""Public models for tests: small graphs in their formats, and a comparison with sherpa-onnx."""
