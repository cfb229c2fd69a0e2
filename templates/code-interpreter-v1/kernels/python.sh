#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python kernel, started from nothing.
exec /usr/bin/python3 /opt/sandglass/python/kernel.py
