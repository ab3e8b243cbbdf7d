"""Folders of public models: which files they have, and what their ONNX graphs say about themselves."""
