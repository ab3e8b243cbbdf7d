"""OpenAI's format of realtime transcription: websocket `/v1/realtime`. Pure."""
