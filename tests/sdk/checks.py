# SPDX-License-Identifier: Apache-2.0
"""The lists of checks of client.py, and what they have in common."""
import sys
import time

TEMPLATE = sys.argv[1]
CHECKS = []
OWN = []  # checks that make their own sandboxes


def check(function):
    CHECKS.append(function)
    return function


def alone(function):
    OWN.append(function)
    return function


def wait_for(question, seconds=10):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"did not happen within {seconds} s")


def raises(kind, function, *args, **kw):
    try:
        function(*args, **kw)
    except kind as error:
        return error
    raise AssertionError(f"{kind} was not raised")


class Skip(Exception):
    """This version of the client has no such call."""
