"""The networks of the shipped model as graphs for onnxruntime, which needs far fewer operations for a step than torch.

The graphs are written from the weights when the model is loaded. They compute steps on a CPU. Whole utterances,
training and GPUs use the modules of torch. Tests compare the graphs with these.
"""
