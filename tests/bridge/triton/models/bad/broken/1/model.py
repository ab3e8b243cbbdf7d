"""Cannot be loaded."""


class TritonPythonModel:
    def initialize(self, args):
        self.read_weights()

    def read_weights(self):
        raise FileNotFoundError("weights.pt is not there")
