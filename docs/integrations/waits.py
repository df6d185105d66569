"""Waiting for one's turn, with Python's standard library alone (3.8 and later).

take() asks weir before something is done that others limit, or that many
programs share. get() asks an HTTP server, and comes back when it says.
"""

import email.utils
import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.request


class Denied(Exception):
    """There is nothing to wait for, or no time. retry_after is in seconds, or None."""

    def __init__(self, text, retry_after=None):
        super().__init__(text)
        self.retry_after = retry_after


def delay(tries, after=0.0):
    """What the other side asked for and some jitter on top, never less."""
    return after + random.uniform(0, min(10, max(after / 10, 0.1 * 2 ** min(tries, 10))))


def wait(seconds, deadline, why):
    """Sleeps, unless there is no time for all of it: then it fails at once."""
    if time.monotonic() + seconds > deadline:
        raise Denied(why, seconds)
    time.sleep(seconds)


def post(weir, body, timeout):
    """The status and the answer of weir, at http://HOST:PORT, https:// or unix:///PATH."""
    scheme, _, place = weir.partition("://")
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = kind("weir" if scheme == "unix" else place, timeout=timeout)
    try:
        if scheme == "unix":
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.settimeout(timeout)
            connection.sock.connect(place)
        connection.request("POST", "/v1/check", body)
        response = connection.getresponse()
        return response.status, json.load(response)
    finally:
        connection.close()


def take(weir, domain, entries, cost=1, patience=30.0, timeout=1.0):
    """Returns when weir lets cost events of these entries pass.

    It is True, or False when weir could not be asked: the caller goes on or not.
    Permits free themselves by their ttl.
    """
    descriptor = {"entries": [{"key": k, "value": v} for k, v in entries], "cost": cost}
    body = json.dumps({"domain": domain, "descriptors": [descriptor]}).encode()
    deadline = time.monotonic() + patience
    tries = 0
    while True:
        try:
            status, answer = post(weir, body, timeout)
        except (OSError, http.client.HTTPException):
            return False
        if status == 503:  # weir can't decide
            return False
        if status not in (200, 429):
            raise ValueError("weir: %d %s" % (status, answer.get("detail")))
        if answer["allowed"]:
            time.sleep(answer.get("hold_seconds", 0))
            return True
        if answer["decisions"][answer["decisive"]]["outcome"] == "impossible":
            raise Denied("a cost of %d can never pass" % cost)
        wait(delay(tries, answer.get("retry_after_seconds", 1)), deadline, "denied")
        tries += 1


def get(request, patience=30.0, timeout=10.0, most=4):
    """Opens an URL or a Request as urllib does, and comes back after 429 and 503.

    What is not idempotent (POST) comes back after 429 only.
    """
    if isinstance(request, str):
        request = urllib.request.Request(request)
    safe = request.get_method() in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
    deadline = time.monotonic() + patience
    for tries in range(most):
        try:
            return urllib.request.urlopen(request, timeout=timeout)
        except urllib.error.HTTPError as error:
            again = error.code == 429 or error.code == 503 and safe
            if not again or tries == most - 1:
                raise
            pause = delay(tries, retry_after(error.headers))
            if time.monotonic() + pause > deadline:
                raise
            error.close()
        time.sleep(pause)


def retry_after(headers):
    """Seconds of Retry-After, which has seconds or a date of the server's clock."""
    field = headers.get("Retry-After", "")
    if field.isdecimal():
        return float(field)
    try:
        at = email.utils.parsedate_to_datetime(field)
        now = email.utils.parsedate_to_datetime(headers["Date"])
        return max((at - now).total_seconds(), 0.0)
    except (TypeError, ValueError, IndexError):
        return 0.0
