"""Opens a web address, follows a few safe redirects, and says in a few words what went wrong."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from http.client import HTTPResponse
from typing import IO, Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from streamer.base.address import is_address

STALL_S: Final = 30.0  # a download ends with an error after this time without data
MOST_REDIRECTS: Final = 5


def open_address(address: str, headers: Mapping[str, str], stall_s: float = STALL_S) -> HTTPResponse:
    """Send a request, through the proxy that HTTPS_PROXY or HTTP_PROXY names. `reason_of` explains the errors."""
    request = Request(address, headers={"User-Agent": "streamer", **headers})
    return cast(HTTPResponse, build_opener(_Redirects).open(request, timeout=stall_s))


def reason_of(error: Exception, stall_s: float = STALL_S) -> str:
    """Return what went wrong, as a part of a sentence."""
    if isinstance(error, HTTPError):
        # For redirects, Python's own reason has several lines.
        reason = f"it redirects more than {MOST_REDIRECTS} times" if "\n" in error.reason else error.reason
        return f"HTTP status {error.code} ({reason})"
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); set SSL_CERT_FILE to a file of trusted roots"
    if isinstance(cause, TimeoutError):
        return f"no data came for {stall_s:g} s"
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__).rstrip(".")


class _Redirects(HTTPRedirectHandler):
    """Follows a few redirects, but none to a file or from https to http."""

    max_redirections = MOST_REDIRECTS

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if not is_address(newurl) or (req.type == "https" and not newurl.lower().startswith("https:")):
            fp.close()
            raise URLError(f"it redirects to {newurl}, which is not followed")
        return super().redirect_request(req, fp, code, msg, headers, newurl)
