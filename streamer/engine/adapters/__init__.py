"""What runs inside Triton: it turns requests into calls of the engine, and the engine's results into responses.

If a package is missing, the log of Triton says so in a sentence. There is no other way to compute on a CPU.
"""

from importlib.util import find_spec

from streamer.base.package import install_command

if _missing := [name for name in ("kaldi_native_fbank", "numba", "onnxruntime", "safetensors") if not find_spec(name)]:
    raise ImportError(f"the recogniser needs {', '.join(_missing)}: {install_command('engine')}")
