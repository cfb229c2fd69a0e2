-- SPDX-License-Identifier: Apache-2.0
-- What the gate decided about the connections of sandboxes. Rows outlive their sandbox.
CREATE TABLE connections (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL, sandbox TEXT NOT NULL, verdict TEXT NOT NULL, protocol TEXT NOT NULL,
    name TEXT NOT NULL, address TEXT NOT NULL, port INTEGER NOT NULL, rule TEXT NOT NULL,
    bytes_out INTEGER NOT NULL, bytes_in INTEGER NOT NULL, duration_ms INTEGER NOT NULL,
    skipped INTEGER NOT NULL
) STRICT;
CREATE INDEX connections_of_sandbox ON connections (sandbox, seq);
