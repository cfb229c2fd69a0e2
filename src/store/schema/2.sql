-- SPDX-License-Identifier: Apache-2.0
-- The value is sealed to a key that the daemon does not have.
CREATE TABLE secrets (
    id TEXT NOT NULL PRIMARY KEY,
    org TEXT, name TEXT, metadata TEXT, sealed TEXT,
    version INTEGER, created_ms INTEGER, updated_ms INTEGER
) STRICT, WITHOUT ROWID;
