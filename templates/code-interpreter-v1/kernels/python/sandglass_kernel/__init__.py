# SPDX-License-Identifier: Apache-2.0
"""A Python kernel on IPython's shell: requests and events are lines of JSON, there is no server.

main        start, cold or warm, and the loop over requests
wire        the two descriptors of the protocol
output      what code prints, whichever way, becomes events
interrupts  when a SIGINT may strike
shell       IPython's shell with our ways of showing things
results     a bundle of MIME types becomes a result; plain values for JSON
charts      what a matplotlib figure shows, as data
late        what is done when a library is imported
figures     the matplotlib backend
warm        freezing, and what a thawed process has to forget
"""
