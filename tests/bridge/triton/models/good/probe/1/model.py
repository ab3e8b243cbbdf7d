"""Counts the samples of every sequence, and fails on request in the ways that models can fail."""

import json
import os
import time

import numpy as np
import triton_python_backend_utils as pb_utils

# First samples that are commands.
FAIL, RAISE, SILENT, DIE = 1, 2, 3, 4


class TritonPythonModel:
    def initialize(self, args):
        self.instance = args["model_instance_name"]
        self.heard = {}
        self.sleep = {}

    def execute(self, requests):
        read = [(request, *self.read(request)) for request in requests]
        time.sleep(max(self.sleep.get(request.correlation_id(), 0) for request in requests))
        for request, samples, options in read:
            self.answer(request, samples, options, len(requests))

    def read(self, request):
        samples = pb_utils.get_input_tensor_by_name(request, "AUDIO").as_numpy().reshape(-1)
        tensor = pb_utils.get_input_tensor_by_name(request, "OPTIONS")
        options = json.loads(tensor.as_numpy().reshape(-1)[0]) if tensor is not None else {}
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START:
            self.heard[request.correlation_id()] = 0
            self.sleep[request.correlation_id()] = options.get("sleep_ms", 0) / 1000
        return samples, options

    def answer(self, request, samples, options, batch):
        sequence, sender = request.correlation_id(), request.get_response_sender()
        command = samples[0] if samples.size else 0
        if command == RAISE:
            raise KeyError("probe")
        if command == DIE:
            os._exit(1)
        if command == SILENT:
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return
        if command == FAIL:
            response = pb_utils.InferenceResponse(error=pb_utils.TritonError("bad_samples: I was told\nto fail"))
        else:
            self.heard[sequence] += samples.size
            events = [
                {"type": "seen", "options": options, "instance": self.instance, "batch": batch, "text": "gr\u00fcn"},
                {"type": "heard", "sample": self.heard[sequence]},
            ]
            encoded = np.array([[json.dumps(event).encode() for event in events]], dtype=object)
            response = pb_utils.InferenceResponse([pb_utils.Tensor("EVENTS", encoded)])
        sender.send(response, flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if request.flags() & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END:
            self.heard.pop(sequence), self.sleep.pop(sequence)
