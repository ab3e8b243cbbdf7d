"""The recogniser in torch: features, encoder, slots, search, endpoint. It knows nothing of Triton or sockets."""
