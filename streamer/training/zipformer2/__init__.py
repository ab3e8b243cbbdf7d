"""Trains and exports a Zipformer-2 with the code of icefall, which is not a part of Streamer."""
