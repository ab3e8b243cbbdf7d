"""How much memory a recogniser takes: counted from its tensors, and measured in a process of its own."""
