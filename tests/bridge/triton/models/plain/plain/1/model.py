"""Answers nothing; only its configuration matters."""


class TritonPythonModel:
    def execute(self, requests):
        return [None for _ in requests]
