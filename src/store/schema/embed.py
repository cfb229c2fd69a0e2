#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT.c 1.sql 2.sql ...: the migrations as a C table. A file's name is its number, and
the numbers have no gaps: the place in the table is the schema's version."""
import json
import pathlib
import sys

output, *paths = map(pathlib.Path, sys.argv[1:])
paths.sort(key=lambda path: int(path.stem))
assert [int(path.stem) for path in paths] == list(range(1, len(paths) + 1)), "numbers have a gap"

lines = ['/* Generated from src/store/schema. */', '#include "store/migrate.h"', '',
         'const char *const sg_migrations[] = {']
for path in paths:
    text = path.read_text(encoding="ascii").splitlines(keepends=True)
    lines += [f"    {json.dumps(line)}" for line in text]
    lines[-1] += ","
lines += ["};", f"const unsigned sg_migration_count = {len(paths)};", ""]
output.write_text("\n".join(lines))
