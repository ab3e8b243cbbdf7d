"""The websocket service in front of Triton. No torch here."""
