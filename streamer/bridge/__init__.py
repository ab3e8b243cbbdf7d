"""The websocket service in front of Triton. It does not use torch."""
