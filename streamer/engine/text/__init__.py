"""From words to what is told of them: times, confidence, written form."""
