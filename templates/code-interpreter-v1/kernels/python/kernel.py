# SPDX-License-Identifier: Apache-2.0
"""The Python kernel: `python3 kernel.py` speaks the kernel protocol on its first two descriptors.

    kernel.py                   serves requests until its standard input ends
    kernel.py --freeze IMAGE    writes a warm image of itself, from which kernels start at once
"""
import os
import sys

sys.path[0] = os.path.dirname(os.path.abspath(__file__))

from sandglass_kernel import main  # noqa: E402

main.main(sys.argv[1:])
