#!/usr/bin/python3 -I
# SPDX-License-Identifier: Apache-2.0
import sys

sys.path.insert(0, "/opt/sandglass/parse")
from sandglass_parse.main import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
