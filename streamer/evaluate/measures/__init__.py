"""What is measured of transcripts against references. Pure."""
