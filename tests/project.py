"""The paths of a clone."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SAMPLES = ROOT / "audio_samples"
SCRIPTS = ROOT / "scripts"
BUNDLE = ROOT / "asr_repo" / "streaming_asr" / "1"
