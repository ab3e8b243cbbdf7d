"""From emissions to words: the beam search over lexicon and language model, and the greedy one."""
