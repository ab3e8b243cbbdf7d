"""The searches that read the frames of public models: the likeliest token of each frame, or a beam."""
