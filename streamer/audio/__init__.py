"""Audio from files, pipes and microphones. It leaves this package as int16 samples at 16 kHz."""
