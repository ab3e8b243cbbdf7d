"""Reads and checks folders of public models and their ONNX graphs, and rewrites and writes graphs."""
