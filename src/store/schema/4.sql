-- SPDX-License-Identifier: Apache-2.0
-- Snapshots of sandboxes. `parent` is the snapshot that the sandbox had been made of, `template` the
-- name of what is below both.

CREATE TABLE snapshots (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, name TEXT, tag TEXT, sandbox TEXT, parent TEXT, template TEXT, state TEXT,
    bytes INTEGER, created_ms INTEGER
) STRICT, WITHOUT ROWID;
