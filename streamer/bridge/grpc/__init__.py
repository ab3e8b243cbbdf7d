"""The port for clients that speak gRPC: its messages, its calls, and the server."""
