"""The recogniser: features, encoder, slots, search, endpoint. It knows nothing of Triton or sockets.

On a CPU, onnxruntime computes the networks, and loops compiled by numba compute the search. torch computes the networks
where there is a GPU, and is imported only there.
"""
