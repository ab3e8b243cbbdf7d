"""The recogniser: features, encoder, slots, search, endpoint. It knows nothing of Triton or sockets.

On a CPU, onnxruntime computes the large networks, and loops compiled by numba compute the search. torch loads the
weights and computes what is left: the features and the marks, and the networks where there is a GPU.
"""
