"""The websocket service in front of Triton. It does not use torch."""

import os

# Otherwise gRPC writes into the log whatever a client says when it ends its connection, with line breaks and all. It
# reads this once, when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
