"""The networks of the shipped model as graphs of onnxruntime, which computes a step with far fewer, larger operations.

The graphs are written from the weights when the model is loaded. They are for steps on a CPU. Whole utterances,
training and GPUs use the modules of torch, which are also what the tests compare with.
"""
