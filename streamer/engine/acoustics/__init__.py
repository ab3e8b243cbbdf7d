"""From audio to emissions: features, encoder and speech activity, as networks and as graphs of onnxruntime."""
