# SPDX-License-Identifier: Apache-2.0
"""Documents that nobody trusts, as text, metadata, tables and page images.

The sandbox is the wall; the limits here are for clear answers: a bomb is named as one before it
fills the sandbox, and what is left out is said.
"""
