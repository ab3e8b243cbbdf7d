"""A real nginx in front of a service, configured as docs/how-to/security.md says."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.project import ROOT

DOCUMENT = ROOT / "docs/how-to/security.md"
PATIENCE_S = 30.0
# scripts/system_packages unpacks it there where it is not installed.
UNPACKED = ROOT / "build/nginx/usr/sbin/nginx"
# What surrounds the lines of the document: loopback, one process in the foreground, and all output in one folder.
AROUND = """daemon off;
master_process off;
pid {folder}/pid;
error_log {folder}/error.log;
events {{}}
http {{
access_log off;
client_body_temp_path {folder}/body;
proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/fastcgi;
scgi_temp_path {folder}/scgi;
uwsgi_temp_path {folder}/uwsgi;
{before}
server {{
listen 127.0.0.1:{port};
{location}
}}
}}
"""


def documented(port: int) -> tuple[str, str]:
    """Return the document's example for a service at this port: the part before the server, and the part within it."""
    [example] = re.findall(r"```nginx\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    before, found, location = example.replace("127.0.0.1:8080", f"127.0.0.1:{port}").partition("location / {")
    assert found
    return before, found + location


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[int]:
    """Run nginx in front of a service, and provide its port. Its log must be empty at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        own = int(free.getsockname()[1])
    before, location = documented(port)
    settings = folder / "nginx.conf"
    settings.write_text(AROUND.format(folder=folder, before=before, location=location, port=own))
    command = [_program(), "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(settings)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            until = time.monotonic() + PATIENCE_S
            while True:
                assert process.poll() is None, process.communicate()[1]
                try:
                    socket.create_connection(("127.0.0.1", own), timeout=1).close()
                    break
                except OSError:
                    assert time.monotonic() < until
                    time.sleep(0.02)
            yield own
        finally:
            process.terminate()
            process.communicate()


def _program() -> str:
    return shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin") or str(UNPACKED)
