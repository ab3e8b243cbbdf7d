"""The memory of a recogniser: its size is counted from its tensors, and measured in a separate process."""
